"""The parts of the page that show experiments: figures with their numbers, runs, and the commands to make it again.

`run_list` shows the runs of an experiment one by one: explanations link to it.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from resprout.pipeline.report.facts import RunFacts, RunStanding, by_experiment, standing_of
from resprout.pipeline.report.figures import general_figures, in_order
from resprout.pipeline.report.output import GivenCommand
from resprout.pipeline.report.page_figures import PageFigures, figures_of
from resprout.pipeline.report.page_tables import (
    LabelledRow,
    PageCell,
    PageTable,
    anchor,
    cells_of,
    header,
    rows_by_label,
    run_anchor,
)
from resprout.pipeline.report.quantities import NONE
from resprout.pipeline.report.sweep_report import SweepReport, computed_figures, table_of

RUNS_MAX: Final = 500
"""Of one experiment. Of more, those that are not clean come first, and how many are left out is said."""

RunTargets = Mapping[tuple[str, str], str]
"""Where a link to a run leads, by experiment and run: to its line, or to the section that it belongs to."""


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
