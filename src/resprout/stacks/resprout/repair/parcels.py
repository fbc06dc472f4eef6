"""Parcels: state that one broker hands over to another, as rows in messages of bounded size.

The sender packs rows by size (`send_parcel`). The receiver collects the rows of each sender, checks each when it comes,
and hands over the parcel when its end has come (`ParcelDesk`), so that all of it is taken in one step. A parcel whose
session ends earlier has never been there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from resprout.core.bundle import Origin
from resprout.core.contract import Locate, ProtocolMessage
from resprout.core.errors import PeerError, UsageError
from resprout.core.message_fields import NOTHING, Mark, Reached
from resprout.core.seen import Seen
from resprout.edge.broker.known_ids import check_ids
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.order.messages import KnownLock, RootOrderedTopic, check_locks
from resprout.overlay.council import Council
from resprout.overlay.messages import Life, Place
from resprout.overlay.view import MembershipView
from resprout.stacks.peers import Peer
from resprout.stacks.resprout.durable_state import DurableIds, DurableState
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import (
    AskedInterest,
    Attach,
    Grant,
    Item,
    KnownClient,
    KnownDurable,
    KnownMessageIds,
    KnownPlace,
    LastTotal,
    Listener,
    ParcelEnd,
    ParcelRow,
    ParcelRows,
    SeenMark,
    ServedInterest,
    Stub,
    Tombstone,
    Welcome,
    bytes_of,
)
from resprout.values.rows import KnownOutcome, KnownValue, ValueRow, ValuesReached

ROWS_MAX: Final = 2_000_000
"""In one parcel; a broker that knows more cannot hand it over."""
ROWS_BYTES: Final = 32 << 10
"""Of rows that share a message. A larger row has a message of its own."""

_ANY: Final = frozenset((
    SeenMark, AskedInterest, KnownPlace, Tombstone, Listener, KnownClient, KnownLock, LastTotal, KnownDurable,
    KnownMessageIds, RootOrderedTopic,
))  # fmt: skip
ROWS_OF: Final[Mapping[type, frozenset[type]]] = {
    Attach: _ANY | {Item, Stub, ServedInterest},
    Grant: _ANY | {Item, Stub},
    Welcome: _ANY | {KnownValue, KnownOutcome, ValuesReached},
}
"""Head -> the rows that may follow it."""

Row = TypeVar("Row", bound=ParcelRow)
Ask = tuple[int, Predicate, bool]
"""(id, predicate, whether it is confirmed)."""


# -- on their way out --------------------------------------------------------------------------------------------------


def send_parcel(
    send: Callable[[ProtocolMessage], object], head: Attach | Grant | Welcome, rows: Iterable[ParcelRow]
) -> None:
    send(head)
    for message in pack(rows):
        send(message)
    send(ParcelEnd())


def pack(rows: Iterable[ParcelRow]) -> Iterator[ParcelRows]:
    """Put rows, in their order, into as few messages as their sizes allow."""
    for some in in_parts(rows):
        yield ParcelRows(tuple(some))


def in_parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Return the rows, in their order, in as few parts as their sizes allow."""
    some: list[Row] = []
    size = 0
    for row in rows:
        more = bytes_of(row)
        if some and size + more > ROWS_BYTES:
            yield some
            some, size = [], 0
        some.append(row)
        size += more
    if some:
        yield some


def shared_rows(
    view: MembershipView,
    seen: Seen,
    asks: Iterable[Ask],
    locks: Iterable[KnownLock],
    last: Iterable[Mark],
    topics: Iterable[RootOrderedTopic],
) -> Iterator[ParcelRow]:
    """Return the rows that every parcel has: the tree, what was seen, what is asked, and totals."""
    yield from map(KnownPlace, view.places.values())
    for name, number in view.tombstones.items():
        yield Tombstone(Life(name, number))
    yield from map(SeenMark, seen.marks())
    for id, predicate, confirmed in asks:
        yield AskedInterest(id, predicate.filter, predicate.where_text, confirmed)
    yield from topics
    yield from locks
    yield from map(LastTotal, last)


# -- on their way in ---------------------------------------------------------------------------------------------------


