"""The parts of the page that show experiments: figures with their numbers, runs, and the commands to make it again."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from resprout.pipeline.report.anchors import anchor
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.chapters import general_figures, installed_chapters
from resprout.pipeline.report.command import GivenCommand
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.page_figures import PageFigures, figures_of
from resprout.pipeline.report.page_tables import PageTable
from resprout.pipeline.report.run_list import RunList, run_list


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


def chapter_section(chapter: Chapter, facts: Sequence[RunFacts], asked: GivenCommand) -> ExperimentSection:
    return ExperimentSection(
        id=anchor(chapter.experiment),
        title=chapter.title,
        about=chapter.about,
        size=size_of(facts),
        table=chapter.table(facts) if chapter.table else None,
        figures=figures_of(chapter.figures, facts, chapter.computed() if chapter.computed else ()),
        runs=run_list(facts),
        again_title="Make it again",
        again=f"resprout sweep {chapter.sweep} --out {asked.folder}\n{asked.report}",
    )


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


def missing_chapters(present: set[str]) -> list[Chapter]:
    """The chapters without data: those from documents of which others are there."""
    chapters = installed_chapters()
    series = {chapter.series for chapter in chapters if chapter.experiment in present}
    return [chapter for chapter in chapters if chapter.series in series and chapter.experiment not in present]


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
