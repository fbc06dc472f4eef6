"""The subscriptions that a returning client brings along, and what it is owed of what passed while it was away.

It is owed those publications that match one of its subscriptions, lie beyond the base of that subscription, and beyond
what it has received.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from resprout.core.bundle import Bundle, Origin, unpack_attributes, whole
from resprout.core.errors import PeerError, UsageError, WireError
from resprout.core.message_fields import Reached, from_marks, is_beyond
from resprout.core.names import Attributes
from resprout.edge.messages import BASE_MARKS_MAX, HELD_SUBSCRIPTIONS_MAX, Attend, HeldSubscription
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate, parse_predicate


class Held(msgspec.Struct, frozen=True):
    """A subscription that a client has, by its own account."""

    id: int
    predicate: Predicate
    base: dict[Origin, Reached]


def read_held(subscriptions: Iterable[HeldSubscription]) -> list[Held]:
    """Raises PeerError for what cannot be."""
    held: dict[int, Held] = {}
    marks = 0
    for one in subscriptions:
        marks += len(one.base)
        if one.id in held:
            raise PeerError(f"subscription {one.id} is there twice")
        if len(held) >= HELD_SUBSCRIPTIONS_MAX:
            raise PeerError(f"more than {HELD_SUBSCRIPTIONS_MAX} subscriptions")
        if marks > BASE_MARKS_MAX:
            raise PeerError(f"subscriptions with more than {BASE_MARKS_MAX} marks in their bases")
        try:
            held[one.id] = Held(one.id, parse_predicate(one.filter, one.where), from_marks(one.base))
        except UsageError as error:
            raise PeerError(f"subscription {one.id}: {error}") from None
    return list(held.values())


class Owed:
    """Read from one `Attend`, or PeerError."""

    def __init__(self, attend: Attend) -> None:
        self._received = from_marks(attend.received)
        self._index: MatchIndex[int] = MatchIndex()
        self._bases: dict[int, Mapping[Origin, Reached]] = {}
        for held in read_held(attend.subscriptions):
            self._index.add(held.id, held.predicate)
            self._bases[held.id] = held.base

    def offsets(self, bundle: Bundle) -> Sequence[int]:
        """The places of the messages in the bundle that it is owed: all of them, some, or none."""
        if not is_beyond(bundle, self._received):
            return ()
        topics = bundle.topics
        is_conditional = any(self._index.plan(topic).conditional for topic in topics)
        if is_conditional:
            bundle = whole(bundle)
        if not is_conditional or not bundle.attributes:
            return range(bundle.count) if self._wants(bundle, topics, {}) else ()
        try:
            rows = unpack_attributes(bundle)
        except WireError:  # let in while nobody had to read it; nobody can be given a part of it
            return ()
        return [offset for offset, row in enumerate(rows) if self._wants(bundle, topics, row)]

    def _wants(self, bundle: Bundle, topics: tuple[str, ...], row: Attributes) -> bool:
        return any(is_beyond(bundle, self._bases[id]) for id in self._index.match_any(topics, row))
