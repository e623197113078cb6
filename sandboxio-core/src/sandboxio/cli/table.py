"""Plain-text tables for terminals."""

import textwrap
from collections.abc import Sequence


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return rows in columns, cells wrapped so that a line stays within ``width`` characters."""
    widths = _column_widths([header, *rows], width)
    rule = "  ".join("-" * column for column in widths)
    lines = [_line(header, widths), rule]
    for row in rows:
        lines.append(_line(row, widths))
    return "\n".join(lines)


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    wanted = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    room = width - 2 * (len(wanted) - 1)
    # The widest columns give way first; none gets narrower than ten characters.
    while sum(wanted) > room and max(wanted) > 10:
        wanted[wanted.index(max(wanted))] -= 1
    return wanted


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    height = max(len(cell) for cell in cells)
    padded = [[*cell, *[""] * (height - len(cell))] for cell in cells]
    lines = zip(*padded, strict=True)
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
