"""The command ``sandboxio-contract``: ``cleanup``, ``render``, ``policy-table`` and ``liars``."""

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
    table = verbs.add_parser(
        "policy-table",
        help="print what a target answers to each kind of policy, from offline plans; nobody is contacted",
        epilog="example: sandboxio-contract policy-table mybackend:// --into README.md",
    )
    table.add_argument("target", metavar="TARGET", help="a DSN")
    table.add_argument("--into", type=Path, metavar="FILE", help="replace the table between its marks in FILE instead")
    verbs.add_parser("liars", help="print which lies each requirement must convict, as a Markdown table")
    given = parser.parse_args(arguments)
    if given.verb == "cleanup":
        return _cleanup()
    if given.verb == "liars":
        return _liars()
    return _render(given.reports) if given.verb == "render" else _policy_table(given.target, given.into)


def _policy_table(target: str, into: Path | None) -> int:
    from sandboxio import SandboxError

    from sandboxio_contract.policytable import made, written_into

    try:
        table = made(target)
        if into is None:
            print(table, end="")
        else:
            print(f"{into}: {'written' if written_into(into, target, table) else 'is as it should be'}")
    except (SandboxError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _liars() -> int:
    from sandboxio_contract.liars.shown import markdown

    print(markdown(), end="")
    return 0


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
    from sandboxio_contract.conformance import SCHEMA, Conformance
    from sandboxio_contract.report import markdown

    reports: list[dict[str, Any]] = []
    for path in paths:
        try:
            report: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        if report.get("schema") != SCHEMA:
            print(f"{path}: schema {report.get('schema')!r}, not {SCHEMA}", file=sys.stderr)
            return 1
        try:
            Conformance.model_validate(report)
        except ValueError as error:
            print(f"{path} is no conformance.json: {error}", file=sys.stderr)
            return 1
        reports.append(report)
    print(markdown(reports), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
