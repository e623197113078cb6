"""Start a probe in a fresh process."""

import asyncio
import json
import os
import sys
from typing import Any

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Installed packages have their bytecode: compiling the sources of a checkout again and again is no cost of a user's."""


async def probe(name: str, *arguments: str) -> dict[str, Any]:
    """Run ``benchmarks.probes.<name>`` and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"benchmarks.probes.{name}", *arguments, stdout=asyncio.subprocess.PIPE, env=ENVIRONMENT
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the probe {name} failed")
    answer: dict[str, Any] = json.loads(printed)
    return answer
