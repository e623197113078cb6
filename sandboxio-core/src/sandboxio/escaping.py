"""A text as it was before others escaped or wrapped it, and where its characters stand in what they made of it."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

_READABLE = re.compile(
    r"""\\\\{0,3}u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\{1,4}u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | \\\\{0,3}u(?P<unit>[0-9a-fA-F]{4})
    | \\\\{0,3}x(?P<byte>[2-7][0-9a-fA-F])
    | %(?P<quoted>[2-7][0-9a-fA-F])
    | &(?: \#(?P<number>[0-9]{1,7}) | \#[xX](?P<digits>[0-9a-fA-F]{1,6}) | (?P<name>amp|lt|gt|quot|apos) );
    | (?: \n(?<=[A-Za-z0-9+/_-]{16}\n) | \r\n(?<=[A-Za-z0-9+/_-]{16}\r\n)
        | \\n(?<=[A-Za-z0-9+/_-]{16}\\n) | \\r\\n(?<=[A-Za-z0-9+/_-]{16}\\r\\n) ) [ \t]* (?=[A-Za-z0-9+/_=-])
    | \\(?P<sign>[ -/:-@\[-`{-~])""",
    re.VERBOSE,
)
"""Characters that any writer may have escaped, whichever it chose, and the line breaks of wrapped encodings."""
_NAMES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
WIDEST = 10
"""Characters that stand for one at most: ``&#x10FFFF;``."""
_LAYERS = 2
"""How often a text is read: what was escaped may have been escaped again."""


class Layer:
    """A text that was read from another.

    :param below: what it was read from; ``None``: nothing, it is the outermost.
    :param inner: places of this text, in order, between which nothing was changed.
    :param outer: the same places in the text below.
    """

    def __init__(
        self, text: str, below: "Layer | None" = None, inner: Sequence[int] = (), outer: Sequence[int] = ()
    ) -> None:
        self.text = text
        self._below, self._inner, self._outer = below, inner, outer

    def outside(self, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return spans of this text as spans of the outermost one."""
        if self._below is None:
            return list(spans)
        return self._below.outside((self._start(start), self._end(end)) for start, end in spans)

    def _start(self, place: int) -> int:
        before = bisect_right(self._inner, place) - 1
        return self._outer[before] + place - self._inner[before]

    def _end(self, place: int) -> int:
        at = bisect_left(self._inner, place)
        if at < len(self._inner) and self._inner[at] == place:
            return self._outer[at]
        return self._outer[at - 1] + place - self._inner[at - 1]


def layers(text: str) -> Iterator[Layer]:
    """Yield a text as it is, and then as it is read for as long as something in it is escaped or wrapped."""
    layer: Layer | None = Layer(text)
    for _ in range(_LAYERS + 1):
        if layer is None:
            return
        yield layer
        layer = _read(layer)


def _read(below: Layer) -> Layer | None:
    parts: list[str] = []
    inner, outer = [0], [0]
    for match in _READABLE.finditer(below.text):
        before, character = below.text[outer[-1] : match.start()], _character(match)
        parts += (before, character)
        start = inner[-1] + len(before)
        inner += (start, start + len(character))
        outer += match.span()
    if not parts:
        return None
    parts.append(below.text[outer[-1] :])
    return Layer("".join(parts), below, inner, outer)


def _character(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind is None:  # a line break
        return ""
    if kind == "sign":
        return match["sign"]
    if kind == "name":
        return _NAMES[match["name"]]
    if kind == "low":
        return chr(0x10000 + ((int(match["high"], 16) & 0x3FF) << 10) + (int(match["low"], 16) & 0x3FF))
    code = int(match[kind], 10 if kind == "number" else 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"
