"""The default stack: one log per broker, links as cursors over it.

Every broker keeps one log, in the order it accepted things. The tree has no cycles and links are FIFO, so passing the
log on in order gives FIFO and causal order with no ordering metadata but a number and a Lamport stamp per bundle. What
is published travels along the interest of the neighbours; its first f hops ignore interest, so that it is soon at f + 1
brokers. A broker shows an entry to its clients only when it is safe, in log order.

What a broker does, in the words of its handlers: a client's publication is stamped and *accepted*; accepted bundles are
*forwarded* to every other link that wants them; neighbours *report* in counts how far they have come; safe entries are
*shown*; stable ones leave the log; a full log holds its sources back.

A link is *open* when both ends have told each other what they want. Until then it is owed everything: its cursor stays
where it is and the log keeps what lies beyond. A parent says `Ready` to its children once it has heard it from its own
parent, so that a tree comes to life from the root down and no early publication is missed by an early subscriber.

Not offered here: `total`, and repair when a broker is lost; a neighbour whose session ends stays owed for ever.
"""

import random
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.contract import (
    Close,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    Note,
    Open,
    Received,
    Send,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.backpressure import BackPressure
from resprout.edge.guest import Guest
from resprout.edge.lobby import Lobby
from resprout.edge.messages import (
    CLIENT_MESSAGES,
    Advertise,
    Publish,
    PublishRefused,
    Serving,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)  # fmt: skip
from resprout.filters.predicate import parse_predicate
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import BROKER_MESSAGES, Forward, Levels, Ready
from resprout.order.reports import Reports, ReportTaken
from resprout.order.seen import Seen
from resprout.spread.adverts import Adverts
from resprout.spread.interest import Interest
from resprout.spread.messages import (
    SPREAD_MESSAGES,
    Advertised,
    InterestConfirmed,
    Interested,
    Unadvertised,
    Uninterested,
)
from resprout.spread.needs import Wish
from resprout.spread.says import Says
from resprout.stacks.routes import Routes
from resprout.stacks.stack import BrokerSeat, Stack
from resprout.wire.columns import check_columns

GUARANTEES = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)


class ResproutOptions(msgspec.Struct, frozen=True):
    faults_tolerated: Annotated[int, msgspec.Meta(ge=0, le=8)] = 1
    """f: how many brokers on any path of 2f + 1 may be down at once."""
    total_degree: Annotated[int, msgspec.Meta(ge=1)] = 1_000
    """Neighbours that a broker may have, its parent included."""
    ack_delay_us: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How long an acknowledgement may wait for company. What a publisher waits for never waits here; what nobody waits
    for may be later by this much per hop."""
    log_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 64 << 20
    """What may wait here of one neighbour's bundles, and be under way of all local clients' together, before they are
    held back. A session's window of what is already on its way comes on top."""


