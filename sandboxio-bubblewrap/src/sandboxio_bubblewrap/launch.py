"""The file that the warden's process runs: ``python -I -S launch.py FD OWNER START``.

It forks once more, so that the warden is no child of its owner: it leaves no zombie there and no SIGCHLD, and the owner's own
``waitpid(-1)`` never meets it. Its siblings are loaded as a package of another name: the adapter's own package, and with it
core, stays out of this process.
"""

import os
import sys
import types


def main() -> None:
    """Become the warden of whoever holds the other end of descriptor FD."""
    if os.fork() != 0:
        os._exit(0)
    package = types.ModuleType("sandboxio_warden")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120 - pathlib costs memory
    sys.modules[package.__name__] = package
    from sandboxio_warden.warden import run  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    main()
