"""What figures are made of: numbers of one run with their units, and the coordinates that tell them apart.

A run gives one number, or one for each guarantee, phase or broker. Coordinates are also those of the run itself: its
stack, its faults, its keys, and its labels in a sweep. Messages are also counted by layer: the package that defines a
message, or what the stack declares (`Stack.layers`). Papers count by layers, where `Family` goes by purpose.

`Style` writes numbers for people: one unit and one number of decimals for everything that is compared. `legible`
removes letters that a page cannot hold.
"""

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from statistics import fmean
from typing import Final

import msgspec

from resprout.core.contract import word_of
from resprout.core.errors import escape
from resprout.pipeline.report.facts import RunFacts, known_stack
from resprout.pipeline.results import RepairRow
from resprout.stacks.stack import Family

NONE: Final = "–"
_DECIMALS_MAX: Final = 3
_DIGITS: Final = 3
"""That the largest number shows at least."""
_DIGITS_SMALLEST: Final = 2
_SHARE_DECIMALS: Final = 2
"""Of a percent: whether all came, or all but a few, must be seen."""

Coordinates = Mapping[str, str]
Numbers = Iterator[tuple[Coordinates, float]]

PERCENTILES: Final = ("50", "90", "95", "99", "99.9")
"""Of which the table of latencies knows the wait."""
_ON_PURPOSE: Final = ("leave", "move")

CLIENTS: Final = "edge"
OWN: Final = "stacks"
OTHER: Final = "other"
BETWEEN_BROKERS: Final = "all between brokers"


class Unit(msgspec.Struct, frozen=True):
    name: str
    """Empty for plain counts."""
    size: float
    """How many of what the tables hold make one of it."""


SECOND: Final = Unit("s", 1e6)
MILLISECOND: Final = Unit("ms", 1e3)


class Quantity(enum.Enum):
    """What a number is; the units it is written in, smallest first."""

    TIME_US = (Unit("µs", 1), MILLISECOND, SECOND)
    BYTES = (Unit("B", 1), Unit("kB", 1e3), Unit("MB", 1e6))
    COUNT = (Unit("", 1),)
    SHARE = (Unit("%", 0.01),)


_ENOUGH: Final = 10
"""A unit is used when the largest number is at least so many of it."""


class Style(msgspec.Struct, frozen=True):
    """How the numbers of one table or axis are written."""

    unit: Unit
    decimals: int

    def number(self, value: float | None) -> str:
        """Without its unit."""
        return NONE if value is None else f"{value / self.unit.size:,.{self.decimals}f}"

    def text(self, value: float | None) -> str:
        """With its unit; the space does not break."""
        if value is None or not self.unit.name:
            return self.number(value)
        return f"{self.number(value)}\u00a0{self.unit.name}"

    def mark(self, value: float) -> str:
        """With its unit, and without decimals that say nothing: for axes whose numbers differ in size."""
        number = self.number(value)
        short = number.rstrip("0").rstrip(".") if "." in number else number
        return f"{short}\u00a0{self.unit.name}" if self.unit.name else short

    def span(self, low: float, high: float) -> str:
        return f"{self.number(low)} – {self.number(high)}"


def style_for(quantity: Quantity, values: Iterable[float]) -> Style:
    """One that keeps the smallest of these apart from nothing, and the largest short."""
    sizes = sorted(abs(value) for value in values if value)
    largest = sizes[-1] if sizes else 0
    unit = next((unit for unit in reversed(quantity.value) if largest >= _ENOUGH * unit.size), quantity.value[0])
    if not sizes or all((size / unit.size).is_integer() for size in sizes):
        return Style(unit, 0)
    if quantity is Quantity.SHARE:
        return Style(unit, _SHARE_DECIMALS)
    wanted = max(_places(largest / unit.size, _DIGITS), _places(sizes[0] / unit.size, _DIGITS_SMALLEST))
    return Style(unit, min(wanted, _DECIMALS_MAX))


def _places(value: float, digits: int) -> int:
    """Decimals with which a number shows this many digits."""
    return max(0, digits - 1 - math.floor(math.log10(value)))


def legible(text: str) -> str:
    """Control characters and halves of surrogate pairs have no place in a page, and would make it unreadable."""
    return escape(text, keep="\n\t\u00a0\u202f")


class Measure(msgspec.Struct, frozen=True):
    quantity: Quantity
    numbers: Callable[[RunFacts], Numbers]
    axes: tuple[str, ...] = ()
    """The coordinates that tell the numbers of one run apart."""


RUN_AXES: Final = ("faults", "keys", "f", "seed", "stack")
"""The coordinates of every run, beside the axes of its sweep."""


