"""The reaper's process: one thread that holds the ledger and listens to the owner, and workers that do what is due."""

import os
import select
import signal
import socket
from types import FrameType

from .engine_http import Engine, Where
from .ledger import Entry, Ledger
from .messages import LINE_LIMIT, boot_clock, claim_from_wire, decode, encode
from .owner_watch import OwnerWatch
from .voice import Voice
from .workers import Attempted, Listening, Measured, Workers

WORKERS = 8
# `poll` counts no time in which the machine sleeps, deadlines do: it must look up now and then.
LONGEST_POLL_S = 5.0
POLL_WITHOUT_PIDFD_S = 1.0
HELLO_S = 10.0
MOST_DESCRIPTORS = 8192
OTHER_DESCRIPTORS = 64


def run(fd: int) -> None:
    """Read who the owner is and where the engine, then serve until nothing is left to do."""
    link = socket.socket(fileno=fd)
    link.settimeout(HELLO_S)
    try:
        hello = decode(_first_line(link))
        number = hello["n"]
    except (OSError, ValueError, KeyError):
        return  # whoever started us has ended already
    try:
        program = Program(link, hello)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        link.sendall(encode({"n": number, "error": f"{type(problem).__name__}: {problem}"}))
        return
    link.sendall(encode({"n": number, "pid": os.getpid()}))
    link.setblocking(False)
    program.serve()


class Program:
    """One reaper: its link to the owner, its ledger, its workers."""

    def __init__(self, link: socket.socket, hello: dict[str, object]) -> None:
        owner, started = hello["owner"], hello["started"]
        where = hello["where"]
        if not isinstance(owner, int) or not isinstance(where, dict):
            problem = "not a hello"
            raise ValueError(problem)  # noqa: TRY004
        self._link: socket.socket | None = link
        self._received = b""
        self._ledger = Ledger(WORKERS)
        self._owner = OwnerWatch(owner, started if isinstance(started, str) else None)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._workers = Workers(Engine(Where(**where)), WORKERS, self._wake)  # pyright: ignore[reportUnknownArgumentType]
        self._voices: dict[int, tuple[Entry, Voice]] = {}
        self._most_voices = _room()
        self._asked_to_end = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def serve(self) -> None:
        """Serve until the owner has ended and nothing is left, or a signal asks to end while nothing is held."""
        while not self._ledger.finished:
            if self._asked_to_end and self._ledger.holds_nothing:
                return
            self._asked_to_end = False  # while something is held, no signal ends the reaper
            self._start_what_is_due()
            self._wait()
            self._take_reports()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._asked_to_end = True
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            return  # it is awake already

    def _start_what_is_due(self) -> None:
        now = boot_clock()
        for entry in self._ledger.due(now):
            self._workers.attempt(entry)
        for entry in self._ledger.listen_due(now):
            self._workers.listen(entry)
        measured = self._ledger.disk_due(now)
        if measured is not None:
            self._workers.measure(measured)

    def _wait(self) -> None:
        poll = select.poll()
        for fd in (self._wake_read, self._owner.fd, self._link.fileno() if self._link else None, *self._voices):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        patience = self._patience()
        for fd, _event in poll.poll(None if patience is None else patience * 1000):
            if fd == self._wake_read:
                os.read(fd, 4096)
            elif self._link is not None and fd == self._link.fileno():
                self._listen(self._link)
            elif fd in self._voices:
                self._hear(*self._voices[fd])
        if self._link is not None and self._owner.ended():
            self._end_of_owner()

    def _hear(self, entry: Entry, voice: Voice) -> None:
        told, lasts = voice.hear()
        now = boot_clock()
        for one in told:
            self._ledger.heard(entry, one.alive, one.held, now)
        if not lasts:
            del self._voices[voice.fileno()]
            voice.close()
            self._ledger.unheard(entry, now)

    def _take_voice(self, entry: Entry, voice: Voice | None, *, refused: bool) -> None:
        if voice is not None and not entry.ended and len(self._voices) < self._most_voices:
            self._voices[voice.fileno()] = entry, voice
            self._hear(entry, voice)
            return
        if voice is not None:
            voice.close()
        self._ledger.unheard(entry, boot_clock(), refused=refused)

    def _hear_no_more(self, entry: Entry | None) -> None:
        # The engine never ends a stream that was attached to a container in its last moment.
        for fd in [fd for fd, (heard, _) in self._voices.items() if heard is entry]:
            self._voices.pop(fd)[1].close()

    def _patience(self) -> float | None:
        by_polling = self._link is not None and self._owner.fd is None
        longest = POLL_WITHOUT_PIDFD_S if by_polling else LONGEST_POLL_S
        wake = self._ledger.next_wake()
        if wake is None:
            return POLL_WITHOUT_PIDFD_S if by_polling else None
        return min(max(wake - boot_clock(), 0.0), longest)

    def _listen(self, link: socket.socket) -> None:
        try:
            piece = link.recv(LINE_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece:
            self._take_messages(piece)
        else:
            self._end_of_owner()

    def _end_of_owner(self) -> None:
        # Messages that it sent before its end come first: the last of them may be a `detach`.
        link, self._link = self._link, None
        if link is not None:
            self._drain(link)
            link.close()
        self._owner.close()
        self._ledger.owner_ended()

    def _drain(self, link: socket.socket) -> None:
        try:
            while piece := link.recv(LINE_LIMIT):
                self._take_messages(piece)
        except OSError:
            return  # nothing more to read, also where a forked child of the owner still holds the other end

    def _take_messages(self, piece: bytes) -> None:
        *lines, rest = (self._received + piece).split(b"\n")
        self._received = rest[:LINE_LIMIT]
        for line in lines:
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        number: object = 0
        try:
            message = decode(line)
            number = message.get("n", 0)
            answer = self._obey(message)
        except (ValueError, KeyError, TypeError) as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        if number and self._link is not None:
            try:
                self._link.send(encode({"n": number, **answer}))
            except OSError:
                return  # an owner that doesn't read its answers, or has ended: both are seen elsewhere

    def _obey(self, message: dict[str, object]) -> dict[str, object]:
        match message["do"]:
            case "expect":
                self._ledger.expect(claim_from_wire(message["claim"]), boot_clock())
            case "update":
                self._ledger.update(claim_from_wire(message["claim"]))
            case "forget":
                self._hear_no_more(self._ledger.forget(str(message["name"])))
            case "status":
                return {"status": self._ledger.status(str(message["name"]))}
            case other:
                problem = f"unknown message {other!r}"
                raise ValueError(problem)
        return {}

    def _take_reports(self) -> None:
        now = boot_clock()
        while not self._workers.reports.empty():
            report = self._workers.reports.get()
            if isinstance(report, Attempted):
                self._ledger.attempted(report.entry, report.result, now)
                if report.entry.ended:
                    self._hear_no_more(report.entry)
            elif isinstance(report, Measured):
                self._ledger.measured(report.entry, report.size, report.seconds, now, alone=report.alone)
            elif isinstance(report, Listening):
                self._take_voice(report.entry, report.voice, refused=report.refused)
            else:
                self._ledger.immeasurable(report.entry, report.seconds, now)


def _room() -> int:
    """Return how many agents can be heard at once; those beyond are measured without."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MOST_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted - OTHER_DESCRIPTORS


def _first_line(link: socket.socket) -> bytes:
    # The owner sends nothing after its hello until that is answered.
    received = b""
    while not received.endswith(b"\n"):
        piece = link.recv(LINE_LIMIT)
        if not piece or len(received) > LINE_LIMIT:
            problem = "no hello"
            raise ValueError(problem)
        received += piece
    return received
