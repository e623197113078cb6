"""The control API: creating, listing, reading, ending, and the lifetime that the provider itself keeps."""

import asyncio
import contextlib
import json
import os
import posixpath
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from sandboxio_contract.emulation import Guest, GuestGone, Outside, Request
from sandboxio_contract.emulation import Machine as Inside

from .machine import Machine, Template
from .schema import RESOLVER, Refused, check_creation, check_idempotency_key, check_timeout, egress_of

PAGE = 100
TEMPLATES = (
    Template("rki5dems9wqfm4r03t7g", "base"),
    Template("nlhz8vlwyupq845jsdg9", "code-interpreter-v1", memory_mb=1024),
)


class Control:
    """All sandboxes of one account."""

    def __init__(self, outside: Callable[[], Outside], key: str) -> None:
        self.machines: dict[str, Machine] = {}
        self.ended: list[str] = []
        self.history: deque[deque[str]] = deque(maxlen=1000)
        """The commands of each sandbox, those that ended included."""
        self.defaults = TEMPLATES
        self.templates = {name: one for one in TEMPLATES for name in (one.template_id, one.alias)}
        self.page = PAGE
        self.on_timeout = "kill"
        """What happens at the end of a lifetime where the request does not say."""
        self._outside, self._key = outside, key
        self._by_key: dict[str, Awaitable[Machine]] = {}

    async def answer(self, request: Request) -> web.StreamResponse:  # noqa: C901 - a table of routes
        """Answer one request."""
        if request.headers.get("X-API-KEY") != self._key:
            raise Refused("invalid API key", 401)
        match [request.method, *request.path.strip("/").split("/")]:
            case ["POST", "v2", "sandboxes"]:
                made = await self.create(await read_json(request), request.headers.get("Idempotency-Key"))
                return web.json_response(made.created(), status=201)
            case ["GET", "v2", "sandboxes"]:
                return self._list(request.query)
            case ["GET", "sandboxes", name]:
                return web.json_response(self._find(name).detail())
            case ["DELETE", "sandboxes", name]:
                await self.end(self._find(name))
                return web.Response(status=204)
            case ["POST", "sandboxes", name, "timeout"]:
                machine = self._find(name)
                seconds = check_timeout((await read_json(request)).get("timeout"))
                self._live_until(machine, time.time() + seconds)
                return web.Response(status=204)
            case ["POST", "v2", "sandboxes", name, "connect"]:
                return await self._connect(self._find(name), await read_json(request))
            case ["GET", "default-templates"]:
                return web.json_response([one.told(default=True) for one in self.defaults])
            case ["GET", "templates", name]:
                return web.json_response(self._template(name).told(default=False))
            case ["POST", "sandboxes", name, "pause"]:
                return await self._pause(self._find(name))
            case _:
                raise Refused(f"the emulator has no {request.method} {request.path}", 501)

    async def create(self, body: Any, key: str | None) -> Machine:
        """Make a sandbox; twice with one idempotency key is once."""
        said = check_creation(body)
        template = self._template(str(said["templateID"]))
        if check_idempotency_key(key) is None:
            return await self._make(said, template)
        assert key is not None
        if key not in self._by_key:
            self._by_key[key] = asyncio.ensure_future(self._make(said, template))
        return await asyncio.shield(asyncio.ensure_future(self._by_key[key]))

    async def _make(self, said: Mapping[str, Any], template: Template) -> Machine:
        inside = Inside(hostname="e2b.local", disk_mb=template.disk_size_mb, resolvers=(RESOLVER,))
        guest = await Guest.start(inside)
        try:
            address = await self._outside().connect(guest, egress_of(said))
            for path, content in template.files.items():
                await put(guest, path, content)
        except BaseException:
            await guest.close()
            raise
        now = time.time()
        seconds = said.get("timeout", 300)
        network: Mapping[str, Any] | None = said.get("network")
        machine = Machine(
            sandbox_id=f"i{secrets.token_hex(10)}",
            template=template,
            metadata=said.get("metadata", {}),
            env=said.get("envVars", {}),
            allow_internet_access=said.get("allow_internet_access"),
            network=network,
            lifecycle={
                "autoResume": bool(said.get("autoResume", {}).get("enabled", False)),
                "onTimeout": ("pause" if said["autoPause"] else "kill") if "autoPause" in said else self.on_timeout,
            },
            started=now,
            end=now + seconds,
            guest=guest,
            address=address,
            traffic_token=secrets.token_hex(16) if network and network.get("allowPublicTraffic") is False else None,
        )
        self.machines[machine.sandbox_id] = machine
        self.history.append(machine.history)
        self._live_until(machine, machine.end)
        return machine

    async def end(self, machine: Machine) -> None:
        """End a sandbox; everything in it and every stream from it ends."""
        if self.machines.pop(machine.sandbox_id, None) is None:
            return
        self.ended.append(machine.sandbox_id)
        if machine.timer is not None:
            machine.timer.cancel()
        machine.gone.set()
        for context in machine.contexts.values():
            context.close()
        self._outside().let_go(machine.guest)
        await machine.guest.close()

    async def close(self) -> None:
        """End all of them."""
        for machine in tuple(self.machines.values()):
            await self.end(machine)

    def _live_until(self, machine: Machine, when: float) -> None:
        machine.end_at(when, lambda: self._expire(machine))

    def _expire(self, machine: Machine) -> None:
        if machine.lifecycle["onTimeout"] == "pause":
            work: Awaitable[object] = self._pause(machine)
        else:
            work = self.end(machine)
        machine.timer = None
        self._expiring = asyncio.ensure_future(work)

    def _find(self, name: str) -> Machine:
        machine = self.machines.get(name)
        if machine is None:
            raise Refused(f"Sandbox \"{name}\" doesn't exist or you don't have access to it", 404)
        return machine

    def _template(self, name: str) -> Template:
        if name not in self.templates:
            raise Refused(f"template '{name}' not found", 404)
        return self.templates[name]

    def _list(self, query: Mapping[str, str]) -> web.StreamResponse:
        states = (query.get("state") or "running,paused").split(",")
        # Quoted twice by the SDK, once as a query of its own.
        wanted = {unquote(name): unquote(value) for name, value in parse_qsl(query.get("metadata", ""), True)}
        found = [
            one
            for one in self.machines.values()
            if one.state in states and wanted.items() <= dict(one.metadata).items()
        ]
        found.sort(key=lambda one: (one.started, one.sandbox_id), reverse=query.get("order", "desc") == "desc")
        first = int(query.get("nextToken") or 0)
        page = min(int(query.get("limit") or self.page), self.page)
        more = {"X-Next-Token": str(first + page)} if len(found) > first + page else {}
        return web.json_response([one.listed() for one in found[first : first + page]], headers=more)

    async def _connect(self, machine: Machine, said: Mapping[str, Any]) -> web.StreamResponse:
        """Resume and extend, as the provider does: 300 s where nothing is said, never shorter than before."""
        resumed = machine.state == "paused"
        machine.state = "running"
        seconds = check_timeout(said.get("timeout", 300))
        self._live_until(machine, max(machine.end if not resumed else 0.0, time.time() + seconds))
        return web.json_response(machine.created(), status=201 if resumed else 200)

    async def _pause(self, machine: Machine) -> web.StreamResponse:
        """Pause: for its clients it is gone, and its lifetime does not pass."""
        if machine.state == "paused":
            raise Refused("sandbox is already paused", 409)
        machine.state = "paused"
        if machine.timer is not None:
            machine.timer.cancel()
        for process in tuple(machine.processes.values()):
            with contextlib.suppress(ProcessLookupError, GuestGone):
                await machine.guest.kill(process.pid)
        return web.Response(status=204)


async def put(guest: Guest, path: str, content: bytes) -> None:
    """Write a file of the ordinary user's into a sandbox."""
    await guest.file("make_directories", posixpath.dirname(path), user="user")
    descriptor = await guest.open(path, os.O_WRONLY | os.O_CREAT, user="user")
    with open(descriptor, "wb") as file:  # noqa: ASYNC230 - in memory
        file.write(content)


async def read_json(request: Request) -> Any:
    """Return a JSON body. :raises Refused: it is none."""
    try:
        return json.loads(await request.body() or b"{}")
    except ValueError as error:
        raise Refused("request body has an error: failed to decode") from error
