"""Parts of secrets in a text that was cut: before the cut, after it, and between two."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

CUT = 8
"""Characters of a secret that count as the secret where a text was cut."""
_UNMARKED = 12
"""The same where a text only begins: nothing tells of a cut there, and a label or a host's name is no fragment."""
_WORDS = ("…", "...", "truncated", "TRUNCATED", "omitted", "snip")
_MARK = re.compile(r"…+|\.{3,}|truncated|TRUNCATED|omitted|snip(?:ped)?")
"""What programs write where they cut a text; the words tell quickly that there is none."""
_BEFORE = re.compile(r"""['"]?\s?[\[(<]?(?:[0-9]{1,9} \w{1,12} )?\Z""")
_AFTER = re.compile(r"""[\])>]?\s?['"]?""")
"""What stands around it, and may be the secret's own as well."""
_LONGEST = 28
"""Characters that can stand before it."""


class Forms(tuple[str, ...]):  # noqa: SLOT001 - a cached property needs a place
    """Forms of secrets, and where their pieces are in them."""

    @cached_property
    def _pieces(self) -> dict[str, list[tuple[str, int]] | None]:
        # Filled piece by piece: most are never asked for.
        return dict.fromkeys(form[place : place + CUT] for form in self for place in range(len(form) - CUT + 1))

    def holding(self, piece: str) -> Sequence[tuple[str, int]]:
        """Return the forms that hold `CUT` characters, and where; quickly where there are none, as is usual."""
        if piece not in self._pieces:
            return ()
        known = self._pieces[piece]
        if known is None:
            known = [(form, place) for form in self for place in range(len(form)) if form.startswith(piece, place)]
            self._pieces[piece] = known
        return known


def cut(forms: Forms, text: str) -> Iterator[tuple[int, int]]:
    """Yield where parts of forms stand that were cut: before a cut of ``text``, after one, and between two."""
    starts, ends = _cuts(text)
    for end in ends:
        for form, place in forms.holding(text[max(0, end - CUT) : end]):
            if text.endswith(form[: place + CUT], 0, end):
                yield end - place - CUT, end
    for start in starts:
        for form, place in forms.holding(text[start : start + CUT]):
            size = _common(form, place, text, start)
            at = bisect_left(ends, start + CUT)
            is_cut = place + size == len(form) or (at < len(ends) and ends[at] <= start + size)
            if is_cut and size >= (CUT if start else _UNMARKED):
                yield start, start + size


def _cuts(text: str) -> tuple[list[int], list[int]]:
    """Return in order where a text may go on after a cut, and where it may end before one."""
    starts, ends = {0}, {len(text)}
    if any(word in text for word in _WORDS):
        for mark in _MARK.finditer(text):
            before = _BEFORE.search(text, max(0, mark.start() - _LONGEST), mark.start())
            after = _AFTER.match(text, mark.end())
            ends.update(range(before.start() if before else mark.start(), mark.start() + 1))
            starts.update(range(mark.end(), (after.end() if after else mark.end()) + 1))
    return sorted(starts), sorted(ends)


def _common(form: str, place: int, text: str, start: int) -> int:
    """Return how many characters a form from ``place`` on and a text from ``start`` on have in common."""
    size, most = CUT, min(len(form) - place, len(text) - start)
    while size < most and form[place + size] == text[start + size]:
        size += 1
    return size
