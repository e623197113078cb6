"""Templates that are one file: a root file system as ``tar`` writes it, or an image as ``docker save`` does, unpacked once.

Where they are unpacked to is named after the file as it is now; a file that changed is another template.
"""

import hashlib
import json
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any

from sandboxio.errors import ConfigurationError

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
"""Names by which a layer removes what those below it have (OCI image specification, layer.md, read 2026-11)."""
READABLE, ENTERABLE = 0o444, 0o111


def cache() -> Path:
    """Return where templates are unpacked."""
    if os.geteuid() == 0:
        return Path("/var/cache/sandboxio-bubblewrap")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandboxio-bubblewrap"


def place_of(file: Path) -> Path:
    """Return where a file is, or will be, unpacked; :raises OSError: it is not there."""
    seen = file.stat()
    word = f"{file.resolve()}\0{seen.st_dev}\0{seen.st_ino}\0{seen.st_size}\0{seen.st_mtime_ns}"
    return cache() / hashlib.sha256(word.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def unpack(file: Path) -> None:
    """Unpack a template, whole or not at all; done once, at the same time too, it is there.

    :raises ConfigurationError: it is no such file, or holds something that would be written elsewhere.
    """
    place = place_of(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    new = Path(mkdtemp(prefix="new-", dir=place.parent))
    try:
        new.chmod(0o755)
        _fill(file, new)
        with suppress(OSError):  # another process was quicker
            new.rename(place)
    except (tarfile.TarError, KeyError, ValueError, EOFError) as error:
        raise ConfigurationError(
            f"the template {file} can't be unpacked: {error}",
            hint="name a tar archive of a root file system, or what docker save IMAGE wrote",
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _fill(file: Path, root: Path) -> None:
    with tarfile.open(file) as archive:
        names = archive.getnames()
        if "manifest.json" not in names:
            _layer(archive, root)
            return
        manifest: list[dict[str, Any]] = json.load(_member(archive, "manifest.json"))
        for name in manifest[0]["Layers"]:
            with tarfile.open(fileobj=_member(archive, name)) as layer:
                _layer(layer, root)


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        message = f"{name} is no file"
        raise ValueError(message)
    return found


def _layer(archive: tarfile.TarFile, root: Path) -> None:
    for member in archive:
        base = Path(member.name).name
        if base.startswith(WHITEOUT):
            _remove(member, base, root)
        elif not (member.isdev() or _is_root(member)):
            archive.extract(member, root, filter=_tame)


def _is_root(member: tarfile.TarInfo) -> bool:
    return member.name.strip("./") == ""


def _tame(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """Refuse what would be written elsewhere; what is left can be read by whichever user a sandbox is, and belongs to us."""
    tamed = tarfile.tar_filter(member, path)
    mode = (tamed.mode or 0) | READABLE | 0o200
    if tamed.isdir() or mode & ENTERABLE:
        mode |= ENTERABLE
    return tamed.replace(mode=mode, uid=None, gid=None, uname=None, gname=None, deep=False)  # type: ignore[arg-type]


def _remove(member: tarfile.TarInfo, base: str, root: Path) -> None:
    folder = (root / member.name.lstrip("/")).parent
    if not folder.resolve().is_relative_to(root.resolve()):
        message = f"{member.name} leads out of the template"
        raise ValueError(message)
    gone = list(folder.iterdir()) if base == OPAQUE and folder.is_dir() else [folder / base.removeprefix(WHITEOUT)]
    for path in gone:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
