"""What every contender is given: the same image, network and caps."""

IMAGE = "sandboxio-test/python"
"""Made by ``make engine``; has ``python``, ``sh`` and the usual commands."""
LIFETIME = 900
"""Seconds that a sandbox of a benchmark lives at most."""
LABEL = "io.sandboxio-benchmark"
"""Carried by every container that a contender other than sandboxio makes; its value is the run's tag."""
META = "benchmark"
"""The same as sandboxio's metadata."""
GRACE = 60
"""Seconds that each of a hundred kills at once may take to be seen done; the other contenders wait without any bound."""
CONCURRENCY = 16
"""Requests that the contenders with threads have under way at once."""

MIB = 2**20
CPU = 1.0
MEMORY_MB = 512
PIDS = 256
SHM_MB = 64
OPEN_FILES = (1024, 4096)
DISK_MB = 1024
