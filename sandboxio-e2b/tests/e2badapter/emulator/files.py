"""envd's files: content over HTTP, everything else by its filesystem service."""

import errno
import json
import os
import posixpath
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from sandboxio_contract.emulation import Request

from .connect import Failed
from .envd import check_user, home, user_of
from .machine import Machine

_BLOCK = 256 * 1024
_KINDS = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY", "symlink": "FILE_TYPE_SYMLINK"}


async def content(machine: Machine, request: Request) -> web.StreamResponse:
    """Answer a transfer."""
    try:
        user = check_user(machine, request.query.get("username") or "user")
    except Failed as error:
        return refusal(401, error.message)
    if request.method == "GET":
        return await _download(machine, request, user)
    return await _upload(machine, request, user)


def refusal(status: int, message: str) -> web.Response:
    """Return an error in envd's own form."""
    return web.json_response({"code": status, "message": message}, status=status)


async def _download(machine: Machine, request: Request, user: str) -> web.StreamResponse:
    path = absolute(request.query.get("path", ""), user)
    try:
        entry = (await machine.guest.file("stat", path, user=user))["entry"]
        if entry["kind"] == "directory":
            return refusal(400, f"path '{path}' is a directory")
        descriptor = await machine.guest.open(path, os.O_RDONLY, user=user)
    except OSError as error:
        return _trouble(error, path)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: ASYNC230 - in memory
        async with request.stream({"Content-Type": "application/octet-stream"}) as stream:
            while data := file.read(_BLOCK):
                await stream.send(data)
            return stream.response


async def _upload(machine: Machine, request: Request, user: str) -> web.StreamResponse:
    written: list[dict[str, str]] = []
    kind = request.headers.get("Content-Type", "")
    try:
        if kind.startswith("multipart/form-data"):
            reader = aiohttp.MultipartReader(request.raw.headers, request.raw.content)
            async for part in reader:
                assert isinstance(part, aiohttp.BodyPartReader)
                path = request.query.get("path") or (part.filename or "").replace("%22", '"')
                written.append(await _write(machine, absolute(path, user), user, _pieces(part)))
        elif "path" in request.query:
            written.append(await _write(machine, absolute(request.query["path"], user), user, request.chunks()))
        else:
            return refusal(400, "path is required")
    except OSError as error:
        return _trouble(error, request.query.get("path", ""))
    return web.json_response(written)


async def _pieces(part: aiohttp.BodyPartReader) -> AsyncIterator[bytes]:
    while data := await part.read_chunk(_BLOCK):
        yield data


async def _write(machine: Machine, path: str, user: str, pieces: AsyncIterator[bytes]) -> dict[str, str]:
    await machine.guest.file("make_directories", posixpath.dirname(path), user=user)
    descriptor = await machine.guest.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, user=user)
    with open(descriptor, "wb", buffering=0) as file:  # noqa: ASYNC230 - in memory
        async for data in pieces:
            file.write(data)
    return {"path": path, "name": posixpath.basename(path), "type": "file"}


def _trouble(error: OSError, path: str) -> web.Response:
    if isinstance(error, FileNotFoundError):
        return refusal(404, f"path '{path}' does not exist")
    if error.errno == errno.ENOSPC:
        return refusal(507, "not enough disk space available")
    if isinstance(error, IsADirectoryError):
        return refusal(400, f"path '{path}' is a directory")
    return refusal(500, f"error opening file '{path}': {error}")


async def service(machine: Machine, request: Request) -> web.StreamResponse:
    """Answer one call of the filesystem service."""
    said: Mapping[str, Any] = json.loads(await request.body() or b"{}")
    user = user_of(machine, request)
    call = request.path.rpartition("/")[2]
    calls = {"Stat": _stat, "ListDir": _list, "MakeDir": _make, "Move": _move, "Remove": _remove}
    if call not in calls:
        raise Failed("unimplemented", f"the emulator has no {call}")
    try:
        return web.json_response(await calls[call](machine, said, user))
    except FileNotFoundError as error:
        raise Failed("not_found", f"path not found: {error}") from error
    except PermissionError as error:
        raise Failed("permission_denied", str(error)) from error
    except NotADirectoryError as error:
        raise Failed("invalid_argument", f"path is not a directory: {error}") from error
    except OSError as error:
        raise Failed("internal", str(error)) from error


async def _stat(machine: Machine, said: Mapping[str, Any], user: str) -> dict[str, Any]:
    found = await machine.guest.file("stat", absolute(said.get("path", ""), user), user=user)
    return {"entry": entry_info(found["entry"])}


async def _list(machine: Machine, said: Mapping[str, Any], user: str) -> dict[str, Any]:
    path = absolute(said.get("path", ""), user)
    found = await machine.guest.entries(path, int(said.get("depth") or 1), user=user)
    return {"entries": [entry_info(one) for one in found]} if found else {}


async def _make(machine: Machine, said: Mapping[str, Any], user: str) -> dict[str, Any]:
    path = absolute(said.get("path", ""), user)
    made = await machine.guest.file("make_directories", path, user=user)
    if not made["made"]:
        raise Failed("already_exists", f"directory already exists: {path}")
    return await _stat(machine, {"path": path}, user)


async def _move(machine: Machine, said: Mapping[str, Any], user: str) -> dict[str, Any]:
    source, target = absolute(said.get("source", ""), user), absolute(said.get("destination", ""), user)
    await machine.guest.file("rename", source, target, user=user)
    return await _stat(machine, {"path": target}, user)


async def _remove(machine: Machine, said: Mapping[str, Any], user: str) -> dict[str, Any]:
    await machine.guest.file("remove", absolute(said.get("path", ""), user), user=user)
    return {}


def entry_info(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as envd words it."""
    told = {
        "name": posixpath.basename(entry["path"]),
        "type": _KINDS[entry["kind"]],
        "path": entry["path"],
        "size": str(entry["size"]),
        "mode": entry["mode"],
        "permissions": f"{entry['mode']:o}",
        "owner": "user" if entry["uid"] else "root",
        "group": "user" if entry["gid"] else "root",
        "modifiedTime": datetime.fromtimestamp(entry["modified"], UTC).isoformat().replace("+00:00", "Z"),
    }
    return told if entry["target"] is None else {**told, "symlinkTarget": entry["target"], "isSymlink": True}


def absolute(path: str, user: str) -> str:
    """Return a path from the user's home. :raises Failed: it is another user's."""
    if path == "~" or path.startswith("~/"):
        path = home(user) + path[1:]
    elif path.startswith("~"):
        raise Failed("invalid_argument", f"cannot expand {path}")
    return path if path.startswith("/") else posixpath.join(home(user), path)
