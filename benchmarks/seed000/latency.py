"""How long deliveries take, beside the time that the links alone would take."""

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.seed000.stage import distances_in
from resprout.scenario.model import Scenario
from resprout.sim.network import Distances
from resprout.trace import kinds
from resprout.trace.schema import Row


class Delivered(NamedTuple):
    """One publication at one subscriber."""

    guarantee: str
    publisher: str
    subscriber: str
    published_us: int
    latency_us: int

    @property
    def is_own(self) -> bool:
        return self.publisher == self.subscriber


def deliveries(rows: Iterable[Row]) -> list[Delivered]:
    """From the call of publish to the subscriber's code."""
    published: dict[tuple[object, ...], int] = {}
    found: list[Delivered] = []
    for row in rows:
        name = (row.publisher, row.incarnation, row.stream, row.seq)
        if row.kind == kinds.PUBLISH:
            published[name] = row.time_us
        elif row.kind == kinds.DELIVER:
            begin_us = published[name]
            found.append(
                Delivered(row.guarantee or "", row.publisher or "", row.node, begin_us, row.time_us - begin_us)
            )
    return found


def link_sum_us(places: Distances, one: Delivered) -> int:
    """The links on the path between the two clients."""
    return places.between(one.publisher, one.subscriber)


class Barrier:
    """What a total needs when nothing stands in its way: up to the root, and from there until every broker has closed
    its keys and said so: `d(o, root) + max over brokers p of (d(root, p) + d(p, s))`, and the links of the clients."""

    def __init__(self, scenario: Scenario) -> None:
        self._places = distances_in(scenario)
        self._brokers = [broker.name for broker in scenario.brokers]
        self._root = next(broker.name for broker in scenario.brokers if broker.parent is None)

    def us(self, one: Delivered) -> int:
        between, root = self._places.between, self._root
        turn_us = max(between(root, broker) + between(broker, one.subscriber) for broker in self._brokers)
        return between(one.publisher, root) + turn_us
