"""The parts of the page that show experiments: figures with their numbers, runs, and the commands to make it again.

`figure_of` makes a figure as it stands on the page: charts with their legend, what they show and how it was computed,
and the numbers. `run_list` shows the runs of an experiment one by one: explanations link to it.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from resprout.pipeline.report.charts import Panels, SeriesLook, begins_above_zero, charts, is_log, looks_of
from resprout.pipeline.report.facts import RunFacts, RunStanding, by_experiment, standing_of
from resprout.pipeline.report.figures import Figure, Grid, Shape, general_figures, grid_of, in_order
from resprout.pipeline.report.measures import NONE
from resprout.pipeline.report.output import GivenCommand
from resprout.pipeline.report.page_tables import (
    LabelledRow,
    PageCell,
    PageTable,
    anchor,
    cells_of,
    header,
    numbers_table,
    rows_by_label,
    run_anchor,
)
from resprout.pipeline.report.sweep_report import SweepReport, computed_figures, table_of

RUNS_MAX: Final = 500
"""Of one experiment. Of more, those that are not clean come first, and how many are left out is said."""

RunTargets = Mapping[tuple[str, str], str]
"""Where a link to a run leads, by experiment and run: to its line, or to the section that it belongs to."""


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


class RunList(msgspec.Struct, frozen=True):
    title: str
    table: PageTable


def listed(facts: Sequence[RunFacts]) -> list[RunFacts]:
    """Of one experiment: none of a run that is alone, which has the section for itself."""
    if len(facts) <= 1:
        return []
    if len(facts) <= RUNS_MAX:
        return list(facts)
    first = sorted(facts, key=lambda one: standing_of(one) is RunStanding.CLEAN)[:RUNS_MAX]
    kept = {one.name for one in first}
    return [one for one in facts if one.name in kept]


def targets_of(facts: Iterable[RunFacts]) -> RunTargets:
    found: dict[tuple[str, str], str] = {}
    for experiment, runs in by_experiment(facts).items():
        found |= {(experiment, one.name): anchor(experiment) for one in runs}
        found |= {(experiment, one.name): run_anchor(one) for one in listed(runs)}
    return found


def run_list(facts: Sequence[RunFacts]) -> RunList | None:
    shown = listed(facts)
    if not shown:
        return None
    left_out = len(facts) - len(shown)
    more = f" {left_out:,} more, which are not listed, came out as well or better." if left_out else ""
    caption = (
        "Every run with its name in the archive, which holds its trace for who wants to look into it; broke: the rules."
        f"{more}"
    )
    heads = header("verdict", "run", "broke", "seed", "publications", "deliveries", "lasted, s", numeric_from=3)
    table = PageTable("Runs", caption, heads, tuple(rows_by_label(list(map(_row, shown)))))
    return RunList(f"All {len(facts):,} runs" if not left_out else f"{len(shown):,} of {len(facts):,} runs", table)


def _row(one: RunFacts) -> LabelledRow:
    run = one.run
    broke = ", ".join(one.verdict.rules_violated) if one.verdict is not None else ""
    numbers = (str(run.seed), f"{run.publications:,}", f"{run.deliveries:,}", f"{run.duration_us / 1e6:,.1f}")
    cells = (PageCell(broke or NONE), *cells_of(numbers))
    return LabelledRow((one.name,), cells, PageCell(standing=standing_of(one)), run_anchor(one))


class ExperimentSection(msgspec.Struct, frozen=True, kw_only=True):
    TEMPLATE: ClassVar[str] = "experiment.html"

    id: str
    title: str
    about: str = ""
    size: str
    table: PageTable | None = None
    figures: PageFigures
    runs: RunList | None
    again_title: str
    again: str


def sweep_section(report: SweepReport, facts: Sequence[RunFacts], asked: GivenCommand) -> ExperimentSection:
    figures = report.figures if report.has_figures else general_figures(facts)
    computed = [grid for name in report.computed for grid in computed_figures(name)]
    return ExperimentSection(
        id=anchor(report.experiment),
        title=report.heading,
        about=report.about,
        size=size_of(facts),
        table=table_of(report.table, facts) if report.table else None,
        figures=figures_of(figures, facts, computed),
        runs=run_list(facts),
        again_title="Make it again",
        again=f"{sweep_command(report)} --out {asked.folder}\n{asked.report}",
    )


def sweep_command(report: SweepReport) -> str:
    return f"resprout sweep {shlex.quote(report.sweep)}"


def general_section(experiment: str, facts: Sequence[RunFacts], asked: GivenCommand) -> ExperimentSection:
    return ExperimentSection(
        id=anchor(experiment),
        title=experiment,
        size=size_of(facts),
        figures=figures_of(general_figures(facts), facts),
        runs=run_list(facts),
        again_title="Make this page again",
        again=asked.report,
    )


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
