"""The figures of an experiment whose sweep names none: latency, repairs and costs along its longest axis."""

from collections.abc import Sequence
from typing import Final

from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.figures import Figure, FigureAxis, in_order
from resprout.pipeline.report.percentiles import percentile_figure

SEEDS_MAX: Final = 12
"""Seeds that are shown one by one where nothing else varies; of more, only the median and the range."""
CURVES_MAX: Final = 6
"""Rows of curves by percentile: an experiment that varies more has so many panels that nobody compares them."""
_GUARANTEE: Final = FigureAxis("guarantee", "guarantee")


def general_figures(facts: Sequence[RunFacts]) -> tuple[Figure, ...]:
    """What can be drawn of any experiment: the axis with the most labels goes to the right, the others into rows."""
    varied = _varied_axes(facts)
    seeds = {one.run.seed for one in facts}
    name = varied[0] if varied else "seed" if len(seeds) <= SEEDS_MAX else "stack"
    x = FigureAxis(name, name)
    others = FigureAxis(",".join(varied[1:]), ", ".join(varied[1:])) if varied[1:] else None
    return (
        Figure(title="Latency", measure="latency", value="median latency", x=x, panels=_GUARANTEE, rows=others),
        *_percentiles(facts, varied),
        *_costs(x, others),
    )


def _costs(x: FigureAxis, rows: FigureAxis | None) -> tuple[Figure, ...]:
    """What it takes to repair and to deliver, whatever is varied."""
    return (
        Figure(
            title="Time to repair",
            measure="repair_times",
            value="time that repairs take",
            x=x,
            panels=FigureAxis("part", "part"),
            rows=rows,
            note=(
                "Until it begins: from the crash to the first broker that begins a repair. The repair: from there "
                "until the last broker around the dead has its place again. Where nobody dies there is nothing to "
                "repair."
            ),
        ),
        Figure(
            title="Messages between brokers",
            measure="messages",
            value="messages for each publication",
            x=x,
            panels=FigureAxis("purpose", "purpose"),
            rows=rows,
            note=(
                "On all links between brokers: messages that carry publications or settle their order, and reports of "
                "how far they have come."
            ),
        ),
        Figure(
            title="Ordering bytes",
            measure="ordering_bytes",
            value="ordering bytes for each delivery",
            x=x,
            rows=rows,
            note="What a message costs on its last link beside its content: the mean over the deliveries of a run.",
        ),
        Figure(
            title="Throughput",
            measure="throughput",
            value="deliveries per second",
            x=x,
            rows=rows,
            note="All subscribers together, from the first publication to the last delivery.",
        ),
    )


def _percentiles(facts: Sequence[RunFacts], varied: Sequence[str]) -> tuple[Figure, ...]:
    if len({tuple(one.run.labels.get(axis) for axis in varied) for one in facts}) > CURVES_MAX:
        return ()
    return (percentile_figure(_GUARANTEE, FigureAxis(",".join(varied), ", ".join(varied)) if varied else None),)


def _varied_axes(facts: Sequence[RunFacts]) -> list[str]:
    labels: dict[str, set[str]] = {}
    for one in facts:
        for axis, label in one.run.labels.items():
            labels.setdefault(axis, set()).add(label)
    varied = [axis for axis in in_order(labels) if axis not in ("stack", "seed") and len(labels[axis]) > 1]
    return sorted(varied, key=lambda axis: -len(labels[axis]))
