"""A client as its broker knows it: what it subscribed to, what it was given and took, what it published."""

from collections import deque
from collections.abc import Iterable

from resprout.core.bundle import Bundle, Origin
from resprout.core.errors import PeerError
from resprout.core.guarantee import Receipt
from resprout.core.marks import Marks, Reached, is_beyond
from resprout.edge.messages import Attend, Publish, SafeCopies, Turned
from resprout.filters.predicate import Predicate
from resprout.order.entry import Entry

SUBSCRIPTIONS_MAX = 100_000
TOPICS_ADVERTISED_MAX = 100_000


class Settled:
    """Publications that are delivered and have no entry any more."""

    __slots__ = ("first", "last")
    shown = True
    undone = 0

    def __init__(self, last: int) -> None:
        self.first = self.last = last


class Guest:
    """One client's session at its edge broker. It exists from the beginning of the session, and is *attending* once the
    broker has agreed to serve it."""

    __slots__ = (
        "asked", "attending", "backlog", "confirmed", "copies", "counted", "endings", "gave", "given", "gone",
        "incarnation", "last", "moved", "name", "received", "room", "subscriptions", "taken", "turned",
        "unconfirmed", "unturned", "users", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, incarnation: int, room: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.room = room
        self.gone = False
        self.asked = False
        """It has said `Attend`."""
        self.attending = False
        """It was told `Serving`."""
        self.moved = False
        """It was with another broker, or in another session, before: what was refused or safe there is missing here."""
        self.subscriptions: dict[int, Predicate] = {}
        self.users: dict[Predicate, int] = {}
        """How many subscriptions share a predicate."""
        self.unconfirmed: dict[Predicate, list[int]] = {}
        self.confirmed: dict[Predicate, Marks] = {}
        """With what had passed before."""
        self.endings: deque[tuple[int, int]] = deque()
        """(log place, subscription): confirm the end once everything before the place was given."""
        self.given: deque[Entry] = deque()
        """Given, not yet taken."""
        self.gave = 0
        self.taken = 0
        self.received: dict[Origin, Reached] = {}
        """How far each origin had come with the client before it was served here."""
        self.backlog: deque[Entry] = deque()
        """Shown, waiting for room."""
        self.last: dict[str, int] = {}
        self.unturned: dict[str, deque[Entry | Settled]] = {}
        """Its publications by stream whose `delivered` receipt is to come."""
        self.turned: dict[tuple[str, Receipt], int] = {}
        """Receipts to tell at the end of the step: only the furthest of each kind."""
        self.copies: dict[str, int] = {}
        """By stream: on how many brokers `safe` rests, as it was told last."""
        self.counted: list[SafeCopies] = []
        """News of that, for the end of the step."""
        self.waiting: deque[Publish] = deque()
        """Publications that the broker cannot accept yet: they wait behind a total."""

    def check_turn(self, message: object) -> None:
        """A client asks to be served, once, and says nothing else before it is."""
        if type(message) is Attend:
            if self.asked:
                raise PeerError(f"{self.name} asked to be served before")
            self.asked = True
        elif not self.attending:
            raise PeerError(f"{self.name} said {type(message).__name__} before it was served")

    # -- what it publishes ---------------------------------------------------------------------------------------------

    def check_next(self, bundle: Bundle) -> None:
        """A client speaks only for itself and counts without gaps, unless it says again what it said elsewhere."""
        if bundle.publisher != self.name or bundle.incarnation != self.incarnation:
            raise PeerError(f"{self.name}.{self.incarnation} published as {bundle.publisher}.{bundle.incarnation}")
        stream = bundle.stream
        last = self.last.get(stream)
        if last is not None and bundle.first > last + 1 and not self.moved:
            raise PeerError(f"{bundle!r} leaves a gap after {last}")
        self.last[stream] = max(bundle.last, last or 0)

    def published(self, entry: Entry) -> None:
        self.unturned.setdefault(entry.stream, deque()).append(entry)
        self.turn(entry.stream, Receipt.ACCEPTED, entry.last)

    def adopt(self, entries: Iterable[Entry]) -> None:
        """It published these with a broker that is gone, or in an earlier session; in the order of their numbers."""
        for entry in entries:
            entry.client = self
            self.published(entry)
            if entry.shown:
                self.turn(entry.stream, Receipt.SAFE, entry.last)

    def known(self, bundle: Bundle) -> None:
        """It published this again, and it had been here. Receipts go as far as the entry has come; where there is none
        any more, it is delivered as far as this broker knows."""
        for entry in self.unturned.get(bundle.stream, ()):
            if entry.last == bundle.last:
                self.turn(bundle.stream, Receipt.SAFE if entry.shown else Receipt.ACCEPTED, bundle.last)
                break
        else:
            self.settle(bundle.stream, bundle.last)

    def settle(self, stream: str, last: int) -> None:
        """What it published up to here and has no entry is delivered, once what has an entry is."""
        waiting = self.unturned.setdefault(stream, deque())
        place = next((place for place, entry in enumerate(waiting) if entry.last >= last), len(waiting))
        if place == len(waiting) or waiting[place].last > last:
            waiting.insert(place, Settled(last))
        self.turn_delivered(stream)

    def turn(self, stream: str, receipt: Receipt, seq: int) -> None:
        self.turned[stream, receipt] = max(seq, self.turned.get((stream, receipt), 0))

    def count(self, entry: Entry, copies: int, usual: int) -> None:
        """It is safe, at so many brokers. `usual`: what a client takes for granted."""
        if self.copies.get(entry.stream, usual) != copies:
            self.copies[entry.stream] = copies
            self.counted.append(SafeCopies(entry.stream, entry.first, copies))

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

    def take_counted(self) -> list[SafeCopies]:
        """What to tell before that."""
        counted, self.counted = self.counted, []
        return counted

    # -- what it is given ----------------------------------------------------------------------------------------------

    def has(self, bundle: Bundle) -> bool:
        """Whether it was given the bundle elsewhere."""
        return not is_beyond(bundle, self.received)

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
            if any(entry.no < place for entry in self.backlog):
                break
            ended.append(id)
            self.endings.popleft()
        return ended
