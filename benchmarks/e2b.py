"""P8: what core and the adapter add to a call of E2B's SDK: ``python -m benchmarks.e2b`` (root; the emulator is a process of its own).

Side by side on one emulator: `Sandbox.run(["true"])`, and the SDK's own client for the same command and script, on its own
loop. They take turns; only the difference and the ratio mean something.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import sandboxio

TESTS = Path(__file__).parents[1] / "sandboxio-e2b" / "tests" / "e2badapter"
SERVE = """
import sys
sys.path.insert(0, sys.argv[1])
from emulator.emulator import Emulator
emulator = Emulator()
print(emulator.address, flush=True)
sys.stdin.read()
emulator.close()
"""
KEY = "e2b_0123456789abcdef0123456789abcdef01234567"
GOAL_MS, GOAL_PART = 1.0, 0.05


@asynccontextmanager
async def emulated() -> AsyncGenerator[str]:
    """Have the emulator; yields its address."""
    argv = [sys.executable, "-c", SERVE, str(TESTS)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate()


@asynccontextmanager
async def contenders(
    address: str,
) -> AsyncGenerator[tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]]:
    """Yield one call of ours and the same of the SDK's."""
    from e2b import AsyncSandbox
    from e2b.envd.process import process_pb
    from sandboxio.exec_session import SHELL

    options: dict[str, Any] = {"api_key": KEY, "api_url": address, "sandbox_url": address, "debug": False}
    raw = await AsyncSandbox.create("base", timeout=600, **options)
    config = process_pb.ProcessConfig(
        cmd="/bin/sh", args=["-c", SHELL, "sh", "0" * 32, "/home/user", "", "/tmp/x", "true"], cwd="/"
    )
    rpc = cast("Any", raw.commands)._rpc

    async def theirs() -> None:
        async for _ in rpc.start(process_pb.StartRequest(process=config, stdin=False), timeout_ms=60_000):
            pass

    async with sandboxio.create(f"e2b://?api_url={address}&sandbox_url={address}", timeout=600) as sandbox:
        yield lambda: sandbox.run(["true"]), theirs
    await raw.kill()


async def measure(runs: int) -> None:
    """Measure and print."""
    async with emulated() as address, contenders(address) as both:
        samples: tuple[list[float], list[float]] = ([], [])
        for _ in range(5):
            for call in both:
                await call()
        for number in range(runs):
            for which in (0, 1) if number % 2 else (1, 0):
                began = time.perf_counter()
                await both[which]()
                samples[which].append((time.perf_counter() - began) * 1000)
        ours, theirs = map(statistics.median, samples)
        added = statistics.median(one - other for one, other in zip(*samples, strict=True))
        print(
            f"run(['true']): ours {ours:.2f} ms, the SDK alone {theirs:.2f} ms, added {added:.2f} ms ({added / theirs:.1%})"
        )
        print(f"goal (P8): at most {GOAL_MS:g} ms and {GOAL_PART:.0%}; load {os.getloadavg()[0]:.1f}, {runs} runs each")


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.e2b", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    os.environ.update({"E2B_API_KEY": KEY, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
    warnings.simplefilter("ignore")
    asyncio.run(measure(parser.parse_args().runs))


if __name__ == "__main__":
    main()
