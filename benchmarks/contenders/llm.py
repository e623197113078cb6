"""The llm-sandbox package, in a process and an environment of its own."""

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.contenders.base import Box, Crowd
from benchmarks.figure import PEER
from benchmarks.measure import NotBuilt
from benchmarks.settings import (
    CONCURRENCY,
    CPU,
    DISK_MB,
    IMAGE,
    LABEL,
    MEMORY_MB,
    OPEN_FILES,
    PIDS,
    SHM_MB,
)

WORKER = Path(__file__).with_name("llm_worker.py")


class LlmBox:
    """A session in the worker."""

    def __init__(self, llm: "LlmSandbox", number: int) -> None:
        self._llm = llm
        self._number = number

    def _ask(self, do: str, **arguments: object) -> float:
        return float(self._llm.ask(do, box=self._number, **arguments)["seconds"])

    async def true(self) -> float:
        """Run ``execute_command("true")``."""
        return self._ask("true")

    async def stream(self, size: int) -> float:
        """Have a callback called for each piece."""
        return self._ask("stream", size=size)

    async def put(self, local: Path, remote: str) -> float:
        """Run ``copy_to_runtime``."""
        return self._ask("put", local=str(local), remote=remote)

    async def get(self, remote: str, local: Path) -> float:
        """Run ``copy_from_runtime``."""
        return self._ask("get", remote=remote, local=str(local))

    async def many(self, count: int) -> float:
        """Refuse: a command of llm-sandbox has no stdin to keep it alive."""
        raise NotBuilt(f"no {count} commands at once")

    async def remove(self) -> float:
        """Close the session."""
        return self._ask("remove")

    async def discard(self) -> None:
        """Remove the container by force."""
        self._ask("discard")


class LlmSandbox:
    """Makes sessions of llm-sandbox.

    :param python: the interpreter of the environment that has it.
    """

    name = PEER

    def __init__(self, tag: str, python: str) -> None:
        self._tag = tag
        self._process = subprocess.Popen(
            [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Have the worker do something and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the worker ended"}
        if "error" in answer:
            raise RuntimeError(f"llm-sandbox {do}: {answer['error']}")
        return answer

    async def open(self, *, memory_mb: int = MEMORY_MB, pids: int = PIDS, disk_mb: int = DISK_MB) -> tuple[float, Box]:
        """Open a session and run ``true``."""
        answer = self.ask("open", image=IMAGE, config=self._config(memory_mb, pids, disk_mb))
        return float(answer["seconds"]), LlmBox(self, int(answer["box"]))

    async def crowd(self, count: int, *, egress: bool = False) -> Crowd:
        """Open all, run in all, remove all by force."""
        config = self._config(MEMORY_MB, PIDS, DISK_MB)
        if egress:
            config["network_mode"] = "bridge"
        answer = self.ask("crowd", image=IMAGE, config=config, count=count, concurrency=CONCURRENCY)
        return Crowd(float(answer["seconds"]), 0, list(answer["failures"]))

    async def aclose(self) -> None:
        """End the worker; `Plain.aclose` removes what it left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _config(self, memory_mb: int, pids: int, disk_mb: int) -> dict[str, object]:
        return {
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "nano_cpus": round(CPU * 1e9),
            "mem_limit": f"{memory_mb}m",
            "memswap_limit": f"{memory_mb}m",
            "pids_limit": pids,
            "shm_size": f"{SHM_MB}m",
            "ulimits": [
                {"Name": "nofile", "Soft": OPEN_FILES[0], "Hard": OPEN_FILES[1]},
                {"Name": "fsize", "Soft": disk_mb * 2**20, "Hard": disk_mb * 2**20},
            ],
            "log_config": {"Type": "none"},
            "labels": {LABEL: self._tag},
        }
