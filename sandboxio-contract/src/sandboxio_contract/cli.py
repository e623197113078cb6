"""The command ``sandboxio-contract``: ``cleanup`` and ``render``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code: 0 done, 1 failed, 2 usage."""
    parser = argparse.ArgumentParser(prog="sandboxio-contract", description="The contract's own tools.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser(
        "cleanup", help="remove what a killed run left on this machine: guard, link, containers, swap file"
    )
    render = verbs.add_parser(
        "render",
        help="print a Markdown matrix of one or more conformance.json",
        epilog="example: sandboxio-contract render docker.json e2b.json > conformance.md",
    )
    render.add_argument("reports", nargs="+", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    return _cleanup() if given.verb == "cleanup" else _render(given.reports)


def _cleanup() -> int:
    from sandboxio_contract.ground import swapfile
    from sandboxio_contract.network.reason import NotProvable
    from sandboxio_contract.network.world import cleanup

    for path in swapfile.remove_leftovers():
        print(f"removed the swap file {path}")
    try:
        done = cleanup()
    except NotProvable as reason:
        print(f"the network was not cleaned up: {reason}", file=sys.stderr)
        return 1
    print("the network is as it was" if done else "a run is alive and holds the network; it cleans up by itself")
    return 0


def _render(paths: list[Path]) -> int:
    from sandboxio_contract.report import SCHEMA, markdown

    reports: list[dict[str, Any]] = []
    for path in paths:
        try:
            report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        if report.get("schema") != SCHEMA:
            print(f"{path}: schema {report.get('schema')!r}, not {SCHEMA}", file=sys.stderr)
            return 1
        reports.append(report)
    print(markdown(reports), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
