"""The subscriptions that a returning client brings along in `Attend`, and the publications that it is owed.

A client is owed a publication that matches one of its subscriptions, if the number of the publication is beyond the
base of that subscription and beyond what the client has received from the same origin.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from resprout.core.bundle import Bundle, Origin, unpack_attributes, whole
from resprout.core.errors import PeerError, UsageError, WireError
from resprout.core.limits import Attributes
from resprout.core.message_fields import Reached, from_marks, is_beyond
from resprout.edge.messages import BASE_MARKS_MAX, HELD_SUBSCRIPTIONS_MAX, Attend, HeldSubscription
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate, parse_predicate


class Held(msgspec.Struct, frozen=True):
    """A subscription that a client holds, as it says itself."""

    id: int
    predicate: Predicate
    base: dict[Origin, Reached]
    """How far origins had come when it was confirmed."""


class HeldReader:
    """Reads the subscriptions of one `Attend`, all at once or a portion at a time."""

    __slots__ = ("_ids", "_marks", "_rest")

    def __init__(self, subscriptions: Iterable[HeldSubscription]) -> None:
        self._rest = iter(subscriptions)
        self._ids: set[int] = set()
        self._marks = 0

    def read_one(self) -> Held | None:
        """Return the next subscription, or None at the end. Raises PeerError for one that cannot be."""
        one = next(self._rest, None)
        if one is None:
            return None
        self._marks += len(one.base)
        if one.id in self._ids:
            raise PeerError(f"subscription {one.id} is there twice")
        if len(self._ids) >= HELD_SUBSCRIPTIONS_MAX:
            raise PeerError(f"more than {HELD_SUBSCRIPTIONS_MAX} subscriptions")
        if self._marks > BASE_MARKS_MAX:
            raise PeerError(f"subscriptions with more than {BASE_MARKS_MAX} marks in their bases")
        self._ids.add(one.id)
        try:
            return Held(one.id, parse_predicate(one.filter, one.where), from_marks(one.base))
        except UsageError as error:
            raise PeerError(f"subscription {one.id}: {error}") from None


def read_held(subscriptions: Iterable[HeldSubscription]) -> list[Held]:
    """Return all subscriptions of an `Attend`. Raises PeerError for one that cannot be."""
    reader = HeldReader(subscriptions)
    return list(iter(reader.read_one, None))


class Owed:
    """Decides which messages a returning client is owed, from its `Attend`. Raises PeerError for an `Attend` that
    cannot be."""

    def __init__(self, attend: Attend, held: Iterable[Held] | None = None) -> None:
        """`held`: the subscriptions, if they were read before."""
        self._received = from_marks(attend.received)
        self._index: MatchIndex[int] = MatchIndex()
        self._bases: dict[int, Mapping[Origin, Reached]] = {}
        for one in read_held(attend.subscriptions) if held is None else held:
            self.add(one)

    def add(self, held: Held) -> None:
        self._index.add(held.id, held.predicate)
        self._bases[held.id] = held.base

    def offsets(self, bundle: Bundle) -> Sequence[int]:
        """Return the offsets of the messages in the bundle that the client is owed: all of them, some, or none."""
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
        except WireError:  # it was accepted unread, and cannot be unpacked to give the client a part of it
            return ()
        return [offset for offset, row in enumerate(rows) if self._wants(bundle, topics, row)]

    def _wants(self, bundle: Bundle, topics: tuple[str, ...], row: Attributes) -> bool:
        return any(is_beyond(bundle, self._bases[id]) for id in self._index.match_any(topics, row))


class BroughtSubscriptions:
    """The subscriptions of a returning client while they are taken up in portions. Until all are taken up, the session
    is shown nothing, and ghosts keep what the client is owed."""

    __slots__ = ("bases", "is_whole", "owed", "reader")

    def __init__(self, attend: Attend) -> None:
        self.reader = HeldReader(attend.subscriptions)
        self.owed = Owed(attend, ())
        self.bases: dict[Predicate, dict[Origin, Reached]] = {}
        """By predicate: the base that all subscriptions with this predicate share."""
        self.is_whole = False
        """Whether all of them are taken up."""
