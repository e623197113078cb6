"""The labels by which containers and networks are known to be ours, and by whom they were made."""

from collections.abc import Mapping

from sandboxio.errors import ConfigurationError

PREFIX = "io.sandboxio."
MANAGED = f"{PREFIX}managed"
VERSION = f"{PREFIX}version"
CREATE_ID = f"{PREFIX}create-id"
EXPIRES = f"{PREFIX}expires"
"""Seconds since the epoch, by the owner's clock: when the sandbox ends."""
TRANSPORT = f"{PREFIX}transport"
ACCEPTS_VSOCK = f"{PREFIX}accepts-vsock"
"""Present where its maker accepted that vsock sockets may be possible."""
META = f"{PREFIX}meta."
MAX_META = 256 * 1024
"""Bytes of all metadata together. Docker names no limit; each listing of the engine carries all of them."""


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Refuse what Docker would change: its labels travel as JSON, so they are Unicode text.

    :raises ConfigurationError: naming the key; nothing is ever cut or replaced.
    """
    total = 0
    for key, value in metadata.items():
        try:
            size = len(key.encode()) + len(value.encode())
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"metadata[{key!r}] is no Unicode text, which is all that a Docker label carries",
                hint="encode it (base64) before you pass it",
            ) from None
        total += size
        if total > MAX_META:
            raise ConfigurationError(
                f"metadata[{key!r}] has {size} bytes; with the entries before it that is over {MAX_META}",
                hint="keep metadata to what finds the sandbox again",
            )


def make(
    create_id: str,
    version: str,
    transport: str,
    metadata: Mapping[str, str],
    hardening: Mapping[str, str] | None = None,
    *,
    accepts_vsock: bool = False,
) -> dict[str, str]:
    """Return the labels of a sandbox, all but `EXPIRES`, which is known when it is made.

    :param hardening: how its container differs from the usual one.
    """
    own = {MANAGED: "true", VERSION: version, CREATE_ID: create_id, TRANSPORT: transport, **(hardening or {})}
    if accepts_vsock:
        own[ACCEPTS_VSOCK] = "true"
    return own | {META + key: value for key, value in metadata.items()}


def is_ours(labels: Mapping[str, str], name: str) -> bool:
    """Whether this adapter made what carries these labels and this name.

    The name counts too: an image committed from a sandbox hands the sandbox's labels to every container made from it.
    """
    return labels.get(MANAGED) == "true" and labels.get(CREATE_ID) == name


def metadata_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's metadata."""
    return {key.removeprefix(META): value for key, value in labels.items() if key.startswith(META)}


def expiry_of(labels: Mapping[str, str]) -> float | None:
    """Return when the sandbox ends, seconds since the epoch; ``None`` if the label is unreadable."""
    try:
        return float(labels[EXPIRES])
    except (KeyError, ValueError):
        return None


def filters() -> dict[str, list[str]]:
    """Return the engine-side filter for all that is ours.

    Metadata is compared on this side: the engine's filter splits at ``=`` and has no exact form.
    """
    return {"label": [f"{MANAGED}=true"]}
