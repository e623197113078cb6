"""One command that an agent runs."""

from struct import pack, unpack

from sandboxio.agent.connection import AgentConnection
from sandboxio.agent.incoming import Incoming
from sandboxio.agent.protocol import CHUNK, WINDOW, Answer, Frame, ProtocolViolation, Request
from sandboxio.port import Chunk, Command, Exit, Killed

_START = ">BIIQ"
_START_SIZE = 17
_OOM, _NO_FORK, _BY_US = 1, 2, 4
_SIGKILL, _SIGXFSZ = 9, 25


class StartFailure(Exception):
    """The agent could not start a command; ``stage`` and ``number`` (an errno) as in the protocol."""

    def __init__(self, stage: int, number: int) -> None:
        super().__init__(stage, number)
        self.stage = stage
        self.number = number


class AgentProcess:
    """A `ProcessDriver` over one channel.

    :ivar discarded_bytes: how much output `wait` dropped.
    """

    def __init__(self, connection: AgentConnection, *, stdin: bool) -> None:
        self._connection = connection
        self._stdin = stdin
        self._may_send = WINDOW
        self._sent = 0
        self._pid: int | None = None
        self._failure: StartFailure | None = None
        self._exit: Exit | None = None
        self._ended: set[int] = set()
        self._killing = False
        self._killed: Killed | None = None
        self.discarded_bytes = 0
        self._channel = connection.open(self)
        self._incoming = Incoming(connection, self._channel, WINDOW)

    # what the agent says

    def take(self, frame: Frame) -> bool:
        """Take in one frame; see `Receiver`."""
        match frame.kind:
            case Answer.OUT | Answer.ERR:
                self._take_output(frame)
            case Answer.STARTED if self._pid is None and self._failure is None:
                (self._pid,) = unpack(">I", frame.payload)
            case Answer.FAILED if self._pid is None and self._failure is None:
                self._failure = StartFailure(*unpack(">BI", frame.payload))
                self._stdin = False
            case Answer.END if self._pid is not None:
                self._take_end(frame.payload[0])
            case Answer.EXIT if self._pid is not None and self._exit is None:
                self._exit = _exit(*unpack(">IB", frame.payload), started=self._pid != 0)
                self._stdin = False
            case Answer.KILLED if self._killing:
                self._killing = False
                self._killed = "tree" if frame.payload == b"t" else "sandbox"
            case Answer.GRANT:
                self._take_grant(*unpack(">I", frame.payload))
            case Answer.GONE:
                self._stdin = False
            case _:
                message = f"a frame {frame.kind.name} out of turn"
                raise ProtocolViolation(message)
        return not self._killing and (self._failure is not None or self._over)

    @property
    def _over(self) -> bool:
        return self._exit is not None and len(self._ended) == 2

    def _take_output(self, frame: Frame) -> None:
        number = frame.kind - Answer.OUT
        if self._pid is None or number in self._ended:
            message = "output before the start or after the end"
            raise ProtocolViolation(message)
        self._incoming.add(frame.payload, number)

    def _take_end(self, number: int) -> None:
        if number > 1 or number in self._ended:
            message = f"the end of stream {number}"
            raise ProtocolViolation(message)
        self._ended.add(number)

    def _take_grant(self, count: int) -> None:
        if count > self._sent:
            message = f"a grant of {count} bytes when {self._sent} were sent"
            raise ProtocolViolation(message)
        self._sent -= count
        self._may_send += count

    # what the host asks for

    async def start(self, command: Command, cwd: str) -> None:
        """Start ``command`` in ``cwd`` and wait until it runs; cancelled or failed, nothing of it stays.

        :raises StartFailure: it could not be started.
        """
        spec, code = encode_spec(command, cwd), command.code or b""
        head = pack(_START, int(self._stdin), WINDOW, len(spec), len(code))
        body = spec + code[:CHUNK]
        first = body[: CHUNK - _START_SIZE]
        self._connection.post(Request.START, self._channel, head + first)
        self._account(len(first))
        try:
            await self._send_all(memoryview(body)[len(first) :], body=True)
            await self._send_all(memoryview(code)[CHUNK:], body=True)
            await self._connection.until(lambda: self._pid is not None or self._failure is not None, self._channel)
        except BaseException:
            self._abandon()
            raise
        if self._failure is not None:
            raise self._failure

    def _account(self, size: int) -> None:
        self._may_send -= size
        self._sent += size

    async def _send_all(self, data: memoryview, *, body: bool) -> None:
        """Send as the agent grants it; stops when nobody takes it any more."""

        def over() -> bool:
            return self._failure is not None or self._exit is not None or not (body or self._stdin)

        while data and not over():
            await self._connection.until(lambda: self._may_send > 0 or over(), self._channel)
            if not over():
                part = bytes(data[: min(CHUNK, self._may_send)])
                self._connection.post(Request.DATA, self._channel, part)
                self._account(len(part))
                data = data[len(part) :]

    def _abandon(self) -> None:
        """End the command without waiting for it; its output is dropped."""
        self._incoming.drop()
        if self._failure is None and not self._killing:
            self._ask_to_kill()

    def _ask_to_kill(self) -> None:
        self._killing = True
        self._killed = None
        self._connection.reopen(self._channel, self)
        self._connection.post(Request.KILL, self._channel)

    async def receive(self) -> Chunk | None:
        """Return the next piece of output, ``None`` at the end of both streams."""
        await self._connection.until(lambda: bool(self._incoming) or len(self._ended) == 2, self._channel)
        if not self._incoming:
            return None
        number, data = self._incoming.take()
        return Chunk("stderr" if number else "stdout", data)

    async def send(self, data: bytes) -> None:
        """Write to stdin; waits while the command does not read. Cancelled, a part of ``data`` may have been sent."""
        await self._send_all(memoryview(data), body=False)

    async def close_stdin(self) -> None:
        """End stdin; repeating it does nothing."""
        if self._stdin:
            self._stdin = False
            self._connection.post(Request.EOF, self._channel)

    async def wait(self) -> Exit:
        """Wait for the command itself to end, draining and dropping its output."""
        while not self._over:
            await self._connection.until(lambda: bool(self._incoming) or self._over, self._channel)
            while self._incoming:
                self.discarded_bytes += len(self._incoming.take()[1])
        assert self._exit is not None
        return self._exit

    async def kill(self) -> Killed:
        """End the command and all that descends from it; what it has printed by then can still be received."""
        if not self._killing:
            self._ask_to_kill()
        await self._connection.until(lambda: not self._killing, self._channel)
        assert self._killed is not None
        return self._killed


def encode_spec(command: Command, cwd: str) -> bytes:
    """Return what the agent needs to know of a command."""
    fields = [cwd, command.user or "", str(len(command.argv)), *command.argv]
    fields += [f"{name}={value}" for name, value in command.env.items()]
    return "\0".join(fields).encode("utf-8", "surrogateescape")


def _exit(status: int, flags: int, *, started: bool) -> Exit:
    """Translate a wait status; only a command that SIGKILL ended while the kernel killed for memory is convicted."""
    signal = status & 0x7F
    if status > 0xFFFF or signal == 0x7F:
        message = f"a wait status of {status}"
        raise ProtocolViolation(message)
    limit = None
    if signal == _SIGKILL and flags & _OOM and not flags & _BY_US:
        limit = "memory_mb"
    elif signal == _SIGXFSZ:
        limit = "disk_mb"
    hit = tuple(name for name, bit in (("memory_mb", _OOM), ("pids", _NO_FORK)) if flags & bit)
    return Exit(128 + signal if signal else status >> 8, signal or None, limit, hit, started)
