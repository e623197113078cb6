"""What commands do in a fake sandbox: scripted answers, and a handful of programs that need none."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sandboxio.errors import ConfigurationError
from sandboxio.port import Command


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command does.

    :param stdout: what it prints; text is UTF-8.
    :param exit_code: 128 + n for one that signal n ended.
    :param takes: seconds of the fake's clock; nobody waits for them, unless the command's timeout ends before: then it
        hangs, and core's own clock ends it.
    :param hangs: it goes on after its output until it is killed.
    :param limit: the field of `Resources` whose cap ends it, such as ``"memory_mb"``.
    """

    stdout: str | bytes = b""
    stderr: str | bytes = b""
    exit_code: int = 0
    takes: float = 0.0
    hangs: bool = False
    limit: str | None = None


Match = Callable[[Command], bool]
Answers = Answer | BaseException | Callable[[Command], Answer]
"""An answer, an error that the provider raises in place of one, or a function that decides when the command comes."""


class Script:
    """The scripted answers of one fake; the newest that matches is taken."""

    def __init__(self) -> None:
        self._entries: list[tuple[Match, deque[Answers]]] = []

    def add(self, match: Match, answers: Iterable[Answers]) -> None:
        """Answer what matches with each answer once, in order, then with the last one for ever."""
        given = deque(answers)
        if not given:
            raise ConfigurationError("no answer was given", hint="pass at least one Answer or error")
        self._entries.append((match, given))

    def answer(self, command: Command) -> Answer:
        """Return the answer for a command, or raise the error that was scripted in its place."""
        for match, answers in reversed(self._entries):
            if match(command):
                answer = answers.popleft() if len(answers) > 1 else answers[0]
                return _decided(answer, command)
        program = PROGRAMS.get(command.argv[0]) if command.code is None else None
        if program is None:
            raise ConfigurationError(
                f"the fake has no answer for {shown(command)!r}",
                hint="script it first: fake.on(command, Answer(stdout=…))",
            )
        return program(command)


def _decided(answer: Answers, command: Command) -> Answer:
    if isinstance(answer, BaseException):
        raise answer
    return answer if isinstance(answer, Answer) else answer(command)


def shown(command: Command) -> str:
    """Return a command as its caller wrote it: code, the string of a shell command, or argv."""
    if command.code is not None:
        return command.code.decode("utf-8", "replace")
    line = shell_line(command)
    return " ".join(command.argv) if line is None else line


def shell_line(command: Command) -> str | None:
    """Return what was passed as a string and goes through ``sh -c``."""
    return command.argv[2] if len(command.argv) == 3 and command.argv[:2] == ("sh", "-c") else None


def matching(what: "str | Sequence[str] | Match") -> Match:
    """Return the test for a command: a string command, an argv, or a function."""
    if isinstance(what, str):
        return lambda command: command.code is None and shell_line(command) == what
    if callable(what):
        return what
    argv = tuple(what)
    return lambda command: command.code is None and command.argv == argv


def matching_code(code: str) -> Match:
    """Return the test for a piece of code."""
    wanted = code.encode()
    return lambda command: command.code == wanted


def _echo(command: Command) -> Answer:
    return Answer(" ".join(command.argv[1:]) + "\n")


def _sleep(command: Command) -> Answer:
    try:
        return Answer(takes=sum(float(seconds) for seconds in command.argv[1:]))
    except ValueError:
        return Answer(stderr=f"sleep: invalid time interval {command.argv[1]!r}\n", exit_code=1)


def _env(command: Command) -> Answer:
    return Answer("".join(f"{name}={value}\n" for name, value in command.env.items()))


PROGRAMS: dict[str, Callable[[Command], Answer]] = {
    "true": lambda _: Answer(),
    "false": lambda _: Answer(exit_code=1),
    "echo": _echo,
    "env": _env,
    "pwd": lambda command: Answer(f"{command.cwd}\n"),
    "sleep": _sleep,
}
"""Programs that every fake sandbox has."""