def coordinates_of(facts: RunFacts) -> dict[str, str]:
    """Of the run; a label of its sweep counts for more than what was counted in the trace."""
    run = facts.run
    keys = {} if run.keys is None else {"keys": str(run.keys)}
    if run.faults_tolerated is not None:
        keys["f"] = str(run.faults_tolerated)
    return {"faults": str(run.faults), **keys, "seed": str(run.seed), **run.labels, "stack": run.stack}


def _latency(facts: RunFacts) -> Numbers:
    for row in facts.latency:
        if row.phase == "all":
            yield {"guarantee": row.guarantee}, row.median_us


def _latency_by_phase(facts: RunFacts) -> Numbers:
    for row in facts.latency:
        if row.phase != "all":
            yield {"guarantee": row.guarantee, "phase": row.phase}, row.median_us


def _percentiles(facts: RunFacts) -> Numbers:
    for own, number in _percentiles_by_phase(facts):
        if own["phase"] == "all":
            yield own, number


def _percentiles_by_phase(facts: RunFacts) -> Numbers:
    """Those that were not measured are left out: a run without rows was only counted."""
    for row in facts.latency:
        waits = (row.median_us, row.p90_us, row.p95_us, row.p99_us, row.p999_us)
        for label, wait_us in zip(PERCENTILES, waits, strict=True):
            if wait_us is not None:
                yield {"guarantee": row.guarantee, "phase": row.phase, "percentile": label}, wait_us


def _repair_times(facts: RunFacts) -> Numbers:
    """Of all repairs of the run together: they may run at the same time, and the tree is whole after the last."""
    repairs = _forced(facts)
    ended = [repair.ended_us for repair in repairs if repair.ended_us is not None]
    if not repairs or len(ended) < len(repairs):
        return
    whole_us, began_us = max(ended), min(repair.began_us for repair in repairs)
    struck = [repair.began_us - repair.detection_us for repair in repairs if repair.detection_us is not None]
    yield {"part": "the repair"}, whole_us - began_us
    if struck:
        yield {"part": "until it begins"}, began_us - min(struck)
        yield {"part": "both together"}, whole_us - min(struck)


def _forced(facts: RunFacts) -> list[RepairRow]:
    """Without the places that were given up on purpose."""
    return [repair for repair in facts.repairs if repair.cause not in _ON_PURPOSE]


def _round_trips(facts: RunFacts) -> Numbers:
    """Of the repair that takes the most: how often a message could have crossed there and back in its time."""
    trips = [
        repair.duration_us / repair.round_trip_us
        for repair in _forced(facts)
        if repair.duration_us is not None and repair.round_trip_us
    ]
    if trips:
        yield {}, max(trips)


def _requests(facts: RunFacts) -> Numbers:
    rounds = [repair.rounds for repair in _forced(facts) if repair.rounds is not None]
    if rounds:
        yield {}, sum(rounds)


def _traffic(column: str) -> Callable[[RunFacts], Numbers]:
    def numbers(facts: RunFacts) -> Numbers:
        value = None if facts.traffic is None else getattr(facts.traffic, column)
        if value is not None:
            yield {}, value

    return numbers


def _messages(facts: RunFacts) -> Numbers:
    """Those that publishing causes; what comes with time alone is left out."""
    traffic, publications = facts.traffic, facts.run.publications
    if traffic is None or not publications:
        return
    for purpose in ("publications", "reports"):
        if traffic.messages is not None and purpose in traffic.messages:
            yield {"purpose": purpose}, traffic.messages[purpose] / publications
    if traffic.messages_per_publication is not None:
        yield {"purpose": "both together"}, traffic.messages_per_publication


def _broker_load(facts: RunFacts) -> Numbers:
    if not facts.run.publications:
        return
    for row in facts.load:
        if row.role == "broker" and row.frames_sent is not None:
            yield {"broker": row.node}, row.frames_sent / facts.run.publications


def _header_bytes(facts: RunFacts) -> Numbers:
    """By the formula of the stack's paper; of a stack without one, what it really adds to a message."""
    traffic = facts.traffic
    if traffic is not None and traffic.paper_bytes is not None and traffic.paper_messages:
        yield {}, traffic.paper_bytes / traffic.paper_messages
    elif traffic is not None and traffic.metadata_bytes_mean is not None:
        yield {}, traffic.metadata_bytes_mean


def _largest_header(facts: RunFacts) -> Numbers:
    traffic = facts.traffic
    largest = None if traffic is None else traffic.paper_bytes_max or traffic.metadata_bytes_max
    if largest is not None:
        yield {}, largest


