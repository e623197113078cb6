"""What rows do again and again with a sandbox: look for its tools, wait for something, keep errors apart."""

import os
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import sandboxio
from sandboxio import CapabilityNotSupported, ExecResult, Sandbox

from sandboxio_contract.ground import Object
from sandboxio_contract.target import Target, first_line
from sandboxio_contract.verdict import Inconclusive, Refused, Violated, require, violated

T = TypeVar("T")

GRACE = 5.0
"""Seconds that the specification gives a kill, a teardown and the end of a timed-out command."""
DEADLINE = 1.0
"""Seconds of a command's timeout that is there to pass."""
SLACK = 2.0
"""Seconds beyond a bound that a busy machine may take."""


async def need_shell(sb: Sandbox) -> None:
    """:raises Inconclusive: the image has no POSIX shell for the row's script."""
    if not await has_shell(sb):
        raise Inconclusive("the image has no sh, which this row's script needs")


async def has_shell(sb: Sandbox) -> bool:
    """Whether the image has a POSIX shell."""
    return (await sb.run(["sh", "-c", "exit 42"])).exit_code == 42


async def need_files(sb: Sandbox) -> None:
    """:raises Inconclusive: files can't be read or written in a sandbox of this image."""
    try:
        await sb.files.exists(".")
    except CapabilityNotSupported as error:
        raise Inconclusive(f"no files here: {error.message}") from error


async def has_python(sb: Sandbox) -> bool:
    """Whether the image has Python 3."""
    return (await sb.run(["python3", "-c", "raise SystemExit(42)"])).exit_code == 42


async def has_files(sb: Sandbox) -> bool:
    """Whether files can be read and written in a sandbox of this image."""
    try:
        await need_files(sb)
    except Inconclusive:
        return False
    return True


async def attack(sb: Sandbox, python: str, shell: str) -> list[str]:
    """Return the command of a script that is there in both languages.

    :raises Inconclusive: the image has neither.
    """
    if await has_python(sb):
        return ["python3", "-c", python]
    await need_shell(sb)
    return ["sh", "-c", shell]


async def need_python(sb: Sandbox) -> None:
    """:raises Inconclusive: the image has no Python for the row's script."""
    if not await has_python(sb):
        raise Inconclusive("the image has no python3, which this row's script needs")


async def output_of(sb: Sandbox, cmd: Any, **options: Any) -> str:
    """Run a command of the row's own that has to succeed and return what it printed."""
    result: ExecResult = await sb.run(cmd, **options)
    if result.exit_code != 0:
        violated(f"run({cmd!r}) gave {result.exit_code}: {result.stderr.strip()[-200:]}")
    return result.stdout


async def raises(
    expected: type[BaseException] | tuple[type[BaseException], ...], call: Awaitable[Any], what: str
) -> Any:
    """Await something that has to raise and return the error; another error or none convicts."""
    try:
        value = await call
    except expected as error:
        return error
    except Inconclusive:
        raise
    except Exception as error:
        wanted = expected.__name__ if isinstance(expected, type) else " or ".join(one.__name__ for one in expected)
        raise Violated(f"{what} raised {first_line(error)}, not {wanted}") from error
    raise Violated(f"{what} was accepted and gave {value!r}")


async def until(question: Callable[[], Awaitable[T]], good: Callable[[T], bool], within: float) -> T:
    """Ask until the answer is good or ``within`` seconds are over; return the last answer."""
    end = time.monotonic() + within
    while True:
        answer = await question()
        if good(answer) or time.monotonic() > end:
            return answer
        await anyio.sleep(0.1)


async def left_over(target: Target, mark: Mapping[str, str], within: float) -> list[Object]:
    """Return what the provider still holds with these labels after at most ``within`` seconds."""
    return await until(lambda: target.look(target.ground.objects, mark), lambda found: not found, within)


async def gone(target: Target, sandbox_id: str, within: float = SLACK) -> bool:
    """Whether the provider has let a sandbox go."""
    return not await until(lambda: target.look(target.ground.exists, sandbox_id), lambda there: not there, within)


def ends_one_tree(sb: Sandbox) -> bool:
    """Whether killing a command spares the other commands, by what the connection says of itself."""
    return sb.info().get("kill") == "tree"


async def connected(target: Target, sb: Sandbox, **options: Any) -> Sandbox:
    """Connect to a sandbox that another handle holds.

    :raises Refused: no sandbox of this backend can be connected to; this one was left as it was.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return await sandboxio.connect(target.dsn, sb.id, **options)
        except CapabilityNotSupported as error:
            require((await sb.run(["true"])).ok, "a refused connect() harmed the sandbox")
            raise Refused(f"connect() is refused: {error.message}") from error


@contextmanager
def grace(seconds: float) -> Generator[None]:
    """Have another teardown grace for the block."""
    kept = os.environ.get("SBX_TEARDOWN_GRACE")
    os.environ["SBX_TEARDOWN_GRACE"] = f"{seconds:g}"
    try:
        yield
    finally:
        if kept is None:
            del os.environ["SBX_TEARDOWN_GRACE"]
        else:
            os.environ["SBX_TEARDOWN_GRACE"] = kept


@asynccontextmanager
async def held(manager: AbstractContextManager[T]) -> AsyncGenerator[T]:
    """Enter and leave something of the ground's, which blocks, in worker threads; it is always left."""
    value = await anyio.to_thread.run_sync(manager.__enter__)
    try:
        yield value
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(manager.__exit__, None, None, None)
