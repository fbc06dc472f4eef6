"""The last value of every topic, as a function of the retained publications in the order of totals.

Every broker applies the same publications in the same order, so brokers that have come to the same place hold the same
values, revisions and outcomes. Nothing here depends on a clock, on limits or on the broker: `expire` drops values that
nobody can read any more, and leaves the keys of buckets, because their revisions decide about later writes.

- A write to a bucket that expects another revision than the key has changes nothing, at any broker.
- The store remembers the outcomes of the last `OUTCOMES_KEPT` writes of each of the last `WRITERS_KEPT` writers, so
  that a writer that has moved to another broker hears there what became of its write.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from resprout.core.bundle import Bundle, pack_attributes, unpack_attributes, unpack_payloads
from resprout.core.errors import WireError
from resprout.filters.predicate import is_plain
from resprout.filters.topic_order import TopicOrder
from resprout.filters.topic_tree import TopicTree
from resprout.values.rows import (
    KV_PREFIX,
    KnownOutcome,
    KnownValue,
    ValueRow,
    ValuesReached,
    expected_of,
    removes,
)

OUTCOMES_KEPT: Final = 32
WRITERS_KEPT: Final = 4_096
NO_REVISION: Final = 0


class AppliedWrite(NamedTuple):
    """What one retained publication did."""

    topic: str
    place: int
    is_applied: bool
    """Whether `value` is the value of the topic now; None: it has none."""
    value: KnownValue | None
    outcome: KnownOutcome | None
    """Of a write to a bucket."""


OwnerOf = Callable[[str], str]
"""Returns who pays for the last values of a writer."""


def _itself(writer: str) -> str:
    return writer


class LastValues:
    def __init__(self, owner_of: OwnerOf = _itself) -> None:
        self._owner_of = owner_of
        self.place = -1
        """The place of the last retained publication that was applied."""
        self.bytes = 0
        """Memory of all values, about."""
        self._values: dict[str, KnownValue] = {}
        self._tree: TopicTree[KnownValue] = TopicTree()
        self._order: TopicOrder | None = None
        """The topics in their order, from the first search on that needs it."""
        self._is_plain = True
        """Whether the last search was for one topic."""
        self._shares: dict[str, tuple[int, int]] = {}
        """Topics and bytes of each owner that has any."""
        self._expiries: list[tuple[int, str]] = []
        """Heap of the times at which values expire, and their topics; some are replaced meanwhile."""
        self._outcomes: dict[str, tuple[int, dict[int, KnownOutcome]]] = {}
        """By writer, the one that wrote last at the end: its life, and the outcomes of its last writes by number."""

    def __len__(self) -> int:
        return len(self._values)

    @property
    def count(self) -> int:
        """Values and outcomes."""
        return len(self._values) + sum(len(outcomes) for _, outcomes in self._outcomes.values())

    # -- writing -------------------------------------------------------------------------------------------------------

    def apply(self, bundle: Bundle, place: int, told: Callable[[AppliedWrite], None]) -> None:
        """Apply the retained publications of a bundle. `place`: that of the first. `told` is called for each of them. A
        bundle that cannot be read changes nothing, at any broker."""
        try:
            payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
        except WireError:
            return
        topic, is_key = bundle.topic, bundle.topic.startswith(KV_PREFIX)
        for offset, (payload, attributes) in enumerate(zip(payloads, rows, strict=True)):
            self.place = at = place + offset
            known = self._values.get(topic)
            expected = expected_of(topic, attributes)
            is_applied = expected is None or expected == self.revision(topic)
            value: KnownValue | None = None
            if is_applied and removes(topic, attributes, payload):
                if known is not None:
                    self._remove(topic)
            elif is_applied:
                value = KnownValue(
                    topic, at, bundle.publisher, bundle.incarnation, bundle.first + offset, bundle.stamp, bundle.keys,
                    pack_attributes([attributes]), payload,
                )  # fmt: skip
                self._put(value)
            outcome: KnownOutcome | None = None
            if is_key:
                writer, seq = bundle.publisher, bundle.first + offset
                outcome = KnownOutcome(writer, bundle.incarnation, seq, at, is_applied, self.revision(topic))
                self._note(outcome)
            told(AppliedWrite(topic, at, is_applied, value, outcome))

    def _put(self, value: KnownValue) -> None:
        topic = value.topic
        known = self._values.get(topic)
        if known is not None:
            self._count(known, -1)
        elif self._order is not None:
            self._order.add(topic)
        self._count(value, 1)
        self._values[topic] = value
        self._tree.put(topic, value)
        if expires_us := value.expires_us:
            heapq.heappush(self._expiries, (expires_us, topic))
            if len(self._expiries) > 2 * len(self._values) + 64:  # most of them are replaced
                self._expiries = [(each.expires_us, name) for name, each in self._values.items() if each.expires_us]
                heapq.heapify(self._expiries)

    def _remove(self, topic: str) -> None:
        self._count(self._values.pop(topic), -1)
        self._tree.remove(topic)
        if self._order is not None:
            self._order.remove(topic)

    def _count(self, value: KnownValue, sign: int) -> None:
        self.bytes += sign * value.cost
        owner = self._owner_of(value.publisher)
        topics, size = self._shares.get(owner, (0, 0))
        self._shares[owner] = (topics + sign, size + sign * value.cost)
        if not topics + sign:
            del self._shares[owner]

    def share_by(self, owner_of: OwnerOf) -> None:
        """Count the room again: writers have other owners than before."""
        self._owner_of, self._shares = owner_of, {}
        self.bytes = 0
        for value in self._values.values():
            self._count(value, 1)

    def _note(self, outcome: KnownOutcome) -> None:
        life, outcomes = self._outcomes.pop(outcome.publisher, (outcome.incarnation, {}))
        if life != outcome.incarnation:
            outcomes = {}
        outcomes[outcome.seq] = outcome
        if len(outcomes) > OUTCOMES_KEPT:
            del outcomes[next(iter(outcomes))]
        self._outcomes[outcome.publisher] = (outcome.incarnation, outcomes)
        if len(self._outcomes) > WRITERS_KEPT:
            del self._outcomes[next(iter(self._outcomes))]

    def expire(self, wall_us: int, most: int = 1 << 30) -> list[str]:
        """Drop up to `most` values that have expired; return their topics. Keys of buckets stay, with their
        revisions."""
        dropped: list[str] = []
        while self._expiries and self._expiries[0][0] <= wall_us and len(dropped) < most:
            due_us, topic = heapq.heappop(self._expiries)
            value = self._values.get(topic)
            if value is not None and value.expires_us == due_us and not topic.startswith(KV_PREFIX):
                self._remove(topic)
                dropped.append(topic)
        return dropped

    # -- reading -------------------------------------------------------------------------------------------------------

    def excess(self, writer: str, topic: str, cost: int, topics_max: int, bytes_max: int) -> str:
        """Return why a writer may not put a value of these bytes on a topic; empty if it may. Its owner may use half of
        what others leave, rounded up for topics, so that each of them finds room. A value that is not larger than the
        one that it replaces always fits."""
        known = self._values.get(topic)
        if known is not None and cost <= known.cost:
            return ""
        owner = self._owner_of(writer)
        is_own = known is not None and self._owner_of(known.publisher) == owner
        topics, size = self._shares.get(owner, (0, 0))
        other_topics = len(self._values) - topics - (known is not None and not is_own)
        other_bytes = self.bytes - size - (known.cost if known is not None and not is_own else 0)
        topics, size = topics + (not is_own), size + cost - (known.cost if known is not None and is_own else 0)
        if 2 * size > (left := max(0, bytes_max - other_bytes)):
            return (
                f"its last values would take {size} bytes, and a client may use half of the {left} bytes that others"
                " leave (retained_bytes)"
            )
        if 2 * topics > (left := max(0, topics_max - other_topics)) + 1:
            return (
                f"it would have the last values of {topics} topics, and a client may have half of the {left} topics"
                " that others leave (retained_topics)"
            )
        return ""

    def revision(self, topic: str) -> int:
        """Return the revision of a topic's value, expired or not; 0 if there is none."""
        value = self._values.get(topic)
        return NO_REVISION if value is None else value.revision

    def match(self, topic_filter: str, wall_us: int, all_keys: bool = False) -> list[KnownValue]:
        """Return the values whose topics match, in the order of their topics, without those that have expired.
        `all_keys`: but with expired keys of buckets, whose revisions a watcher needs."""
        found = self._found(topic_filter, "")
        return [one for one in found if not one.is_over(wall_us) or (all_keys and one.topic.startswith(KV_PREFIX))]

    def find(self, topic_filter: str, wall_us: int, after: str = "") -> Iterator[KnownValue]:
        """Return the values behind a topic whose topics match, in their order, one by one. The store must not change
        meanwhile."""
        return (one for one in self._found(topic_filter, after) if not one.is_over(wall_us))

    def _found(self, topic_filter: str, after: str) -> Iterator[KnownValue]:
        self._is_plain = is_plain(topic_filter)
        if self._is_plain:
            value = self._values.get(topic_filter)
            if value is not None and topic_filter > after:
                yield value
            return
        if self._order is None:
            self._order = TopicOrder(self._values)
        for topic in self._order.find(topic_filter, after):
            yield self._values[topic]

    @property
    def looked_at(self) -> int:
        """Values that the last search has looked at so far."""
        return 1 if self._is_plain or self._order is None else self._order.looked_at

    def walk(self, topic_filter: str, wall_us: Callable[[], int]) -> Iterator[KnownValue | None]:
        """Return the same values in no order, step by step, with None for each step without one. The store may change
        meanwhile: a value that is replaced before its step is left out for the later one."""
        for value in self._tree.walk(topic_filter):
            yield None if value is None or value.is_over(wall_us()) else value

    def outcome(self, publisher: str, incarnation: int, seq: int) -> KnownOutcome | None:
        """Return what became of a write, if that is known."""
        life, outcomes = self._outcomes.get(publisher, (-1, {}))
        return outcomes.get(seq) if life == incarnation else None

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def values(self) -> Iterable[KnownValue]:
        return self._values.values()

    def outcomes(self) -> Iterator[KnownOutcome]:
        """Return the outcomes that are remembered, in the order of the last write of each writer."""
        for _, outcomes in self._outcomes.values():
            yield from outcomes.values()

    def rows(self) -> Iterator[ValueRow]:
        """Return the whole state; nothing at all if nothing was ever retained."""
        if self.place >= 0:
            yield from self._values.values()
            yield from self.outcomes()
            yield ValuesReached(self.place)

    @classmethod
    def of(cls, rows: Iterable[ValueRow], owner_of: OwnerOf = _itself) -> "LastValues":
        """Return the store of another broker, or of a disk."""
        store = cls(owner_of)
        for row in rows:
            if isinstance(row, KnownValue):
                store._put(row)
            elif isinstance(row, KnownOutcome):
                store._note(row)
            else:
                store.place = row.place
        return store
