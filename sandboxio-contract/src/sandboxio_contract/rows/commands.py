"""Rows about commands: argument boundaries, exit codes, streams of bytes."""

import ast
import signal
from typing import Any

from sandboxio import ConfigurationError, Sandbox

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import has_python, need_shell, output_of, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, proven, require

ARGUMENTS = ("a b", "", "$HOME", "`id`", "*", "l1\nl2", "q\"'", "-n", "é\U0001f389", "\\", "%s")
SIGNALS = (signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGPIPE)
BIG = 100_000_000
EVERY_BYTE = bytes(range(256))
COUNTED = b"".join(b"%d\n" % number for number in range(400_000))
ONCE = ("argv", "string", "stdin", "code", "stream")


@row("RUN-01", world=True)
async def argv_goes_through_no_shell(target: Target) -> Finding:
    """Arguments arrive one by one, unchanged; a string goes through sh; codes and signals are exact (EXE-01, ENC-03)."""
    async with target.sandbox() as sb:
        await _arguments(sb)
        codes = 0
        for code in (0, 1, 7, 125, 126, 127, 128, 255):
            result = await sb.run(["sh", "-c", f"exit {code}"])
            if code == 0 and result.exit_code == 127:
                return proven("arguments are exact; the image has no sh for exit codes")
            require(result.exit_code == code, f"exit {code} gave {result.exit_code}")
            codes += 1
        for number in SIGNALS:
            result = await sb.run(["sh", "-c", f"kill -{int(number)} $$; sleep 5"])
            require(result.exit_code == 128 + number, f"death by {number.name} gave {result.exit_code}")
        result = await sb.run("echo one; echo $((40+2)) | cat && exit 3")
        require(
            (result.exit_code, result.stdout) == (3, "one\n42\n"), f"a string gave {result.exit_code} {result.stdout!r}"
        )
        for wrong in ([], [""], ["printf", "a\0b"], ["echo", "\ud800"], ["true", "x" * 140_000], ["true", 1]):
            await raises(ConfigurationError, sb.run(wrong), f"run({str(wrong)[:40]})")  # type: ignore[arg-type]
    return proven(f"{len(ARGUMENTS)} hostile arguments, {codes} codes and {len(SIGNALS)} signals are exact")


@row("RUN-01", world=True)
async def each_command_runs_once(target: Target) -> Finding:
    """What a command does is done once, in each way of starting one: no answer that is slow or lost is asked for again."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        await output_of(sb, ["sh", "-c", "echo >> argv; sleep 1"])
        await output_of(sb, "echo >> string")
        await output_of(sb, ["sh", "-c", "cat >> stdin"], stdin=b"\n")
        await sb.run_code("echo >> code", language="shell")
        async with sb.stream(["sh", "-c", "echo >> stream"]) as proc:
            await proc.wait()
        for way in ONCE:
            content = await sb.files.read(way)
            require(content == b"\n", f"a command started by {way} ran {len(content)} times")
    return proven(f"{len(ONCE)} ways to start a command, each ran once")


@row("RUN-02", within=120, world=True)
async def output_is_exact(target: Target) -> Finding:
    """Stdout and stderr are apart, every byte is intact, and 100 MB arrive without loss where they are streamed (ENC-01, ENC-08, OUT-05)."""
    async with target.sandbox() as sb:
        await need_shell(sb)
        both = await sb.run(["sh", "-c", "echo out; echo err >&2"])
        require((both.stdout, both.stderr) == ("out\n", "err\n"), f"streams: {both.stdout!r} and {both.stderr!r}")
        none = await sb.run(["true"])
        require((none.stdout, none.stderr) == ("", ""), "no output is not the empty string")
        echoed = await sb.run(["cat"], stdin=EVERY_BYTE * 64)
        require(echoed.stdout_bytes == EVERY_BYTE * 64, "not every byte comes back from cat as it was sent")
        counted = await sb.run(["cat"], stdin=COUNTED)
        require(counted.stdout_bytes == COUNTED, f"{len(COUNTED)} bytes of numbers come back from cat in another order")
        wide = await sb.run(["cat"], stdin=("x" + "é" * 40_000 + "\U0001f600").encode())
        require(wide.stdout == "x" + "é" * 40_000 + "\U0001f600", "multi-byte characters break at chunk borders")
        early = await sb.run(["sh", "-c", "echo early; exec >&- 2>&-; sleep 1; exit 7"], timeout=20)
        require(
            (early.exit_code, early.stdout) == (7, "early\n"), f"the end of output was taken for the end: {early!r}"
        )
        for _ in range(30):
            require(await output_of(sb, ["echo", "hello"]) == "hello\n", "output is sometimes lost")
        total = await _streamed(sb)
    require(total == BIG, f"{total} of {BIG} bytes arrived")
    return proven("streams apart, all 256 byte values intact, 100 MB streamed without loss")


@row("RUN-03", world=True)
async def input_directory_and_variables(target: Target) -> Finding:
    """stdin, working directory and variables arrive as they were given; what can't be carried is refused (STD-02, STD-03, ENV-02)."""
    odd = {
        "LINES2": "a\nb",
        "EQUALS": "a=b=c",
        "WIDE": "é\U0001f389",
        "EMPTY": "",
        "QUOTES": "'\"`$(id)`",
    }
    async with target.sandbox(env={"BASE": "base", "OVER": "sandbox"}) as sb:
        await need_shell(sb)
        odd |= await _odd_name(sb)
        seen = await sb.run(["env", "-0"], env={**odd, "OVER": "call"})
        if seen.exit_code != 0:
            seen = await sb.run(["cat", "/proc/self/environ"], env={**odd, "OVER": "call"})
        pairs = dict(item.split("=", 1) for item in seen.stdout.split("\0") if "=" in item)
        for name, value in {**odd, "BASE": "base", "OVER": "call"}.items():
            require(pairs.get(name) == value, f"variable {name!r} arrived as {pairs.get(name)!r}")
        after = await sb.run(["sh", "-c", 'printf %s "$EQUALS$WIDE:$OVER"'])
        require(after.stdout == ":sandbox", f"after a call with variables of its own, the next has {after.stdout!r}")
        for size in (0, 1, 5_000_000):
            counted = await output_of(sb, ["wc", "-c"], stdin=bytes(size), timeout=30)
            require(int(counted) == size, f"{size} bytes of stdin arrived as {counted.strip()}")
        waiting = await sb.run(["sh", "-c", "read -r x; echo rc=$?"], timeout=20)
        require(waiting.stdout == "rc=1\n", "stdin is not at its end when nothing is given")
        await sb.files.mkdir("some dir", parents=True)
        where = await output_of(sb, ["pwd"], cwd="some dir")
        require(where.strip() == f"{sb.cwd.rstrip('/')}/some dir", f"cwd='some dir' is {where.strip()!r}")
        require((await output_of(sb, ["pwd"])).strip() == sb.cwd, "the default directory is not sandbox.cwd")
        wrong: dict[str, Any] = {"": "x", "A=B": "x", "A\0": "x", "A\n": "x", "V": "a\0b", "BIG": "x" * 140_000}
        for name, value in wrong.items():
            await raises(ConfigurationError, sb.run(["true"], env={name: value}), f"env={{{name!r}: …}}")
    return proven(f"{len(odd)} odd variables, up to 5 MB of stdin and directories arrive exactly")


