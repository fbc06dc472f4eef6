"""A client as its broker knows it: what it subscribed to, what it was given and took, what it published."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from resprout.core import limits
from resprout.core.bundle import Bundle, Origin, pick, whole
from resprout.core.errors import BoundError, ForbiddenError, PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import DEFAULT_LIMITS, ClientLimits
from resprout.core.message_fields import NUMBER_MAX, Marks, Reached, is_beyond
from resprout.core.seen import Range, Ranges, joined
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.durable_messages import Consume, WhenFull
from resprout.edge.messages import Attend, Delivery, Publish, SafeCopies, StreamMark, SubscribeRefused, Turned
from resprout.filters.predicate import Predicate
from resprout.wire.sizes import ordering_bytes

if TYPE_CHECKING:
    from resprout.edge.rights import DurableGrant

ENTRY_BYTES: Final = 1024
"""Memory of an unread bundle beside its columns: a bundle of one small message takes 1,125 bytes, its `cost` is about
68. Counts against `subscriber_bytes`, not against windows."""
GAPS_MAX: Final = 1 << 16
"""Left in its numbers by a client that comes from elsewhere. It repeats what is not delivered, so there are no more
than publications that it can have under way. Each may have to be remembered for as long as the session lasts."""
WITHHELD_MAX: Final = 1_000
"""Subscriptions that a client brings along and may not have, of which each is told. With more its session ends."""


class ClientSession:
    """One client's session at its edge broker. It exists from the beginning of the session, and is *attending* once the
    broker has agreed to serve it."""

    __slots__ = (
        "accepted", "announced", "asked", "attending", "awaits_values", "backlog", "confirmed", "consumes", "copies",
        "counted",
        "delivered", "delivered_now", "drop_notices", "dropped", "dropped_bytes", "drops_acknowledged", "endings",
        "gaps", "gave", "given", "gone", "grant", "hears", "held_at_once", "identity", "incarnation", "is_arriving",
        "is_inner", "is_internal", "last", "limits", "may_block", "moved", "name", "owed_bytes", "received",
        "repeated_upto", "room", "safe", "subscriptions", "taken", "taken_bytes", "told_safe", "unconfirmed", "unsaid",
        "unturned", "users", "waiting", "waiting_bytes", "when_full", "withheld",
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
        """The identity that the client has proven; empty where none is asked for."""
        self.limits = limits
        """How much the client's identity, or the client itself, may use of this broker (`quotas`)."""
        self.incarnation = incarnation
        self.room = room
        self.gone = False
        self.is_internal = is_internal
        """Whether it runs inside this broker and ends with it (`recorder`): no ghost waits for it."""
        self.is_arriving = False
        """Whether only some of the many subscriptions that it brings along are taken up
        (`ClientSessions.take_held`). Until all are, nothing is shown to it."""
        self.held_at_once = NUMBER_MAX
        """Subscriptions that it may bring along and that rules are asked about when they come. A stack that takes more
        of them in portions sets it."""
        self.hears: Callable[[int, str], SubscribeRefused | None] | None = None
        """Returns why it may not have a subscription with this id and filter that it brings along; None: rules were
        asked before, or there are none."""
        self.is_inner = False
        """Whether it is a durable subscription that this broker holds (`consumers`), and no peer: it is sent
        nothing."""
        self.consumes = False
        """Whether it is a consumer of a durable subscription, and nothing else."""
        self.grant: Callable[[str], DurableGrant] | None = None
        """What it may do with the durable subscription of a name (`edge.rights`); None: everything."""
        self.announced = True
        """Whether every broker knows of it that may have to look after it."""
        self.unsaid: dict[int, Marks] = {}
        """Confirmed subscriptions and their bases, to tell once it is announced."""
        self.awaits_values: dict[int, Marks | None] = {}
        """Subscriptions that were not given all their last values: their bases, if they are confirmed."""
        self.asked = False
        """Whether it has sent `Attend`."""
        self.attending = False
        """Whether it was sent `Serving`."""
        self.moved = False
        """Whether it was served elsewhere, or in another session, before. Then its numbers may have gaps: what was
        refused, or is safe, is not sent again."""
        self.told_safe: tuple[StreamMark, ...] = ()
        """By stream, how far it was told `safe` before it was served here."""
        self.subscriptions: dict[int, Predicate] = {}
        self.users: dict[Predicate, int] = {}
        """By predicate: how many of its subscriptions have it."""
        self.unconfirmed: dict[Predicate, dict[int, None]] = {}
        self.confirmed: dict[Predicate, Marks] = {}
        """By confirmed predicate: its base."""
        self.endings: deque[tuple[int, int]] = deque()
        """(log place, subscription): the end is confirmed once everything before the place was given."""
        self.given: deque[HeldBundle] = deque()
        """Items that were sent and are not taken, oldest first."""
        self.gave = 0
        self.taken = 0
        self.repeated_upto: dict[str, int] | None = {}
        """By stream: up to here its publications may be repeats of what other brokers have accepted, so `delivered`
        waits until the whole tree was asked. None: all of them may be."""
        self.received: dict[Origin, Reached] = {}
        """How far each origin had come with the client before it was served here."""
        self.backlog: deque[HeldBundle] = deque()
        """Items that were shown and wait for room."""
        self.owed_bytes = 0
        """Bytes of bundles that were shown to it and that it has not taken: those given, and the backlog. Each has
        `ENTRY_BYTES` on top, here and in the next two counters."""
        self.taken_bytes = 0
        """Bytes that were taken or dropped so far."""
        self.dropped: list[tuple[int, HeldBundle]] = []
        """Dropped items, each with the last notice that names it. They stay here until the client acknowledges it."""
        self.dropped_bytes = 0
        self.drop_notices = 0
        """Notices of dropped messages that it was sent (`DeliveriesDropped`)."""
        self.drops_acknowledged = 0
        """Of those, how many it has acknowledged."""
        self.may_block = True
        """Whether publishers may have to wait for it, on all its topics."""
        self.when_full = WhenFull.DISCONNECT
        """What happens when too many bytes are owed to it."""
        self.last: dict[str, int] = {}
        self.gaps = 0
        """How often it has left out numbers, which it has published elsewhere."""
        self.unturned: dict[str, dict[int, HeldBundle]] = {}
        """By stream and first number: its publications whose `delivered` receipt is outstanding."""
        self.accepted: dict[str, int] = {}
        self.safe: dict[str, int] = {}
        """By stream: the furthest `accepted` and `safe` receipt to send at the end of the step."""
        self.delivered: dict[str, Ranges] = {}
        """By stream: what it was told, or is about to be told, is delivered. Publications do not wait for each other
        here: some subscriber may not read one of them."""
        self.delivered_now: dict[str, list[Range]] = {}
        """The part of `delivered` to tell at the end of the step."""
        self.copies: dict[str, int] = {}
        """By stream: the number of brokers that `safe` rests on, as it was told last."""
        self.counted: list[SafeCopies] = []
        """Changes of `copies` to tell at the end of the step."""
        self.waiting: deque[Publish] = deque()
        """Publications that the broker cannot accept yet: they wait behind a total, or for a paused subscriber."""
        self.waiting_bytes = 0
        self.withheld: list[SubscribeRefused] = []
        """Subscriptions that it brought along and may not have: to be told when it has come."""

    def check_turn(self, message: object) -> None:
        """Raise PeerError if the client asks to be served twice, or says something else before it is served."""
        if type(message) is Attend or type(message) is Consume:
            if self.asked:
                raise PeerError(f"{self.name} asked to be served before")
            self.asked = True
        elif not self.attending:
            raise PeerError(f"{self.name} said {type(message).__name__} before it was served")

    def withhold(self, refused: SubscribeRefused) -> None:
        """Keep a refusal until the client has come. ForbiddenError when there are too many."""
        if len(self.withheld) >= WITHHELD_MAX:
            raise ForbiddenError(f"{refused.reason}; {WITHHELD_MAX} more that it brings along are refused, too")
        self.withheld.append(refused)

    # -- what it publishes ---------------------------------------------------------------------------------------------

    def check_next(self, bundle: Bundle) -> None:
        """Raise PeerError unless the client publishes under its own name and without gaps; a client that moved may
        leave `GAPS_MAX` gaps."""
        if bundle.publisher != self.name or bundle.incarnation != self.incarnation:
            raise BoundError(f"{self.name}.{self.incarnation} published as {bundle.publisher}.{bundle.incarnation}")
        stream = bundle.stream
        last = self.last.get(stream)
        if last is not None and bundle.first > last + 1:
            self.gaps += 1
            if not self.moved:
                raise PeerError(f"{bundle!r} leaves a gap after {last}")
            if self.gaps > GAPS_MAX:
                raise BoundError(f"{bundle!r} leaves a gap after {last}, and {GAPS_MAX} were left before")
        if last is not None and bundle.first <= last < bundle.last:
            raise PeerError(f"{bundle!r} overlaps what was seen up to {last}")
        self.last[stream] = max(bundle.last, last or 0)

    def skip(self, bundle: Bundle) -> None:
        """Count a refused bundle as delivered: nobody waits for its numbers."""
        self.check_next(bundle)
        self.delivered.setdefault(bundle.stream, Ranges()).add(bundle.first, bundle.last)

    def published(self, item: HeldBundle) -> None:
        self.unturned.setdefault(item.stream, {})[item.first] = item
        self.turn(item.stream, ReceiptLevel.ACCEPTED, item.last)

    def adopt(self, items: Iterable[HeldBundle]) -> None:
        """Take over publications that the client made through a broker that is gone, or in an earlier session, in
        the order of their numbers."""
        for item in items:
            item.client = self
            self.published(item)
            if item.shown:
                self.turn(item.stream, ReceiptLevel.SAFE, item.last)
            self.turn_delivered(item)

    def known(self, bundle: Bundle, everywhere: bool = True) -> None:
        """Turn the receipts of a bundle that is published again, perhaps with other boundaries, as far as the items
        that hold its messages have come. `everywhere`: messages without an item here are delivered; otherwise only
        this broker is through with them."""
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
        """Turn to `delivered` everything up to this number that has no item."""
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
        """Note that an item is safe at `copies` brokers. `usual`: what the client assumes."""
        if self.copies.get(item.stream, usual) != copies:
            self.copies[item.stream] = copies
            self.counted.append(SafeCopies(item.stream, item.first, copies))

    def turn_delivered(self, item: HeldBundle) -> None:
        """Turn the receipt to `delivered` if the item is, whatever has become of earlier publications."""
        waiting = self.unturned.get(item.stream, {})
        if item.shown and item.undone == 0 and waiting.get(item.first) is item and not self._may_repeat(item):
            del waiting[item.first]
            self._deliver(item.stream, item.first, item.last)

    def expect_repeats(self, upto: dict[str, int] | None) -> None:
        """Set `repeated_upto`, and turn the receipts that waited for it."""
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
        """Return the receipts to send; a higher one includes the lower ones of the same publications."""
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
            islands = [each for each in ranges if each[0] > upto]
            if len(islands) < len(ranges):
                told.append(Turned(stream, ReceiptLevel.DELIVERED, upto))
            if islands:
                told.extend([Turned(stream, ReceiptLevel.DELIVERED, last, first) for first, last in joined(islands)])
        self.delivered_now.clear()
        return told

    def take_counted(self) -> list[SafeCopies]:
        """Return the messages about copies, which precede the receipts."""
        counted, self.counted = self.counted, []
        return counted

    # -- what it is given ----------------------------------------------------------------------------------------------

    def has(self, bundle: Bundle) -> bool:
        """Whether it was given the bundle elsewhere."""
        return not is_beyond(bundle, self.received)

    def take(self, deliveries: int) -> list[HeldBundle]:
        """Return the items that the application has taken with its first `deliveries` deliveries."""
        if not self.taken <= deliveries <= self.gave:
            raise BoundError(f"{deliveries} deliveries taken of {self.gave} given, {self.taken} before")
        taken = [self.given.popleft() for _ in range(deliveries - self.taken)]
        self.taken = deliveries
        for item in taken:
            self.took(item)
        return taken

    def took(self, item: HeldBundle) -> None:
        """Stop counting an item against the client."""
        assert item.bundle is not None, "a reader pins the bundle"
        cost = ENTRY_BYTES + item.bundle.cost
        self.owed_bytes -= cost
        self.taken_bytes += cost

    def drop(self, items: Iterable[HeldBundle], notices: int) -> None:
        """Keep items that are not owed any more until the client acknowledges the notices that name them."""
        self.drop_notices += notices
        for item in items:
            assert item.bundle is not None, "a reader pins the bundle"
            self.dropped.append((self.drop_notices, item))
            self.dropped_bytes += ENTRY_BYTES + item.bundle.cost

    def acknowledge_drops(self, notices: int) -> list[HeldBundle]:
        """Return the dropped items that nobody has to keep for this client any more."""
        if not self.drops_acknowledged <= notices <= self.drop_notices:
            before = self.drops_acknowledged
            raise BoundError(f"{notices} notices of drops acknowledged of {self.drop_notices}, {before} before")
        self.drops_acknowledged = notices
        known: list[HeldBundle] = []
        while self.dropped and self.dropped[0][0] <= notices:
            item = self.dropped.pop(0)[1]
            assert item.bundle is not None, "a reader pins the bundle"
            self.dropped_bytes -= ENTRY_BYTES + item.bundle.cost
            known.append(item)
        return known

    def unfinished(self) -> list[HeldBundle]:
        """Return the items that this session keeps in the log."""
        return [*self.given, *self.backlog, *[item for _, item in self.dropped]]

    def ended(self, first_held_back: int | None) -> list[int]:
        """Remove and return the subscriptions of which nothing can come any more."""
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


def plain_delivery(item: HeldBundle, session: ClientSession | None) -> Delivery:
    """Return the message that gives an item to a client: only the messages that it picked, or the whole if `session` is
    None."""
    assert item.bundle is not None, "a reader pins the bundle"
    bundle = item.bundle if type(item.bundle) is Bundle else whole(item.bundle)  # nearly never
    offsets = item.picks.get(session.name) if session is not None and item.picks is not None else None
    if offsets is not None:
        bundle = pick(bundle, offsets)
    tseq = item.place if bundle.guarantee is Guarantee.TOTAL else -1  # what was only carried has asked for no place
    return Delivery(bundle, item.hops, ordering_bytes(bundle, item.hops), offsets, item.prompt, tseq)
