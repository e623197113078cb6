"""Tokens, nonces and names: what ties an answer to one probe of one run.

The canary derives the nonce from a secret that never enters a sandbox. So an answer can't be forged by the sandbox, by
its backend or by a proxy in between, and the runner checks it without asking anybody.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets

MAGIC = "sbxcanary"
ZONE = "sandboxio-contract.example"
HELLO = b"SBXC "
REPLY = b"SBXN "
_LABEL = re.compile(rf"{MAGIC}-([0-9a-f]{{16}})-([a-z0-9-]{{1,32}})", re.IGNORECASE)
_HELLO = re.compile(rb"SBXC ([0-9a-f]{16})\.([a-z0-9-]{1,32})\n")


def new_token() -> str:
    """Return a fresh token: 64 random bits in hexadecimal."""
    return secrets.token_hex(8)


def _digest(key: bytes, token: str, name: str) -> bytes:
    return hmac.new(key, f"{token}.{name}".encode(), hashlib.sha256).digest()


def nonce(key: bytes, token: str, name: str) -> str:
    """Return the answer that only the holder of `key` can give: 128 bits in hexadecimal."""
    return _digest(key, token, name)[:16].hex()


def nonce_address(key: bytes, token: str, name: str) -> str:
    """Return the nonce as an IPv6 address of the documentation range (96 bits), the form a resolver can carry."""
    return str(ipaddress.IPv6Address(bytes.fromhex("20010db8") + _digest(key, token, name)[:12]))


def question(token: str, name: str) -> str:
    """Return the name to look up; its first label begins with the magic that the guard matches on."""
    return f"{MAGIC}-{token}-{name}.{ZONE}"


def read_question(text: str) -> tuple[str, str] | None:
    """Return token and check of a looked-up name, or None if it isn't one of ours."""
    found = _LABEL.match(text.split(".", 1)[0])
    return (found[1].lower(), found[2].lower()) if found else None


def read_hello(data: bytes) -> tuple[str, str] | None:
    """Return token and check of the first line that a probe sends, or None if it isn't one of ours."""
    found = _HELLO.search(data)
    return (found[1].decode(), found[2].decode()) if found else None


def key_for(secret: bytes, role: str) -> bytes:
    """Return the key of one answering party, so that what is handed to a neighbour can't speak for the canary."""
    return hmac.new(secret, role.encode(), hashlib.sha256).digest()
