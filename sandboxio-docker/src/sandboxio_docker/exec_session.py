"""The second transport, for images without a fit Python: the engine's exec API, `sleep` as the first process."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
from sandboxio.errors import CapabilityNotSupported, ConfigurationError, ConnectError, SandboxError, SandboxGone
from sandboxio.port import CODE_PATH, Command, ProcessDriver

from sandboxio_docker.attach import start_exec
from sandboxio_docker.config import ROOT_USERS
from sandboxio_docker.ending import Ending
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import Engine
from sandboxio_docker.errors import is_gone
from sandboxio_docker.exec_driver import POLLS, ExecDriver, Look, wants_stdin
from sandboxio_docker.sdk import Sdk
from sandboxio_docker.wire import EngineAnswer

WITH_CODE = """
f=$(mktemp "${TMPDIR:-/tmp}/sbx.XXXXXX") && cat >"$f" || exit 126
[ "$(wc -c <"$f")" -eq "$1" ] || { rm -f "$f"; exit 126; }; shift
for a; do shift; [ "$a" = '{code}' ] && a=$f; set -- "$@" "$a"; done
"$@" </dev/null; s=$?; rm -f "$f"; exit $s
"""
"""Keeps the code that comes over stdin in a file of its own; argv stays argv, nothing is spliced into the script.

The first argument is the code's length: what a broken connection cut is not run.
"""
assert CODE_PATH in WITH_CODE


class ExecSession:
    """Commands through exec. It can't end one tree alone (moby #9167 was never merged): a kill ends the sandbox.

    :ivar native: the SDK's container object.
    """

    def __init__(
        self,
        engine: Engine,
        endpoint: Endpoint,
        container_id: str,
        ending: Ending,
        only_user: str = "",
        *,
        first: bool = True,
    ) -> None:
        self.native: object = engine.native(container_id)
        self._engine = engine
        self._endpoint = endpoint
        self._container_id = container_id
        self._ending = ending
        self._first = first
        self._cwd = "/"
        self._only_user = only_user

    async def settle(self, cwd: str, *, make: bool) -> None:
        """Fix the default working directory; ``make`` it, writable by whatever user the image runs as.

        In a sandbox that ran already that is as the image's user: as root it could run what a command put on the path.
        """
        if make:
            user = "0" if self._first else None
            driver = await self._start(Command(("mkdir", "-p", "-m", "1777", cwd), cwd="/", user=user))
            try:
                ended = await driver.wait()
            finally:
                await driver.aclose()
            if ended.code != 0:
                return
        self._cwd = cwd

    async def start(self, command: Command) -> ProcessDriver:
        """Start a command; see `sandboxio.port.Session.start`.

        The engine switches users, with no capability in the sandbox, and a kill ends all users' processes.
        """
        if command.user is not None and self._only_user not in ("", *ROOT_USERS, command.user):
            # Else the caller could be root again where the receipt says otherwise.
            raise ConfigurationError(
                f"everything in this sandbox runs as {self._only_user!r}, not as {command.user!r}",
                hint="leave user= out, or make the sandbox without DockerConfig(user=…)",
            )
        self._ending.busy()
        driver = await self._start(command)
        self._ending.busy()  # before this the engine may have shown the reaper no process yet
        return driver

    async def _start(self, command: Command) -> ExecDriver:
        interpreter = command.argv[0] if command.code is not None else None
        if command.code is not None:
            command = replace(command, argv=("sh", "-c", WITH_CODE, "sh", str(len(command.code)), *command.argv))
        try:
            await self._ending.watch(self._endpoint)
        except EngineAnswer as error:
            raise await self.gone() if is_gone(error) else error from None
        exec_id = await self.explained(lambda client: _create(client, self._container_id, command))
        driver = ExecDriver(self, exec_id, await start_exec(self._endpoint, exec_id), interpreter)
        try:
            await driver.settle(command)
        except BaseException:
            await driver.aclose()
            raise
        return driver

    async def inspect(self, exec_id: str) -> Look:
        """Return what the engine says of one command."""
        answer = await self.explained(lambda client: client.exec_inspect(exec_id))
        return Look(answer["Running"], answer["ExitCode"], answer["Pid"])

    async def explained(self, act: Callable[[Sdk], Any]) -> Any:
        """Call the engine; an end of the sandbox gets its reason."""
        try:
            return await self._engine.call(act)
        except Exception as error:
            if is_gone(error) or "is not running" in str(error):
                raise await self.gone() from error
            raise

    async def has_program(self, name: str) -> bool:
        """Whether the image's shell finds a program."""
        driver = await self._start(Command(("sh", "-c", 'command -v "$1"', "sh", name), cwd="/"))
        return (await driver.wait()).code == 0

    async def gone(self) -> SandboxGone:
        """Return the error for a sandbox that ended."""
        return SandboxGone("the container ended", reason=await self._ending.reason())

    async def lost(self) -> SandboxError:
        """Return the error for a connection that ended before its time: with the sandbox, or without it."""
        if await self.has_ended():
            return await self.gone()
        return ConnectError(
            "the connection to the Docker engine was lost while a command ran: of its output the rest is missing",
            hint="see whether the engine restarted, or what is between here and there; the command may have had effects",
        )

    def was_cut(self) -> bool:
        """Whether the session's other connection, which nobody ends while the sandbox lives, is gone as well."""
        return self._ending.was_cut()

    async def has_ended(self) -> bool:
        """Whether the container runs no more: the engine notes a command's end some time before the container's."""
        for pause in POLLS:
            answer = await self.explained(lambda client: client.inspect_container(self._container_id))
            if not answer["State"]["Running"]:
                return True
            await anyio.sleep(pause)
        return False

    async def out_of_memory(self, since: float) -> bool:
        """Whether a process here died for want of memory since then."""
        return await self._ending.out_of_memory(since)

    async def end(self) -> None:
        """Kill the container: with AutoRemove it is removed too."""
        try:
            await self._engine.call(lambda client: client.kill(self._container_id, "KILL"), lane="end")
        except Exception as error:
            if not is_gone(error) and "is not running" not in str(error):
                raise

    async def aclose(self) -> None:
        """Close the connection; the sandbox lives on until its lifetime or its owner ends."""
        await self._ending.aclose()

    async def detach(self) -> None:
        """Give up nothing as a further session, which owns nothing; refuse to let the sandbox outlive its owner.

        Its lifetime would rest on ``sleep``, whose memory is open to commands of its user (measured, 2026-11).
        """
        if self._first:
            raise CapabilityNotSupported(
                "detach() needs the agent: in this image the first process is sleep, which a command could keep from"
                " ending the sandbox",
                hint="use an image with python3, or keep the process running that made the sandbox",
            )

    def info(self) -> Mapping[str, object]:
        """Return ``transport``, ``kill``, ``cwd``."""
        return {"transport": "exec", "kill": "sandbox", "cwd": self._cwd}


def _create(client: Sdk, container_id: str, command: Command) -> str:
    answer = client.exec_create(
        container_id,
        list(command.argv),
        stdin=wants_stdin(command),
        environment=dict(command.env),
        workdir=command.cwd,
        user=command.user or "",
    )
    return str(answer["Id"])
