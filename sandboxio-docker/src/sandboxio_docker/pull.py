"""Fetch a missing image: awaited, so that a cancelled pull really ends."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from docker import auth
from docker.errors import ImageNotFound
from docker.utils import parse_repository_tag
from sandboxio.errors import CreationError, RateLimitError
from sandboxio.port import Progress

from sandboxio_docker.engine import Engine
from sandboxio_docker.errors import IMAGE_NAME
from sandboxio_docker.sdk import Sdk
from sandboxio_docker.wire import EngineAnswer, ask


async def ensure_image(engine: Engine, template: str, progress: Progress) -> None:
    """Make the image present on the engine.

    :raises CreationError: naming the image and the engine's answer.
    """
    if await engine.call(lambda client: _is_present(client, template)):
        return
    progress(f"pulling {template}")
    headers = await engine.call(lambda client: _credentials(client, template))
    repository, tag = parse_repository_tag(template)
    query = {"fromImage": repository, "tag": tag or "latest"}
    try:
        answer = await ask(await engine.negotiated(), "POST", "/images/create", query, headers=headers)
    except EngineAnswer as error:
        raise failed(template, error.message) from error
    try:
        seen: dict[str, str] = {}
        async with aclosing(answer.lines()) as lines:
            async for line in lines:
                _report(template, json.loads(line), seen, progress)
    finally:
        # Closing the connection is what ends a pull that nobody waits for.
        await answer.aclose()


def failed(template: str, message: str) -> CreationError | RateLimitError:
    """Return the error for an image that could not be fetched."""
    text = f"the image {template} could not be pulled: {message}"
    if "toomanyrequests" in message.lower():
        return RateLimitError(text, hint="docker login to the registry, or pull the image ahead of time")
    return CreationError(
        text,
        hint=f"check {IMAGE_NAME}; for a private image docker login on this machine; offline: docker load it",
    )


def _is_present(client: Sdk, template: str) -> bool:
    try:
        client.inspect_image(template)
    except ImageNotFound:
        return False
    return True


def _credentials(client: Sdk, template: str) -> Mapping[str, str]:
    # As `docker pull` finds them; a credential helper may be a program of its own, hence the worker thread.
    registry, _ = auth.resolve_repository_name(parse_repository_tag(template)[0])
    header: bytes | None = auth.get_config_header(client, registry)  # pyright: ignore[reportUnknownMemberType]
    return {"X-Registry-Auth": header.decode()} if header else {}


def _report(template: str, event: dict[str, Any], seen: dict[str, str], progress: Progress) -> None:
    """Pass on each step of each layer once, without its moving bar."""
    # Newer engines leave "error" out in favour of the other (moby's API history, v1.48).
    if event.get("error") or event.get("errorDetail"):
        detail: Any = event.get("errorDetail") or {}
        raise failed(template, str(event.get("error") or detail.get("message")))
    layer, status = str(event.get("id", "")), str(event.get("status", ""))
    if status and seen.get(layer) != status:
        seen[layer] = status
        progress(f"{layer}: {status}" if layer else status)
