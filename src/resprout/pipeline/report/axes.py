"""The axes of a chart: where labels and numbers go, and what stands beside them."""

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import altair as alt
import msgspec

from resprout.pipeline.report.figures import FigureAxis, Grid, Shape
from resprout.pipeline.report.legible import legible
from resprout.pipeline.report.quantities import Quantity, Style

X_LOG_FROM: Final = 20.0
"""Labels that are numbers and lie further apart than this stand on a logarithmic axis."""
Y_LOG_FROM: Final = 10.0
"""Lines that span more than this many times their least are drawn on a logarithmic scale; bars always begin at zero."""
_INSET: Final = 16
"""Pixels between the ends of the axis and the first and last point of a line."""
_BAR_MOST: Final = 34
_ROOM: Final = 290
"""About the width of what is drawn in."""
_TITLE_LETTERS: Final = 30
_POWERS_WITH_STEPS: Final = 3
_NUMBERS: Final = ",.12~g"
_PERCENTILES: Final = "format(100 - 100 / datum.value, '.6~g')"


class Across(msgspec.Struct, frozen=True):
    """The horizontal axis: where each label stands, as Vega is told."""

    places: dict[str, Any]
    channel: Any


def across(axis: FigureAxis, labels: Sequence[str], shape: Shape, bars: int = 1) -> Across:
    """`bars`: how many stand side by side at each label."""
    title = wrapped(axis.title)
    if shape is Shape.BARS:
        return _of_words(labels, title, _bar_scale(labels, bars))
    numbers = _percentiles(labels) if axis.is_percentile else _rising(labels)
    if numbers is None or len(labels) == 1:
        return _of_words(labels, title, alt.Scale(type="point", domain=_legible(labels), padding=0.5))
    first, last = numbers[0], numbers[-1]
    is_log = axis.is_percentile or (first > 0 and last / first >= X_LOG_FROM)
    scale = alt.Scale(type="log" if is_log else "linear", domain=[first, last], nice=False, zero=False, padding=_INSET)
    written: dict[str, Any] = {"labelExpr": _PERCENTILES} if axis.is_percentile else {"format": _NUMBERS}
    marks = alt.Axis(title=title, values=numbers, grid=False, labelOverlap="greedy", labelFlush=False, **written)
    return Across(dict(zip(labels, numbers, strict=True)), alt.X("x:Q", scale=scale, axis=marks))


def upward(grid: Grid, style: Style) -> Any:
    """The same for all panels of a figure, so that they can be compared."""
    least, most = (_extent(grid)[place] / style.unit.size for place in (0, 1))
    title = titled(grid.figure.value, style)
    if is_log(grid):
        marks = log_marks(least, most)
        scale = alt.Scale(type="log", domain=[marks[0], marks[-1]], nice=False)
        return alt.Y("value:Q", scale=scale, axis=y_axis(title, marks))
    if begins_above_zero(grid):
        scale = alt.Scale(domain=[least, most], nice=True, zero=False)
    else:
        scale = alt.Scale(domain=[0, most or 1], nice=True)
    return alt.Y("value:Q", scale=scale, axis=y_axis(title))


def is_log(grid: Grid) -> bool:
    least, most = _extent(grid)
    return grid.figure.shape is Shape.LINES and least > 0 and most / least >= Y_LOG_FROM


def begins_above_zero(grid: Grid) -> bool:
    """Shares that are nearly all look alike beside nothing."""
    least, most = _extent(grid)
    return grid.figure.quantity is Quantity.SHARE and grid.figure.shape is Shape.LINES and 0 < least < most


def y_axis(title: str, marks: Sequence[float] = ()) -> Any:
    """`marks`: where lines are drawn across, unless that is left to Vega."""
    where: dict[str, Any] = {"values": list(marks)} if marks else {"tickCount": 5}
    return alt.Axis(title=wrapped(title), labelOverlap="greedy", format=_NUMBERS, **where)


def titled(value: str, style: Style) -> str:
    return f"{value}, {style.unit.name}" if style.unit.name else value


def wrapped(title: str) -> list[str]:
    return textwrap.wrap(legible(title), _TITLE_LETTERS) or [""]


def _extent(grid: Grid) -> tuple[float, float]:
    return min(cell.low for cell in grid.cells.values()), max(cell.high for cell in grid.cells.values())


def log_marks(least: float, most: float) -> list[float]:
    """Round numbers around these two; over few powers of ten, with 2 and 5 of each."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    steps = (1, 2, 5) if last - first <= _POWERS_WITH_STEPS else (1,)
    marks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    low = max(mark for mark in marks if mark <= least * (1 + 1e-9))
    high = min(mark for mark in marks if mark >= most * (1 - 1e-9))
    return [mark for mark in marks if low <= mark <= high]


def _of_words(labels: Sequence[str], title: list[str], scale: Any) -> Across:
    marks = alt.Axis(title=title, labelAngle=0, labelOverlap="greedy", labelLimit=_ROOM / max(1, min(len(labels), 4)))
    channel = alt.X("x:N", sort=None, scale=scale, axis=marks)
    return Across(dict(zip(labels, _legible(labels), strict=True)), channel)


def _bar_scale(labels: Sequence[str], bars: int) -> Any:
    """Few bars do not grow as wide as their place."""
    gap = min(0.92, max(0.28, 1 - len(labels) * bars * _BAR_MOST / _ROOM))
    return alt.Scale(type="band", domain=_legible(labels), paddingInner=gap, paddingOuter=gap / 2)


def _legible(labels: Sequence[str]) -> list[str]:
    return list(map(legible, labels))


def _percentiles(labels: Sequence[str]) -> list[float]:
    """The more nines, the further to the right: every tenth of what is left takes as much room."""
    return [100 / (100 - float(label)) for label in labels]


def _rising(labels: Sequence[str]) -> list[float] | None:
    """None unless all are numbers, each larger than the one before."""
    try:
        numbers = [float(label) for label in labels]
    except ValueError:
        return None
    rise = all(math.isfinite(number) for number in numbers) and all(a < b for a, b in itertools.pairwise(numbers))
    return numbers if rise else None
