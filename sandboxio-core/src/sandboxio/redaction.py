"""Keep known secrets out of everything that leaves core: one place, upstream of every message."""

import base64
import html
import json
import re
import shlex
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from urllib.parse import quote

from sandboxio.errors import ProviderError, SandboxError, SandboxGone

MASK = "***"
SHORTEST = 4
"""Characters below which a value is not looked for: it would shred every text (`spec.check_secrets` refuses it)."""
_CUT = 8
"""Characters of a secret's beginning that count as the secret where a text was cut off."""
_CUT_MARKS = ("…", "...", "[...", "[…", "'...", '"...')
"""What programs write where they cut a text."""
_DEPTH, _NODES = 5, 2000
"""How far an exception's attributes are searched."""


class Redactor:
    """Replaces secrets in text: as they are, in base64, hex, URL-quoted and escaped, and cut where a text was cut."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {value for value in secrets if len(value) >= SHORTEST}
        self._forms = sorted({form for value in values for form in _forms(value) if len(form) >= SHORTEST})

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._forms)} forms>"

    def text(self, text: str) -> str:
        """Return ``text`` with every secret masked."""
        parts: list[str] = []
        end = 0
        for start, stop in self._found(text):
            parts += [text[end:start], MASK]
            end = stop
        return "".join([*parts, text[end:]])

    def holds_secret(self, text: str) -> bool:
        """Whether a secret stands in ``text``, in any form."""
        return bool(self._found(text))

    def error(self, error: SandboxError) -> SandboxError:
        """Mask the secrets in an error's own message, hint, reason and notes, in place."""
        error.message, error.hint = self.text(error.message), self.text(error.hint)
        error.args = (error.message,)
        if isinstance(error, SandboxGone):
            error.reason = self.text(error.reason)
        notes: list[str] = getattr(error, "__notes__", [])
        notes[:] = [self.text(str(note)) for note in notes]
        return error

    def cause(self, error: BaseException) -> BaseException:
        """Return ``error``, or where it holds a secret anywhere a redacted `ProviderError` in its place."""
        if not self._forms:
            return error
        try:
            shown = "".join(traceback.format_exception(error))
            held = self.holds_secret(shown) or any(self.holds_secret(text) for text in _texts(error))
        except Exception:  # noqa: BLE001 - what can't be looked through may hold a secret
            held = True
        return ProviderError(f"{type(error).__name__}: {self.text(safe_str(error))}") if held else error

    def _found(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets stand, in order, overlapping ones as one."""
        spans = sorted(span for form in self._forms for span in _spans(form, text))
        merged: list[tuple[int, int]] = []
        for start, end in spans:
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def safe_str(error: BaseException) -> str:
    """Return an exception's text, also of one whose own `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error about an error would hide both
        return "(its text can't be shown)"


def _spans(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where ``form`` stands in ``text``: whole anywhere, or its beginning where the text was cut."""
    head = form[:_CUT]
    start = text.find(head)
    while start >= 0:
        size = len(head)
        while size < len(form) and text.startswith(form[size], start + size):
            size += 1
        rest = text[start + size : start + size + 5]
        if size == len(form) or (size >= _CUT and (not rest or rest.startswith(_CUT_MARKS))):
            yield start, start + size
        start = text.find(head, start + 1)


def _texts(root: BaseException) -> Iterator[str]:
    """Yield the texts in an exception's arguments and attributes, those of its objects, and of its causes."""
    pending: deque[tuple[object, int]] = deque([(root, 0)])
    seen: dict[int, object] = {}
    while pending and len(seen) < _NODES:
        value, depth = pending.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, str):
            yield value
        elif isinstance(value, (bytes, bytearray)):
            yield value.decode("utf-8", "surrogateescape")
        elif depth < _DEPTH:
            pending.extend((inner, depth + 1) for inner in _inside(value))


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, BaseException):
        yield from (value.args, value.__cause__, value.__context__)
    if isinstance(value, Mapping):
        items: list[tuple[object, object]] = list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        for item in items:
            yield from item
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    elif not isinstance(value, (type, ModuleType, FunctionType, MethodType)):
        yield from vars(value).values() if hasattr(value, "__dict__") else ()


def _forms(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogateescape")
    yield from _escaped(value)
    yield from (data.hex(), data.hex().upper(), data.hex(" "), data.hex(":"))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data).decode().rstrip("=")
        yield from _base64_inside(encode, data)
    lines = [line for line in value.splitlines() if len(line) >= _CUT]
    if len(lines) > 1:  # tracebacks and quotes indent each line
        yield from lines


def _escaped(value: str) -> Iterator[str]:
    yield value
    for quoted in (quote(value, safe="", errors="replace"), quote(value, errors="replace")):
        yield from (quoted, _lower_percent(quoted), quoted.replace("%20", "+"))
    yield from (html.escape(value), shlex.quote(value), repr(value)[1:-1])
    yield repr(value.encode("utf-8", "surrogateescape"))[2:-1]
    once, plain = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (once, plain, once.replace("/", "\\/"))
    yield from (json.dumps(once)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1])


def _lower_percent(quoted: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), quoted)


def _base64_inside(encode: Callable[[bytes], bytes], data: bytes) -> Iterator[str]:
    """Yield the base64 text of ``data`` at each of the three places that it can have in a longer encoded text."""
    for shift in range(3):
        text = encode(b"\0" * shift + data).decode()
        start = (0, 2, 3)[shift]
        end = len(text.rstrip("=")) - (1 if (shift + len(data)) % 3 else 0)
        if end - start >= _CUT:
            yield text[start:end]
