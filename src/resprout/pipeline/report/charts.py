"""The charts of a figure: a panel for each place of its grid, all on one scale, and the legend that they share.

Whiskers reach from the least to the most of the runs.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.pipeline.report.canvas import Frame, drawing, tick_style
from resprout.pipeline.report.figures import Cell, Grid, Shape
from resprout.pipeline.report.marks import (
    Point,
    bar,
    bar_key,
    in_look,
    line,
    line_key,
    looks_of,
    point,
    whisker,
    with_tip,
)
from resprout.pipeline.report.markup import Markup, element
from resprout.pipeline.report.quantities import Style, style_for
from resprout.pipeline.report.scales import Scale, linear_scale, log_scale, places_of

WIDE: Final = (360.0, 220.0)
NARROW: Final = (272.0, 190.0)
_NARROW_FROM: Final = 4
"""So many panels in a row are drawn narrower."""
_BAND: Final = 0.68
"""How much of its place a group of bars fills."""
_BAR_MOST: Final = 34.0
_INSET: Final = 0.08
"""Between the ends of the axis and the first and last point of a line, as a share of it."""
_LOG_FROM: Final = 10.0
"""Lines that span more than this many times their least are drawn on a logarithmic scale; bars always begin at zero."""


def charts(grid: Grid) -> Markup:
    """The panels of a figure, without its caption."""
    is_narrow = len(grid.panels) >= _NARROW_FROM
    drawer = _Drawer(
        grid=grid,
        scale=scale_of(grid),
        numbers=style_for(grid.figure.measure.quantity, [cell.median for cell in grid.cells.values()]),
        size=NARROW if is_narrow else WIDE,
    )
    panels = [drawer.panel(row, panel) for row in grid.rows for panel in grid.panels]
    return element("div", panels, class_="panels" + (" narrow" if is_narrow else " one" if len(panels) == 1 else ""))


def legend(series: Sequence[str], shape: Shape) -> Markup:
    key = bar_key if shape is Shape.BARS else line_key
    return element(
        "ul",
        [element("li", key(look), name) for look, name in zip(looks_of(series), series, strict=True)],
        class_="legend",
    )


def scale_of(grid: Grid) -> Scale:
    """The same for all panels, so that they can be compared."""
    least, most = min(cell.low for cell in grid.cells.values()), max(cell.high for cell in grid.cells.values())
    is_log = grid.figure.shape is Shape.LINES and least > 0 and most / least >= _LOG_FROM
    return log_scale(least, most) if is_log else linear_scale(most)


class _Drawer(msgspec.Struct, frozen=True):
    grid: Grid
    scale: Scale
    numbers: Style
    size: tuple[float, float]

    def panel(self, row: str, panel: str) -> Markup:
        figure, grid = self.grid.figure, self.grid
        title = ", ".join(axis.named(label) for axis, label in ((figure.panels, panel), (figure.rows, row)) if axis)
        title = title or figure.value
        frame = Frame(title, figure.x.title, self.scale, tick_style(figure.measure.quantity, self.scale), *self.size)
        centres = self._centres(frame)
        marks = []
        for place, (name, look) in enumerate(zip(grid.series, looks_of(grid.series), strict=True)):
            found = [(x, cell) for x in grid.xs if (cell := grid.cells.get((row, panel, x, name))) is not None]
            aside = place - (len(grid.series) - 1) / 2
            draw = self._bars if figure.shape is Shape.BARS else self._lines
            marks.append(draw(frame, centres, found, look, aside, name))
        told = (
            f"{figure.what}{f', {title}' if title != figure.value else ''}, by {figure.x.title}; numbers in the table"
        )
        return drawing(frame, [(centres[x], x) for x in grid.xs], marks, told)

    def _centres(self, frame: Frame) -> dict[str, float]:
        xs = self.grid.xs
        if self.grid.figure.shape is Shape.BARS:
            return {x: frame.x((place + 0.5) / len(xs)) for place, x in enumerate(xs)}
        return {x: frame.x(_INSET + (1 - 2 * _INSET) * share) for x, share in zip(xs, places_of(xs), strict=True)}

    def _bars(
        self, frame: Frame, centres: dict[str, float], found: list[tuple[str, Cell]], look: int, aside: float, name: str
    ) -> Markup:
        band = (frame.right - frame.left) / len(self.grid.xs) * _BAND
        width = min(band / len(self.grid.series), _BAR_MOST)
        bars = []
        for x, cell in found:
            middle = centres[x] + aside * width
            body = bar(middle, width - 1, frame.y(cell.median), frame.bottom)
            bars.append(with_tip(self._tip(name, x, cell), body, _range(frame, middle, cell)))
        return in_look(look, bars)

    def _lines(
        self, frame: Frame, centres: dict[str, float], found: list[tuple[str, Cell]], look: int, aside: float, name: str
    ) -> Markup:
        points: list[Point] = [(centres[x] + 3.0 * aside, frame.y(cell.median)) for x, cell in found]
        dots = [
            with_tip(self._tip(name, label, cell), _range(frame, x, cell), point(look, x, y))
            for (x, y), (label, cell) in zip(points, found, strict=True)
        ]
        return in_look(look, line(points), dots)

    def _tip(self, name: str, x: str, cell: Cell) -> str:
        runs = f"{cell.runs} runs, {self.numbers.span(cell.low, cell.high)}" if cell.runs > 1 else "one run"
        runs = runs if cell.runs else "computed"
        where = self.grid.figure.x.named(x)
        return f"{name}, {where}: {self.numbers.text(cell.median)} ({runs})"


def _range(frame: Frame, x: float, cell: Cell) -> Markup | None:
    return whisker(x, frame.y(cell.low), frame.y(cell.high))
