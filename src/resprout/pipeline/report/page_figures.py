"""A figure as it stands on the page: charts with their legend, what they show and how it was computed, the numbers."""

from collections.abc import Sequence

import msgspec

from resprout.pipeline.report.charts import Panels, SeriesLook, begins_above_zero, charts, is_log, looks_of
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, Grid, Shape, grid_of
from resprout.pipeline.report.page_tables import PageTable, numbers_table


class PageLegend(msgspec.Struct, frozen=True):
    is_bars: bool
    keys: tuple[tuple[SeriesLook, str], ...]


class PageFigure(msgspec.Struct, frozen=True):
    title: str
    legend: PageLegend
    panels: Panels
    caption: str
    claim: str
    table: PageTable | None
    is_beside: bool
    """Whether there is room for the table beside the chart."""


class PageFigures(msgspec.Struct, frozen=True):
    drawn: tuple[PageFigure, ...]
    undrawn: str
    """The titles of figures of which nothing was recorded."""


def legend(series: Sequence[str], shape: Shape) -> PageLegend:
    return PageLegend(shape is Shape.BARS, tuple(zip(looks_of(series), series, strict=True)))


def figures_of(figures: Sequence[Figure], facts: Sequence[RunFacts], computed: Sequence[Grid] = ()) -> PageFigures:
    grids = [(figure, grid_of(figure, facts)) for figure in figures]
    empty = [figure.title for figure, grid in grids if grid is None]
    drawn = [figure_of(grid) for grid in (*(grid for _, grid in grids), *computed) if grid is not None]
    return PageFigures(tuple(drawn), ", ".join(empty))


def figure_of(grid: Grid) -> PageFigure:
    figure, panels = grid.figure, charts(grid)
    return PageFigure(
        title=figure.title,
        legend=legend(grid.series, figure.shape),
        panels=panels,
        caption=_explained(grid),
        claim=figure.claim,
        table=numbers_table(grid),
        is_beside=len(panels.drawings) == 1,
    )


def _explained(grid: Grid) -> str:
    figure = grid.figure
    scale = "The scale is logarithmic." if is_log(grid) else ""
    scale = "The scale does not begin at zero." if begins_above_zero(grid) and not scale else scale
    return " ".join(filter(None, (f"{figure.what}.", figure.note, _computed(grid), scale)))


def _computed(grid: Grid) -> str:
    mark = "bar" if grid.figure.shape is Shape.BARS else "point"
    if not grid.runs:
        return ""
    if grid.runs == 1:
        return f"Each {mark} is one run."
    fewest = min(cell.runs for cell in grid.cells.values())
    runs = f"{grid.runs} runs" if fewest == grid.runs else f"{fewest} to {grid.runs} runs"
    if all(cell.low == cell.high for cell in grid.cells.values()):
        return f"Each {mark} is the median of {runs} with different seeds, which are all alike."
    return f"Each {mark} is the median of {runs} with different seeds; whiskers reach from the least to the most."
