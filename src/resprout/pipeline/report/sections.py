"""The parts of the page that show experiments: figures with their numbers, runs, and the commands to make it again."""

import shlex
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from resprout.pipeline.report.anchors import anchor
from resprout.pipeline.report.command import GivenCommand
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.general_figures import general_figures
from resprout.pipeline.report.installed import computed_figures, table_of
from resprout.pipeline.report.page_figures import PageFigures, figures_of
from resprout.pipeline.report.page_tables import PageTable
from resprout.pipeline.report.run_list import RunList, run_list
from resprout.pipeline.report.sweep_report import SweepReport


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
