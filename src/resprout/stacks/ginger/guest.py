"""A client as its broker knows it, and the clients of a dead broker that have not come yet."""

from collections import deque

from resprout.core.bundle import Bundle, Origin, unpack_attributes
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import Receipt
from resprout.core.marks import Reached
from resprout.edge.messages import HeldSubscription, Publish, Turned
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.stacks.ginger.messages import MessageId
from resprout.stacks.ginger.window import Entry


class Guest:
    """One client's session."""

    __slots__ = (
        "attended", "backlog", "endings", "gave", "given", "held", "incarnation", "last", "name", "prompt", "queue",
        "received", "room", "subscriptions", "taken", "turned", "unconfirmed", "unstable", "unturned",
    )  # fmt: skip

    def __init__(self, name: str, incarnation: int, room: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.room = room
        self.attended = False
        self.received: dict[Origin, Reached] = {}
        """How far it had come when it came here: nothing up to there is given again."""
        self.subscriptions: dict[int, Predicate] = {}
        self.unconfirmed: dict[Predicate, list[int]] = {}
        self.queue: deque[Publish] = deque()
        """Published, not taken in."""
        self.last: dict[str, int] = {}
        self.unturned: dict[str, deque[tuple[int, MessageId]]] = {}
        """By stream, its publications that are not stable."""
        self.turned: dict[tuple[str, Receipt], int] = {}
        """Receipts to tell, only the furthest of each kind."""
        self.prompt = False
        """Somebody waits for them."""
        self.backlog: deque[Entry] = deque()
        """Shown, waiting for room."""
        self.given: deque[Entry] = deque()
        self.gave = 0
        self.taken = 0
        self.endings: deque[tuple[int, int]] = deque()
        """(place in the broker's order, subscription): confirm the end when all up to that place is given."""
        self.unstable = 0
        self.held = False

    def turn(self, stream: str, receipt: Receipt, seq: int) -> None:
        if seq > self.turned.get((stream, receipt), 0):
            self.turned[stream, receipt] = seq

    def take_turned(self) -> list[Turned]:
        """What to tell; a higher receipt includes the lower ones of the same publications."""
        furthest: dict[str, int] = {}
        told: list[Turned] = []
        for receipt in (Receipt.DELIVERED, Receipt.SAFE, Receipt.ACCEPTED):
            for (stream, kind), seq in self.turned.items():
                if kind is receipt and seq > furthest.get(stream, 0):
                    furthest[stream] = seq
                    told.append(Turned(stream, receipt, seq))
        self.turned.clear()
        self.prompt = False
        told.reverse()
        return told


class Ghost:
    """The clients of a dead broker that have not come yet. `direction` stands for them among the readers."""

    __slots__ = ("clients", "direction")

    def __init__(self, broker: str, clients: tuple[str, ...]) -> None:
        self.direction = f"~{broker}"
        self.clients = dict.fromkeys(clients)


def check_next(guest: Guest, bundle: Bundle) -> None:
    """A client speaks only for itself and counts without gaps."""
    if bundle.publisher != guest.name or bundle.incarnation != guest.incarnation:
        raise PeerError(f"{guest.name}.{guest.incarnation} published as {bundle.publisher}.{bundle.incarnation}")
    last = guest.last.get(bundle.stream)
    if last is not None and bundle.first > last + 1:
        raise PeerError(f"{bundle!r} leaves a gap after {last}")
    guest.last[bundle.stream] = max(bundle.last, last or 0)


def causally(entry: Entry) -> tuple[int, str, str, int]:
    """Lamport clocks: whatever a publication depends on has a smaller stamp."""
    bundle = entry.bundle
    return (bundle.stamp, bundle.publisher, bundle.stream, bundle.first)


def predicate_of(held: HeldSubscription) -> Predicate:
    try:
        return parse_predicate(held.filter, held.where)
    except UsageError as error:
        raise PeerError(str(error)) from None


def matching(bundle: Bundle, predicates: list[Predicate]) -> tuple[int, ...]:
    """The places of the messages that one of the predicates asks for."""
    if not predicates:
        return ()
    return tuple(
        offset
        for offset, row in enumerate(unpack_attributes(bundle))
        if any(predicate.matches(topic, row) for predicate in predicates for topic in bundle.topics)
    )