class Parcel:
    """The rows that followed one `Attach`, `Grant` or `Welcome`."""

    def __init__(self, head: Any) -> None:
        self.head = head
        self.items: list[Item | Stub] = []
        self.seen: dict[Origin, Reached] = {}
        self.asks: list[Ask] = []
        self.served: list[Predicate] = []
        self.places: list[Place] = []
        self.tombstones: list[Life] = []
        self.locks: list[KnownLock] = []
        self.last_totals: list[Mark] = []
        self.topics: list[RootOrderedTopic] = []
        self.listeners: set[str] = set()
        """Clients that the sender stands for."""
        self.dead_listeners: set[str] = set()
        """Of an `Attach`: clients that the dead neighbour stood for."""
        self.clients: list[Life] = []
        self.durables: list[DurableState] = []
        self.ids: list[DurableIds] = []
        self.values: list[ValueRow] = []
        self._allowed = ROWS_OF[type(head)]
        self._rows_left = ROWS_MAX

    def add(self, rows: tuple[ParcelRow, ...]) -> None:
        """Raise PeerError for rows that no honest broker sends behind this head."""
        self._rows_left -= len(rows)
        if self._rows_left < 0:
            raise PeerError(f"a parcel of more than {ROWS_MAX} rows")
        for row in rows:
            if type(row) not in self._allowed:
                raise PeerError(f"{type(row).__name__} does not belong to {type(self.head).__name__}")
            self._add(row)

    def _add(self, row: ParcelRow) -> None:
        match row:
            case Item() | Stub():
                self.items.append(row)
            case SeenMark(mark):
                if mark.seq > self.seen.get(mark.origin, NOTHING):
                    self.seen[mark.origin] = mark.seq
            case AskedInterest():
                self.asks.append((row.id, _predicate(row.filter, row.where), row.confirmed))
            case ServedInterest():
                self.served.append(_predicate(row.filter, row.where))
            case KnownPlace(place):
                self.places.append(place)
            case Tombstone(life):
                self.tombstones.append(life)
            case Listener(name, False):
                self.listeners.add(name)
            case Listener(name):
                if not isinstance(self.head, Attach):
                    raise PeerError(f"Listener of a dead broker does not belong to {type(self.head).__name__}")
                self.dead_listeners.add(name)
            case KnownClient(life):
                self.clients.append(life)
            case KnownDurable(state):
                self.durables.append(state)
            case KnownMessageIds(known):
                check_ids(known.ids)
                self.ids.append(known)
            case KnownValue() | KnownOutcome() | ValuesReached():
                self.values.append(row)
            case KnownLock():
                check_locks((row,))
                self.locks.append(row)
            case RootOrderedTopic():
                self.topics.append(row)
            case LastTotal(mark):
                self.last_totals.append(mark)


class ParcelDesk:
    def __init__(
        self,
        life: BrokerLife,
        council: Council,
        whole: Mapping[type, Callable[[Peer, Parcel], None]],
    ) -> None:
        """`whole`: by its head, who takes a parcel that is complete."""
        self._life = life
        self._council = council
        self._whole = whole

    def begin(self, peer: Peer, message: Attach | Grant | Welcome) -> None:
        peer.unfinished = Parcel(message)

    def add(self, peer: Peer, message: ParcelRows) -> None:
        parcel = peer.unfinished
        if not isinstance(parcel, Parcel):
            raise PeerError("rows outside of a parcel")
        parcel.add(message.rows)
        self._council.stirred(peer.name, self._life.now_us)

    def complete(self, peer: Peer, message: ParcelEnd) -> None:
        parcel, peer.unfinished = peer.unfinished, None
        if not isinstance(parcel, Parcel):
            raise PeerError("the end of a parcel that never began")
        self._whole[type(parcel.head)](peer, parcel)


def _predicate(filter: str, where: str | None) -> Predicate:
    try:
        return parse_predicate(filter, where)
    except UsageError as error:
        raise PeerError(str(error)) from None


def learn(life: BrokerLife, parcel: Parcel) -> None:
    """Take over what a parcel tells of the tree."""
    for tombstone in parcel.tombstones:
        life.view.mark_dead(tombstone.name, tombstone.incarnation)
    life.view.learn(*parcel.places)
    life.out.extend([Locate(place.name, place.address) for place in parcel.places if place.address])
