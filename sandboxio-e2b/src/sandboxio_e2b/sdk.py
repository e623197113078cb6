"""The SDK, imported when it is first used, and called in core's bridge loop.

`Account` is everything that this adapter asks of the control API. Nothing is read from the environment but the key: the
address, the domain and the mode are always given.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sandboxio.errors import ConfigurationError

from sandboxio_e2b.config import DEFAULT_DOMAIN, KEY, KNOWN_DOMAINS, E2BConfig
from sandboxio_e2b.errors import Garbled, NoKey, UnknownTemplate

if TYPE_CHECKING:
    from e2b import AsyncSandbox, SandboxInfo
    from e2b.api.client.models.sandbox_detail import SandboxDetail
    from e2b.api.client.models.template import Template

T = TypeVar("T")

ANSWER = 60.0
"""Seconds after which the SDK gives a request up; it may take twice as long to (e2b-dev/E2B#1881). Core's own bounds hold."""
LATE_LOOKS, LATE_PAUSE = 20, 0.5
"""How often, and how many seconds apart, a creation whose answer was an error is looked for."""
_NONSENSE = (ValueError, KeyError, TypeError, AttributeError, LookupError)
_making: dict[str, "asyncio.Future[AsyncSandbox]"] = {}
"""What is being made, by its create id: it goes on although nobody waits any more."""


class Account:
    """One account on one server. Its coroutines run in the bridge's loop."""

    def __init__(self, config: E2BConfig) -> None:
        self._config = config

    def options(self) -> dict[str, Any]:
        """Return what every call of the SDK is given. :raises NoKey: there is none."""
        given = self._config.api_key
        key = given.get_secret_value() if given is not None else os.environ.get(KEY)
        if not key:
            raise NoKey
        domain = self._config.domain or DEFAULT_DOMAIN
        return {
            "api_key": key,
            "domain": domain,
            "api_url": self._config.api_url or f"https://api.{domain}",
            "sandbox_url": self._sandbox_url(domain),
            # Its mode for tests answers without asking anybody, and takes no notice of policies.
            "debug": False,
            "request_timeout": ANSWER,
        }

    def _sandbox_url(self, domain: str) -> str | None:
        if self._config.sandbox_url is not None:
            return self._config.sandbox_url
        if domain in KNOWN_DOMAINS:
            return f"https://sandbox.{domain}"
        if os.environ.get("E2B_SANDBOX_URL"):  # the SDK would go by it where it is given none
            raise ConfigurationError(
                "E2B_SANDBOX_URL is set, and not looked at here", hint="unset it, or name the address as sandbox_url="
            )
        return None

    async def create(self, parameters: Mapping[str, Any]) -> "AsyncSandbox":
        """Make a sandbox. Who is cancelled meanwhile leaves the request going on: what it makes has to be ended."""
        options = self.options()

        async def make() -> "AsyncSandbox":
            from e2b import AsyncSandbox

            return await understood(AsyncSandbox.create(**parameters, **options))

        making = asyncio.ensure_future(make())
        create_id = str(parameters.get("idempotency_key"))
        _making[create_id] = making
        making.add_done_callback(lambda _: _making.pop(create_id, None))
        making.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody may wait for it any more
        return await asyncio.shield(making)

    async def end_what_was_made(self, create_id: str, label: str) -> None:
        """Wait for what is being made, and end the sandbox that carries ``create_id`` in its metadata."""
        if create_id in _making:
            await asyncio.wait([_making[create_id]])
        for _ in range(LATE_LOOKS):
            with suppress(Exception):
                found = [one async for one in self.listed({label: create_id})]
                for one in found:
                    await self.kill(one.sandbox_id)
                if found:
                    return
            await asyncio.sleep(LATE_PAUSE)

    async def kill(self, sandbox_id: str) -> bool:
        """End a sandbox, running or paused; false if there is none."""
        from e2b import AsyncSandbox

        return await understood(cast("Any", AsyncSandbox)._cls_kill(sandbox_id, **self.options()))

    async def detail(self, sandbox_id: str) -> "SandboxDetail | None":
        """Return all that is told of a sandbox, without any effect on it; ``None`` if there is none."""
        from e2b.api.client.api.sandboxes import get_sandboxes_sandbox_id
        from e2b.api.client.models.sandbox_detail import SandboxDetail
        from e2b.exceptions import SandboxNotFoundException

        try:
            answer = await self._asked(get_sandboxes_sandbox_id.asyncio_detailed, sandbox_id)
        except SandboxNotFoundException:
            return None
        return answer if isinstance(answer, SandboxDetail) else _garbled("a sandbox")

    async def listed(self, metadata: Mapping[str, str]) -> "AsyncGenerator[SandboxInfo]":
        """Iterate over the sandboxes that carry all of ``metadata``, running and paused."""
        from e2b import AsyncSandbox, SandboxQuery, SandboxState

        query = SandboxQuery(metadata=dict(metadata), state=[SandboxState.RUNNING, SandboxState.PAUSED])
        pages = AsyncSandbox.list(query=query, **self.options())
        while pages.has_next:
            for one in await understood(pages.next_items()):
                yield one

    async def template(self, name: str) -> "Template":
        """Return what is told of a template: one of the account's, or of the provider's own.

        :raises UnknownTemplate: the account can look at none of that name.
        """
        from e2b.api import encode_path_param
        from e2b.api.client.api.templates import get_default_templates, get_templates_template_id
        from e2b.exceptions import SandboxException, SandboxNotFoundException

        for one in cast("list[Template]", await self._asked(get_default_templates.asyncio_detailed)):
            if name in (one.template_id, *one.aliases, *one.names):
                return one
        try:
            return cast(
                "Template", await self._asked(get_templates_template_id.asyncio_detailed, encode_path_param(name))
            )
        except SandboxException as error:
            missing = isinstance(error, SandboxNotFoundException)
            if missing or getattr(error, "status_code", None) in (400, 403):  # another team's
                raise UnknownTemplate(name) from error
            raise

    async def attach(self, detail: "SandboxDetail") -> "AsyncSandbox":
        """Return the SDK's object for a sandbox that runs, without resuming or extending it as its ``connect`` does."""
        from e2b import AsyncSandbox, ConnectionConfig
        from packaging.version import Version

        token = detail.envd_access_token if isinstance(detail.envd_access_token, str) else None
        domain = detail.domain if isinstance(detail.domain, str) else None
        headers = {"E2b-Sandbox-Id": detail.sandbox_id, "E2b-Sandbox-Port": str(ConnectionConfig.envd_port)}
        if token is not None:
            headers["X-Access-Token"] = token
        return AsyncSandbox(
            sandbox_id=detail.sandbox_id,
            sandbox_domain=domain,
            envd_version=Version(detail.envd_version),
            envd_access_token=token,
            traffic_access_token=None,
            connection_config=ConnectionConfig(extra_sandbox_headers=headers, **self.options()),
        )

    async def _asked(self, ask: Callable[..., Coroutine[Any, Any, Any]], *arguments: object) -> Any:
        from e2b import ConnectionConfig
        from e2b.api import client_async, handle_api_exception
        from e2b.exceptions import SandboxNotFoundException

        client = cast("Any", client_async).get_api_client(ConnectionConfig(**self.options()))
        answer = await understood(ask(*arguments, client=client))
        if answer.status_code == 404:
            raise SandboxNotFoundException("404")
        if answer.status_code >= 300:
            raise cast("Exception", handle_api_exception(answer))
        return answer.parsed if answer.parsed is not None else _garbled("anything")


def _garbled(what: str) -> Any:
    raise Garbled(f"it does not describe {what}")


async def understood(work: Coroutine[Any, Any, T]) -> T:
    """Await a call of the SDK's whose answer it may fail to read. :raises Garbled: it does."""
    try:
        return await work
    except _NONSENSE as error:
        raise Garbled(type(error).__name__) from error
    except Exception as error:
        if type(error) is Exception:  # so it says that an answer had no body
            raise Garbled(str(error)) from error
        raise
