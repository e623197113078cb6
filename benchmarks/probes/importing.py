"""What an import costs in a fresh interpreter, and what it loads."""

import sys
from importlib import import_module
from time import process_time

HEAVY = ("asyncio", "anyio", "pydantic", "docker", "sandboxio_docker")


def main(name: str) -> None:
    """Import one package."""
    began = process_time()
    import_module(name)
    cpu = process_time() - began
    heavy = [module for module in HEAVY if module in sys.modules]
    from benchmarks.probes.process import answer

    answer({"cpu": cpu, "heavy": heavy})


if __name__ == "__main__":
    main(sys.argv[1])
