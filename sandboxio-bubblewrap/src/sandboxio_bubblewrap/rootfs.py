"""What a sandbox's file system is made of: this machine's programs or a template, read-only, around one sized tmpfs."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

WORK, HOME, SHARED_MEMORY = "/work", "/home/sandbox", "/dev/shm"  # noqa: S108 - in the sandbox
UID = 1000
"""The user and group that commands are, inside."""
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
PRIVATE = frozenset({"work", "tmp", "home", "dev", "proc", "sys", "run", "root", "mnt", "media", "boot", "lost+found"})
"""Entries of a template's root that are the sandbox's own, whatever the template has there."""
CERTIFICATES = ("ssl/certs", "ca-certificates", "pki/tls/certs", "pki/ca-trust/extracted")
"""What holds certificates of authorities below ``/etc``; private keys lie elsewhere (``ssl/private``)."""
MASKED = ("kcore", "keys", "key-users", "timer_list", "timer_stats", "sched_debug", "latency_stats", "kallsyms")
MASKED_FOLDERS = ("acpi", "asound", "scsi", "fs")
"""What containers don't show of ``/proc``, and further what only tells about the machine."""
ALTERNATIVES = (
    "awk",
    "nawk",
    "which",
    "pager",
    "vi",
    "editor",
    "cc",
    "c++",
    "c89",
    "c99",
    "java",
    "javac",
    "nc",
    "wish",
)
"""Names that Debian's ``/usr/bin`` leads through ``/etc/alternatives``."""

Argument = str | dict[str, str]
"""A word for bwrap; ``{"source": PATH}`` is a path of this machine that the warden may have to make reachable."""


@dataclass(frozen=True, slots=True)
class Roots:
    """What is shown read-only: (source, place) of each directory, (content, place) of each link, and where programs are."""

    binds: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    path: str
    of_template: bool = False
    python: str | None = None
    """Where the running Python itself is in there, if it is."""


def host_roots() -> Roots:
    """Return this machine's programs and the running Python's, and nothing of its user's."""
    binds: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    for name in SYSTEM:
        _add(Path("/", name), f"/{name}", binds, links)
    folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    for prefix in dict.fromkeys((sys.base_prefix, sys.base_exec_prefix)):
        real = os.path.realpath(prefix)
        if not real.startswith("/usr/") and real != "/usr":
            binds.append((real, real))
            folders.insert(0, f"{real}/bin")
    places = [f"{place}/" for _, place in binds]
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    shown = any(python.startswith(place) for place in places)
    path = ":".join(dict.fromkeys(folders))
    return Roots(tuple(binds), tuple(links), path, python=python if shown else None)


def template_roots(template: str) -> Roots:
    """Return what a directory holds; :raises OSError: it can't be read."""
    binds: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    for entry in sorted(Path(template).iterdir()):
        if entry.name not in PRIVATE:
            _add(entry, f"/{entry.name}", binds, links)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return Roots(tuple(binds), tuple(links), path, of_template=True)


def _add(entry: Path, place: str, binds: list[tuple[str, str]], links: list[tuple[str, str]]) -> None:
    if entry.is_symlink():
        links.append((str(entry.readlink()), place))
    elif entry.exists():
        binds.append((str(entry), place))


def made_up_etc() -> dict[str, str]:
    """Return the files of the sandbox's own ``/etc``."""
    return {
        "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:{UID}:{UID}:sandbox:{HOME}:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{UID}:\n",
        "hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\tsandbox\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "hostname": "sandbox\n",
        "resolv.conf": "",
        "ld.so.cache": "",
    }


def certificates() -> list[str]:
    """Return the directories below ``/etc`` that hold certificates on this machine."""
    return [name for name in CERTIFICATES if Path("/etc", name).is_dir()]


def alternatives() -> dict[str, str]:
    """Return the links by which Debian's ``/usr/bin`` reaches some programs, as they are here."""
    links = {name: Path("/etc/alternatives", name) for name in ALTERNATIVES}
    found = {name: str(link.readlink()) for name, link in links.items() if link.is_symlink()}
    return {name: target for name, target in found.items() if target.startswith("/usr/")}


def make_etc(place: Path) -> None:
    """Fill a directory that sandboxes are shown as ``/etc``; it is the same for all."""
    for name, content in made_up_etc().items():
        (place / name).write_text(content, encoding="utf-8")
    for name in certificates():
        (place / name).mkdir(parents=True)
    (place / "alternatives").mkdir()
    for name, target in alternatives().items():
        (place / "alternatives" / name).symlink_to(target)


def arguments(roots: Roots, etc: str, disk_mb: int, shm_mb: int) -> list[Argument]:
    """Return the words by which bwrap makes it.

    One tmpfs holds all that can be written to: what is mounted into it is read-only, so its size is the disk's.
    """
    words: list[Argument] = ["--size", str(disk_mb * 2**20), "--tmpfs", "/"]
    for source, place in roots.binds:
        words += ["--ro-bind", {"source": source}, place]
    for content, place in roots.links:
        words += ["--symlink", content, place]
    words += _etc(roots, etc)
    words += ["--proc", "/proc", *_masks()]
    words += [
        "--dev",
        "/dev",
        "--size",
        str(shm_mb * 2**20),
        "--perms",
        "1777",
        "--tmpfs",
        SHARED_MEMORY,
        "--remount-ro",
        "/dev",
    ]
    words += ["--perms", "1777", "--dir", "/tmp", "--dir", WORK, "--dir", HOME, "--dir", "/run", "--chdir", WORK]  # noqa: S108 - inside
    return words


def _etc(roots: Roots, etc: str) -> list[Argument]:
    if roots.of_template:
        hosts = any(place == "/etc" and Path(source, "hosts").is_file() for source, place in roots.binds)
        return ["--ro-bind", {"source": f"{etc}/hosts"}, "/etc/hosts"] if hosts else []
    words: list[Argument] = ["--ro-bind", {"source": etc}, "/etc"]
    shown = [f"/etc/{name}" for name in certificates()]
    for path in [*shown, *(["/etc/ld.so.cache"] if Path("/etc/ld.so.cache").is_file() else [])]:
        words += ["--ro-bind", {"source": path}, path]
    return words


def _masks() -> list[Argument]:
    words: list[Argument] = []
    for name in MASKED:
        if Path("/proc", name).exists():
            words += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    for name in MASKED_FOLDERS:
        if Path("/proc", name).is_dir():
            words += ["--size", "4096", "--tmpfs", f"/proc/{name}", "--remount-ro", f"/proc/{name}"]
    return words
