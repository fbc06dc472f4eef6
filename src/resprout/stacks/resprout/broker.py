"""One broker of the default stack: who hears what.

It is put together from parts, each a file: the way of a bundle (`core`), clients (`clients`), coming and going
(`joining`), what links tell of peers (`sessions`), a member's part in a repair (`attach`) and the coordinator's
(`flush`); who lives and who may say otherwise is the business of `overlay`.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from resprout.core.contract import (
    Effect,
    Event,
    Heard,
    LinkDown,
    LinkUp,
    Locate,
    ProtocolMessage,
    Received,
    Recovered,
    Remember,
    Request,
    SetTimer,
    Silent,
    Stirred,
    Timer,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.errors import PeerError, UsageError
from resprout.core.names import newcomer_name
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import (
    Advertise,
    Attend,
    ForgetBrokers,
    Publish,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)  # fmt: skip
from resprout.edge.requests import LeaveRequest
from resprout.filters.predicate import parse_predicate
from resprout.order.link import Link
from resprout.order.messages import Forward, Levels
from resprout.order.reports import ReportTaken, ReportTotals
from resprout.order.total_levels import TotalLevels
from resprout.overlay.council import Council
from resprout.overlay.messages import Probe, Probed, Tell
from resprout.overlay.places import Life, Place
from resprout.overlay.status import CouncilOptions
from resprout.overlay.waves import Waves
from resprout.spread.messages import Advertised, InterestConfirmed, Interested, Unadvertised, Uninterested
from resprout.stacks.resprout.attach import Members
from resprout.stacks.resprout.balance import Balance
from resprout.stacks.resprout.choosing import ChooseParent
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.clients import Clients
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.durable import Durable
from resprout.stacks.resprout.flush import Flushes
from resprout.stacks.resprout.forgetting import Forgetting
from resprout.stacks.resprout.joining import JoinAgain, Joining
from resprout.stacks.resprout.messages import (
    LOCK_PARTS,
    PARCELS,
    PARTS,
    Attach,
    AttachRequest,
    ClientBegan,
    Grant,
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    ListenersChanged,
    ListenersHeard,
    MoveAway,
    NameTaken,
    NotMember,
    ParcelEnd,
    Welcome,
)
from resprout.stacks.resprout.offers import Offers
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.parcels import Parcel, Parcels
from resprout.stacks.resprout.sessions import Sessions
from resprout.stacks.resprout.waiting import Waits
from resprout.stacks.stack import BrokerSeat

IDLE_LEASES = 4
"""A session with a broker that nobody needs any more is kept this long."""


class Tick(Timer, frozen=True):
    """When to give signs of life, and to look for those of others."""

    @property
    def background(self) -> bool:
        return True


class ResproutBroker:
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        core = self.core = Core(seat, options, rng)
        self.waves = Waves(core.standing, self._post, core.retire)
        council_options = CouncilOptions(heartbeat_us=options.heartbeat_us, lease_us=options.lease_us)
        self.council = Council(
            core.standing, council_options, self._post, self._declared, self._registered, core.retire, self.waves
        )
        self.ghosts = Ghosts(core.lobby, core.log, core.wishes, core.interest.index)
        self.durable = Durable(core) if options.durable else None
        self.book = ClientBook(core, self.ghosts, lambda name: self.clients.superseded(name))
        self.clients = Clients(core, self.ghosts, self.book, self.durable, lambda: self.joining.attached, self._is_calm)
        self.members = Members(core, self.waves, self.book, self._shut, self._repaired)
        self.flushes = Flushes(core, self.council, self.waves, self.ghosts, self.book, self._shut, self._repaired)
        offers = Offers(core)
        self.balance = Balance(core, offers)
        self.joining = Joining(core, self.waves, offers, self.ghosts, self.book, self._is_calm, self._settled)
        self.forgetting = Forgetting(core, self.council, lambda: self.joining.attached)
        self.waits = Waits(core, self.council)
        self._parcels = Parcels()
        self._company: tuple[str, ...] | None = None
        self.sessions = sessions = Sessions(core, self.council, self.clients, self.joining, self.flushes, self._parcels)
        self.joining.remember = self._remember
        self._on_event: dict[type, Callable[[Any], None]] = {
            Received: self._received,
            Writable: sessions.writable,
            TimerFired: self._timer_fired,
            LinkUp: sessions.up,
            LinkDown: sessions.down,
            Silent: sessions.silent,
            Heard: sessions.heard,
            Stirred: sessions.stirred,
            Request: self._request,
            Recovered: self._recovered,
        }
        self._on_neighbour: dict[type, Callable[[Link, Any], None]] = {
            Forward: self._forwarded,
            Levels: core.take_levels,
            TotalLevels: lambda link, message: core.take_total_levels(link.name, message),
            Interested: self._interested,
            InterestConfirmed: lambda link, message: core.confirmed(
                core.interest.confirmed_by(link.name, message, core.says)
            ),
            Uninterested: lambda link, message: core.confirmed(
                core.interest.withdrawn_by(link.name, message, core.says)
            ),
            Advertised: lambda link, message: core.adverts.advertise(link.name, message.topic, core.says),
            Unadvertised: lambda link, message: core.adverts.withdraw(link.name, message.topic, core.says),
            ListenersChanged: self.book.listeners.changed,
            ListenersHeard: self.book.listeners.heard,
            ClientBegan: lambda link, message: self.book.roll.heard(link.name, message),
            MoveAway: lambda link, message: self.joining.move_away(link.name, message),
            Leaving: lambda link, message: self.council.silent(link.name, True, core.now_us),
        }
        self._on_neighbour.update({kind: self._at_totals(handler) for kind, handler in core.totals.handlers.items()})
        self._on_neighbour.update({kind: self._at_overlay(handler) for kind, handler in self.waves.handlers.items()})
        self._on_broker: dict[type, Callable[[str, int, Any], None]] = {
            JoinRequest: self.joining.requested,
            JoinWithdrawn: lambda peer, incarnation, message: self.joining.withdrawn(peer, message),
            JoinElsewhere: lambda peer, incarnation, message: self.joining.sent_elsewhere(peer, message),
            NameTaken: lambda peer, incarnation, message: self.joining.refused(peer, message),
            AttachRequest: lambda peer, incarnation, message: self.members.requested(peer, message),
            NotMember: lambda peer, incarnation, message: self.flushes.not_member(peer, message),
            ParcelEnd: self._parcel_complete,
        }
        self._on_broker.update(dict.fromkeys(PARCELS, self._parcel_begins))
        self._on_broker.update(dict.fromkeys((*PARTS, *LOCK_PARTS), self._parcel_part))
        self._on_broker.update({kind: self._at_council(handler) for kind, handler in self.council.handlers.items()})
        self._on_broker[Probed] = self._probed
        self._on_newcomer: dict[type, Callable[[str, int, Any], None]] = {
            JoinRequest: self.joining.requested,
            JoinWithdrawn: self._on_broker[JoinWithdrawn],
            Probe: lambda key, incarnation, message: core.peers.send(key, Probed(message.number)),
        }
        self._on_parcel: dict[type, Callable[[str, int, Parcel], None]] = {
            Attach: self.flushes.attached,
            Grant: self.members.granted,
            Welcome: self.joining.welcomed,
        }
        self._on_client: dict[type, Callable[[ClientSession, Any], None]] = {
            Attend: self.clients.attend,
            Publish: self.clients.publish,
            Taken: lambda guest, message: core.lobby.taken(guest, message, core.out),
            Subscribe: self._subscribe,
            Unsubscribe: lambda guest, message: core.lobby.unsubscribe(guest, message, core.out),
            Advertise: core.advertising.advertise,
            Unadvertise: core.advertising.unadvertise,
            ForgetBrokers: self.forgetting.asked,
        }

    def start(self, now_us: int) -> Sequence[Effect]:
        out = self.core.begin(now_us)
        self.clients.began_us = now_us
        self.joining.start()
        self._set_tick()
        self.core.end()
        return out

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        core = self.core
        out = core.begin(now_us)
        if core.retired:
            return out
        handler = self._on_event.get(type(event))
        if handler is not None:
            handler(event)
        if not core.retired:
            self.clients.look_again()
            self.book.listeners.settle()
            for ghost in self.ghosts.idle():
                self._let_go(ghost)
            core.end()
            if self.durable is not None:
                self.durable.forget()
        return out

    def latest_life(self, client: str) -> int:
        """The latest life of a client that is known anywhere."""
        return self.book.roll.latest(client)

    def _post(self, name: str, message: ProtocolMessage) -> None:
        self.core.peers.post(name, message, self.core.now_us)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _received(self, event: Received) -> None:
        core = self.core
        name, message = event.peer, event.message
        kind = type(message)
        try:
            guest = core.guests.get(name)
            if guest is not None:
                guest.check_turn(message)
                self._on_client.get(kind, _out_of_place)(guest, message)
                return
            peer = core.peers.get(name)
            if peer is None or not peer.up:
                return
            link = core.links.get(name)
            if kind in self._on_neighbour:
                if link is not None and link.open:
                    self.council.heard(name, core.now_us)
                    self._on_neighbour[kind](link, message)
                return  # a neighbour that was declared dead may not know it yet
            if newcomer_name(name) is not None:
                handler = self._on_newcomer.get(kind)
            else:
                self.council.heard(name, core.now_us)
                handler = self._on_broker.get(kind)
            if handler is None:
                raise PeerError(f"{kind.__name__} is not for a broker to say")
            handler(name, peer.incarnation, message)
        except PeerError as error:
            self.sessions.cut_off(name, str(error))

    def _at_totals(self, handler: Callable[[str, Any], None]) -> Callable[[Link, Any], None]:
        return lambda link, message: handler(link.name, message)

    def _at_overlay(self, handler: Callable[[str, Any, int], None]) -> Callable[[Link, Any], None]:
        def handle(link: Link, message: Any) -> None:
            core = self.core
            handler(link.name, message, core.now_us)
            if isinstance(message, Tell):
                self._locate(message.places)
            if core.standing.parent is None and len(core.standing.succession.seats) <= 2 * core.faults:
                self.council.extend_list(core.now_us)  # a young root has nobody to follow it: let newcomers do so
            self.joining.admit()  # somebody may have told where there is room

        return handle

    def _locate(self, places: tuple[Place, ...]) -> None:
        """A name may have come back somewhere else."""
        known = self.core.standing.places
        self.core.out.extend([Locate(x.name, x.address) for x in places if x.address and known.get(x.name) is x])

    def _at_council(self, handler: Callable[[str, Any, int], None]) -> Callable[[str, int, Any], None]:
        return lambda peer, incarnation, message: handler(peer, message, self.core.now_us)

    def _probed(self, peer: str, incarnation: int, message: Probed) -> None:
        self.council.handlers[Probed](peer, message, self.core.now_us)
        self.joining.probed(peer, message)

    def _parcel_begins(self, peer: str, incarnation: int, message: Any) -> None:
        self._parcels.begin(peer, message)

    def _parcel_part(self, peer: str, incarnation: int, message: ProtocolMessage) -> None:
        self._parcels.add(peer, message)
        self.council.stirred(peer, self.core.now_us)

    def _parcel_complete(self, peer: str, incarnation: int, message: ParcelEnd) -> None:
        parcel = self._parcels.complete(peer)
        self._on_parcel[type(parcel.head)](peer, incarnation, parcel)

    # -- what neighbours say -------------------------------------------------------------------------------------------

    def _forwarded(self, link: Link, message: Forward) -> None:
        core = self.core
        entry = core.accept(message.bundle, link, None, message.hops, message.prompt, message.is_backup)
        if entry is not None:
            core.reports.arrived(entry, link)
        core.show()
        core.pressure.check(link.name, link.held_bytes, core.out)

    def _interested(self, link: Link, message: Interested) -> None:
        core = self.core
        try:
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            raise PeerError(str(error)) from None
        core.confirmed(core.interest.asked_by(link.name, message, predicate, core.says))

    def _subscribe(self, guest: ClientSession, message: Subscribe) -> None:
        core = self.core
        self.book.listeners.came(guest.name)
        core.lobby.subscribe(guest, message, core.out)

    # -- time, deaths, repairs -----------------------------------------------------------------------------------------

    def _timer_fired(self, event: TimerFired) -> None:
        core = self.core
        timer = event.timer
        match timer:
            case Tick():
                self._tick()
            case JoinAgain():
                self.joining.again()
            case ChooseParent():
                self.joining.choose()
            case GhostOver(ghost):
                self._let_go(ghost)
            case _:
                if isinstance(timer, ReportTaken):
                    core.lobby.flush_all(core.out)
                core.reports.fired(timer, core.out)
                core.report_totals(only_done=not isinstance(timer, ReportTotals))

    def _tick(self) -> None:
        core = self.core
        self.sessions.tick()
        core.tick()
        if self.joining.attached:
            self._remember()
            self._bury_children()
            self.council.tick(core.now_us)
            self.flushes.tick()
            wanted = (*core.links, *self.council.standby())
            core.peers.keep_only(wanted, IDLE_LEASES * core.options.lease_us, core.now_us)
            self.joining.admit()
            if self._is_calm() and (move := self.balance.find_move()) is not None:
                core.peers.send(*move)
            self.clients.decide_all()
            self.clients.settle()
            self.clients.tell_refuges()
            self.waits.tick()
        self._set_tick()

    def _let_go(self, ghost: str) -> None:
        """Nobody is waited for any more. First those who would replace this broker hear so: they must not take over
        what is not kept. A place that is being told for a newcomer must not be overtaken by one without it."""
        core = self.core
        if self.joining.admitting:
            core.out.append(SetTimer(GhostOver(ghost), core.now_us + core.options.heartbeat_us))
            return
        if not self.ghosts.let_go(ghost):
            return

        def expire() -> None:
            if ghost in self.ghosts:
                self.clients.end_ghost(ghost)

        core.standing.looks_after = self.ghosts.lives()
        self.waves.start(core.standing.publish_place(), core.standing.reach, expire)

    def _remember(self) -> None:
        """So that the next process of this broker knows whom to look for."""
        standing = self.core.standing
        known = [name for name in standing.places if name != standing.name and not standing.is_dead(name)]
        company = tuple(dict.fromkeys([*known, *self.joining.admitted]))
        if company != self._company:
            self._company = company
            self.core.out.append(Remember(standing.network, company))

    def _bury_children(self) -> None:
        """Somebody else declared a child dead, which had been theirs when it asked for a place here."""
        core = self.core
        graves = core.standing.graves
        for name, link in list(core.links.items()):
            if link.open and name != core.standing.parent and link.incarnation <= graves.get(name, -1):
                self.flushes.declared((name,))

    def _set_tick(self) -> None:
        core = self.core
        core.out.append(SetTimer(Tick(), core.now_us + core.options.heartbeat_us))

    def _declared(self, names: tuple[str, ...]) -> None:
        self.flushes.declared(names)

    def _registered(self) -> None:
        self.flushes.check()

    def _shut(self, life: Life) -> None:
        """A broker is dead: bury it, and close the link to it if there is one."""
        core = self.core
        core.standing.bury(life.name, life.incarnation)
        link = core.links.get(life.name)
        if link is not None and link.open and link.incarnation <= life.incarnation:
            core.note("repair_begin", life.name)
            core.shut_link(link)
            core.peers.close(life.name, f"{life.name} was declared dead")
            self.waves.unwait(life.name)

    def _is_calm(self) -> bool:
        return self.flushes.current is None and not self.members.busy

    def _repaired(self, dead: tuple[str, ...], heir: str) -> None:
        self.clients.inherit(dead, heir)
        self._settled()
        self.core.drain()

    def _settled(self) -> None:
        """The neighbours have changed, or this broker has found its place."""
        self._remember()
        self.clients.tell_refuges()
        if self.durable is not None and self.clients.serving:
            self.durable.offer()
        self.clients.decide_all()
        if self.joining.attached:
            self.joining.admit()

    def _recovered(self, event: Recovered) -> None:
        if self.durable is not None:
            self.durable.recovered(event.records)
            if self.clients.serving:
                self.durable.offer()

    def _request(self, event: Request) -> None:
        if isinstance(event.body, LeaveRequest):
            self.joining.leave()


def _out_of_place(guest: ClientSession, message: Any) -> None:
    raise PeerError(f"{type(message).__name__} is not for {guest.name} to say")
