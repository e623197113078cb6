"""What no size of a layer shows: deleted files that are still open, and whether anybody is left who may write.

A deleted file keeps its blocks while a descriptor is open, and the files that an engine mounts (`/etc/hosts`) lie beside
the layer. The first agent counts both while the sandbox is in use, and says so on its stderr, where whoever enforces the
cap listens: not over the protocol, since the host reads that only while somebody waits there.
"""

from __future__ import annotations

import posix as os
import time

from .trees import NOT_THERE
from .wire import close, slurp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .agent import Agent

PAUSE = 2.0  # seconds between two looks at the least
REST = 20  # times as long as a look took passes until the next one
SLICE, GAP = 0.005, 0.02  # seconds of looking before other work goes on, and until looking goes on
MOST = 16384  # descriptors of one look
STEP = 64
IN_MEMORY = (b"tmpfs", b"ramfs", b"devtmpfs", b"mqueue", b"hugetlbfs", b"proc", b"sysfs", b"cgroup", b"cgroup2")


class Mounts:
    """Which devices are memory, and what regular files are mounts of their own."""

    def __init__(self) -> None:
        self.memory: set[int] = set()
        self.files: list[bytes] = []
        for line in slurp("/proc/self/mountinfo").split(b"\n"):
            fields, _, kind = line.partition(b" - ")
            words = fields.split(b" ")
            if kind.split(b" ")[0] in IN_MEMORY:
                self.memory.add(os.makedev(*map(int, words[2].split(b":"))))
            elif len(words) > 4 and words[4] != b"/":
                self.files.append(words[4])
        try:
            anonymous = os.memfd_create("device", os.MFD_CLOEXEC)
        except (OSError, AttributeError):
            return
        self.memory.add(os.fstat(anonymous).st_dev)
        os.close(anonymous)


class Folder:
    """A folder of /proc, held open to be looked at; empty if its process is gone or closed to us, see `trees.look`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1

    def __enter__(self) -> Folder:
        """Open it."""
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        close(self.fd)

    def names(self) -> list[str]:
        """Return what it holds."""
        try:
            return os.listdir(self.fd) if self.fd >= 0 else []
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
            return []


class Look:
    """One look at all descriptors of some processes, in steps."""

    def __init__(self, mounts: Mounts, pids: list[int]) -> None:
        self.mounts = mounts
        self.blocks: dict[tuple[int, int], int] = {}  # by device and inode: descriptors share files
        self.descriptors = 0
        self.seconds = 0.0
        self.steps = self.walk(pids)

    @property
    def complete(self) -> bool:
        """Whether everything could be looked at."""
        return self.descriptors <= MOST

    @property
    def size(self) -> int:
        """Bytes that were found."""
        return 512 * sum(self.blocks.values())

    def go_on(self) -> bool:
        """Look for a moment; true if that was the end."""
        begun, until = time.process_time(), time.monotonic() + SLICE
        try:
            return all(time.monotonic() < until for _ in self.steps)
        finally:
            self.seconds += time.process_time() - begun

    def walk(self, pids: list[int]) -> Iterator[None]:
        """Look at everything; a step is short."""
        for path in self.mounts.files:
            self.count(path, named=True)
        for pid in pids:
            known: list[str] = []
            with Folder("/proc/%d/task" % pid) as tasks:
                threads = tasks.names()
            for thread in threads:
                with Folder("/proc/%d/task/%s/fd" % (pid, thread)) as folder:
                    names = folder.names()
                    self.descriptors += len(names) // STEP  # to list them costs something, too
                    for name in names if names != known else ():  # as a rule threads share their descriptors
                        self.count(name, folder.fd)
                        self.descriptors += 1
                        if self.descriptors % STEP == 0:
                            yield
                        if not self.complete:
                            return
                known = names
                yield

    def count(self, path: str | bytes, folder: int | None = None, *, named: bool = False) -> None:
        """Count a regular file on a disk if no directory names it any more, or ``named`` all the same."""
        try:
            info = os.stat(path, dir_fd=folder)
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
            return
        regular = info.st_mode & 0o170000 == 0o100000
        if regular and info.st_dev not in self.mounts.memory and (named or not info.st_nlink):
            self.blocks[info.st_dev, info.st_ino] = info.st_blocks


class Watch:
    """Looks again and again while the sandbox is in use, for the agent to say what was found."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.mounts = Mounts()
        self.overrun = 0  # incomplete looks in a row

    def begin(self) -> None:
        """Begin a look, or stop if nothing is left that could write."""
        mine = {self.agent.pid, *self.agent.workers}
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in mine]
        if pids or self.agent.jobs:
            self.go_on(Look(self.mounts, pids))
        elif self.agent.say_of_disk(b"idle"):
            self.agent.stirred = False
        else:
            self.agent.later(PAUSE, self.begin)

    def go_on(self, look: Look) -> None:
        """Look on, and at the end say what was found."""
        if not look.go_on():
            self.agent.later(GAP, lambda: self.go_on(look))
            return
        self.overrun = 0 if look.complete else self.overrun + 1
        if look.complete:
            self.agent.say_of_disk(b"busy %d" % (look.size >> 20))
        elif self.overrun > 1:
            self.agent.say_of_disk(b"busy full")
        self.agent.later(max(PAUSE, REST * look.seconds), self.begin)
