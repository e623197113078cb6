"""A session over a program that runs one command in a sandbox and passes its streams.

For adapters of command lines. Such a program ends when nobody holds the streams any more, be it a background child, and tells
neither a missing program nor a missing directory from a failure of its own. So a POSIX shell in the sandbox says when a
command is there, and how it ended. Its word is unguessable, but not kept from the command: that can lie about itself alone.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import anyio

from sandboxio.capabilities import Capability
from sandboxio.errors import ConfigurationError
from sandboxio.exec_command import ExecCommand, SandboxOfCommand
from sandboxio.port import CODE_PATH, Command
from sandboxio.redaction import shown_name

SHELL = r"""
_sbx=$1
cd "$2" 2>/dev/null || { printf '\036%scwd;' "$_sbx"; exit; }
printf '\036%sstarted;' "$_sbx"
_sbx_code=
[ "$3" ] && { _sbx_code=$4; cat >"$4"; [ "$(wc -c <"$4")" -eq "$3" ] || exit; }
shift 4
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
_sbx_status=$?
case $_sbx_status in
126 | 127) _sbx_at=$(command -v "$1") && [ -f "$_sbx_at" ] && [ -x "$_sbx_at" ] || _sbx_status="$_sbx_status missing" ;;
esac
[ "$_sbx_code" ] && rm -f "$_sbx_code"
printf '\036%s%s;' "$_sbx" "$_sbx_status"
printf '\036%s;' "$_sbx" >&3
"""
"""Arguments: the word, the directory, the code's length and path, and the command. Code that was cut on the way is not run.

What begins the word is no argument, so that a command may print what all processes were started with. The shell's own
messages, such as that a child was killed, go nowhere; a failing ``exec`` speaks on the command's stderr.
"""
_NAME = re.compile(r"(?!_sbx)[A-Za-z_][A-Za-z0-9_]*\Z")


FEATURES = (
    Capability.RUN_COMMAND
    | Capability.RUN_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
)
"""What a backend has by its sessions being these."""


class ExecProgram(SandboxOfCommand, Protocol):
    """The program: what an adapter's backend is, beside a `Backend`."""

    @property
    def scratch(self) -> str:
        """A directory in a sandbox that commands can write to, and where they start by default."""
        ...

    @property
    def reserved(self) -> Sequence[str]:
        """How the names of variables begin that the program itself reads; no command can have such."""
        ...

    def exec_argv(self, sandbox_id: str, names: Iterable[str], *, stdin: bool) -> Sequence[str]:
        """Return the program's arguments up to the command.

        :param names: the variables that it passes on from its own environment, by name, so that no value is an argument.
        :param stdin: whether it passes its stdin on; else the command's is at its end.
        """
        ...


def check_names(names: Iterable[str], *reserved: str) -> None:
    """Refuse variables that would not arrive: a shell passes on only what it can name itself.

    :param reserved: what names may not begin with, since the program itself reads them.
    :raises ConfigurationError: one is no shell's name, or is reserved.
    """
    for name in names:
        if not _NAME.match(name) or name.startswith(reserved):
            raise ConfigurationError(
                f"the variable {shown_name(name)} can't be carried to a command here",
                hint="use letters, digits and underscores"
                + (f", and another beginning than {', '.join(reserved)}" if reserved else ""),
            )


class ExecSession:
    """One sandbox's commands. There is no way to end one tree alone, so a kill ends the sandbox."""

    def __init__(self, program: ExecProgram, sandbox_id: str) -> None:
        self.native: object = sandbox_id
        self._program = program
        self._sandbox_id = sandbox_id
        self._running: set[ExecCommand] = set()

    async def start(self, command: Command) -> ExecCommand:
        """Start a command; see `sandboxio.port.Session.start`.

        :raises ConfigurationError: a user, which the program's own arguments decide about, or a name that can't be carried.
        """
        if command.user is not None:
            raise ConfigurationError("all commands run as one user here", hint="leave user= out")
        program, code = self._program, command.code
        check_names(command.env, *program.reserved)
        word = secrets.token_hex(16)
        path = f"{program.scratch}/.{word}"
        argv = [path if part == CODE_PATH else part for part in command.argv]
        length = "" if code is None else str(len(code))
        script = ["sh", "-c", SHELL, "sh", word, command.cwd or program.scratch, length, path, *argv]
        name, *arguments = program.exec_argv(self._sandbox_id, command.env, stdin=command.stdin or code is not None)
        process = await anyio.open_process(
            [shutil.which(name) or name, *arguments, *script],  # the command may have another PATH
            env={**os.environ, **command.env},
            start_new_session=True,  # an interrupt at the terminal is the caller's to handle
        )
        started = ExecCommand(process, f"\x1e{word}".encode(), program, self._sandbox_id, self._running)
        try:
            await started.settle(command)
        except BaseException:
            await started.aclose()
            raise
        return started

    async def aclose(self) -> None:
        """Let go of what runs here; the sandbox lives on."""
        for one in tuple(self._running):
            await one.aclose()

    def info(self) -> Mapping[str, object]:
        """Return what a kill ends, and where commands start."""
        return {"transport": "exec", "kill": "sandbox", "cwd": self._program.scratch}
