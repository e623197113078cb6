"""The forms that a secret takes in a text."""

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Iterator
from urllib.parse import quote

SHORTEST = 4
"""Characters below which a value is not looked for: it would shred every text (`spec.check_secrets` refuses it)."""
WORD = 8
"""Characters below which a value is looked for in its own case only: a short word is found everywhere."""
_SAFE = ("", "/", "!'()*", "!$&'()*+,;=:@", "!$&'()*+,;=:@/", "!#$&'()*+,/:;=?@")
"""What URL quoting leaves as it is: Python's, JavaScript's, RFC 3986's for a segment and a path, a whole URL's."""
_SCRIPT = tuple(str.maketrans({sign: f"\\u{ord(sign):04{case}}" for sign in "<>&'"}) for case in "xX")
"""What JSON that may stand in a page escapes, too: Go's encoder in lower case, PHP's and .NET's in upper case."""
_WIDTHS = (76, 64)
"""Columns of base64 with line breaks: MIME's and `base64`'s, PEM's."""


def forms_of(value: str) -> Iterator[str]:
    """Yield ``value`` as it is, in other cases, base64, base32, hex, URL-quoted, escaped, misread, and its lines."""
    data = bytes_of(value)
    yield from _escaped(value)
    yield from _misread(value, data)
    for digits in (data.hex(), data.hex(" "), data.hex(":")):
        yield from (digits, digits.upper())
    yield from _encoded(value, data)
    # Tracebacks and quotes indent each line; a line of blanks or dashes says nothing, and stands in every table.
    lines = (line.strip() for line in value.splitlines())
    yield from (line for line in lines if len(line) >= WORD and len(set(line)) > 1)
    if len(value) >= WORD:  # header names and host names are lower-cased, names of variables upper-cased
        yield from (value.lower(), value.upper())


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text; what `os.fsdecode` made comes back as it was, half a character as its own code."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _escaped(value: str) -> Iterator[str]:
    yield value
    for safe in _SAFE:
        quoted = quote(value, safe=safe, errors="replace")
        yield from (quoted, _lower_percent(quoted), quoted.replace("%20", "+"), quote(quoted, safe=safe))
    yield from (shlex.quote(value), re.escape(value), repr(value)[1:-1], ascii(value)[1:-1])
    yield repr(bytes_of(value))[2:-1]
    # A quote inside of quotes: in what `sh -x` shows, in SQL, YAML and PowerShell, in CSV.
    yield from (value.replace("'", "'\\''"), value.replace("'", "''"), value.replace('"', '""'))
    once, plain = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (once, plain, once.replace("/", "\\/"))
    yield from (json.dumps(once)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1])
    yield from (text.translate(signs) for text in (once, plain) for signs in _SCRIPT)
    page = html.escape(value)
    short = page.replace("&#x27;", "&#39;")  # as most template engines do, and Go's with the other quote, too
    yield from (page, short, short.replace("&quot;", "&#34;"), html.escape(value, quote=False))


def _misread(value: str, data: bytes) -> Iterator[str]:
    """Yield what is shown where not UTF-8 is expected: HTTP headers, programs under ``LANG=C``, git and bash."""
    yield from (
        data.decode("latin-1"),
        data.decode("ascii", "surrogateescape"),
        data.decode("ascii", "backslashreplace"),
    )
    yield value.encode("ascii", "backslashreplace").decode()
    shown = data.replace(b"\\", b"\\\\").decode("latin-1")
    yield "".join(sign if " " <= sign <= "~" else f"\\{ord(sign):03o}" for sign in shown)


def _lower_percent(quoted: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), quoted)


def _encoded(value: str, data: bytes) -> Iterator[str]:
    # What stands in JSON stands escaped in what is made of that, the payload of a JWT for one.
    # What was made for Windows is UTF-16 below its base64, PowerShell's commands for one.
    texts = {data, *(value.encode(name, "surrogatepass") for name in ("utf-16-le", "utf-16-be"))}
    texts |= {bytes_of(json.dumps(value, ensure_ascii=plain)[1:-1]) for plain in (True, False)}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(data).decode()
        yield text.rstrip("=")
        for width in _WIDTHS:
            lines = [text[start : start + width] for start in range(0, len(text), width)]
            yield from ("\n".join(lines), "\r\n".join(lines))
        for each in texts:
            yield from _inside(encode, each, 3, 6)
    short = base64.b32encode(data).decode().rstrip("=")
    for text in (short, *_inside(base64.b32encode, data, 5, 5)):
        yield from (text, text.lower())


def _inside(encode: Callable[[bytes], bytes], data: bytes, group: int, bits: int) -> Iterator[str]:
    """Yield the text of ``data`` at each place that it can have in a longer encoded one: what no neighbour changes."""
    for shift in range(group):
        text = encode(b"\0" * shift + data).decode()
        yield text[-(-8 * shift // bits) : 8 * (shift + len(data)) // bits]
