"""Kernel settings that the run, or the engine on its behalf, changes: remembered before, put back after."""

import contextlib
from pathlib import Path

_ROOT = Path("/proc/sys/net/ipv6/conf")
_NAMES = ("forwarding", "accept_ra")


def snapshot() -> dict[str, str]:
    """Return the IPv6 forwarding and router-advertisement settings of every link, by path."""
    paths = [path for name in _NAMES for path in sorted(_ROOT.glob(f"*/{name}"))]
    return {str(path): path.read_text(encoding="ascii").strip() for path in paths}


def keep_router_routes() -> None:
    """Let links go on learning their routers once an engine turns IPv6 forwarding on.

    Otherwise the kernel drops the host's advertised default route at that moment, and the host loses its uplink.
    """
    for path in _ROOT.glob("*/accept_ra"):
        if path.parent.name not in ("all", "default") and path.read_text(encoding="ascii").strip() == "1":
            path.write_text("2", encoding="ascii")


def skip_address_detection(link: str) -> None:
    """Let a link use its IPv6 addresses at once; nothing happens where there is no IPv6."""
    with contextlib.suppress(OSError):
        (_ROOT / link / "accept_dad").write_text("0", encoding="ascii")


def restore(saved: dict[str, str]) -> None:
    """Put settings back. `all` goes first, because writing it sets every link; links that are gone are passed over."""
    for name in sorted(saved, key=lambda path: (not path.endswith("all/forwarding"), path)):
        path = Path(name)
        with contextlib.suppress(OSError):
            if path.read_text(encoding="ascii").strip() != saved[name]:
                path.write_text(saved[name], encoding="ascii")
