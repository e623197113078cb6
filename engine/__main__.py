"""The verbs: start, stop, status."""

import fcntl
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from engine import daemon, images, processes, registry, ssh
from engine.commands import EngineError
from engine.packages import require_root
from engine.settings import Settings


def start(settings: Settings) -> None:
    """Have an engine that answers and holds the test images."""
    if not daemon.answers() or images.outdated() or registry.missing(settings):
        require_root("starting an engine, building its images or fetching a registry")
        with one_at_a_time(settings.lock_file):
            daemon.start(settings)
            images.build(settings)
            registry.fetch(settings)
    ssh.ensure()
    print(f"engine: ready, with {' '.join(image.name for image in images.IMAGES)}")


@contextmanager
def one_at_a_time(lock_file: Path) -> Generator[None]:
    """Wait for a start that is under way in another shell."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def status(settings: Settings) -> None:
    """Fail unless the engine we start is running: `.ci/run` must stop only what it started."""
    if not processes.named(settings, "dockerd"):
        raise EngineError("no engine of ours is running")
    print("engine: ours is running")


def answers(settings: Settings) -> None:  # noqa: ARG001 - what every verb takes
    """Fail unless an engine answers to a plain `docker` command, whoever started it."""
    if not daemon.answers():
        raise EngineError("no engine answers")


VERBS = {"start": start, "answers": answers, "stop": daemon.stop, "status": status}


def main(arguments: list[str]) -> str | None:
    """Run one verb; return the message to fail with."""
    if len(arguments) != 1 or arguments[0] not in VERBS:
        return f"usage: python -m engine {'|'.join(VERBS)}"
    settings = Settings.from_environment()
    try:
        VERBS[arguments[0]](settings)
    except EngineError as error:
        return f"engine: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
