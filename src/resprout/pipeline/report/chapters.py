"""Which figures there are: a chapter for each experiment that has a sweep of its own. Another figure is another entry.

`general_figures` is for the experiments that nobody wrote a chapter for.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.pipeline.report import locamu_chapters, measures, scribe_chapters, stack_chapters
from resprout.pipeline.report.chapter import Chapter
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, FigureAxis, Shape, in_order
from resprout.pipeline.report.percentiles import percentile_figure

FAULTS: Final = FigureAxis("faults", "brokers that die", "broker dies", "brokers die")
KEYS: Final = FigureAxis("keys", "keys per topic", "key", "keys")
GUARANTEE: Final = FigureAxis("guarantee", "guarantee")
PHASE: Final = FigureAxis("phase", "phase of the repair")

_BANK: Final = (
    "Eight brokers on three continents and five clients of a bank: four of ten publications are eventual, three causal "
    "and three total. Children of the root die, all at once."
)


def _costs(x: FigureAxis) -> tuple[Figure, ...]:
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


_REPAIR_TIMES: Final = Figure(
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
_ROUND_TRIPS: Final = Figure(
    title="Round trips of a repair",
    measure=measures.ROUND_TRIPS,
    value="round trips of the slowest repair",
    x=FAULTS,
    note="The time of a repair divided by there and back over the slowest link around the dead; one is the goal.",
)
_REQUESTS: Final = Figure(
    title="Rounds of requests",
    measure=measures.REQUESTS,
    value="requests for a parent",
    x=FAULTS,
    note="All requests of all orphans of a run. Only the baseline makes them: in resprout the coordinator places all.",
)
_LOAD: Final = Figure(
    title="Load of each broker",
    measure=measures.BROKER_LOAD,
    value="frames sent for each publication",
    x=FigureAxis("broker", "broker"),
    panels=FAULTS,
    note="Frames that a broker sends on all its links, divided by the publications of the run.",
)

CHAPTERS: Final = (
    Chapter(
        experiment="seed000-5.3",
        title="5.3 How long a repair takes",
        about=_BANK,
        sweep="sweeps/seed000-5.3.toml",
        figures=(_REPAIR_TIMES, _ROUND_TRIPS, _REQUESTS),
    ),
    Chapter(
        experiment="seed000-5.4",
        title="5.4 Latency of each guarantee",
        about=_BANK,
        sweep="sweeps/seed000-5.4.toml",
        figures=(
            Figure(
                title="Latency by brokers that die",
                measure=measures.LATENCY,
                value="median latency",
                x=FAULTS,
                panels=GUARANTEE,
                note="From the call of publish to the code of the subscriber, over all deliveries of a run.",
            ),
            Figure(
                title="Latency before, during and after the repair",
                measure=measures.LATENCY_BY_PHASE,
                value="median latency",
                x=PHASE,
                panels=GUARANTEE,
                rows=FAULTS,
                note="A delivery belongs to the phase in which it was published.",
            ),
            percentile_figure(panels=GUARANTEE, rows=FAULTS),
            *_costs(FAULTS),
            _LOAD,
        ),
    ),
    Chapter(
        experiment="seed000-5.5",
        title="5.5 Latency by the number of keys",
        about=f"{_BANK} The fewer keys, the more totals wait for each other.",
        sweep="sweeps/seed000-5.5.toml",
        figures=(
            Figure(
                title="Latency by keys and by brokers that die",
                measure=measures.LATENCY,
                value="median latency",
                x=KEYS,
                panels=FAULTS,
                rows=GUARANTEE,
                shape=Shape.LINES,
                note="From the call of publish to the code of the subscriber, over all deliveries of a run.",
            ),
            Figure(
                title="Throughput by keys and by brokers that die",
                measure=measures.THROUGHPUT,
                value="deliveries per second",
                x=KEYS,
                panels=FAULTS,
                shape=Shape.LINES,
            ),
        ),
    ),
    *locamu_chapters.CHAPTERS,
    *scribe_chapters.CHAPTERS,
    *stack_chapters.CHAPTERS,
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
    repairs = msgspec.structs.replace(_REPAIR_TIMES, x=x, rows=others)
    costs = (msgspec.structs.replace(figure, rows=others) for figure in _costs(x))
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
