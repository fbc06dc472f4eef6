"""Parcels: much that belongs together, in parts of bounded size. On their way in, the parts of each sender are put
together until the end comes, and the whole goes to whoever waits for it, so that what it brings is taken at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from resprout.core.bundle import Origin
from resprout.core.contract import Locate, ProtocolMessage
from resprout.core.errors import PeerError, UsageError
from resprout.core.marks import NOTHING, Mark, Reached
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.order.totals.messages import GrantedLock, LastTotals, LockReport, WelcomeLock, check_locks
from resprout.overlay.council import Council
from resprout.overlay.places import Life, Place
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.durable_messages import DurablePart
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.messages import (
    LOCK_PARTS,
    PARCELS,
    PART_ITEMS,
    PARTS,
    AskedInterest,
    Asks,
    ClientLives,
    Item,
    Listeners,
    NetworkName,
    ParcelEnd,
    SeenMarks,
    Served,
    ServedAsks,
    Stub,
    Surroundings,
)
from resprout.stacks.shell.peers import Peer

PARTS_MAX = 1_000_000
"""In one parcel; a log that holds more cannot be handed over."""

T = TypeVar("T")


class Parcel:
    """What one `Attach`, `Grant` or `Welcome` brought."""

    def __init__(self, head: Any) -> None:
        self.head = head
        self.items: list[Item | Stub] = []
        self.seen: dict[Origin, Reached] = {}
        self.asks: list[tuple[int, Predicate, bool]] = []
        self.served: list[Predicate] = []
        self.network = ""
        self.places: list[Place] = []
        self.tombstones: list[Life] = []
        self.lock_reports: list[LockReport] = []
        self.granted_locks: list[GrantedLock] = []
        self.welcome_locks: list[WelcomeLock] = []
        self.last_totals: list[Mark] = []
        self.listeners: dict[str, set[str]] = {}
        """By broker."""
        self.client_lives: list[Life] = []
        self.durables: list[DurableState] = []
        self._parts = 0

    def add(self, part: ProtocolMessage) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise PeerError(f"a parcel of more than {PARTS_MAX} parts")
        match part:
            case Item() | Stub():
                self.items.append(part)
            case SeenMarks(marks):
                for mark in marks:
                    if mark.seq > self.seen.get(mark.origin, NOTHING):
                        self.seen[mark.origin] = mark.seq
            case Asks(asks):
                self.asks += [(ask.id, _predicate(ask.filter, ask.where), ask.confirmed) for ask in asks]
            case ServedAsks(served):
                self.served += [_predicate(ask.filter, ask.where) for ask in served]
            case Surroundings(places, tombstones):
                self.places += places
                self.tombstones += tombstones
            case Listeners(broker, names):
                self.listeners.setdefault(broker, set()).update(names)
            case ClientLives(lives):
                self.client_lives += lives
            case DurablePart(state):
                self.durables.append(state)
            case NetworkName(network):
                self.network = network
            case LockReport():
                check_locks((part,))
                self.lock_reports.append(part)
            case GrantedLock():
                self.granted_locks.append(part)
            case WelcomeLock():
                self.welcome_locks.append(part)
            case LastTotals(marks):
                self.last_totals += marks


class ParcelDesk:
    def __init__(self, core: Core, council: Council, whole: Mapping[type, Callable[[str, int, Parcel], None]]) -> None:
        """`whole`: by its head, who takes a parcel that is complete, from this peer in this life."""
        self._core = core
        self._council = council
        self._whole = whole
        self._coming: dict[str, Parcel] = {}
        """One from each peer at most."""
        self.handlers: dict[type, Callable[[Peer, Any], None]] = {
            **dict.fromkeys(PARCELS, self._begin),
            **dict.fromkeys((*PARTS, *LOCK_PARTS, DurablePart), self._add),
            ParcelEnd: self._complete,
        }

    def drop(self, peer: str) -> None:
        """The session in which it came is over."""
        self._coming.pop(peer, None)

    def _begin(self, peer: Peer, message: Any) -> None:
        self._coming[peer.name] = Parcel(message)

    def _add(self, peer: Peer, message: ProtocolMessage) -> None:
        parcel = self._coming.get(peer.name)
        if parcel is None:
            raise PeerError(f"{type(message).__name__} outside of a parcel")
        parcel.add(message)
        self._council.stirred(peer.name, self._core.now_us)

    def _complete(self, peer: Peer, message: ParcelEnd) -> None:
        parcel = self._coming.pop(peer.name, None)
        if parcel is None:
            raise PeerError("the end of a parcel that never began")
        self._whole[type(parcel.head)](peer.name, peer.incarnation, parcel)


def _predicate(filter: str, where: str | None) -> Predicate:
    try:
        return parse_predicate(filter, where)
    except UsageError as error:
        raise PeerError(str(error)) from None


def learn(core: Core, parcel: Parcel) -> None:
    """What a parcel says of the tree."""
    for tombstone in parcel.tombstones:
        core.view.mark_dead(tombstone.name, tombstone.incarnation)
    core.view.learn(*parcel.places)
    core.out.extend([Locate(place.name, place.address) for place in parcel.places if place.address])


# -- on their way out --------------------------------------------------------------------------------------------------


def pack_marks(marks: Iterable[Mark]) -> list[SeenMarks]:
    return [SeenMarks(some) for some in _in_parts(marks)]


def pack_last_totals(marks: Iterable[Mark]) -> list[LastTotals]:
    return [LastTotals(some) for some in _in_parts(marks)]


def pack_asks(asks: Sequence[tuple[int, Predicate, bool]], confirmed: bool = False) -> list[Asks]:
    """`confirmed`: all of them are, whatever is said of each."""
    return [
        Asks(tuple([AskedInterest(id, p.filter, p.where_text, confirmed or sure) for id, p, sure in some]))
        for some in _in_parts(asks)
    ]


def pack_served(predicates: Iterable[Predicate]) -> list[ServedAsks]:
    return [ServedAsks(tuple([Served(p.filter, p.where_text) for p in some])) for some in _in_parts(predicates)]


def pack_surroundings(core: Core) -> list[Surroundings]:
    places = core.view.places.values()
    tombstones = [Life(name, number) for name, number in core.view.tombstones.items()]
    return [
        *[Surroundings(some, ()) for some in _in_parts(places)],
        *[Surroundings((), dead) for dead in _in_parts(tombstones)],
    ]


def pack_listeners(broker: str, names: Iterable[str]) -> list[Listeners]:
    """At least one part: that there are none is worth knowing."""
    return [Listeners(broker, some) for some in _in_parts(names) or [()]]


def pack_client_lives(lives: Iterable[Life]) -> list[ClientLives]:
    return [ClientLives(some) for some in _in_parts(lives)]


def _in_parts(things: Iterable[T]) -> list[tuple[T, ...]]:
    left, parts = iter(things), []
    while some := tuple(islice(left, PART_ITEMS)):
        parts.append(some)
    return parts