@row("RUN-04", world=True)
async def what_cannot_run_says_so(target: Target) -> Finding:
    """127 and 126 with the text in stderr and an empty stdout; a missing directory or interpreter is named (EXE-02, EXE-06, EXE-07)."""
    async with target.sandbox() as sb:
        cases: dict[str, tuple[Any, int]] = {
            "missing": (["nope-cmd"], 127),
            "missing path": (["/nope/cmd"], 127),
            "not executable": (["/etc/passwd"], 126),
            "a directory": (["/etc"], 126),
        }
        shell = (await sb.run(["sh", "-c", "exit 0"])).ok
        if shell:
            cases["missing in a string"] = ("nope-cmd", 127)
        else:
            await raises(ConfigurationError, sb.run("echo hi"), "a string on an image without a shell")
        for name, (cmd, code) in cases.items():
            result = await sb.run(cmd)
            require(result.exit_code == code, f"{name}: exit code {result.exit_code}, not {code}")
            require(result.stdout == "", f"{name}: a message poses as stdout: {result.stdout[:80]!r}")
            program = cmd if isinstance(cmd, str) else cmd[0]
            require(program in result.stderr, f"{name}: stderr does not name the program: {result.stderr[:80]!r}")
        error = await raises(ConfigurationError, sb.run(["true"], cwd="/no/such"), "a missing working directory")
        require("/no/such" in str(error), "the error does not name the missing working directory")
        await raises(ConfigurationError, sb.run_code("1", language="touch /tmp/pwn #"), "an unknown language")
        spliced = shell and await sb.files.exists("/tmp/pwn")  # without a shell nothing could have been spliced
        require(not spliced, "the language was spliced into a command")
        error = await raises(ConfigurationError, sb.run_code("1", language="lua"), "a missing interpreter")
        require("lua" in str(error), "the error does not name the missing interpreter")
        require((await sb.run(["true"])).ok, "the sandbox does not work afterwards")
    return proven("127 and 126 with text in stderr only; directory and interpreter are named")


async def _odd_name(sb: Sandbox) -> dict[str, str]:
    """Return a variable that no shell can name, nothing where it is refused."""
    variable = {"sp ace": "x"}
    try:
        await sb.run(["true"], env=variable)
    except ConfigurationError:
        return {}
    return variable


async def _arguments(sb: Sandbox) -> None:
    if await has_python(sb):
        code = "import sys;print(ascii(sys.argv[1:]))"  # a minimal Python has no json
        got: list[str] = ast.literal_eval(await output_of(sb, ["python3", "-c", code, *ARGUMENTS]))
        require(got == list(ARGUMENTS), f"arguments arrived as {got!r}")
        return
    await need_shell(sb)
    script = 'for a in "$@"; do printf "%s\\0" "$a"; done'
    text = await output_of(sb, ["sh", "-c", script, "sh", *ARGUMENTS])
    require(text.split("\0")[:-1] == list(ARGUMENTS), f"arguments arrived as {text!r}")


async def _streamed(sb: Sandbox) -> int:
    total = 0
    async with sb.stream(["head", "-c", str(BIG), "/dev/zero"], timeout=60) as proc:
        async for chunk in proc:
            total += len(chunk.data)
        require(await proc.wait() == 0, "the streamed command did not end with 0")
    return total
