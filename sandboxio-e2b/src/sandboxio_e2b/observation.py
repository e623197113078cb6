"""What the provider says it applied, in the words of receipts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandboxio.port import Observation

from sandboxio_e2b.planning import ALL, CREATE_ID, MANAGED, OURS

if TYPE_CHECKING:
    from e2b import SandboxInfo
    from e2b.api.client.models.sandbox_detail import SandboxDetail


def observed(detail: "SandboxDetail") -> Observation | None:
    """Read a sandbox back; ``None`` if it is none of ours."""
    metadata = _metadata(detail.metadata)
    if metadata.get(MANAGED) != "true":
        return None
    network, lifecycle = _told(detail.network), _told(detail.lifecycle)
    deny: list[str] = network.get("denyOut") or []
    allowed: list[str] = network.get("allowOut") or []
    access = detail.allow_internet_access if isinstance(detail.allow_internet_access, bool) else None
    applied: dict[str, object] = {
        "network.egress": _egress(access, deny, allowed, lifecycle),
        "network.allow": tuple(allowed) or None,
        "network.ingress": None if network.get("allowPublicTraffic") is False else "public",
        "cpu": float(detail.cpu_count),
        "memory": detail.memory_mb,
        "disk": detail.disk_size_mb,
        "labels": _labels(metadata),
    }
    return _observation(detail, metadata, applied)


def listed(info: "SandboxInfo") -> Observation:
    """Say what a listing tells, which is less."""
    metadata = _metadata(info.metadata)
    applied = {"cpu": float(info.cpu_count), "memory": info.memory_mb, "labels": _labels(metadata)}
    return _observation(info, metadata, applied)


def _observation(
    seen: "SandboxDetail | SandboxInfo", metadata: Mapping[str, str], applied: Mapping[str, object]
) -> Observation:
    return Observation(
        sandbox_id=seen.sandbox_id,
        name=metadata.get(CREATE_ID, ""),
        state=str(seen.state.value),
        labels=_labels(metadata),
        created_at=seen.started_at.timestamp(),
        expires_at=seen.end_at.timestamp(),
        applied=applied,
    )


def _egress(access: bool | None, deny: list[str], allowed: list[str], lifecycle: Mapping[str, Any]) -> str:
    """Return the egress in one word if everything is as it is sent, else all that was said."""
    said = f"allow_internet_access={access}, deny_out={deny}, allow_out={allowed}, lifecycle={dict(lifecycle)}"
    if lifecycle.get("onTimeout") != "kill" or lifecycle.get("autoResume") is not False:
        return said  # what ends, and then goes on, has no lifetime and no policy that anybody could count on
    if deny == [ALL]:
        wanted = None if allowed else False
        return "deny" if access is wanted or (allowed and access is None) else said
    return "allow" if access is True and not deny and not allowed else said


def _told(part: object) -> Mapping[str, Any]:
    """Return a part of the answer as it was said; nothing where it was left out."""
    to_dict = getattr(part, "to_dict", None)
    return {} if to_dict is None else to_dict()


def _metadata(value: object) -> Mapping[str, str]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _labels(metadata: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in metadata.items() if not key.startswith(OURS)}
