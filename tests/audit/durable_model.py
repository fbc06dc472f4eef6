"""Traces with a durable subscription and a group that keep every promise by construction.

They are added to the trace of a correct system: what it published is handed out in the order of its rows. A consumer
dies with what it has not acknowledged, which is handed out again and says so.
"""

import functools
import random
from collections import Counter

from resprout.filters.predicate import topic_matches
from resprout.trace.schema import Row
from tests.audit.model import good_trace
from tests.audit.spoiling import Id, change, ident, lines


class Durable:
    def __init__(self, name: str, filter_: str, consumers: tuple[str, ...], is_group: bool) -> None:
        self.about = {"durable": name, **({"group": "yes"} if is_group else {})}
        self.name = name
        self.filter = filter_
        self.waiting: list[tuple[Row, bool]] = []
        """What is to be handed out, and whether it was before."""
        self.open: dict[str, list[Row]] = {name: [] for name in consumers}
        """By consumer: what it has not acknowledged."""
        self.times: Counter[Id] = Counter()
        """How often each was handed out."""

    def begin(self, time_us: int, consumer: str) -> list[Row]:
        asked = Row(time_us=time_us, node=consumer, kind="consume", filter=self.filter, attributes=self.about)
        return [asked, change(asked, kind="consuming", attributes={"durable": self.name})]

    def hand_out(self, time_us: int, rng: random.Random) -> list[Row]:
        """The next one: to whoever has something of its keys, or to anybody."""
        if not self.waiting:
            return []
        row, is_again = self.waiting[0]
        busy = [name for name, mine in self.open.items() if any(lines(m) & lines(row) for m in mine)]
        if len(busy) > 1:
            return []
        del self.waiting[0]
        consumer = busy[0] if busy else rng.choice(sorted(self.open))
        self.open[consumer].append(row)
        self.times[ident(row)] += 1
        about = {"durable": self.name, **({"redelivered": "yes"} if is_again else {})}
        about |= {"deliveries": str(self.times[ident(row)])} if is_again else {}
        return [change(row, time_us=time_us, node=consumer, kind="handed", attributes=about)]

    def acknowledge(self, time_us: int, consumer: str) -> list[Row]:
        done, self.open[consumer] = self.open[consumer], []
        columns = ("publisher", "incarnation", "stream", "seq")
        return [
            Row(
                time_us=time_us, node=consumer, kind="acknowledged", attributes={"durable": self.name},
                **{name: getattr(row, name) for name in columns},
            )
            for row in done
        ]  # fmt: skip

    def die(self, time_us: int, consumer: str) -> list[Row]:
        """And come back at once."""
        self.waiting[:0] = [(row, True) for row in self.open[consumer]]
        self.open[consumer] = []
        crash = Row(time_us=time_us, node=consumer, kind="crash")
        return [crash, change(crash, kind="recover"), *self.begin(time_us, consumer)]


@functools.cache
def _durable_trace(seed: int) -> tuple[Row, ...]:
    rng = random.Random(f"durable subscriptions {seed}")
    given = good_trace(seed, 160)
    refused: set[Id] = {ident(row) for row in given if row.kind == "refused"}
    durables = [Durable("billing", "#", ("d1",), False), Durable("workers", "bank/#", ("w1", "w2"), True)]
    rows: list[Row] = []
    for place, row in enumerate(given[:-1]):
        rows.append(row)
        for durable in durables:
            if place == 10:
                for consumer in durable.open:
                    rows += durable.begin(row.time_us, consumer)
            topics = [row.topic or "", *(key.split("#")[0] for key in row.keys or () if "#" in key)]
            is_wanted = row.kind == "publish" and any(topic_matches(durable.filter, topic) for topic in topics)
            if place > 10 and is_wanted and ident(row) not in refused:
                durable.waiting.append((row, False))
            chance, consumer = rng.random(), rng.choice(sorted(durable.open))
            if place > 10 and chance < 0.6:
                rows += durable.hand_out(row.time_us, rng)
            elif place > 10 and chance < 0.8:
                rows += durable.acknowledge(row.time_us, consumer)
            elif place > 10 and chance < 0.82:
                rows += durable.die(row.time_us, consumer)
    for durable in durables:
        while durable.waiting:
            rows += durable.hand_out(given[-1].time_us, rng)
            for consumer in durable.open:
                rows += durable.acknowledge(given[-1].time_us, consumer)
    return (*rows, given[-1])


def durable_trace(seed: int) -> list[Row]:
    return list(_durable_trace(seed))
