"""The clients of one broker: their subscriptions, what they are given, their receipts.

A slow client pushes back on its own session: what it has no room for waits in its backlog as references into the log,
and the log keeps it. Nobody else waits for it until the log is full.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from resprout.core.bundle import Bundle, Origin, pick
from resprout.core.contract import Effect, Send
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import Guarantee, Receipt
from resprout.core.marks import Marks, Reached, from_marks, in_parts, raise_to, to_marks
from resprout.edge.broker.owed import read_held
from resprout.edge.broker.session import SUBSCRIPTIONS_MAX, TOPICS_ADVERTISED_MAX, ClientSession
from resprout.edge.messages import (
    Advertise,
    Attend,
    Delivery,
    Refuge,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    Unadvertise,
    Unsubscribe,
    Unsubscribed,
)  # fmt: skip
from resprout.filters.predicate import parse_predicate
from resprout.order.entry import Entry
from resprout.order.log import Log
from resprout.spread.adverts import Adverts
from resprout.spread.interest import Interest
from resprout.spread.needs import Wish
from resprout.spread.says import Says
from resprout.wire.sizes import ordering_bytes


class ClientSessions:
    """All guests of a broker. `says` collects what its neighbours must hear; `out` what its clients must."""

    def __init__(
        self, serving: Serving, log: Log, interest: Interest, adverts: Adverts, finished: Callable[[Entry], None]
    ) -> None:
        self._serving = serving
        self._log = log
        self._interest = interest
        self._adverts = adverts
        self.copies_of: Callable[[Entry], int] = lambda entry: serving.faults_tolerated + 1
        """On how many brokers an entry that is safe rests; f + 1 at most."""
        self._finished = finished
        """Called when the last reader of an entry has it, and nobody else is owed it."""
        self.guests: dict[str, ClientSession] = {}
        """Whoever may be shown something: clients, served or not yet, and ghosts."""
        self.returned: dict[str, ClientSession] = {}
        """Clients that were given something elsewhere, which may still come by here: see `ClientSession.has`."""
        self._turned: dict[str, ClientSession] = {}
        """Guests with receipts to be told at the end of the step."""
        self._turned_soon: dict[str, ClientSession] = {}
        """Guests with receipts that nobody waits for yet, to be told with the next `flush_all`."""
        self._ending: dict[str, ClientSession] = {}
        """Guests with subscriptions that are about to end."""
        self.hopeful: dict[str, ClientSession] = {}
        """Guests with subscriptions that are not confirmed."""
        self._base: dict[Origin, Reached] = {}
        self._base_marks: Marks = ()
        """Of the wish that was confirmed last."""

    # -- coming and going ----------------------------------------------------------------------------------------------

    def arrive(self, name: str, incarnation: int, room: int) -> ClientSession:
        """A session begins. The client will say `Attend`; it is served when the stack says `welcome`."""
        guest = self.guests[name] = ClientSession(name, incarnation, room)
        return guest

    def welcome(
        self,
        guest: ClientSession,
        attend: Attend,
        refuges: tuple[Refuge, ...],
        resumed: bool,
        says: Says,
        out: list[Effect],
    ) -> None:
        """Serve a client, with the subscriptions that it brings along. Raises PeerError, with nothing done, when those
        cannot be. `resumed`: what it missed will be made good; otherwise it has to subscribe again."""
        held = read_held(attend.subscriptions) if resumed else []
        guest.attending = True
        guest.moved = bool(attend.tried)
        if attend.received:
            guest.received = from_marks(attend.received)
            self.returned[guest.name] = guest
        out.append(Send(guest.name, msgspec.structs.replace(self._serving, refuges=refuges, resumed=resumed)))
        for one in held:
            predicate = guest.subscriptions[one.id] = one.predicate
            users = guest.users.get(predicate, 0)
            guest.users[predicate] = users + 1
            if users == 0:
                self.confirm(self._interest.want(guest.name, predicate, says, confirmed=True), out)
            base = raise_to(dict(one.base), guest.confirmed.get(predicate, ()))
            guest.confirmed[predicate] = to_marks(base)

    def leave(self, name: str, says: Says, out: list[Effect]) -> None:
        """The session is over: nothing is owed to this client any more, and nothing is expected from it."""
        guest = self.guests.pop(name)
        guest.gone = True
        self.returned.pop(name, None)
        self._turned.pop(name, None)
        self._turned_soon.pop(name, None)
        self._ending.pop(name, None)
        self.hopeful.pop(name, None)
        self.confirm(self._interest.drop_all(name, says), out)
        self._adverts.withdraw_all(name, says)
        for entry in (*guest.given, *guest.backlog):
            self._took(entry)

    # -- what a client says --------------------------------------------------------------------------------------------

    def subscribe(self, guest: ClientSession, message: Subscribe, says: Says, out: list[Effect]) -> None:
        if message.id in guest.subscriptions:
            raise PeerError(f"subscription {message.id} exists already")
        try:
            if len(guest.subscriptions) >= SUBSCRIPTIONS_MAX:
                raise UsageError(f"{SUBSCRIPTIONS_MAX} subscriptions are the most one client may have")
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            out.append(Send(guest.name, SubscribeRefused(message.id, str(error))))
            return
        guest.subscriptions[message.id] = predicate
        users = guest.users.get(predicate, 0)
        guest.users[predicate] = users + 1
        if predicate in guest.confirmed:
            self._say_subscribed(guest, message.id, guest.confirmed[predicate], out)
            return
        guest.unconfirmed.setdefault(predicate, []).append(message.id)
        self.hopeful[guest.name] = guest
        if users == 0:
            self.confirm(self._interest.want(guest.name, predicate, says), out)

    def confirm(self, wishes: list[Wish], out: list[Effect]) -> None:
        """These wishes of local clients are confirmed by every neighbour."""
        for wish in wishes:
            guest = self.guests[wish.direction]
            if wish.base is not self._base:  # many that are confirmed together share one
                self._base, self._base_marks = wish.base, to_marks(wish.base)
            base = guest.confirmed[wish.predicate] = self._base_marks
            for id in guest.unconfirmed.pop(wish.predicate, ()):
                self._say_subscribed(guest, id, base, out)
            if not guest.unconfirmed:
                self.hopeful.pop(guest.name, None)

    def announced(self, guest: ClientSession, out: list[Effect]) -> None:
        """Everybody knows of this client now, and it may be told what is confirmed."""
        guest.announced = True
        for id, base in guest.unsaid.items():
            self._say_subscribed(guest, id, base, out)
        guest.unsaid.clear()

    def unsubscribe(self, guest: ClientSession, message: Unsubscribe, says: Says, out: list[Effect]) -> None:
        predicate = guest.subscriptions.pop(message.id, None)
        if predicate is None:  # it was refused, and the client had not heard yet
            out.append(Send(guest.name, Unsubscribed(message.id)))
            return
        guest.unsaid.pop(message.id, None)
        if message.id in guest.unconfirmed.get(predicate, ()):
            guest.unconfirmed[predicate].remove(message.id)
        guest.users[predicate] -= 1
        if guest.users[predicate] == 0:
            del guest.users[predicate]
            guest.confirmed.pop(predicate, None)
            guest.unconfirmed.pop(predicate, None)
            if not guest.unconfirmed:
                self.hopeful.pop(guest.name, None)
            self.confirm(self._interest.drop(guest.name, predicate, says), out)
        guest.endings.append((self._log.next_no, message.id))
        self._ending[guest.name] = guest

    def advertise(self, guest: ClientSession, message: Advertise, says: Says, out: list[Effect]) -> None:
        if self._adverts.count(guest.name) >= TOPICS_ADVERTISED_MAX:
            raise PeerError(f"more than {TOPICS_ADVERTISED_MAX} topics advertised")
        self._adverts.advertise(guest.name, message.topic, says)

    def advertise_implied(self, guest: ClientSession, topic: str, says: Says) -> None:
        """By publishing. Beyond the limit the client must not go on to new topics."""
        if not self._adverts.has(guest.name, topic):
            self.advertise(guest, Advertise(topic), says, [])

    def unadvertise(self, guest: ClientSession, message: Unadvertise, says: Says, out: list[Effect]) -> None:
        self._adverts.withdraw(guest.name, message.topic, says)

    def taken(self, guest: ClientSession, message: Taken, says: Says, out: list[Effect]) -> None:
        for entry in guest.take(message.deliveries):
            self._took(entry)

    # -- what a client is told -----------------------------------------------------------------------------------------

    def show(self, entry: Entry, out: list[Effect]) -> None:
        """Give an entry to its readers, and its publisher the `safe` receipt."""
        self._log.show(entry)
        whole: Delivery | None = None
        for guest in entry.readers:
            if guest.gone:
                self._took(entry)
            elif guest.backlog or guest.room <= 0:
                guest.backlog.append(entry)
            elif entry.picks is not None and guest.name in entry.picks:
                self._give(guest, entry, _delivery(entry, guest), out)
            else:
                if whole is None:
                    whole = _delivery(entry, None)
                self._give(guest, entry, whole, out)
        publisher: ClientSession | None = entry.client
        if publisher is not None and not publisher.gone:
            publisher.count(entry, self.copies_of(entry), self._serving.faults_tolerated + 1)
            publisher.turn(entry.stream, Receipt.SAFE, entry.last)
            publisher.turn_delivered(entry)
            self._tell_receipts(publisher, entry)

    def hand_over(self, guest: ClientSession, entry: Entry, offsets: Sequence[int], out: list[Effect]) -> None:
        """Give a client something that was shown before it came: all of it, or the messages at these offsets."""
        bundle = entry.bundle
        assert entry.shown and bundle is not None, "it is kept for others"
        self._log.add_reader(entry, guest)
        picks = {name: picked for name, picked in (entry.picks or {}).items() if name != guest.name}
        if len(offsets) < bundle.count:
            picks[guest.name] = tuple(offsets)
        entry.picks = picks or None
        if guest.backlog or guest.room <= 0:
            guest.backlog.append(entry)
        else:
            self._give(guest, entry, _delivery(entry, guest), out)

    def writable(self, guest: ClientSession, room: int, out: list[Effect]) -> None:
        guest.room = room
        while guest.backlog and guest.room > 0:
            entry = guest.backlog.popleft()
            self._give(guest, entry, _delivery(entry, guest), out)

    def published(self, guest: ClientSession, entry: Entry) -> None:
        guest.published(entry)
        self._tell_receipts(guest, entry)

    def adopt(self, guest: ClientSession, entries: Iterable[Entry], reached: Mapping[str, int] | None = None) -> None:
        """These publications of a client that returned are in the log, and this broker answers for them from now on; in
        log order, after `welcome`. `reached`: how far each of its streams is known to have come; what has no entry was
        delivered."""
        assert guest.attending, "receipts come after Serving"
        entries = list(entries)
        guest.adopt(entries)
        for entry in entries:
            if entry.shown:
                guest.count(entry, self.copies_of(entry), self._serving.faults_tolerated + 1)
        for stream, last in (reached or {}).items():
            guest.settle(stream, last)
        self._turned[guest.name] = guest

    def known(self, guest: ClientSession, bundle: Bundle, everywhere: bool = True) -> None:
        """A client publishes again what has been here before: it is told how far that has come. `everywhere`: what has
        no entry here is delivered; otherwise only this broker is through with it."""
        if everywhere or bundle.first in guest.unturned.get(bundle.stream, {}):
            guest.known(bundle)
        else:
            guest.turn(bundle.stream, Receipt.SAFE, bundle.last)
        self._turned[guest.name] = guest

    def delivered(self, entry: Entry) -> None:
        """Nobody is owed the entry any more: its publisher, if it is one of ours, may be told."""
        guest: ClientSession | None = entry.client
        if guest is not None and not guest.gone and entry.shown:
            guest.turn_delivered(entry)
            self._tell_receipts(guest, entry)

    @property
    def patient(self) -> bool:
        """There are receipts that wait for `flush_all`."""
        return bool(self._turned_soon)

    def flush_all(self, out: list[Effect]) -> None:
        """From time to time: the receipts that nobody was waiting for."""
        self._turned.update(self._turned_soon)
        self.flush(out)

    def flush(self, out: list[Effect]) -> None:
        """At the end of a step: receipts that are waited for, each kind only once, and ends of subscriptions."""
        if self._turned:
            for guest in self._turned.values():
                self._turned_soon.pop(guest.name, None)
                out.extend(Send(guest.name, told) for told in guest.take_counted())
                out.extend(Send(guest.name, told) for told in guest.take_turned())
            self._turned.clear()
        if self._ending:
            first = self._log.unshown.first
            for guest in list(self._ending.values()):
                ended = guest.ended(first.no if first is not None else None)
                out.extend(Send(guest.name, Unsubscribed(id)) for id in ended)
                if not guest.endings:
                    del self._ending[guest.name]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _give(self, guest: ClientSession, entry: Entry, delivery: Delivery, out: list[Effect]) -> None:
        guest.gave += 1
        guest.given.append(entry)
        guest.room -= delivery.bundle.cost
        out.append(Send(guest.name, delivery))

    def _tell_receipts(self, guest: ClientSession, entry: Entry) -> None:
        (self._turned if entry.prompt else self._turned_soon)[guest.name] = guest

    def _say_subscribed(self, guest: ClientSession, id: int, base: Marks, out: list[Effect]) -> None:
        if guest.announced:
            out.extend([Send(guest.name, Subscribed(id, part, more)) for part, more in in_parts(base)])
        else:
            guest.unsaid[id] = base

    def _took(self, entry: Entry) -> None:
        if self._log.took(entry):
            self._finished(entry)


def _delivery(entry: Entry, guest: ClientSession | None) -> Delivery:
    bundle = entry.bundle
    assert bundle is not None, "a reader pins the bundle"
    offsets = entry.picks.get(guest.name) if guest is not None and entry.picks is not None else None
    if offsets is not None:
        bundle = pick(bundle, offsets)
    tseq = entry.tseq if bundle.guarantee is Guarantee.TOTAL else -1  # what was only carried has asked for no place
    return Delivery(bundle, entry.hops, ordering_bytes(bundle, entry.hops), offsets, entry.prompt, tseq)
