"""Root file systems as tar files: Debian through debootstrap, and the ones that hold only busybox."""

import hashlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from engine.commands import run
from engine.packages import install, require_root

SUITE = "bookworm"
BUSYBOX = Path("/bin/busybox")
# What a container does not need, and what debootstrap copies from this machine.
LEFT_OUT = [
    *("./dev/*", "./proc/*", "./sys/*", "./tmp/*", "./etc/hostname", "./etc/resolv.conf"),
    *("./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*"),
    *("./usr/share/doc/*", "./usr/share/info/*", "./usr/share/locale/*", "./usr/share/man/*"),
]


def debian(cache: Path, packages: tuple[str, ...]) -> Path:
    """Return the tar of a minimal Debian with these packages, made once per cache."""
    key = hashlib.sha256(repr((SUITE, packages, LEFT_OUT)).encode()).hexdigest()[:12]
    archive = cache / f"{SUITE}-{key}.tar"
    if archive.exists():
        return archive
    require_root("building a root file system")
    install(["debootstrap", "debian-archive-keyring"])
    print(f"engine: debootstrap {SUITE} with {' '.join(packages)}", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="rootfs-") as folder:
        partial = Path(folder, "partial.tar")
        bootstrap(Path(folder, "root"), packages, Path(folder, "log"))
        run(["tar", "-C", f"{folder}/root", *(f"--exclude={path}" for path in LEFT_OUT), "-cf", str(partial), "."])
        partial.rename(archive)
    return archive


def bootstrap(target: Path, packages: tuple[str, ...], log: Path) -> None:
    """Fill a folder; the mount namespace makes sure that an interrupted run leaves no mount behind."""
    include = f"--include={','.join(packages)}"
    run(["unshare", "--mount", "debootstrap", "--variant=minbase", include, SUITE, str(target)], log=log)


def with_user(base: Path, target: Path, user: str, uid: int) -> None:
    """Write `base` plus an account with a home folder that it may write to."""
    account = f"{user}:x:{uid}:{uid}::/home/{user}:/bin/bash\n".encode()
    with tarfile.open(base) as source, tarfile.open(target, "w") as archive:
        for entry in source:
            content = source.extractfile(entry) if entry.isreg() else None
            if content and entry.name == "./etc/passwd":  # the engine refuses a tar that names a file twice
                add_file(archive, entry.name, content.read() + account)
            else:
                archive.addfile(entry, content)
        add_folder(archive, f"./home/{user}", uid=uid)


def only_busybox(target: Path, names: tuple[str, ...]) -> None:
    """Write a root file system whose only program is the static busybox, under these names."""
    install(["busybox-static"])
    with tarfile.open(target, "w") as archive:
        for folder in ("./bin", "./etc", "./root"):
            add_folder(archive, folder)
        add_folder(archive, "./tmp", mode=0o1777)
        add_file(archive, "./etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        add_file(archive, "./etc/group", b"root:x:0:\n")
        add_file(archive, f"./bin/{names[0]}", BUSYBOX.read_bytes(), mode=0o755)
        for name in names[1:]:
            link = tarfile.TarInfo(f"./bin/{name}")
            link.type, link.linkname, link.mode = tarfile.LNKTYPE, f"./bin/{names[0]}", 0o755
            archive.addfile(link)


def applets() -> tuple[str, ...]:
    """Return the names busybox answers to, itself first."""
    install(["busybox-static"])
    listed = subprocess.run([str(BUSYBOX), "--list"], capture_output=True, text=True, check=True).stdout.split()
    return ("busybox", *(name for name in listed if name != "busybox"))


def add_folder(archive: tarfile.TarFile, name: str, *, mode: int = 0o755, uid: int = 0) -> None:
    """Add an empty folder."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, uid, uid
    archive.addfile(entry)


def add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    """Add a file that belongs to root."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = mode, len(content)
    archive.addfile(entry, io.BytesIO(content))
