"""The arena: a private network without an uplink, for everything that the suite can start itself."""

import os
import pickle
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar, cast

from sandboxio_contract.network import kernel
from sandboxio_contract.network.world import World, configuration

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command in an arena answered."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Arena(World):
    """A private network without an uplink, whose canary answers for every address. Ordinary users can have one, too."""

    @classmethod
    def start(cls) -> Self:
        """Set it up.

        :raises NotProvable: this user can't have network namespaces here.
        """
        return cls(configuration("arena"))

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs `argv` inside, for any process launcher."""
        if os.geteuid() == 0:
            return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *argv]
        return ["nsenter", "-t", str(self.pid), "-U", "-n", "--preserve-credentials", "--", *argv]

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout: float = 30.0) -> Completed:
        """Run a command inside, to its end.

        :raises subprocess.TimeoutExpired: it did not end in `timeout` seconds; it was killed.
        """
        done = subprocess.run(self.command(argv), input=stdin, capture_output=True, timeout=timeout, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    def call(self, function: Callable[[], T], timeout: float = 30.0) -> T:
        """Run a function inside, in a forked child, and return its (picklable) result. Call it from a thread-less process.

        :raises RuntimeError: with the text of whatever the function raised.
        :raises TimeoutError: it did not end in `timeout` seconds; the child was killed.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _call_inside(self.pid, function, writer)
        os.close(writer)
        try:
            return cast("T", _result(reader, timeout))
        finally:
            os.close(reader)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _call_inside(pid: int, function: Callable[[], object], writer: int) -> None:
    """Enter, call, send; never returns into the caller's code."""
    try:
        if os.geteuid() != 0:
            kernel.enter(f"/proc/{pid}/ns/user")
        kernel.enter(f"/proc/{pid}/ns/net")
        answer: tuple[bool, object] = (True, function())
    except BaseException as error:  # noqa: BLE001 - it is handed to the parent, whole
        answer = (False, f"{type(error).__name__}: {error}")
    try:
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


def _result(reader: int, timeout: float) -> object:
    data = b""
    while True:
        if not select.select([reader], [], [], timeout)[0]:
            message = f"the function did not end within {timeout:.0f} s"
            raise TimeoutError(message)
        part = os.read(reader, 65536)
        if not part:
            break
        data += part
    done, value = cast("tuple[bool, object]", pickle.loads(data)) if data else (False, "it ended without a result")
    if not done:
        raise RuntimeError(value)
    return value
