"""The figures as a table of ratios."""

from collections.abc import Iterable, Sequence

from benchmarks.figure import CONTENDERS, OURS, Figure, Outcome

HEAD = ("#", "figure (medians)", *CONTENDERS, "goal", "verdict")


def render(figures: Sequence[Figure]) -> str:
    """Return a Markdown table; in brackets our median as a multiple of the other's."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(_row(figure) for figure in figures)]
    notes = [f"{figure.key or figure.title}: {note}" for figure in figures for note in figure.notes]
    return "\n".join([*_lines(rows), "", *notes]) + "\n"


def _lines(rows: Iterable[Sequence[str]]) -> list[str]:
    table = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]


def _row(figure: Figure) -> tuple[str, ...]:
    cells = (_cell(figure, name) for name in CONTENDERS)
    outcomes = figure.outcomes()
    goal = ", ".join(str(one.goal) for one in outcomes)
    return (figure.key, f"{figure.title}, {figure.unit}", *cells, goal, ", ".join(_verdict(one) for one in outcomes))


def _cell(figure: Figure, name: str) -> str:
    value = figure.median(name)
    if value is None:
        return "–"
    ratio = None if name == OURS else figure.ratio(name)
    return show(value) + (f" ({show(ratio)}×)" if ratio is not None else "")


def _verdict(outcome: Outcome) -> str:
    if outcome.measured is None:
        return "not measured"
    return f"{'met' if outcome.met else 'NOT MET'} ({show(outcome.measured)})"


def show(value: float) -> str:
    """Return a number with two or three digits that mean something."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
