"""Turn what a caller passes to `run`, `run_code` and `stream` into a `Command`."""

import posixpath
from collections.abc import Mapping, Sequence

from sandboxio.errors import ConfigurationError
from sandboxio.port import CODE_PATH
from sandboxio.redaction import raise_from, shown_name
from sandboxio.spec import MAX_STRING, check_text

# The path of the code is its file name in tracebacks; unlike `python3 PATH` this leaves the working directory on sys.path.
_PYTHON = "import sys; sys.argv = sys.argv[1:]; exec(compile(open(sys.argv[0], 'rb').read(), sys.argv[0], 'exec'))"

INTERPRETERS: Mapping[str, tuple[str, ...]] = {
    "python": ("python3", "-c", _PYTHON, CODE_PATH),
    "shell": ("sh", CODE_PATH),
    "sh": ("sh", CODE_PATH),
    "bash": ("bash", CODE_PATH),
    "javascript": ("node", CODE_PATH),
    "node": ("node", CODE_PATH),
    "ruby": ("ruby", CODE_PATH),
    "perl": ("perl", CODE_PATH),
    "php": ("php", CODE_PATH),
    "lua": ("lua", CODE_PATH),
    "r": ("Rscript", CODE_PATH),
}
"""Language → argv; the names are a closed list, so that none is ever spliced into a command."""

_COMMAND = "pass run(['program', 'argument']), or run('a line for the shell')"


def command_argv(cmd: str | Sequence[str]) -> tuple[str, ...]:
    """Return the argv of a command: a string goes through ``sh -c``, a sequence through no shell.

    :raises ConfigurationError: empty, not all strings, NUL, lone surrogate, or an argument over Linux's limit.
    """
    argv = ("sh", "-c", cmd) if isinstance(cmd, str) else tuple(cmd) if isinstance(cmd, Sequence) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
    if not argv or not all(isinstance(part, str) for part in argv):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError("a command is a string or a non-empty sequence of strings", hint=_COMMAND)
    if not argv[0]:
        raise ConfigurationError("the command's program is empty", hint=_COMMAND)
    for part in argv:
        size = len(check_text(part, "a command"))
        if size > MAX_STRING:
            raise ConfigurationError(
                f"an argument of {size} bytes is over Linux's limit of {MAX_STRING}",
                hint="pass it over stdin=, or write it to a file with files.write()",
            )
    return argv


def code_argv(language: str) -> tuple[str, ...]:
    """Return the argv that runs code of a language. :raises ConfigurationError: the language is not known."""
    argv = INTERPRETERS.get(language) if isinstance(language, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if argv is None:
        raise ConfigurationError(
            f"language {shown_name(language)} is not known", hint=f"use one of {', '.join(INTERPRETERS)}"
        )
    return argv


def code_bytes(code: str) -> bytes:
    """Return code as the interpreter reads it."""
    if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"code is a string, not {type(code).__name__}", hint="pass the source text; run() takes a command"
        )
    try:
        return code.encode("utf-8")
    except UnicodeEncodeError:
        raise_from(ConfigurationError("the code holds a lone surrogate", hint="pass valid Unicode text"), None)


def stdin_bytes(stdin: bytes | bytearray | memoryview | str | None) -> bytes | None:
    """Return what is fed to stdin, ``None`` for an stdin that is at its end."""
    if stdin is None:
        return None
    if isinstance(stdin, str):
        try:
            return stdin.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise_from(
                ConfigurationError("stdin holds a lone surrogate", hint="pass bytes or valid Unicode text"), None
            )
    return input_bytes(stdin, "stdin")


def input_bytes(data: bytes | bytearray | memoryview, what: str) -> bytes:
    """Return bytes; a number, which `bytes` would turn into that many NULs, and text are refused."""
    if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{what} is bytes, not {type(data).__name__}", hint="pass bytes, such as text.encode()"
        )
    return bytes(data)


def user_name(user: str | None) -> str | None:
    """Return a user name or id. :raises ConfigurationError: empty, no string, NUL."""
    if user is not None:
        if not isinstance(user, str) or not user:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                "user= is a non-empty string", hint="pass a user's name or id as text, such as '1000', or leave it out"
            )
        check_text(user, "user=")
    return user


def no_shell() -> ConfigurationError:
    """Return the error for a command string in a sandbox that has no shell."""
    return ConfigurationError("the image has no POSIX shell", hint="pass a list: run(['program', 'argument'])")


def resolve_path(path: str, cwd: str, what: str = "a path") -> str:
    """Return a sandbox path absolute, always with forward slashes. :raises ConfigurationError: empty or NUL."""
    if not isinstance(path, str) or not path:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{what} is a non-empty string, not {'an empty one' if path == '' else type(path).__name__}",
            hint="pass a path in the sandbox, such as 'data/in.csv'",
        )
    check_text(path, what)
    return posixpath.join(cwd, path)
