"""Keep known secrets out of everything that leaves core: one place, upstream of every message."""

import base64
import json
import traceback
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from sandboxio.errors import ProviderError, SandboxError

MASK = "***"
_CUT = 8
"""Characters of a secret's beginning that count as the secret where a text was cut off."""


class Redactor:
    """Replaces secrets in text: as they are, in base64, hex, URL-quoted and JSON-escaped, and cut at a text's end."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {value for value in secrets if value}
        forms = {form for value in values for form in _forms(value)}
        # Longest first: a secret that begins like another must not leave its tail behind.
        self._forms = sorted(forms, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._forms)} forms>"

    def text(self, text: str) -> str:
        """Return ``text`` with every secret masked."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return self._cut(text)

    def holds_secret(self, text: str) -> bool:
        """Whether a secret stands in ``text``, in any form."""
        return any(form in text for form in self._forms) or self._cut(text) != text

    def error(self, error: SandboxError) -> SandboxError:
        """Mask the secrets in an error's own message, hint and notes, in place."""
        error.message, error.hint = self.text(error.message), self.text(error.hint)
        error.args = (error.message,)
        notes: list[str] = getattr(error, "__notes__", [])
        notes[:] = [self.text(note) for note in notes]
        return error

    def cause(self, error: BaseException) -> BaseException:
        """Return ``error``, or where it holds a secret anywhere a redacted `ProviderError` in its place."""
        shown = "".join(traceback.format_exception(error))
        attributes = "\n".join(f"{value!s}\n{value!r}" for value in vars(error).values())
        if not self.holds_secret(f"{shown}\n{attributes}\n{error.args!r}"):
            return error
        return ProviderError(f"{type(error).__name__}: {self.text(str(error))}")

    def _cut(self, text: str) -> str:
        for form in self._forms:
            for size in range(min(len(form) - 1, len(text)), _CUT - 1, -1):
                if text.endswith(form[:size]):
                    return text[:-size] + MASK
        return text


def _forms(value: str) -> Iterable[str]:
    data = value.encode("utf-8", "surrogateescape")
    yield value
    yield data.hex()
    yield data.hex().upper()
    yield quote(value, safe="", errors="replace")
    yield quote(value, errors="replace")
    yield quote_plus(value, errors="replace")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield from _base64(data)


def _base64(data: bytes) -> Iterable[str]:
    """Yield the base64 text of ``data`` at each of the three places that it can have in a longer encoded text."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            text = encode(b"\0" * shift + data).decode()
            start = (0, 2, 3)[shift]
            end = len(text.rstrip("=")) - (1 if (shift + len(data)) % 3 else 0)
            if end - start >= _CUT:
                yield text[start:end]
