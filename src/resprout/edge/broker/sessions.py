"""The clients of one broker: their subscriptions, what they are given, their receipts.

A slow client pushes back on its own session: what it has no room for waits in its backlog as references to items that
the stack keeps. Each session counts the bytes that it is owed; a stack that bounds them sets `filling_bytes` and looks
at `filling`. How bundles are ordered, kept and routed is the stack's business; what it does for the sessions stands in
`ports`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Effect, Send
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import ReceiptLevel
from resprout.core.limits import DEFAULT_LIMITS, ClientLimits
from resprout.core.message_fields import NOTHING, Marks, Reached, from_marks, in_parts, to_marks
from resprout.edge.broker.owed import BroughtSubscriptions, Held, Owed, read_held
from resprout.edge.broker.portion import joined, spans_of
from resprout.edge.broker.ports import Confirmation, HeldBundle, RetentionPort, SubscriptionPort
from resprout.edge.broker.quotas import LimitError, Quotas
from resprout.edge.broker.session import ENTRY_BYTES, ClientSession, plain_delivery
from resprout.edge.durable_messages import SPANS_MAX, WhenFull
from resprout.edge.messages import (
    Attend,
    DeliveriesDropped,
    Delivery,
    DropsAcknowledged,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Successor,
    Taken,
    Unsubscribe,
    Unsubscribed,
)  # fmt: skip
from resprout.filters.predicate import Predicate, parse_predicate

_ACCEPTED: Final = ReceiptLevel.ACCEPTED.bit
_SAFE: Final = ReceiptLevel.SAFE.bit
_DELIVERED: Final = ReceiptLevel.DELIVERED.bit
HELD_AT_ONCE: Final = 256
"""Subscriptions that a client brings along and that are taken in one step. More are taken in portions (`take_held`),
where the stack does that."""


class ClientSessions:
    """All sessions of a broker. The effects for its clients are appended to `out`."""

    def __init__(
        self,
        serving: Serving,
        log: RetentionPort,
        subscriptions: SubscriptionPort,
        finished: Callable[[Any], None] = lambda item: None,
        copies_of: Callable[[Any], int] | None = None,
        is_confirmed: Callable[[ClientSession, Marks], None] = lambda session, base: None,
        filling_bytes: int = 1 << 62,
        delivery_of: Callable[[Any, ClientSession | None], Delivery] | None = None,
        known_deep: Callable[[], int] = lambda: 0,
    ) -> None:
        """`finished` is called when the last reader of an item has it and no other is owed it. `copies_of` tells on how
        many brokers a safe item rests, f + 1 if it is not given. `is_confirmed` is told of durable subscriptions from
        whose confirmation on nothing is missed. `delivery_of` makes the message that gives an item to a client, or to
        all who read the whole of it. `known_deep`: see `Quotas`."""
        self.serving = serving
        self.delivery_of = delivery_of or plain_delivery
        self._log = log
        self._subscriptions = subscriptions
        self.copies_of = copies_of or (lambda item: serving.faults_tolerated + 1)
        """Returns the number of brokers on which a safe item rests; at most f + 1."""
        self._finished = finished
        self.quotas = Quotas(known_deep)
        self.all: dict[str, ClientSession] = {}
        """All readers by name: clients, served or not yet, and ghosts."""
        self.returned: dict[str, ClientSession] = {}
        """Clients that were given something elsewhere, which may still arrive here: see `ClientSession.has`."""
        self.turned: dict[str, ClientSession] = {}
        """Sessions with receipts to send at the end of the step."""
        self.lazy_receipts: dict[str, ClientSession] = {}
        """Sessions with receipts that nobody waits for, to send with the next `flush_all`."""
        self.ending: dict[str, ClientSession] = {}
        """Sessions with subscriptions that are about to end."""
        self.with_unconfirmed: dict[str, ClientSession] = {}
        """Sessions with subscriptions that are not confirmed."""
        self.waking: dict[str, ClientSession] = {}
        """Durable subscriptions with something new, and consumers with room again: see `consumers`."""
        self._is_confirmed = is_confirmed
        self.filling_bytes = filling_bytes
        """A session that is owed more than this is put into `filling`."""
        self.filling: dict[str, ClientSession] = {}
        """Sessions that were owed more when something was shown to them; the part that looks at them removes them."""
        self._base: dict[Origin, Reached] = {}
        self._base_marks: Marks = ()
        """Of the wish that was confirmed last."""

    # -- coming and going ----------------------------------------------------------------------------------------------

    def arrive(
        self,
        name: str,
        incarnation: int,
        room: int,
        is_internal: bool = False,
        identity: str = "",
        limits: ClientLimits = DEFAULT_LIMITS,
    ) -> ClientSession:
        """Begin a session. The client will send `Attend`; the stack serves it with `welcome`."""
        session = self.all[name] = ClientSession(name, incarnation, room, is_internal, identity, limits)
        self.quotas.enter(session)
        return session

    def welcome(
        self,
        session: ClientSession,
        attend: Attend,
        successors: tuple[Successor, ...],
        resumed: bool,
        out: list[Effect],
        brought: BroughtSubscriptions | None = None,
    ) -> None:
        """Serve a client, with the subscriptions that it brings along: those that `take_held` has taken from `brought`,
        otherwise all in this call. Then raises PeerError, with nothing done, when those cannot be. `resumed`: what it
        missed will be made good; otherwise it has to subscribe again."""
        held = read_held(attend.subscriptions) if resumed and brought is None else []
        session.moved = bool(attend.tried)
        session.told_safe = attend.safe
        may = session.may_block or attend.when_full is not WhenFull.BLOCK
        session.when_full = attend.when_full if may else WhenFull.DISCONNECT
        if attend.received:
            self.quotas.keep_received(session, attend.received)
            self.returned[session.name] = session
        self.serve(session, successors, resumed, out)
        bases = brought.bases if brought is not None else {}
        for one in held:
            self._take_held(session, one, bases, out)
        session.confirmed.update({predicate: to_marks(base) for predicate, base in bases.items()})
        session.is_arriving = False

    def take_held(self, session: ClientSession, held: Held, brought: BroughtSubscriptions, out: list[Effect]) -> None:
        """Take one of the subscriptions that a client brings along, before `welcome`. Raises ForbiddenError when too
        many are refused."""
        session.is_arriving = True
        if session.hears is not None and (refused := session.hears(held.id, held.predicate.filter)) is not None:
            session.withhold(refused)
            return
        brought.owed.add(held)
        self._take_held(session, held, brought.bases, out)

    def _take_held(
        self, session: ClientSession, held: Held, bases: dict[Predicate, dict[Origin, Reached]], out: list[Effect]
    ) -> None:
        predicate = held.predicate
        try:
            self.quotas.take(session, predicate)
        except LimitError as error:
            self.quotas.refuse(session, error, out)
            session.withhold(SubscribeRefused(held.id, str(error)))
            return
        session.subscriptions[held.id] = predicate
        users = session.users.get(predicate, 0)
        session.users[predicate] = users + 1
        if users == 0:
            self.confirm(self._subscriptions.want(session.name, predicate, confirmed=True), out)
        if not held.base:
            session.confirmed.setdefault(predicate, ())
            return
        base = bases.get(predicate)
        if base is None:
            base = bases[predicate] = from_marks(session.confirmed.get(predicate, ()))
        for origin, reached in held.base.items():
            base[origin] = max(reached, base.get(origin, NOTHING))

    def check_held(self, session: ClientSession, attend: Attend, now_us: int, out: list[Effect]) -> None:
        """Raise PeerError when a client brings along more conditions than its party may have parsed now, or, if they
        are few enough to be read at once, subscriptions that cannot be. Done when they come: then their sender is
        blamed."""
        subscriptions = attend.subscriptions
        try:
            self.quotas.charge_parsing(session, sum([len(held.where or "") for held in subscriptions]), now_us)
        except LimitError as error:
            self.quotas.refuse(session, error, out)
            raise PeerError(str(error)) from None
        if len(subscriptions) <= HELD_AT_ONCE:
            read_held(subscriptions)

    def serve(
        self, session: ClientSession, successors: tuple[Successor, ...], resumed: bool, out: list[Effect]
    ) -> None:
        if not session.is_inner:
            session.attending = True
            told = msgspec.structs.replace(self.serving, successors=successors, resumed=resumed)
            out.append(Send(session.name, told))

    def leave(self, name: str, out: list[Effect]) -> None:
        """The session is over: nothing is owed to this client any more, and nothing is expected from it."""
        session = self.all.pop(name)
        session.gone = True
        self.quotas.leave(session)
        self.returned.pop(name, None)
        self.waking.pop(name, None)
        self.filling.pop(name, None)
        self.turned.pop(name, None)
        self.lazy_receipts.pop(name, None)
        self.ending.pop(name, None)
        self.with_unconfirmed.pop(name, None)
        self.confirm(self._subscriptions.drop_all(name), out)
        for item in session.unfinished():
            self.took(item)

    def publisher_of(self, bundle: Bundle) -> ClientSession | None:
        """Return the session of the publisher if it is served here now, whichever broker accepted the bundle."""
        return self.find_life(bundle.publisher, bundle.incarnation)

    def find_life(self, name: str, incarnation: int) -> ClientSession | None:
        """Return the session of this life of a client, if it is served here now."""
        session = self.all.get(name)
        if session is None or session.incarnation != incarnation or not session.attending:
            return None
        return session

    # -- what a client says --------------------------------------------------------------------------------------------

    def subscribe(self, session: ClientSession, message: Subscribe, out: list[Effect]) -> None:
        if message.id in session.subscriptions:
            raise PeerError(f"subscription {message.id} exists already")
        try:
            predicate = parse_predicate(message.filter, message.where)
            self.quotas.take(session, predicate)
        except UsageError as error:
            if isinstance(error, LimitError):
                self.quotas.refuse(session, error, out)
            out.append(Send(session.name, SubscribeRefused(message.id, str(error))))
            return
        session.subscriptions[message.id] = predicate
        if message.retained:
            session.awaits_values[message.id] = None
        session.when_full = message.when_full
        users = session.users.get(predicate, 0)
        session.users[predicate] = users + 1
        if predicate in session.confirmed:
            self._say_subscribed(session, message.id, session.confirmed[predicate], out)
            return
        session.unconfirmed.setdefault(predicate, {})[message.id] = None
        self.with_unconfirmed[session.name] = session
        if users == 0:
            self.confirm(self._subscriptions.want(session.name, predicate), out)

    def confirm(self, wishes: Iterable[Confirmation], out: list[Effect]) -> None:
        """Tell clients that these wishes are confirmed by every neighbour."""
        for wish in wishes:
            session = self.all.get(wish.direction)
            if session is None:  # it has left, and what it wanted is dropped in portions
                continue
            if wish.base is not self._base:  # many that are confirmed together share one
                self._base, self._base_marks = wish.base, to_marks(wish.base)
            base = session.confirmed[wish.predicate] = self._base_marks
            for id in session.unconfirmed.pop(wish.predicate, ()):
                self._say_subscribed(session, id, base, out)
            if not session.unconfirmed:
                self.with_unconfirmed.pop(session.name, None)

    def gave_values(self, session: ClientSession, id: int, out: list[Effect]) -> None:
        """The subscription was given the last values that it begins with: tell the client when it is confirmed."""
        base = session.awaits_values.pop(id, None)
        if base is not None:
            self._say_subscribed(session, id, base, out)

    def announced(self, session: ClientSession, out: list[Effect]) -> None:
        """Tell a client its confirmed subscriptions, now that every broker that has to know of the client does."""
        session.announced = True
        for id, base in session.unsaid.items():
            self._say_subscribed(session, id, base, out)
        session.unsaid.clear()

    def unsubscribe(self, session: ClientSession, message: Unsubscribe, out: list[Effect]) -> None:
        predicate = session.subscriptions.pop(message.id, None)
        if predicate is None:  # it was refused, and the client had not heard yet
            out.append(Send(session.name, Unsubscribed(message.id)))
            return
        self.quotas.give_back(session, predicate)
        session.unsaid.pop(message.id, None)
        session.awaits_values.pop(message.id, None)
        session.unconfirmed.get(predicate, {}).pop(message.id, None)
        session.users[predicate] -= 1
        if session.users[predicate] == 0:
            del session.users[predicate]
            session.confirmed.pop(predicate, None)
            session.unconfirmed.pop(predicate, None)
            if not session.unconfirmed:
                self.with_unconfirmed.pop(session.name, None)
            self.confirm(self._subscriptions.drop(session.name, predicate), out)
        session.endings.append((self._log.next_no, message.id))
        self.ending[session.name] = session

    def taken(self, session: ClientSession, message: Taken, out: list[Effect]) -> None:
        if session.withheld:  # the first word of one that was elsewhere before, after it was told that it is served
            told, session.withheld = session.withheld, []
            out.extend([Send(session.name, refused) for refused in told])
        for item in session.take(message.deliveries):
            self.took(item)

    # -- what a client is told -----------------------------------------------------------------------------------------

    def address(self, item: HeldBundle, bundle: Bundle, wanted: Mapping[str, tuple[int, ...] | None]) -> None:
        """An item with its place: whose it is, and who reads it. `wanted`: which of its messages each direction wants,
        None for all; directions that are no clients of this broker, and clients that were given it elsewhere, do not
        count."""
        picks = {}
        for name, offsets in wanted.items():
            session = self.all.get(name)
            if session is not None and not session.has(bundle):
                self._log.add_reader(item, session)
                if offsets is not None:
                    picks[name] = offsets
        item.picks = picks or None
        if (publisher := self.publisher_of(bundle)) is not None:
            item.client = publisher
            self.published(publisher, item)

    def show(self, item: HeldBundle, out: list[Effect]) -> None:
        """Give an item to its readers, and turn its publisher's receipt to `safe`."""
        self._log.show(item)
        whole: Delivery | None = None
        cost = ENTRY_BYTES + item.bundle.cost if item.readers and item.bundle is not None else 0
        for session in item.readers:
            if session.gone:
                self.took(item)
                continue
            session.owed_bytes += cost
            if session.owed_bytes > self.filling_bytes:
                self.filling[session.name] = session
            if session.backlog or session.room <= 0:
                session.backlog.append(item)
                if session.is_inner:
                    self.waking[session.name] = session
            elif item.picks is not None and session.name in item.picks:
                self._give(session, item, self.delivery_of(item, session), out)
            else:
                if whole is None:
                    whole = self.delivery_of(item, None)
                self._give(session, item, whole, out)
        publisher: ClientSession | None = item.client
        if publisher is not None and not publisher.gone:
            publisher.count(item, self.copies_of(item), self.serving.faults_tolerated + 1)
            publisher.turn(item.stream, ReceiptLevel.SAFE, item.last)
            if not item.undone:
                publisher.turn_delivered(item)
            self._tell_receipts(publisher, item, _SAFE)

    def hand_over(self, session: ClientSession, item: HeldBundle, offsets: Sequence[int], out: list[Effect]) -> None:
        """Give a client an item that was shown before it came: all of it, or the messages at these offsets."""
        bundle = item.bundle
        assert item.shown and bundle is not None, "it is kept for others"
        self._log.add_reader(item, session)
        picks = {name: picked for name, picked in (item.picks or {}).items() if name != session.name}
        if len(offsets) < bundle.count:
            picks[session.name] = tuple(offsets)
        item.picks = picks or None
        self.owe(session, item)
        if session.backlog or session.room <= 0:
            session.backlog.append(item)
            if session.is_inner:
                self.waking[session.name] = session
        else:
            self._give(session, item, self.delivery_of(item, session), out)

    def let_read(self, session: ClientSession, owed: Owed, items: Iterable[HeldBundle]) -> None:
        """Add a client that has just come to the readers of items that are not shown yet and that it is owed. Called
        after `welcome`."""
        for item in items:
            bundle = item.bundle
            if bundle is not None and session not in item.readers and (offsets := owed.offsets(bundle)):
                self._log.add_reader(item, session)
                if len(offsets) < bundle.count:
                    item.picks = {**(item.picks or {}), session.name: tuple(offsets)}

    def owe(self, session: ClientSession, item: HeldBundle) -> None:
        """Count an item that was shown before against a session that will be given it."""
        assert item.bundle is not None, "it is kept for others"
        session.owed_bytes += ENTRY_BYTES + item.bundle.cost
        if session.owed_bytes > self.filling_bytes:
            self.filling[session.name] = session

    def drop_oldest(self, session: ClientSession, most: int, out: list[Effect]) -> int:
        """Drop waiting items, oldest first, until at most `most` bytes are owed. Tell the client which messages
        those are, and return how many. The items stay in the log until `drops_acknowledged`."""
        items: list[HeldBundle] = []
        while session.backlog and session.owed_bytes > most:
            items.append(session.backlog.popleft())
            session.took(items[-1])
        spans = joined([span for item in items for span in spans_of(item, session)])
        starts = range(0, len(spans), SPANS_MAX)
        out.extend([Send(session.name, DeliveriesDropped(tuple(spans[at : at + SPANS_MAX]))) for at in starts])
        session.drop(items, len(starts))
        return sum(span.last - span.first + 1 for span in spans)

    def drops_acknowledged(self, session: ClientSession, message: DropsAcknowledged) -> None:
        for item in session.acknowledge_drops(message.notices):
            self.took(item)

    def writable(self, session: ClientSession, room: int, out: list[Effect]) -> None:
        session.room = room
        if session.consumes:
            self.waking[session.name] = session
        while session.backlog and session.room > 0:
            item = session.backlog.popleft()
            self._give(session, item, self.delivery_of(item, session), out)

    def accepted(self, session: ClientSession, bundle: Bundle, prompt: bool) -> None:
        """Turn the receipt to `accepted` before the item has its place; `published` follows."""
        session.turn(bundle.stream, ReceiptLevel.ACCEPTED, bundle.last)
        (self.turned if prompt else self.lazy_receipts)[session.name] = session

    def published(self, session: ClientSession, item: HeldBundle) -> None:
        if ReceiptLevel.DELIVERED in self.serving.receipts:
            session.published(item)
        else:  # nobody waits to hear what becomes of it
            session.turn(item.stream, ReceiptLevel.ACCEPTED, item.last)
        self._tell_receipts(session, item, _ACCEPTED)

    def adopt(
        self, session: ClientSession, items: Iterable[HeldBundle], reached: Mapping[str, int] | None = None
    ) -> None:
        """Send the receipts for these publications of a client that returned from now on. They are in the log; in
        log order, after `welcome`. `reached`: how far each of its streams is known to have come."""
        assert session.attending, "receipts come after Serving"
        items = list(items)
        session.adopt(items)
        for item in items:
            if item.shown:
                session.count(item, self.copies_of(item), self.serving.faults_tolerated + 1)
        for stream, last in (reached or {}).items():
            session.settle(stream, last)
        self.turned[session.name] = session

    def known(self, session: ClientSession, bundle: Bundle, everywhere: bool = True) -> None:
        """Tell a client how far a publication has come that it publishes again (`ClientSession.known`)."""
        session.known(bundle, everywhere)
        self.turned[session.name] = session

    def delivered(self, item: HeldBundle) -> None:
        """Turn the receipt of a local publisher to `delivered`: nobody is owed the item any more."""
        session: ClientSession | None = item.client
        if session is not None and not session.gone and item.shown:
            session.turn_delivered(item)
            self._tell_receipts(session, item, _DELIVERED)

    def flush_all(self, out: list[Effect]) -> None:
        """Send all receipts, those that nobody waits for included."""
        self.turned.update(self.lazy_receipts)
        self.flush(out)

    def flush(self, out: list[Effect]) -> None:
        """Send the receipts that somebody waits for, each kind once, and confirm ended subscriptions. Called at the
        end of a step."""
        if self.turned:
            for session in self.turned.values():
                self.lazy_receipts.pop(session.name, None)
                if session.counted:
                    out.extend([Send(session.name, told) for told in session.take_counted()])
                out.extend([Send(session.name, told) for told in session.take_turned()])
            self.turned.clear()
        if self.ending:
            first = self._log.first_held_back
            for session in list(self.ending.values()):
                ended = session.ended(first)
                out.extend(Send(session.name, Unsubscribed(id)) for id in ended)
                if not session.endings:
                    del self.ending[session.name]

    def took(self, item: HeldBundle) -> None:
        """Count a reader that has taken the item, or no longer wants it."""
        if self._log.took(item):
            self._finished(item)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _give(self, session: ClientSession, item: HeldBundle, delivery: Delivery, out: list[Effect]) -> None:
        session.gave += 1
        session.given.append(item)
        session.room -= delivery.bundle.cost
        out.append(Send(session.name, delivery))

    def _tell_receipts(self, session: ClientSession, item: HeldBundle, level: int) -> None:
        """Schedule a receipt: for the end of the step if the publisher waits for it, otherwise for later."""
        (self.turned if item.prompt or item.awaits & level else self.lazy_receipts)[session.name] = session

    def _say_subscribed(self, session: ClientSession, id: int, base: Marks, out: list[Effect]) -> None:
        if session.is_inner:
            self._is_confirmed(session, base)
        elif id in session.awaits_values:
            session.awaits_values[id] = base
        elif session.announced:
            out.extend([Send(session.name, Subscribed(id, part, more)) for part, more in in_parts(base)])
        else:
            session.unsaid[id] = base
