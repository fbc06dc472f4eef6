"""A client as its broker knows it: what it subscribed to, what it was given and took, what it published."""

from collections import deque

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.guarantee import Receipt
from resprout.edge.messages import Turned
from resprout.filters.predicate import Predicate
from resprout.order.entry import Entry

SUBSCRIPTIONS_MAX = 100_000
TOPICS_ADVERTISED_MAX = 100_000


class Guest:
    """One client's session at its edge broker."""

    __slots__ = (
        "backlog", "confirmed", "endings", "gave", "given", "gone", "incarnation", "last", "name", "room",
        "subscriptions", "taken", "turned", "unconfirmed", "unturned", "users",
    )  # fmt: skip

    def __init__(self, name: str, incarnation: int, room: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.room = room
        self.gone = False
        self.subscriptions: dict[int, Predicate] = {}
        self.users: dict[Predicate, int] = {}
        """How many subscriptions share a predicate."""
        self.unconfirmed: dict[Predicate, list[int]] = {}
        self.confirmed: dict[Predicate, None] = {}
        self.endings: deque[tuple[int, int]] = deque()
        """(log place, subscription): confirm the end once everything before the place was given."""
        self.given: deque[Entry] = deque()
        """Given, not yet taken."""
        self.gave = 0
        self.taken = 0
        self.backlog: deque[Entry] = deque()
        """Shown, waiting for room."""
        self.last: dict[str, int] = {}
        self.unturned: dict[str, deque[Entry]] = {}
        """Its publications by stream whose `delivered` receipt is to come."""
        self.turned: dict[tuple[str, Receipt], int] = {}
        """Receipts to tell at the end of the step: only the furthest of each kind."""

    # -- what it publishes ---------------------------------------------------------------------------------------------

    def check_next(self, bundle: Bundle) -> None:
        """A client speaks only for itself and counts without gaps."""
        if bundle.publisher != self.name or bundle.incarnation != self.incarnation:
            raise PeerError(f"{self.name}.{self.incarnation} published as {bundle.publisher}.{bundle.incarnation}")
        stream = bundle.stream
        last = self.last.get(stream)
        if last is not None and bundle.first > last + 1:
            raise PeerError(f"{bundle!r} leaves a gap after {last}")
        self.last[stream] = max(bundle.last, last or 0)

    def published(self, entry: Entry) -> None:
        self.unturned.setdefault(entry.stream, deque()).append(entry)
        self.turn(entry.stream, Receipt.ACCEPTED, entry.last)

    def turn(self, stream: str, receipt: Receipt, seq: int) -> None:
        self.turned[stream, receipt] = seq

    def turn_delivered(self, stream: str) -> None:
        """Cumulative: a receipt waits for the publications before it."""
        waiting = self.unturned[stream]
        while waiting and waiting[0].shown and waiting[0].undone == 0:
            self.turn(stream, Receipt.DELIVERED, waiting.popleft().last)

    def take_turned(self) -> list[Turned]:
        """What to tell; a higher receipt includes the lower ones of the same publications."""
        told: list[Turned] = []
        furthest: dict[str, int] = {}
        for receipt in (Receipt.DELIVERED, Receipt.SAFE, Receipt.ACCEPTED):
            for (stream, kind), seq in self.turned.items():
                if kind is receipt and seq > furthest.get(stream, 0):
                    furthest[stream] = seq
                    told.append(Turned(stream, receipt, seq))
        self.turned.clear()
        told.reverse()
        return told

    # -- what it is given ----------------------------------------------------------------------------------------------

    def take(self, deliveries: int) -> list[Entry]:
        """The entries that the client's code has now."""
        if not self.taken <= deliveries <= self.gave:
            raise PeerError(f"{deliveries} deliveries taken of {self.gave} given, {self.taken} before")
        taken = [self.given.popleft() for _ in range(deliveries - self.taken)]
        self.taken = deliveries
        return taken

    def ended(self, first_unshown: int | None) -> list[int]:
        """Subscriptions of which nothing can come any more."""
        ended: list[int] = []
        while self.endings:
            place, id = self.endings[0]
            if first_unshown is not None and first_unshown < place:
                break
            if self.backlog and self.backlog[0].no < place:
                break
            ended.append(id)
            self.endings.popleft()
        return ended
