"""The command line: ``sandboxio`` and ``python -m sandboxio``.

Exit codes: 0 ok, 1 failed, 2 wrong usage, 130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sandboxio import __version__, errors

_EXAMPLES = """\
examples:
  sandboxio demo                            create, run, stream, prove the denial, tear down
  sandboxio demo docker://python:3.12-slim  the same with an image of your choice
  sandboxio errors E1101                    what an error means and how to fix it
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except errors.SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sandboxio",
        description="Run AI-agent code in any sandbox, under policies that are enforced.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sandboxio {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="show a sandbox at work, and prove that its egress is denied")
    demo.add_argument("target", nargs="?", help="a DSN; default $SANDBOXIO_BACKEND, else docker://")
    demo.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    demo.set_defaults(command=_demo)
    explain = commands.add_parser("errors", help="explain an error code")
    explain.add_argument("code", nargs="?", help="such as E1101; without it all are listed")
    explain.add_argument("--pages", metavar="FOLDER", help="write every error's page there instead")
    explain.set_defaults(command=_errors)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from sandboxio.cli.demo import run_demo

    return run_demo(options.target, as_json=options.json)


def _errors(options: argparse.Namespace) -> int:
    from sandboxio.cli.error_pages import by_code, page_of

    known = by_code()
    if options.pages is not None:
        try:
            for code, cls in known.items():
                Path(options.pages, f"{code}.md").write_text(page_of(cls), encoding="utf-8")
        except OSError as error:
            text = f"the pages can't be written to {options.pages}: {error.strerror or type(error).__name__}"
            raise errors.ConfigurationError(text, hint="name a folder that exists and can be written to") from error
        return 0
    if options.code is None:
        for code, cls in known.items():
            print(f"{code}  {cls.__name__}")
        return 0
    code = "SBX_" + options.code.upper().removeprefix("SBX_")
    if code not in known:
        print(f"no error has the code {code}; `sandboxio errors` lists all", file=sys.stderr)
        return 2
    print(page_of(known[code]), end="")
    return 0
