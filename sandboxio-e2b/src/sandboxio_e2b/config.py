"""The typed configuration of the E2B adapter."""

import re
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import SecretStr, field_validator
from sandboxio.target import BackendConfig

DEFAULT_TEMPLATE = "base"
DEFAULT_DOMAIN = "e2b.app"
KNOWN_DOMAINS = ("e2b.app", "e2b.dev")
"""The provider's own domains: only for these does what it documents about isolation hold."""
KEY = "E2B_API_KEY"

_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")


class E2BConfig(BackendConfig):
    """Which account, server and template.

    ``template`` is a template's name or id, `DEFAULT_TEMPLATE` if it is ``None``. Where the key goes is decided here alone:
    ``E2B_DOMAIN``, ``E2B_API_URL``, ``E2B_SANDBOX_URL`` and ``E2B_DEBUG`` are not looked at.
    """

    backend: ClassVar[str] = "e2b"
    api_key: SecretStr | None = None
    """The account's key; ``None`` = ``E2B_API_KEY``."""
    domain: str | None = None
    """The domain of a server that speaks E2B's protocol; ``None`` = ``e2b.app``. Of any but E2B's own the isolation is unknown."""
    api_url: str | None = None
    """The control API's address, where that is not ``https://api.DOMAIN``."""
    sandbox_url: str | None = None
    """The address for all sandboxes, where that is not under the domain."""

    @field_validator("domain")
    @classmethod
    def _possible_domain(cls, value: str | None) -> str | None:
        if value is not None and not _DOMAIN.match(value):
            raise ValueError("a domain is wanted, such as e2b.app")
        return value

    @field_validator("api_url", "sandbox_url")
    @classmethod
    def _possible_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            whole = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
            own = parts.username is None and parts.password is None
            local = parts.scheme == "https" or parts.hostname in ("127.0.0.1", "::1", "localhost")
        except ValueError:  # whose text holds the value
            whole = own = local = False
        if not (whole and own):
            raise ValueError("an address is wanted, such as https://api.example.com, without user and password")
        if not local:
            raise ValueError("the key would cross the network unencrypted: use https")
        return value

    @property
    def is_own_server(self) -> bool:
        """Whether it is one of the provider's own, by name."""
        return (self.domain or DEFAULT_DOMAIN) in KNOWN_DOMAINS and self.api_url is None and self.sandbox_url is None
