"""How the agent gets into a sandbox: nothing is written there, its source comes over stdin."""


def agent_argv() -> tuple[str, ...]:
    """Return the program that the sandbox must run, stdin and stdout attached, no terminal."""
    raise NotImplementedError


def first_bytes(*, lifetime: float, owner_bound: bool, workdir: str | None) -> bytes:
    """Return what that program must read first: lengths, settings, and the agent's source."""
    raise NotImplementedError
