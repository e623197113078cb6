"""How the suite looks at a backend's world without asking its adapter: one ground per backend name."""

from sandboxio_contract.ground.base import Fetched, Ground, NetworkGround, Object, Recorder, Spied

__all__ = ["Fetched", "Ground", "NetworkGround", "Object", "Recorder", "Spied", "ground_for"]


def ground_for(dsn: str) -> Ground:
    """Return the ground for a DSN's backend; one that can see nothing for a backend that the suite doesn't know."""
    scheme = dsn.partition("://")[0]
    if scheme == "docker":
        from sandboxio_contract.ground.docker import DockerGround

        return DockerGround(dsn)
    if scheme == "bubblewrap":
        from sandboxio_contract.ground.bubblewrap import BubblewrapGround

        return BubblewrapGround(dsn)
    if scheme == "fake":
        from sandboxio_contract.ground.fake import FakeGround

        return FakeGround()
    return Ground(scheme)
