"""Which figures an experiment has: those of its chapter, or general ones where no package brings a chapter for it.

A package brings chapters by an entry point of the group `resprout.chapters`:

    [project.entry-points."resprout.chapters"]
    mine = "my_package:CHAPTERS"
"""

import functools
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Final

import msgspec

from resprout.pipeline.report import measures
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, FigureAxis, in_order
from resprout.pipeline.report.percentiles import percentile_figure

FAULTS: Final = FigureAxis("faults", "brokers that die", "broker dies", "brokers die")
GUARANTEE: Final = FigureAxis("guarantee", "guarantee")
GROUP: Final = "resprout.chapters"


@functools.cache
def installed_chapters() -> tuple[Chapter, ...]:
    """The chapters that installed packages bring, by the names of their entry points."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return tuple(chapter for entry in entries for chapter in entry.load())


def cost_figures(x: FigureAxis) -> tuple[Figure, ...]:
    """What it takes to deliver, whatever is varied."""
    return (
        Figure(
            title="Messages between brokers",
            measure=measures.MESSAGES,
            value="messages for each publication",
            x=x,
            panels=FigureAxis("purpose", "purpose"),
            note=(
                "On all links between brokers: messages that carry publications or settle their order, and reports of "
                "how far they have come."
            ),
        ),
        Figure(
            title="Ordering bytes",
            measure=measures.ORDERING_BYTES,
            value="ordering bytes for each delivery",
            x=x,
            note="What a message costs on its last link beside its content: the mean over the deliveries of a run.",
        ),
        Figure(
            title="Throughput",
            measure=measures.THROUGHPUT,
            value="deliveries per second",
            x=x,
            note="All subscribers together, from the first publication to the last delivery.",
        ),
    )


REPAIR_TIMES: Final = Figure(
    title="Time to repair",
    measure=measures.REPAIR_TIMES,
    value="time that repairs take",
    x=FAULTS,
    panels=FigureAxis("part", "part"),
    note=(
        "Until it begins: from the crash to the first broker that begins a repair. The repair: from there until the "
        "last broker around the dead has its place again. Where nobody dies there is nothing to repair."
    ),
)

SEEDS_MAX: Final = 12
"""Seeds that are shown one by one where nothing else varies; of more, only the median and the range."""


def general_figures(facts: Sequence[RunFacts]) -> tuple[Figure, ...]:
    """What can be drawn of any experiment: the axis with the most labels goes to the right, the others into rows."""
    varied = _varied_axes(facts)
    seeds = {one.run.seed for one in facts}
    name = varied[0] if varied else "seed" if len(seeds) <= SEEDS_MAX else "stack"
    x = FigureAxis(name, name)
    others = FigureAxis(",".join(varied[1:]), ", ".join(varied[1:])) if varied[1:] else None
    latency = Figure(
        title="Latency", measure=measures.LATENCY, value="median latency", x=x, panels=GUARANTEE, rows=others
    )
    repairs = msgspec.structs.replace(REPAIR_TIMES, x=x, rows=others)
    costs = (msgspec.structs.replace(figure, rows=others) for figure in cost_figures(x))
    return (latency, *_percentiles(facts, varied), repairs, *costs)


CURVES_MAX: Final = 6
"""Rows of curves by percentile: an experiment that varies more has so many panels that nobody compares them."""


def _percentiles(facts: Sequence[RunFacts], varied: Sequence[str]) -> tuple[Figure, ...]:
    if len({tuple(one.run.labels.get(axis) for axis in varied) for one in facts}) > CURVES_MAX:
        return ()
    return (percentile_figure(GUARANTEE, FigureAxis(",".join(varied), ", ".join(varied)) if varied else None),)


def _varied_axes(facts: Sequence[RunFacts]) -> list[str]:
    labels: dict[str, set[str]] = {}
    for one in facts:
        for axis, label in one.run.labels.items():
            labels.setdefault(axis, set()).add(label)
    varied = [axis for axis in in_order(labels) if axis not in ("stack", "seed") and len(labels[axis]) > 1]
    return sorted(varied, key=lambda axis: -len(labels[axis]))
