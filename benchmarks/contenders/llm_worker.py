"""Runs in llm-sandbox's own environment: takes requests as JSON lines on stdin, answers seconds as JSON lines.

The clock runs here, around llm-sandbox's calls only, so that the pipe to this process costs it nothing.
"""

import itertools
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from time import perf_counter
from typing import Any

Request = dict[str, Any]


class Worker:
    """Sessions by number.

    Environment set-up (a virtual environment and pip) is skipped, which is llm-sandbox's own fast way.
    """

    def __init__(self) -> None:
        self._session: Any = import_module("llm_sandbox").SandboxSession
        self._client: Any = import_module("docker").from_env(max_pool_size=32, timeout=300)
        self._open: dict[int, Any] = {}
        self._numbers = itertools.count()

    def open(self, request: Request) -> Request:
        """Open a session and run ``true`` in it."""
        session = self._session(
            client=self._client,
            image=request["image"],
            lang="python",
            skip_environment_setup=True,
            runtime_configs=request["config"],
        )
        session.open()
        session.execute_command("true")
        number = next(self._numbers)
        self._open[number] = session
        return {"box": number}

    def true(self, request: Request) -> None:
        """Run ``true``."""
        assert self._open[request["box"]].execute_command("true").exit_code == 0

    def stream(self, request: Request) -> None:
        """Have the output handed over as it comes."""
        seen: list[int] = []

        def take(chunk: str) -> None:
            seen.append(len(chunk))

        self._open[request["box"]].execute_command(f"head -c {request['size']} /dev/zero", on_stdout=take)
        assert sum(seen) == request["size"]

    def put(self, request: Request) -> None:
        """Copy a file in."""
        self._open[request["box"]].copy_to_runtime(request["local"], request["remote"])

    def get(self, request: Request) -> None:
        """Copy a file out."""
        self._open[request["box"]].copy_from_runtime(request["remote"], request["local"])

    def remove(self, request: Request) -> None:
        """Close the session."""
        self._open.pop(request["box"]).close()

    def discard(self, request: Request) -> None:
        """Remove the container by force, which llm-sandbox itself does only after ten seconds."""
        self._open.pop(request["box"]).container.remove(v=True, force=True)

    def crowd(self, request: Request) -> Request:
        """Open all with a first command, then discard all."""
        failures: list[str] = []
        with ThreadPoolExecutor(request["concurrency"]) as pool:
            opened = [pool.submit(self.open, request) for _ in range(request["count"])]
            failures += [repr(error) for future in opened if (error := future.exception())]
            boxes = [future.result() for future in opened if not future.exception()]
            list(pool.map(self.discard, boxes))
        return {"failures": failures}


def main() -> None:
    """Answer requests until stdin ends."""
    worker = Worker()
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not look like an answer
    for line in sys.stdin:
        request: Request = json.loads(line)
        act: Callable[[Request], Request | None] = getattr(worker, request["do"])
        began = perf_counter()
        try:
            answer = act(request) or {}
        except Exception as error:  # noqa: BLE001 - it is told to the other side
            answer = {"error": repr(error)}
        answers.write(json.dumps({"seconds": perf_counter() - began, **answer}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
