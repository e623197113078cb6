"""The table from what the SDK, the connection and the engine say to what sandboxio raises."""

import os
import sys
from http import HTTPStatus
from pathlib import Path

import anyio
import requests
from docker.errors import APIError, DockerException, ImageNotFound
from sandboxio.errors import (
    AuthError,
    BackendUnavailable,
    ConfigurationError,
    ConnectError,
    CreationError,
    RateLimitError,
    SandboxError,
    SandboxGone,
)

from sandboxio_docker import ssh_hints
from sandboxio_docker.endpoint import Endpoint
from sandboxio_docker.engine import EngineSilent
from sandboxio_docker.reaper import ReaperUnavailable
from sandboxio_docker.wire import EngineAnswer

IMAGE_NAME = "the image's name, which follows docker:// in the target, or is given in template="
CONNECTION_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


def map_error(error: BaseException, endpoint: Endpoint) -> SandboxError | None:
    """Translate an exception; ``None`` if neither the engine nor its connection raised it."""
    if isinstance(error, SandboxError):
        return error
    answer = answer_of(error)
    if answer is not None:
        return _from_answer(error, *answer)
    if isinstance(error, ReaperUnavailable):
        return BackendUnavailable(f"the host-side reaper can't be armed: {error}", hint=_reaper_hint(endpoint))
    if isinstance(error, CONNECTION_LOST):
        return ConnectError(
            f"the connection to the Docker engine was lost: {error}", hint="see whether the engine restarted"
        )
    if isinstance(error, (requests.RequestException, DockerException, OSError, EngineSilent)):
        return unavailable(endpoint, error)
    return None


def answer_of(error: BaseException) -> tuple[int, str] | None:
    """Return status and message if the engine answered, whichever client asked."""
    if isinstance(error, EngineAnswer):
        return error.status, error.message
    if isinstance(error, APIError) and error.response is not None:
        return error.response.status_code, str(error.explanation or error)
    return None


def is_gone(error: BaseException) -> bool:
    """Whether the container does not exist any more, or is being removed at this moment.

    Only these two: 409 also means paused, or stopped, which is not gone (docker-maven-plugin #1967).
    """
    status, message = answer_of(error) or (0, "")
    if status == HTTPStatus.NOT_FOUND:
        return not isinstance(error, ImageNotFound)
    return status == HTTPStatus.CONFLICT and "removal of container" in message and "in progress" in message


def unavailable(endpoint: Endpoint, error: BaseException) -> BackendUnavailable:
    """Say that the engine does not answer, and how to start it."""
    why = _innermost(error)
    return BackendUnavailable(
        f"no Docker engine answers at {endpoint.base_url}: {why}", hint=_start_hint(endpoint, why)
    )


def _from_answer(error: BaseException, status: int, message: str) -> SandboxError:
    lower = message.lower()
    if "invalid reference format" in lower:
        fix = "write it in lower case" if "must be lowercase" in lower else "write [REGISTRY/]NAME[:TAG]"
        return ConfigurationError(f"that is no image's name: {message}", hint=f"{fix}: {IMAGE_NAME}")
    if isinstance(error, ImageNotFound):
        return CreationError(f"the Docker engine has no such image: {message}", hint=f"check {IMAGE_NAME}")
    if is_gone(error) or (status == HTTPStatus.CONFLICT and "is not running" in lower):
        return SandboxGone(f"the container is gone: {message}")
    if status == HTTPStatus.CONFLICT and "is paused" in lower:
        return ConnectError(f"the container is paused: {message}", hint="docker unpause it, or kill the sandbox")
    if status == HTTPStatus.TOO_MANY_REQUESTS or "toomanyrequests" in lower:
        return RateLimitError(f"the registry asks to slow down: {message}", hint="log in to it, or wait")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return AuthError(
            f"the Docker engine refused: {message}", hint="check docker login and the engine's authorization"
        )
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return BackendUnavailable(f"the Docker engine is not ready: {message}", hint="wait until it has started")
    return CreationError(f"the Docker engine answered {status}: {message}", hint="see the engine's log for the reason")


def _innermost(error: BaseException) -> str:
    """Return the message of the deepest cause: the SDK wraps a refused connection four times."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        error = error.__cause__ or inner or (None if error.__suppress_context__ else error.__context__) or error
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _reaper_hint(endpoint: Endpoint) -> str:
    if endpoint.ssh_command is None:
        return "see what ends child processes here"
    return (
        "the reaper outlives this process, so ssh must get through with PATH, HOME, USER, LOGNAME and SSH_AUTH_SOCK alone:"
        " use a key and ~/.ssh/config for it"
    )


def _start_hint(endpoint: Endpoint, why: str) -> str:
    if endpoint.ssh_command is not None:
        return ssh_hints.fix(endpoint, why)
    if "CERTIFICATE" in why:
        return "check DOCKER_CERT_PATH (ca.pem, cert.pem, key.pem), or the Docker context's TLS files"
    if endpoint.socket_path is not None and not Path(endpoint.socket_path).exists() and os.environ.get("DOCKER_HOST"):
        return "there is no such socket: correct or unset DOCKER_HOST, or start the engine there"
    if not endpoint.is_local:
        return f"check that the engine at {endpoint.base_url} runs and can be reached, or unset DOCKER_HOST"
    if "ermission denied" in why:
        return "add yourself to the group that owns the socket (sudo usermod -aG docker $USER; log in again)"
    if sys.platform == "linux":
        return "start it: sudo systemctl start docker (install: https://docs.docker.com/engine/install/)"
    return "start Docker Desktop (or colima start), or set DOCKER_HOST"
