"""A client as its broker knows it: what it subscribed to, what it was given and took, what it published."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from resprout.core import limits
from resprout.core.bundle import Bundle, Origin
from resprout.core.errors import BoundError, PeerError
from resprout.core.guarantee import ReceiptLevel
from resprout.core.limits import DEFAULT_LIMITS, ClientLimits
from resprout.core.message_fields import Marks, Reached, is_beyond
from resprout.core.seen import Range, Ranges, joined
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.durable_messages import Consume, WhenFull
from resprout.edge.messages import Attend, Publish, SafeCopies, StreamMark, SubscribeRefused, Turned
from resprout.filters.predicate import Predicate

if TYPE_CHECKING:
    from resprout.edge.broker.grants import DurableGrant


class ClientSession:
    """One client's session at its edge broker. It exists from the beginning of the session, and is *attending* once the
    broker has agreed to serve it."""

    __slots__ = (
        "accepted", "announced", "asked", "attending", "backlog", "confirmed", "consumes", "copies", "counted",
        "delivered", "delivered_now", "drop_notices", "dropped", "dropped_bytes", "drops_acknowledged", "endings",
        "gave", "given", "gone", "grant", "identity", "incarnation", "is_inner", "is_internal", "last", "limits",
        "may_block", "moved", "name", "owed_bytes", "received", "repeated_upto", "room", "safe", "subscriptions",
        "taken", "taken_bytes", "told_safe", "unconfirmed", "unsaid", "unturned", "users", "waiting", "waiting_bytes",
        "when_full", "withheld",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        incarnation: int,
        room: int,
        is_internal: bool = False,
        identity: str = "",
        limits: ClientLimits = DEFAULT_LIMITS,
    ) -> None:
        self.name = name
        self.identity = identity
        """Whom the client has proven to be; empty where nothing is proven."""
        self.limits = limits
        """How much its identity, or itself, may use of this broker (`quotas`)."""
        self.incarnation = incarnation
        self.room = room
        self.gone = False
        self.is_internal = is_internal
        """It runs inside this broker and ends with it (`recorder`): no ghost waits for it when the broker dies."""
        self.is_inner = False
        """No peer: a durable subscription that this broker holds (`consumers`). It is told nothing."""
        self.consumes = False
        """It is a consumer of one of those, and nothing else."""
        self.grant: DurableGrant | None = None
        """What it may do with the one that it asked for (`grants`); None: everything."""
        self.announced = True
        """Everybody knows of it who may have to look after it one day."""
        self.unsaid: dict[int, Marks] = {}
        """Subscriptions that are confirmed, and their bases; to be told when it is announced."""
        self.asked = False
        """It has said `Attend`."""
        self.attending = False
        """It was told `Serving`."""
        self.moved = False
        """It was with another broker, or in another session, before: what was refused or safe there is missing here."""
        self.told_safe: tuple[StreamMark, ...] = ()
        """Before it was served here."""
        self.subscriptions: dict[int, Predicate] = {}
        self.users: dict[Predicate, int] = {}
        """How many subscriptions share a predicate."""
        self.unconfirmed: dict[Predicate, dict[int, None]] = {}
        self.confirmed: dict[Predicate, Marks] = {}
        """With what had passed before."""
        self.endings: deque[tuple[int, int]] = deque()
        """(log place, subscription): confirm the end once everything before the place was given."""
        self.given: deque[HeldBundle] = deque()
        """Given, not yet taken."""
        self.gave = 0
        self.taken = 0
        self.repeated_upto: dict[str, int] | None = {}
        """By stream: up to here its publications may be repeats of what other brokers have accepted, so `delivered`
        waits until the whole tree was asked. None: all of them may be."""
        self.received: dict[Origin, Reached] = {}
        """How far each origin had come with the client before it was served here."""
        self.backlog: deque[HeldBundle] = deque()
        """Shown, waiting for room."""
        self.owed_bytes = 0
        """Bytes of bundles that were shown to it and that it has not taken: those given, and the backlog."""
        self.taken_bytes = 0
        """Bytes of bundles that it has taken so far, or that were dropped."""
        self.dropped: deque[tuple[int, HeldBundle]] = deque()
        """Dropped items, each with the last notice that names it. They stay here until the client acknowledges it."""
        self.dropped_bytes = 0
        self.drop_notices = 0
        """Notices of dropped messages that it was sent (`DeliveriesDropped`)."""
        self.drops_acknowledged = 0
        """Of those, how many it has acknowledged."""
        self.may_block = True
        """Publishers of everything that it subscribes to may have to wait for it."""
        self.when_full = WhenFull.DISCONNECT
        """What happens when too many bytes are owed to it."""
        self.last: dict[str, int] = {}
        self.unturned: dict[str, dict[int, HeldBundle]] = {}
        """Its publications by stream and first number whose `delivered` receipt is to come."""
        self.accepted: dict[str, int] = {}
        self.safe: dict[str, int] = {}
        """Receipts to tell at the end of the step, those that come in the order of a stream: only the furthest."""
        self.delivered: dict[str, Ranges] = {}
        """What it was told, or is about to be, that is delivered. Publications do not wait for each other here: one may
        be owed to somebody who does not read."""
        self.delivered_now: dict[str, list[Range]] = {}
        """Of that, what is to be told at the end of the step."""
        self.copies: dict[str, int] = {}
        """By stream: on how many brokers `safe` rests, as it was told last."""
        self.counted: list[SafeCopies] = []
        """News of that, for the end of the step."""
        self.waiting: deque[Publish] = deque()
        """Publications that the broker cannot accept yet: they wait behind a total, or for a subscriber that is paused
        for."""
        self.waiting_bytes = 0
        self.withheld: list[SubscribeRefused] = []
        """Subscriptions that it brought along and may not have: to be told when it has come."""

    def check_turn(self, message: object) -> None:
        """A client asks to be served, once, and says nothing else before it is."""
        if type(message) is Attend or type(message) is Consume:
            if self.asked:
                raise PeerError(f"{self.name} asked to be served before")
            self.asked = True
        elif not self.attending:
            raise PeerError(f"{self.name} said {type(message).__name__} before it was served")

    # -- what it publishes ---------------------------------------------------------------------------------------------

    def check_next(self, bundle: Bundle) -> None:
        """A client speaks only for itself and counts without gaps, unless it says again what it said elsewhere."""
        if bundle.publisher != self.name or bundle.incarnation != self.incarnation:
            raise BoundError(f"{self.name}.{self.incarnation} published as {bundle.publisher}.{bundle.incarnation}")
        stream = bundle.stream
        last = self.last.get(stream)
        if last is not None and bundle.first > last + 1 and not self.moved:
            raise PeerError(f"{bundle!r} leaves a gap after {last}")
        if last is not None and bundle.first <= last < bundle.last:
            raise PeerError(f"{bundle!r} overlaps what was seen up to {last}")
        self.last[stream] = max(bundle.last, last or 0)

    def skip(self, bundle: Bundle) -> None:
        """It was refused, and will never be delivered: nobody waits for its number."""
        self.check_next(bundle)
        self.delivered.setdefault(bundle.stream, Ranges()).add(bundle.first, bundle.last)

    def published(self, item: HeldBundle) -> None:
        self.unturned.setdefault(item.stream, {})[item.first] = item
        self.turn(item.stream, ReceiptLevel.ACCEPTED, item.last)

    def adopt(self, items: Iterable[HeldBundle]) -> None:
        """It published these with a broker that is gone, or in an earlier session; in the order of their numbers."""
        for item in items:
            item.client = self
            self.published(item)
            if item.shown:
                self.turn(item.stream, ReceiptLevel.SAFE, item.last)
            self.turn_delivered(item)

    def known(self, bundle: Bundle, everywhere: bool = True) -> None:
        """Tell how far a bundle has come that it published again, perhaps with other boundaries: as far as the items
        that hold its messages. `everywhere`: messages without an item here are delivered; otherwise only this broker is
        through with them."""
        stream, at = bundle.stream, bundle.first
        items = self.unturned.get(stream, {})
        # The item with the first message may begin before it; the items after that one begin inside the bundle.
        begins = range(at, max(0, at - limits.BUNDLE_MESSAGES), -1) if items else ()
        item = next((items[first] for first in begins if first in items), None)
        if item is not None and item.last < at:
            item = None
        while at <= bundle.last:
            if item is not None:
                last = min(bundle.last, item.last)
                self.turn(stream, ReceiptLevel.SAFE if item.shown else ReceiptLevel.ACCEPTED, last)
            else:
                last = next((later - 1 for later in range(at + 1, bundle.last + 1) if later in items), bundle.last)
                if everywhere:
                    self._deliver(stream, at, last)
                else:
                    self.turn(stream, ReceiptLevel.SAFE, last)
            at = last + 1
            item = items.get(at)

    def settle(self, stream: str, last: int) -> None:
        """What it published up to here and has no item is delivered."""
        at = 1
        for first, item in sorted(self.unturned.get(stream, {}).items()):
            if first > last:
                break
            self._deliver(stream, at, first - 1)
            at = item.last + 1
        self._deliver(stream, at, last)

    def turn(self, stream: str, receipt: ReceiptLevel, seq: int) -> None:
        turned = self.safe if receipt is ReceiptLevel.SAFE else self.accepted
        if seq > turned.get(stream, 0):
            turned[stream] = seq

    def count(self, item: HeldBundle, copies: int, usual: int) -> None:
        """It is safe, at so many brokers. `usual`: what a client takes for granted."""
        if self.copies.get(item.stream, usual) != copies:
            self.copies[item.stream] = copies
            self.counted.append(SafeCopies(item.stream, item.first, copies))

    def turn_delivered(self, item: HeldBundle) -> None:
        """If it is, whatever has become of the publications before it."""
        waiting = self.unturned.get(item.stream, {})
        if item.shown and item.undone == 0 and waiting.get(item.first) is item and not self._may_repeat(item):
            del waiting[item.first]
            self._deliver(item.stream, item.first, item.last)

    def expect_repeats(self, upto: dict[str, int] | None) -> None:
        """Set `repeated_upto`, and turn what has waited for that."""
        self.repeated_upto = upto
        if upto is not None:
            for waiting in self.unturned.values():
                for item in list(waiting.values()):
                    self.turn_delivered(item)

    def _may_repeat(self, item: HeldBundle) -> bool:
        upto = self.repeated_upto
        return upto is None or (bool(upto) and item.first <= upto.get(item.stream, 0))

    def _deliver(self, stream: str, first: int, last: int) -> None:
        delivered = self.delivered.get(stream)
        if delivered is None:
            delivered = self.delivered[stream] = Ranges()
        if new := delivered.add(first, last):
            self.delivered_now.setdefault(stream, []).extend(new)

    def take_turned(self) -> list[Turned]:
        """What to tell; a higher receipt includes the lower ones of the same publications."""
        told: list[Turned] = []
        furthest = {stream: self.delivered[stream].upto for stream in self.delivered_now}
        for receipt, turned in ((ReceiptLevel.SAFE, self.safe), (ReceiptLevel.ACCEPTED, self.accepted)):
            for stream, seq in turned.items():
                if seq > furthest.get(stream, 0):
                    furthest[stream] = seq
                    told.append(Turned(stream, receipt, seq))
            turned.clear()
        told.reverse()
        for stream, ranges in self.delivered_now.items():
            upto = self.delivered[stream].upto
            if any(first <= upto for first, _ in ranges):
                told.append(Turned(stream, ReceiptLevel.DELIVERED, upto))
            islands = joined([each for each in ranges if each[0] > upto])
            told.extend([Turned(stream, ReceiptLevel.DELIVERED, last, first) for first, last in islands])
        self.delivered_now.clear()
        return told

    def take_counted(self) -> list[SafeCopies]:
        """What to tell before that."""
        counted, self.counted = self.counted, []
        return counted

    # -- what it is given ----------------------------------------------------------------------------------------------

    def has(self, bundle: Bundle) -> bool:
        """Whether it was given the bundle elsewhere."""
        return not is_beyond(bundle, self.received)

    def take(self, deliveries: int) -> list[HeldBundle]:
        """The items that the client's code has now."""
        if not self.taken <= deliveries <= self.gave:
            raise BoundError(f"{deliveries} deliveries taken of {self.gave} given, {self.taken} before")
        taken = [self.given.popleft() for _ in range(deliveries - self.taken)]
        self.taken = deliveries
        for item in taken:
            self.took(item)
        return taken

    def took(self, item: HeldBundle) -> None:
        """It is not owed this item any more."""
        assert item.bundle is not None, "a reader pins the bundle"
        cost = item.bundle.cost
        self.owed_bytes -= cost
        self.taken_bytes += cost

    def drop(self, items: Iterable[HeldBundle], notices: int) -> None:
        """Keep items that are not owed any more until the client acknowledges the notices that name them."""
        self.drop_notices += notices
        for item in items:
            assert item.bundle is not None, "a reader pins the bundle"
            self.dropped.append((self.drop_notices, item))
            self.dropped_bytes += item.bundle.cost

    def acknowledge_drops(self, notices: int) -> list[HeldBundle]:
        """Return the dropped items that nobody has to keep for this client any more."""
        if not self.drops_acknowledged <= notices <= self.drop_notices:
            before = self.drops_acknowledged
            raise BoundError(f"{notices} notices of drops acknowledged of {self.drop_notices}, {before} before")
        self.drops_acknowledged = notices
        known: list[HeldBundle] = []
        while self.dropped and self.dropped[0][0] <= notices:
            item = self.dropped.popleft()[1]
            assert item.bundle is not None, "a reader pins the bundle"
            self.dropped_bytes -= item.bundle.cost
            known.append(item)
        return known

    def unfinished(self) -> list[HeldBundle]:
        """Return the items that this session keeps in the log."""
        return [*self.given, *self.backlog, *[item for _, item in self.dropped]]

    def ended(self, first_held_back: int | None) -> list[int]:
        """Subscriptions of which nothing can come any more."""
        ended: list[int] = []
        lowest: int | None = None
        while self.endings:
            place, id = self.endings[0]
            if first_held_back is not None and first_held_back < place:
                break
            if self.backlog:
                if self.backlog[0].no < place:
                    break
                if lowest is None:  # found once: a session may have many endings and a long backlog
                    lowest = min([item.no for item in self.backlog])
                if lowest < place:
                    break
            ended.append(id)
            self.endings.popleft()
        return ended
