"""The parts of the page that show experiments: figures, the numbers of each, and the commands that make them again."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.chapters import CHAPTERS, general_figures
from resprout.pipeline.report.charts import charts, legend, scale_of
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, Grid, Shape, grid_of, in_order
from resprout.pipeline.report.markup import Markup, element, joined
from resprout.pipeline.report.number_tables import numbers_table
from resprout.pipeline.stores import Location


class GivenCommand(msgspec.Struct, frozen=True):
    """What the command was given, as it was typed."""

    folders: "tuple[Location, ...]"
    out: Path

    @property
    def report(self) -> str:
        return f"resprout report {shlex.join(map(str, self.folders))} --out {shlex.quote(str(self.out))}"


def anchor(experiment: str) -> str:
    """A name for links inside the page, another one for each experiment."""
    return "at-" + re.sub(r"[^A-Za-z0-9-]", lambda odd: f"_{ord(odd[0]):x}_", experiment)


def chapter_section(chapter: Chapter, facts: Sequence[RunFacts], asked: GivenCommand) -> Markup:
    folder = shlex.quote(str(asked.folders[0])) if len(asked.folders) == 1 else "DIR"
    return element(
        "section",
        element("h2", chapter.title),
        element("p", chapter.about),
        element("p", size_of(facts), class_="quiet"),
        chapter.table(facts) if chapter.table else None,
        _figures(chapter.figures, facts),
        [_figure(grid) for grid in chapter.computed()] if chapter.computed else None,
        element("h3", "Make it again"),
        element("pre", f"resprout sweep {chapter.sweep} --out {folder}\n{asked.report}", tabindex="0"),
        id=anchor(chapter.experiment),
    )


def general_section(experiment: str, facts: Sequence[RunFacts], asked: GivenCommand) -> Markup:
    return element(
        "section",
        element("h2", experiment),
        element("p", size_of(facts), class_="quiet"),
        _figures(general_figures(facts), facts),
        element("h3", "Make this page again"),
        element("pre", asked.report, tabindex="0"),
        id=anchor(experiment),
    )


def missing_section(present: set[str]) -> Markup | None:
    """The chapters without data, and how to get it: those from documents of which others are there."""
    series = {chapter.series for chapter in CHAPTERS if chapter.experiment in present}
    absent = [chapter for chapter in CHAPTERS if chapter.series in series and chapter.experiment not in present]
    if not absent:
        return None
    items = [
        element("li", f"{chapter.title}: ", element("code", f"resprout sweep {chapter.sweep} --out DIR"))
        for chapter in absent
    ]
    return element("section", element("h2", "No data yet"), element("ul", items, class_="told"), id="no-data")


def size_of(facts: Sequence[RunFacts]) -> str:
    """How many runs of what size the figures are made of."""
    stacks = [
        f"{sum(one.stack == stack for one in facts)} of {stack}" for stack in in_order(one.stack for one in facts)
    ]
    runs = "1 run" if len(facts) == 1 else f"{len(facts)} runs"
    sizes = [
        f"{_span([getattr(one.run, column) for one in facts])} {column}"
        for column in ("brokers", "clients", "publications", "deliveries")
    ]
    return f"{runs}: {', '.join(stacks)}. In each: {', '.join(sizes)}."


def _span(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _figures(figures: Sequence[Figure], facts: Sequence[RunFacts]) -> Markup:
    grids = [(figure, grid_of(figure, facts)) for figure in figures]
    empty = [figure.title for figure, grid in grids if grid is None]
    said = f"Not recorded in these runs, so not drawn: {', '.join(empty)}." if empty else None
    return joined(
        [_figure(grid) for _, grid in grids if grid is not None],
        element("p", said, class_="quiet") if said else None,
    )


def _figure(grid: Grid) -> Markup:
    figure = grid.figure
    drawn = element("figure", legend(grid.series, figure.shape), charts(grid), element("figcaption", _explained(grid)))
    is_small = len(grid.panels) * len(grid.rows) == 1
    body = (
        element("div", drawn, numbers_table(grid), class_="beside") if is_small else joined(drawn, numbers_table(grid))
    )
    return joined(element("h3", figure.title), body)


def _explained(grid: Grid) -> str:
    """What is shown and how it was computed."""
    figure = grid.figure
    scale = "The scale is logarithmic." if scale_of(grid).is_log else ""
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
