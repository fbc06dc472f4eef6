"""From the runs of an experiment to the numbers of a figure: for each place in it the median over runs, and the range.

A figure is data: it names what is measured, and which coordinates go where. Sweep files hold figures (`sweep_report`).
`general_figures` makes those of an experiment whose sweep names none: latency, repairs and costs along its longest
axis, and curves of latency by percentile.
"""

import enum
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.measures import MEASURES, Quantity, coordinates_of

WHOLE: Final = ""
"""The label of an axis that a figure does not have."""

_PERCENTILE_NOTE: Final = "99 of 100 deliveries take at most the latency at 99. The axis is stretched towards 100."

SEEDS_MAX: Final = 12
"""Seeds that are shown one by one where nothing else varies; of more, only the median and the range."""
CURVES_MAX: Final = 6
"""Rows of curves by percentile: an experiment that varies more has so many panels that nobody compares them."""


class FigureAxis(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    """Of the coordinate; of several, with commas between them."""
    title: str
    """What readers call it."""
    one: str = ""
    many: str = ""
    """What is counted, when its labels are numbers: `1 broker dies`, `2 brokers die`."""

    @property
    def is_percentile(self) -> bool:
        """An axis with the labels 50, 99, 99.9, stretched towards 100."""
        return self.name == "percentile"

    def named(self, label: str) -> str:
        """The label as it can stand by itself."""
        if self.many:
            return f"{label} {self.one if label == '1' else self.many}"
        return f"{self.title} {label}" if label[:1].isdigit() else label


class Shape(enum.Enum):
    BARS = "bars"
    LINES = "lines"


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str
    measure: str
    """A name of `MEASURES`."""
    value: str
    """What one number is, in a few words: the heading of the axis and of the table."""
    x: FigureAxis
    panels: FigureAxis | None = None
    rows: FigureAxis | None = None
    """Of panels: a figure may be a grid of them."""
    shape: Shape = Shape.BARS
    series: FigureAxis = FigureAxis("stack", "stack")
    note: str = ""
    """What a reader should know beside it."""
    claim: str = ""
    """What the figure is to show, for readers to compare with what it shows."""

    @property
    def quantity(self) -> Quantity:
        return MEASURES[self.measure].quantity

    @property
    def what(self) -> str:
        """The value as a sentence begins with it."""
        return f"{self.value[:1].upper()}{self.value[1:]}"

    @property
    def axes(self) -> tuple[FigureAxis | None, FigureAxis | None, FigureAxis, FigureAxis]:
        return self.rows, self.panels, self.x, self.series


class Cell(msgspec.Struct, frozen=True):
    """What some runs that differ only in their seed came to."""

    median: float
    low: float
    high: float
    runs: int
    """0: computed."""


CellPlace = tuple[str, str, str, str]
"""Labels of row, panel, x and series."""


class Grid(msgspec.Struct, frozen=True):
    figure: Figure
    rows: tuple[str, ...]
    panels: tuple[str, ...]
    xs: tuple[str, ...]
    series: tuple[str, ...]
    cells: dict[CellPlace, Cell]

    @property
    def runs(self) -> int:
        """The most that any number is the median of."""
        return max(cell.runs for cell in self.cells.values())


def grid_of(figure: Figure, facts: Iterable[RunFacts]) -> Grid | None:
    """None when no run has such a number."""
    samples: dict[CellPlace, list[float]] = {}
    numbers_of = MEASURES[figure.measure].numbers
    for one in facts:
        shared = coordinates_of(one)
        for own, number in numbers_of(one):
            place = _place(figure, {**shared, **own})
            if place is not None:
                samples.setdefault(place, []).append(number)
    if not samples:
        return None
    cells = {place: _cell(numbers) for place, numbers in samples.items()}
    rows, panels, xs, series = (in_order(place[axis] for place in cells) for axis in range(4))
    return Grid(figure, rows, panels, xs, series, cells)


def _place(figure: Figure, coordinates: dict[str, str]) -> CellPlace | None:
    """None for a run that the figure has no place for."""
    row, panel, x, series = (_label(axis, coordinates) for axis in figure.axes)
    return None if row is None or panel is None or x is None or series is None else (row, panel, x, series)


def _label(axis: FigureAxis | None, coordinates: dict[str, str]) -> str | None:
    if axis is None:
        return WHOLE
    names = axis.name.split(",")
    if any(name not in coordinates for name in names):
        return None
    return coordinates[axis.name] if len(names) == 1 else ", ".join(f"{name} {coordinates[name]}" for name in names)


def _cell(numbers: Sequence[float]) -> Cell:
    return Cell(statistics.median(numbers), min(numbers), max(numbers), len(numbers))


_FIXED: Final[dict[str, int]] = {
    word: place
    for words in (
        tuple(guarantee.label for guarantee in Guarantee),
        ("all", "before", "during", "after"),
        ("resprout", "ginger"),
        ("until it begins", "the repair", "both together"),
        ("publications", "reports", "both together"),
    )
    for place, word in enumerate(words)
}
"""Words with an order of their own."""


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Each once, as a reader expects them: numbers by size, guarantees by strength, `b2` before `b10`."""
    return tuple(sorted(set(labels), key=_rank))


def _rank(label: str) -> tuple[int, list[tuple[int, float, str]], str]:
    """Ends with the label itself: `1` and `1.0` are as large as each other, and their order must not be chance."""
    if label in _FIXED:
        return _FIXED[label], [], label
    pieces = re.findall(r"[0-9]+(?:\.[0-9]+)?|[^0-9]+", label)
    keys = [(0, float(piece), "") if piece[0] in "0123456789" else (1, 0.0, piece) for piece in pieces]
    return len(_FIXED), keys, label


_PERCENTILE_AXIS: Final = FigureAxis("percentile", "percentile")


def percentile_figure(
    panels: FigureAxis,
    rows: FigureAxis | None = None,
    series: FigureAxis | None = None,
    measure: str = "latency_percentiles",
    note: str = "",
) -> Figure:
    """`series`: the stacks, unless it is said."""
    return Figure(
        title="Latency by percentile",
        measure=measure,
        value="latency",
        x=_PERCENTILE_AXIS,
        panels=panels,
        rows=rows,
        shape=Shape.LINES,
        series=series or FigureAxis("stack", "stack"),
        note=f"{_PERCENTILE_NOTE} {note}".strip(),
    )


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
