"""The forms that a secret takes in a text, and where they stand there."""

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

SHORTEST = 4
"""Characters below which a value is not looked for: it would shred every text (`spec.check_secrets` refuses it)."""
CUT = 8
"""Characters of a secret's beginning or end that count as the secret where a text was cut."""
_SAFE = ("", "/", "!'()*", "!$&'()*+,;=:@", "!$&'()*+,;=:@/", "!#$&'()*+,/:;=?@")
"""What URL quoting leaves as it is: Python's, JavaScript's, RFC 3986's for a segment and a path, a whole URL's."""
_MARKS = ("…", "...", "[...", "[…", "'...", '"...')
_MARKS_BEFORE = ("…", "...", "...]", "…]", "...'", '..."')
"""What programs write where they cut a text, before and after the cut."""


def forms_of(value: str) -> Iterator[str]:
    """Yield ``value`` as it is, in lower case, base64, hex, URL-quoted, escaped, and its lines."""
    data = value.encode("utf-8", "surrogateescape")
    yield from _escaped(value)
    for digits in (data.hex(), data.hex(" "), data.hex(":")):
        yield from (digits, digits.upper())
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data).decode().rstrip("=")
        yield from _base64_inside(encode, data)
    lines = [line for line in value.splitlines() if len(line) >= CUT]
    if len(lines) > 1:  # tracebacks and quotes indent each line
        yield from lines
    if len(value) >= CUT:  # header names and host names are lower-cased; a short word would be found everywhere
        yield value.lower()


def _escaped(value: str) -> Iterator[str]:
    yield value
    for safe in _SAFE:
        quoted = quote(value, safe=safe, errors="replace")
        yield from (quoted, _lower_percent(quoted), quoted.replace("%20", "+"), quote(quoted, safe=safe))
    yield from (html.escape(value), shlex.quote(value), repr(value)[1:-1], ascii(value)[1:-1])
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
        if end - start >= SHORTEST:
            yield text[start:end]


def whole(forms: Iterable[str], text: str) -> list[tuple[int, int]]:
    """Return where forms stand in ``text`` as a whole, in order; they may overlap."""
    return sorted((start, start + len(form)) for form in forms for start in _starts(form, text))


def cut(forms: Iterable[str], text: str) -> list[tuple[int, int]]:
    """Return where forms stand that were cut: the beginning before a cut of ``text``, the end after one."""
    spans: list[tuple[int, int]] = []
    for form in forms:
        if len(form) > CUT:
            spans += _before_a_cut(form, text)
            spans += _after_a_cut(form, text)
    return spans


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, overlapping ones as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def unfinished(forms: Iterable[str], text: str) -> int:
    """Return where the longest end of ``text`` begins with which a form may begin; its length if there is none."""
    first = len(text)
    for form in forms:
        # A form that stands here as a whole is decided; only a longer one than what is left can still come.
        start = text.find(form[:1], max(0, len(text) - len(form) + 1))
        while 0 <= start < first:
            if form.startswith(text[start:]):
                first = start
            start = text.find(form[:1], start + 1)
    return first


def _starts(form: str, text: str) -> Iterator[int]:
    start = text.find(form)
    while start >= 0:
        yield start
        start = text.find(form, start + 1)


def _before_a_cut(form: str, text: str) -> Iterator[tuple[int, int]]:
    for start in _starts(form[:CUT], text):
        size = CUT
        while size < len(form) and text.startswith(form[size], start + size):
            size += 1
        rest = text[start + size : start + size + 5]
        if not rest or rest.startswith(_MARKS):
            yield start, start + size


def _after_a_cut(form: str, text: str) -> Iterator[tuple[int, int]]:
    for found in _starts(form[-CUT:], text):
        start, end = found, found + CUT
        while start > 0 and end - start < len(form) and text[start - 1] == form[start - 1 - end]:
            start -= 1
        if text[max(0, start - 5) : start].endswith(_MARKS_BEFORE):
            yield start, end
