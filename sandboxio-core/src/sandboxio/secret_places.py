"""Where forms of secrets stand in a text, also below what was escaped, wrapped or cut there."""

from collections.abc import Iterable, Iterator

from sandboxio.escaping import layers
from sandboxio.secret_cuts import Forms, cut


def found(forms: Forms, text: str) -> list[tuple[int, int]]:
    """Return where forms stand in ``text``, whole or cut, also where it has to be read first; they may overlap."""
    return [
        span for layer in layers(text) for span in layer.outside([*whole(forms, layer.text), *cut(forms, layer.text)])
    ]


def found_whole(forms: Forms, text: str) -> bool:
    """Return whether a form stands in ``text`` as a whole, also where it has to be read first."""
    return any(form in layer.text for layer in layers(text) for form in forms)


def whole(forms: Iterable[str], text: str) -> list[tuple[int, int]]:
    """Return where forms stand in ``text`` as a whole, in order; they may overlap."""
    return sorted((start, start + len(form)) for form in forms if form in text for start in _starts(form, text))


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
