"""Rows about code that is run."""

from sandboxio import CapabilityNotSupported, ConfigurationError

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import has_python, need_shell, raises
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Part, require, summed


@row("RUN-05", world=True)
async def code_runs_once_and_fails_loudly(target: Target) -> Finding:
    """One-shot code for each language; its errors are a non-zero exit code with the traceback."""
    parts: list[Part] = []
    async with target.sandbox() as sb:
        await need_shell(sb)
        shell = await sb.run_code("x=1; echo $((x+1)); exit 4", language="shell")
        require((shell.exit_code, shell.stdout) == (4, "2\n"), f"shell code gave {shell.exit_code} {shell.stdout!r}")
        parts.append(Part("shell", "proven", "exit code and output"))
        context = sb.run_code("1", context=object())
        await raises((CapabilityNotSupported, ConfigurationError), context, "context= without STATEFUL_CODE")
        await raises(ConfigurationError, sb.run_code("print('\ud800')"), "code with a lone surrogate")
        if not await has_python(sb):
            await raises(ConfigurationError, sb.run_code("print(1)"), "Python code without Python")
            parts.append(Part("python", "refused", "the image has none, and the error says so"))
            return summed(parts)
        fine = await sb.run_code("import sys\nprint('hello', sys.argv[1:])\nprint('err', file=sys.stderr)")
        require(fine.ok and fine.stdout == "hello []\n", f"Python code gave {fine.exit_code} {fine.stdout!r}")
        require(fine.stderr == "err\n", f"stderr of Python code is {fine.stderr!r}")
        broken = await sb.run_code("def f(:\n  pass")
        require(broken.exit_code != 0 and "SyntaxError" in broken.stderr, f"a syntax error gave {broken!r}")
        failed = await sb.run_code("x = 1\nraise ValueError('here')")
        shown = failed.exit_code == 1 and "ValueError: here" in failed.stderr and "line 2" in failed.stderr
        require(shown, f"a runtime error gave {failed.exit_code} {failed.stderr!r}")
        left = await sb.run_code("raise SystemExit(9)")
        require(left.exit_code == 9, f"SystemExit(9) gave {left.exit_code}")
        big = await sb.run_code("x='" + "a" * 140_000 + "'\nprint(len(x))")
        require(big.stdout == "140000\n", f"140 kB of code gave {big.exit_code} {big.stderr[-100:]!r}")
        first = await sb.run_code("remembered = 1")
        second = await sb.run_code("print('remembered' in globals())")
        require(first.ok and second.stdout == "False\n", "code keeps state without a context")
        parts.append(Part("python", "proven", "output, syntax and runtime errors, exit code, 140 kB of code, no state"))
    return summed(parts)
