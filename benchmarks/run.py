"""Measure and print: ``python -m benchmarks.run`` (or ``nox -s bench``, which brings llm-sandbox)."""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.bench import Bench, prepared, say
from benchmarks.contenders.cli import docker
from benchmarks.figure import Figure
from benchmarks.groups import commands, crowd, embedded, files, front_door, growth, idle, lifecycle, streaming
from benchmarks.table import render

GROUPS: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    "commands": commands.measure,
    "lifecycle": lifecycle.measure,
    "embedded": embedded.measure,
    "streaming": streaming.measure,
    "files": files.measure,
    "crowd": crowd.measure,
    "front_door": front_door.measure,
    "idle": idle.measure,
    "growth": growth.measure,
}
RESULTS = Path(__file__).with_name("results")


async def measure(groups: list[str], runs: int, llm_python: str | None, figures: list[Figure]) -> None:
    """Measure the groups into ``figures``; one that fails is told and left out, and the others still come."""
    async with prepared(runs, llm_python) as bench:
        for group in groups:
            began = time.monotonic()
            try:
                figures += await GROUPS[group](bench)
            except Exception as error:  # noqa: BLE001 - an hour of figures must not be lost to one
                say(f"{group}: FAILED: {error!r}")
                continue
            say(f"{group}: {time.monotonic() - began:.0f} s")


def environment() -> dict[str, object]:
    """Return what the figures were taken on."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit,
        "engine": docker("version", "--format", "{{.Server.Version}}"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def main() -> int:
    """Parse the arguments, measure, print, and keep the raw samples."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--runs", type=int, default=15, help="of each quick action (15)")
    parser.add_argument("--llm-python", help="the interpreter of an environment that has llm-sandbox")
    options = parser.parse_args()
    unknown = sorted(set(options.groups) - set(GROUPS))
    if unknown:
        parser.error(f"no such group: {', '.join(unknown)}")
    about = environment()
    figures: list[Figure] = []
    try:
        asyncio.run(measure(options.groups or list(GROUPS), options.runs, options.llm_python, figures))
    except KeyboardInterrupt:
        say("interrupted: the figures so far")
    sys.stdout.write(render(figures))
    kept = RESULTS / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    kept.write_text(json.dumps({"about": about, "figures": [figure.to_json() for figure in figures]}, indent=1) + "\n")
    say(f"raw samples: {kept.relative_to(Path.cwd()) if kept.is_relative_to(Path.cwd()) else kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