class ResproutBroker:
    """One broker of the tree."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        self.seat = seat
        self.options = options
        self._faults = options.faults_tolerated
        self._clock = 0
        self._seen = Seen()
        self._log = Log(self._faults)
        self._interest = Interest()
        self._adverts = Adverts()
        serving = Serving("resprout", GUARANTEES, self._faults)
        self._lobby = Lobby(serving, self._log, self._interest, self._adverts, self._finished)
        self._guests = self._lobby.guests
        self._links: dict[str, Link] = {}
        self._routes = Routes(self._interest.index, self._links, self._guests)
        self._says: Says = []
        self._reports = Reports(self._links, self._faults, options.ack_delay_us)
        self._pressure = BackPressure(self._log, options.log_bytes)
        if seat.parent is not None:
            self._add_link(seat.parent, cursor=0)
        self._on_event: dict[type, Callable[[Any, list[Effect]], None]] = {
            Received: self._received,
            Writable: self._writable,
            TimerFired: self._timer_fired,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
        }
        self._on_neighbour: dict[type, Callable[[Link, Any, list[Effect]], None]] = {
            Forward: self._forwarded,
            Levels: self._levels,
            Interested: self._interested,
            InterestConfirmed: self._interest_confirmed,
            Uninterested: self._uninterested,
            Advertised: self._advertised,
            Unadvertised: self._unadvertised,
            Ready: self._ready,
        }
        self._on_client: dict[type, Callable[[Guest, Any, Says, list[Effect]], None]] = {
            Publish: self._publish,
            Taken: self._lobby.taken,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Advertise: self._lobby.advertise,
            Unadvertise: self._lobby.unadvertise,
        }

    def start(self, now_us: int) -> Sequence[Effect]:
        return [Open(self.seat.parent)] if self.seat.parent is not None else []

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        handler = self._on_event.get(type(event))
        if handler is not None:
            handler(event, out)
        if self._says:
            self._say(out)
        self._lobby.flush(out)
        self._pressure.release(out)
        if self._lobby.patient:
            self._reports.taken_soon = True
        self._reports.flush(now_us, out)
        return out

    # -- links come and go ---------------------------------------------------------------------------------------------

    def _add_link(self, name: str, cursor: int) -> Link:
        link = self._links[name] = Link(name, self._faults, cursor)
        self._interest.add_neighbour(name)
        self._adverts.add_neighbour(name)
        return link

    def _link_up(self, event: LinkUp, out: list[Effect]) -> None:
        name = event.peer
        if event.role == "client":
            if name in self._links:
                out.append(Close(name, f"{name!r} is the name of a broker"))
            else:
                self._lobby.arrive(name, event.incarnation, event.room, out)
            return
        link = self._links.get(name)
        if link is None:
            if name in self._guests or len(self._links) >= self.options.total_degree:
                out.append(Close(name, f"{self.seat.name} takes no neighbour of the name {name!r}, or no more at all"))
                return
            link = self._add_link(name, cursor=self._log.next_no)
        elif link.lost:
            out.append(Close(name, "a broker that lost its session cannot return yet"))
            return
        link.up = True
        link.room = event.room
        self._says.extend(self._interest.asks(name))
        self._says.extend(self._adverts.told(name))
        if name == self.seat.parent or self._rooted():
            self._say_ready(link)

    def _rooted(self) -> bool:
        parent = self.seat.parent
        return parent is None or self._links[parent].open

    def _say_ready(self, link: Link) -> None:
        if link.up and not link.ready_sent:
            link.ready_sent = True
            self._says.append((link.name, Ready()))

    def _ready(self, link: Link, message: Ready, out: list[Effect]) -> None:
        link.open = True
        self._pump(link, out)
        if link.name == self.seat.parent:
            for child in self._links.values():
                self._say_ready(child)

    def _link_down(self, event: LinkDown, out: list[Effect]) -> None:
        self._lose(event.peer, event.reason, out)

    def _lose(self, name: str, reason: str, out: list[Effect]) -> None:
        self._pressure.forget(name)
        if name in self._guests:
            self._lobby.leave(name, self._says, out)
            self._routes.forget()
        elif (link := self._links.get(name)) is not None and link.up:
            link.up = link.open = False
            link.lost = True
            if link.cursor is None:
                link.cursor = self._log.next_no
            out.append(Note("suspect", {"detail": f"{name}: {reason}"}))

    # -- messages ------------------------------------------------------------------------------------------------------

    def _received(self, event: Received, out: list[Effect]) -> None:
        peer, message = event.peer, event.message
        try:
            if (link := self._links.get(peer)) is not None and link.up:
                self._on_neighbour.get(type(message), _out_of_place)(link, message, out)
            elif (guest := self._guests.get(peer)) is not None:
                self._on_client.get(type(message), _out_of_place)(guest, message, self._says, out)
        except PeerError as error:
            self._cut_off(peer, str(error), out)

    def _cut_off(self, peer: str, reason: str, out: list[Effect]) -> None:
        out.append(Close(peer, reason))
        self._lose(peer, reason, out)

    def _say(self, out: list[Effect]) -> None:
        """To the neighbours that listen; the others hear everything at the beginning of their session."""
        out.extend(Send(name, message) for name, message in self._says if self._links[name].up)
        self._says.clear()

    # -- accept and forward --------------------------------------------------------------------------------------------

    def _publish(self, guest: Guest, message: Publish, says: Says, out: list[Effect]) -> None:
        bundle = message.bundle
        guest.check_next(bundle)
        check_columns(bundle)
        if bundle.guarantee not in GUARANTEES:
            reason = f"the stack 'resprout' does not offer {bundle.guarantee.label!r} yet"
            out.append(Send(guest.name, PublishRefused(bundle.stream, bundle.first, bundle.count, reason)))
            return
        self._lobby.advertise_implied(guest, bundle.topic, says)
        self._clock = max(self._clock, bundle.stamp) + 1
        entry = self._accept(bundle.stamped(self._clock), None, guest, 0, message.prompt, out)
        if entry is not None:
            self._lobby.published(guest, entry)
        self._show(out)
        self._pressure.check_guest(guest, out)

    def _forwarded(self, link: Link, message: Forward, out: list[Effect]) -> None:
        bundle = message.bundle
        self._clock = max(self._clock, bundle.stamp)
        entry = self._accept(bundle, link, None, message.hops, message.prompt, out)
        if entry is not None:
            self._reports.arrived(entry, link)
        self._show(out)
        self._pressure.check_link(link, out)

    def _accept(
        self,
        bundle: Bundle,
        source: Link | None,
        client: Guest | None,
        hops: int,
        prompt: bool,
        out: list[Effect],
    ) -> Entry | None:
        """Log a bundle and send it on; None when it was here before."""
        if not self._seen.is_new(bundle):
            if source is not None:
                source.arrived.add(_nothing_more_to_do(bundle, source, hops, self._faults))
                self._reports.taken_soon = True
            return None
        wanting, readers, picks = self._routes.find(bundle)
        if picks is not None:
            check_columns(bundle)  # it will be taken apart here, when its source may no longer be there to blame
        flood = hops < self._faults
        behind = 0
        now: list[Link] = []
        for link in self._links.values():
            if link is source:
                continue
            if link.cursor is not None:
                behind += 1
            elif flood or link in wanting:
                now.append(link)
        entry = self._log.append(bundle, source, client, hops, behind + len(now), behind, readers)
        entry.picks = picks
        entry.prompt = prompt
        if entry.delivered:
            self._finished(entry)
        if now:
            forward = Forward(bundle, hops + 1, prompt)
            for link in now:
                self._send_on(link, entry, forward, out)
        return entry

    def _send_on(self, link: Link, entry: Entry, forward: Forward, out: list[Effect]) -> bool:
        """False when that was the last that the link has room for."""
        link.sent.add(entry)
        out.append(Send(link.name, forward))
        link.room -= forward.cost
        if link.room > 0:
            return True
        link.cursor = entry.no + 1
        return False

    def _pump(self, link: Link, out: list[Effect]) -> None:
        """Let a link that fell behind catch up as far as it has room."""
        if not link.open or link.cursor is None:
            return
        log = self._log
        place = link.cursor
        link.cursor = None
        while place < log.next_no:
            if link.room <= 0:
                link.cursor = place
                break
            entry = log.entries.get(place)
            place += 1
            if entry is None or entry.source is link:
                continue
            bundle = entry.bundle
            assert bundle is not None, "what a link has not seen stays in the log"
            log.waited(entry)
            if entry.hops < self._faults or self._routes.wants(link, bundle):
                if not self._send_on(link, entry, Forward(bundle, entry.hops + 1, entry.prompt), out):
                    break
            else:
                if log.release(entry):
                    self._reports.rose(entry)
                if entry.delivered:
                    self._finished(entry)
        self._show(out)

    def _writable(self, event: Writable, out: list[Effect]) -> None:
        if (link := self._links.get(event.peer)) is not None:
            link.room = event.room
            self._pump(link, out)
        elif (guest := self._guests.get(event.peer)) is not None:
            self._lobby.writable(guest, event.room, out)

    # -- acknowledge and show ------------------------------------------------------------------------------------------

    def _levels(self, link: Link, message: Levels, out: list[Effect]) -> None:
        raised, delivered = link.take_report(message.taken, message.spread, message.done)
        log = self._log
        for level, entry in raised:
            if level == 0:
                entry.copies += 1
            if log.raise_level(entry, level):
                self._reports.rose(entry)
        for entry in delivered:
            if log.deliver_one(entry):
                self._finished(entry)
        if raised:
            self._show(out)

    def _finished(self, entry: Entry) -> None:
        """Nobody on this side is owed the entry any more."""
        if entry.source is None:
            self._lobby.delivered(entry)
        else:
            self._reports.delivered(entry, entry.source)

    def _timer_fired(self, event: TimerFired, out: list[Effect]) -> None:
        if isinstance(event.timer, ReportTaken):
            self._lobby.flush_all(out)
        self._reports.fired(event.timer, out)

    def _show(self, out: list[Effect]) -> None:
        log = self._log
        unshown = log.unshown
        while unshown and log.is_safe(unshown[0]):
            self._lobby.show(unshown.popleft(), out)

    # -- interest ------------------------------------------------------------------------------------------------------

    def _subscribe(self, guest: Guest, message: Subscribe, says: Says, out: list[Effect]) -> None:
        self._lobby.subscribe(guest, message, says, out)
        self._routes.forget()

    def _unsubscribe(self, guest: Guest, message: Unsubscribe, says: Says, out: list[Effect]) -> None:
        self._lobby.unsubscribe(guest, message, says, out)
        self._routes.forget()

    def _interested(self, link: Link, message: Interested, out: list[Effect]) -> None:
        try:
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            raise PeerError(str(error)) from None
        self._confirmed(self._interest.asked_by(link.name, message, predicate, self._says), out)

    def _uninterested(self, link: Link, message: Uninterested, out: list[Effect]) -> None:
        self._confirmed(self._interest.withdrawn_by(link.name, message, self._says), out)

    def _interest_confirmed(self, link: Link, message: InterestConfirmed, out: list[Effect]) -> None:
        self._confirmed(self._interest.confirmed_by(link.name, message, self._says), out)

    def _confirmed(self, wishes: list[Wish], out: list[Effect]) -> None:
        self._lobby.confirm(wishes, out)
        self._routes.forget()

    def _advertised(self, link: Link, message: Advertised, out: list[Effect]) -> None:
        self._adverts.advertise(link.name, message.topic, self._says)

    def _unadvertised(self, link: Link, message: Unadvertised, out: list[Effect]) -> None:
        self._adverts.withdraw(link.name, message.topic, self._says)


def _out_of_place(peer: Link | Guest, message: Any, *_: object) -> None:
    raise PeerError(f"{type(message).__name__} is not for {peer.name} to say")


def _nothing_more_to_do(bundle: Bundle, source: Link, hops: int, faults: int) -> Entry:
    """A second copy is counted, because its sender counts it, and is through with at once."""
    entry = Entry(-1, bundle, source, None, hops)
    entry.bundle = None
    entry.level = faults + 1
    entry.lacking = [0] + [1] * faults
    return entry


RESPROUT = Stack(
    name="resprout",
    guarantees=GUARANTEES,
    options=ResproutOptions,
    messages=CLIENT_MESSAGES + SPREAD_MESSAGES + BROKER_MESSAGES,
    make_broker=ResproutBroker,
)
