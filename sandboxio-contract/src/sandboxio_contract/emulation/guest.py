"""One emulated sandbox: its own mounts, processes and network, held by a process that ends with the emulator.

It knows no provider. An emulator starts a `Guest`, connects it to an outside as the wire said (`emulation.outside`), and lets it
start commands and touch files; whatever the provider's protocol makes of that is the emulator's.
"""

import asyncio
import atexit
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[2]); from sandboxio_contract.emulation.inside import main; main()"
_Answers = asyncio.Queue[tuple[dict[str, Any], list[int]]]
_MESSAGE = 1 << 20
_SECONDS = 20.0
_FIRST_USER, _USERS = 200_000, 1_000_000_000


@dataclass(frozen=True, slots=True)
class Machine:
    """What a guest looks like from inside.

    :param user: the ordinary user's name; there is also ``root``.
    :param disk_mb: what may be written, in memory.
    :param memory_mb: what one command may map, and ``processes`` how many the ordinary user may have: so that no code in it
        takes all that this machine has.
    :param user_id: the ordinary user's, another one in each guest: the kernel counts processes by it.
    :param resolvers: name servers, as they stand in ``/etc/resolv.conf``.
    """

    hostname: str = "emulated"
    user: str = "user"
    disk_mb: int = 4096
    memory_mb: int = 2048
    processes: int = 512
    resolvers: tuple[str, ...] = ()
    user_id: int = field(default_factory=lambda: _FIRST_USER + secrets.randbelow(_USERS))
    etc: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def home(self) -> str:
        """The ordinary user's home."""
        return f"/home/{self.user}"

    def uid(self, name: str) -> int:
        """Return a user's id. :raises KeyError: there is no such user."""
        return {"root": 0, self.user: self.user_id, "0": 0, str(self.user_id): self.user_id}[name]

    def files(self) -> dict[str, str]:
        """Return what stands in ``/etc``."""
        accounts = (
            f"root:x:0:0:root:/root:/bin/bash\n{self.user}:x:{self.user_id}:{self.user_id}::{self.home}:/bin/bash\n"
        )
        return {
            "passwd": accounts,
            "group": f"root:x:0:\n{self.user}:x:{self.user_id}:\n",
            "hosts": f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {self.hostname}\n",
            "hostname": f"{self.hostname}\n",
            "resolv.conf": "".join(f"nameserver {one}\n" for one in self.resolvers),
            "profile": "",
            **self.etc,
        }


class GuestGone(Exception):
    """The sandbox has ended."""


@dataclass(slots=True)
class Started:
    """A command that was started; ``ended`` has the status that wait(2) gives."""

    pid: int
    ended: "asyncio.Future[int]"