def _link_bytes(facts: RunFacts) -> Numbers:
    """Of all links between brokers, whatever is on them."""
    if facts.traffic is not None and facts.traffic.frame_bytes is not None and facts.run.publications:
        crossings = facts.run.publications * max(1, facts.run.brokers - 1)
        yield {}, facts.traffic.frame_bytes / crossings


def share_of(facts: RunFacts) -> float | None:
    """Which part of what was owed came; None when that is not known."""
    verdict = facts.verdict
    if verdict is None or verdict.owed is None or verdict.came is None:
        return None
    return verdict.came / verdict.owed if verdict.owed else 1.0


def _reliability(facts: RunFacts) -> Numbers:
    if (share := share_of(facts)) is not None:
        yield {}, share


def _reliability_untold(facts: RunFacts) -> Numbers:
    """What a client was told to miss, it can do something about: it counts as neither owed nor missing."""
    verdict = facts.verdict
    if verdict is not None and verdict.owed is not None and verdict.came is not None and verdict.told is not None:
        owed = verdict.owed - verdict.told
        yield {}, verdict.came / owed if owed else 1.0


def _layers(facts: RunFacts) -> Numbers:
    found = messages_by_layer(facts)
    for layer, count in found.items():
        yield {"layer": layer}, count
    if found:
        yield {"layer": BETWEEN_BROKERS}, sum(found.values())


def _broker_loads(facts: RunFacts) -> Numbers:
    loads = [number for _, number in _broker_load(facts)]
    if loads:
        yield {"of": "least"}, min(loads)
        yield {"of": "mean"}, fmean(loads)
        yield {"of": "most"}, max(loads)


def _copies(facts: RunFacts) -> Numbers:
    traffic, publications = facts.traffic, facts.run.publications
    if traffic is not None and traffic.messages is not None and publications:
        yield {}, traffic.messages.get(Family.PUBLICATIONS, 0) / publications


MEASURES: Final[Mapping[str, Measure]] = {
    "latency": Measure(Quantity.TIME_US, _latency, ("guarantee",)),
    "latency_by_phase": Measure(Quantity.TIME_US, _latency_by_phase, ("guarantee", "phase")),
    "latency_percentiles": Measure(Quantity.TIME_US, _percentiles, ("guarantee", "percentile")),
    "percentiles_by_phase": Measure(Quantity.TIME_US, _percentiles_by_phase, ("guarantee", "phase", "percentile")),
    "repair_times": Measure(Quantity.TIME_US, _repair_times, ("part",)),
    "round_trips": Measure(Quantity.COUNT, _round_trips),
    "requests": Measure(Quantity.COUNT, _requests),
    "messages": Measure(Quantity.COUNT, _messages, ("purpose",)),
    "ordering_bytes": Measure(Quantity.BYTES, _traffic("metadata_bytes_mean")),
    "throughput": Measure(Quantity.COUNT, _traffic("throughput")),
    "steady_throughput": Measure(Quantity.COUNT, _traffic("steady_throughput")),
    "header_bytes": Measure(Quantity.BYTES, _header_bytes),
    "largest_header": Measure(Quantity.BYTES, _largest_header),
    "link_bytes": Measure(Quantity.BYTES, _link_bytes),
    "broker_load": Measure(Quantity.COUNT, _broker_load, ("broker",)),
    "broker_loads": Measure(Quantity.COUNT, _broker_loads, ("of",)),
    "convergence": Measure(Quantity.TIME_US, _traffic("converged_us")),
    "reliability": Measure(Quantity.SHARE, _reliability),
    "reliability_untold": Measure(Quantity.SHARE, _reliability_untold),
    "copies": Measure(Quantity.COUNT, _copies),
    "layers": Measure(Quantity.COUNT, _layers, ("layer",)),
}
"""By the names that figures use."""


@cache
def layer_of(stack: str, message: str) -> str:
    """`overlay` (Chord, HyParView), `spread` (Scribe, gossip), `replicas` (Paxos), `order`, `edge` (clients), `stacks`
    (its own); `other` for what nobody knows here."""
    known = known_stack(stack)
    if known is None:
        return OTHER
    for kind in known.messages:
        if word_of(kind) == message:
            package, layer, *_ = kind.__module__.split(".")
            if package == "resprout":
                return layer
            return next((layer for home, layer in known.layers.items() if kind.__module__.startswith(home)), OWN)
    return OTHER


def messages_by_layer(facts: RunFacts) -> dict[str, int]:
    """Between brokers: what clients and brokers say to each other is left out. Empty when nobody counted."""
    counted = facts.traffic.messages_by_type if facts.traffic is not None else None
    found: dict[str, int] = {}
    for message, count in (counted or {}).items():
        layer = layer_of(facts.stack, message)
        if layer != CLIENTS:
            found[layer] = found.get(layer, 0) + count
    return found
