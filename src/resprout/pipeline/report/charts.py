"""The charts of a figure: a panel for each place of its grid, all on one scale.

Whiskers reach from the least to the most of the runs.
"""

from collections.abc import Sequence
from typing import Any, Final

import altair as alt
import msgspec
from markupsafe import Markup

from resprout.pipeline.report.axes import Across, across, upward
from resprout.pipeline.report.drawing import ChartPlan, panel, planned
from resprout.pipeline.report.figures import Cell, Grid, Shape
from resprout.pipeline.report.legible import legible
from resprout.pipeline.report.looks import looks_of
from resprout.pipeline.report.quantities import Style, style_for

WIDE: Final = (360, 236)
NARROW: Final = (290, 214)
_NARROW_FROM: Final = 4
"""So many panels in a row are drawn narrower."""


class Panels(msgspec.Struct, frozen=True):
    drawings: tuple[Markup, ...]
    look: str
    """How they are arranged: a class of the style sheet."""


def charts(grid: Grid) -> Panels:
    is_narrow = len(grid.panels) >= _NARROW_FROM
    figure, style = grid.figure, style_of(grid)
    along = across(figure.x, grid.xs, figure.shape, len(grid.series))
    draw = _bars if figure.shape is Shape.BARS else _lines
    plan = planned(draw(along, upward(grid, style), grid.series), NARROW if is_narrow else WIDE)
    drawer = _Drawer(grid, style, along, plan)
    places = dict.fromkeys((row, panel) for row, panel, _, _ in grid.cells)
    panels = [drawer.panel(row, panel) for row in grid.rows for panel in grid.panels if (row, panel) in places]
    return Panels(tuple(panels), "narrow" if is_narrow else "one" if len(panels) == 1 else "")


def style_of(grid: Grid) -> Style:
    return style_for(grid.figure.quantity, [cell.median for cell in grid.cells.values()])


class _Drawer(msgspec.Struct, frozen=True):
    grid: Grid
    style: Style
    along: Across
    plan: ChartPlan

    def panel(self, row: str, panel: str) -> Markup:
        figure = self.grid.figure
        title = ", ".join(axis.named(label) for axis, label in ((figure.panels, panel), (figure.rows, row)) if axis)
        told = f"{figure.what}{title and ', '}{title}, by {figure.x.title}; numbers in the table"
        return self.plan.drawn(self._rows(row, panel), title, told)

    def _rows(self, row: str, panel: str) -> list[dict[str, Any]]:
        size, grid = self.style.unit.size, self.grid
        return [
            {
                "x": self.along.places[x],
                "series": legible(name),
                "value": cell.median / size,
                "low": cell.low / size,
                "high": cell.high / size,
                "tip": legible(self._tip(name, x, cell)),
            }
            for name in grid.series
            for x in grid.xs
            if (cell := grid.cells.get((row, panel, x, name))) is not None
        ]

    def _tip(self, name: str, x: str, cell: Cell) -> str:
        runs = f"{cell.runs} runs, {self.style.span(cell.low, cell.high)}" if cell.runs > 1 else "one run"
        runs = runs if cell.runs else "computed"
        where = self.grid.figure.x.named(x)
        return f"{name}, {where}: {self.style.text(cell.median)} ({runs})"


def _bars(along: Across, up: Any, series: Sequence[str]) -> list[Any]:
    names, looks = list(map(legible, series)), looks_of(series)
    base = panel().encode(x=along.channel)
    if len(series) > 1:
        base = base.encode(xOffset=alt.XOffset("series:N", sort=None, scale=alt.Scale(domain=names)))
    bars = base.mark_bar(strokeWidth=1).encode(
        y=up,
        fill=alt.Fill("series:N", scale=_scale(names, [look.fill for look in looks]), legend=None),
        stroke=alt.Stroke("series:N", scale=_scale(names, [look.colour for look in looks]), legend=None),
        description="tip:N",
    )
    return [bars, *_whiskers(base)]


def _lines(along: Across, up: Any, series: Sequence[str]) -> list[Any]:
    base = panel().encode(x=along.channel)
    lines, points = lines_of(base.encode(y=up), series)
    return [lines, *_whiskers(base), points]


def lines_of(base: Any, series: Sequence[str], thickness: float = 2, points: int = 46) -> tuple[Any, Any]:
    """Lines of `series`, and the points on them, which tell their numbers."""
    names, looks = list(map(legible, series)), looks_of(series)
    colours = _scale(names, [look.colour for look in looks])
    dashes = _scale(names, [[int(length) for length in look.dash.split()] or [1, 0] for look in looks])
    return (
        base.mark_line(strokeWidth=thickness, aria=False).encode(
            stroke=alt.Stroke("series:N", scale=colours, legend=None),
            strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None),
        ),
        base.mark_point(size=points, strokeWidth=points / 46, opacity=1, stroke="var(--ground)").encode(
            fill=alt.Fill("series:N", scale=colours, legend=None),
            shape=alt.Shape("series:N", scale=_scale(names, [look.shape for look in looks]), legend=None),
            description="tip:N",
        ),
    )


def _whiskers(base: Any) -> list[Any]:
    """None where the least is the most."""
    spread = base.transform_filter("datum.low < datum.high")
    ends = [
        spread.mark_tick(aria=False, color="var(--ink)", size=6, thickness=1).encode(y=end)
        for end in ("low:Q", "high:Q")
    ]
    return [spread.mark_rule(aria=False, color="var(--ink)").encode(y="low:Q", y2="high:Q"), *ends]


def _scale(names: list[str], values: Sequence[Any]) -> Any:
    return alt.Scale(domain=names, range=list(values))