class Guest:
    """A sandbox that runs. Everything is asked in the loop that started it."""

    def __init__(self, machine: Machine, pid: int, control: socket.socket) -> None:
        self.machine, self.pid = machine, pid
        """``pid``: a process that shares the guest's network, on this machine."""
        self._control = control
        self._ended = _end_of(pid)
        self._waiting: dict[int, _Answers] = {}
        self._running: dict[int, asyncio.Future[int]] = {}
        self._early: dict[int, int] = {}
        self._number = 0
        self._gone = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(control, self._read)

    @classmethod
    async def start(cls, machine: Machine) -> "Guest":
        """Start one, without any network but its loopback.

        :raises OSError: namespaces can't be had here.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE * 2)
        order = {
            "root": "/mnt",
            "disk_mb": machine.disk_mb,
            "etc": machine.files(),
            "homes": {machine.home: machine.user_id},
            "hostname": machine.hostname,
        }
        with theirs:
            pid = await asyncio.to_thread(_factory.start, order, theirs)
        ours.setblocking(False)
        guest = cls(machine, pid, ours)
        try:
            async with asyncio.timeout(_SECONDS):
                await guest._ready
        except BaseException:
            await guest.close()
            raise
        return guest

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self._gone

    async def spawn(
        self,
        argv: Sequence[str],
        streams: tuple[int, int, int],
        *,
        env: Mapping[str, str],
        cwd: str,
        user: str,
        session: bool = False,
    ) -> Started:
        """Start a command as a plain child of the first process.

        :param streams: descriptors for stdin, stdout and stderr; they stay the caller's to close.
        :param session: whether it leads a session of its own, as some providers' commands do.
        :raises OSError: it can't be started. :raises GuestGone: the sandbox has ended.
        """
        uid = self.machine.uid(user)
        answer, _ = await self._ask(
            {
                "do": "start",
                "argv": list(argv),
                "env": dict(env),
                "cwd": cwd,
                "uid": uid,
                "session": session,
                "memory_mb": self.machine.memory_mb,
                "processes": self.machine.processes,
            },
            streams,
        )
        pid = int(answer["pid"])
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if pid in self._early:
            ended.set_result(self._early.pop(pid))
        else:
            self._running[pid] = ended
        return Started(pid, ended)

    async def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to one command, and to nothing that it started. :raises ProcessLookupError: it has ended."""
        await self._ask({"do": "signal", "pid": pid, "signal": int(number)})

    async def file(self, call: str, *arguments: object, user: str) -> dict[str, Any]:
        """Do something with a file as a user would: ``stat list make_directories rename remove``."""
        answer, _ = await self._ask(self._file(call, arguments, user))
        return answer

    async def entries(self, path: str, depth: int, *, user: str) -> list[dict[str, Any]]:
        """Return what is in a directory, down to some depth."""
        request = self._file("list", (path, depth), user)
        found: list[dict[str, Any]] = []
        async with self._asking(request) as answers:
            while True:
                answer, _ = await answers.get()
                self._check(answer)
                found += cast("list[dict[str, Any]]", answer["entries"])
                if not answer.get("more"):
                    return found

    async def open(self, path: str, flags: int, mode: int = 0o644, *, user: str) -> int:
        """Open a file as a user would, and return its descriptor."""
        _, descriptors = await self._ask(self._file("open", (path, flags, mode), user))
        return descriptors[0]

    async def close(self) -> None:
        """End everything in it. Nothing happens the second time."""
        self._lost()
        # The first process ends with its control socket, and all others with it; its parent, with the network, then ends.
        try:
            async with asyncio.timeout(_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            await self._ended.wait()

    def _file(self, call: str, arguments: Sequence[object], user: str) -> dict[str, Any]:
        return {"do": "file", "call": call, "arguments": list(arguments), "uid": self.machine.uid(user)}

    async def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        async with self._asking(request, descriptors) as answers:
            answer, received = await answers.get()
        self._check(answer)
        return answer, received

    @contextlib.asynccontextmanager
    async def _asking(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> "AsyncGenerator[_Answers]":
        if self._gone:
            raise GuestGone
        self._number += 1
        number = self._number
        answers: _Answers = asyncio.Queue()
        self._waiting[number] = answers
        try:
            await self._send(json.dumps({"id": number, **request}).encode(), descriptors)
            yield answers
        finally:
            self._waiting.pop(number, None)

    async def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        while True:
            try:
                socket.send_fds(self._control, [data], list(descriptors))
                return
            except BlockingIOError:
                await asyncio.sleep(0.001)
            except OSError as error:
                raise GuestGone from error

    @staticmethod
    def _check(answer: dict[str, Any]) -> None:
        if answer.get("gone"):
            raise GuestGone
        if "error" in answer:
            raise OSError(answer["error"], answer["text"])

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE, 4)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._lost()
            return
        answer = cast("dict[str, Any]", json.loads(data))
        if answer["id"] == 0:
            self._told(answer)
        elif answer["id"] in self._waiting:
            self._waiting[answer["id"]].put_nowait((answer, descriptors))
        else:
            for one in descriptors:
                os.close(one)

    def _told(self, news: dict[str, Any]) -> None:
        if "ended" in news:
            ended = self._running.pop(news["ended"], None)
            if ended is None:
                self._early[news["ended"]] = news["status"]  # it was quicker than the answer about its start
            elif not ended.done():
                ended.set_result(news["status"])
        elif news.get("ready"):
            self._ready.set_result(None)
        elif not self._ready.done():
            self._ready.set_exception(OSError(news.get("failed", "the sandbox did not come up")))

    def _lost(self) -> None:
        if self._gone:
            return
        self._gone = True
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        if not self._ready.done():
            self._ready.set_exception(OSError("the sandbox did not come up"))
            self._ready.exception()  # nobody may wait for it any more
        for answers in self._waiting.values():
            answers.put_nowait(({"gone": True}, []))
        for ended in self._running.values():
            if not ended.done():
                ended.set_exception(GuestGone())
                ended.exception()


class _Factory:
    """The program that guests are started by; it is started for the first of a process, and ends with that process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._orders: socket.socket | None = None

    def start(self, order: Mapping[str, object], control: socket.socket) -> int:
        """Return the id of a guest's holder."""
        with self._lock:
            if self._orders is None or self._pid != os.getpid():
                self._orders, self._pid = self._begin(), os.getpid()
            socket.send_fds(self._orders, [json.dumps(order).encode()], [control.fileno()])
            return int(self._orders.recv(100))

    def end(self) -> None:
        """End the program, at the end of this process; guests that live go on until their emulator ends."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    @staticmethod
    def _begin() -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_SECONDS)
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), _ROOT]
        with theirs:
            # Twice forked, so that it is nobody's to wait for.
            subprocess.run(
                ["sh", "-c", '"$@" </dev/null >/dev/null &', "sh", *argv],
                pass_fds=(theirs.fileno(),), cwd="/", env={}, check=True, start_new_session=True,
            )  # fmt: skip
        return ours


_factory = _Factory()
atexit.register(_factory.end)


def _end_of(pid: int) -> asyncio.Event:
    """Return an event for the end of a process that is no child of this one."""
    ended = asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        ended.set()
        return ended
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        ended.set()

    loop.add_reader(descriptor, end)
    return ended
