"""The figures, one module per group; each has ``async def measure(bench) -> list[Figure]``."""
