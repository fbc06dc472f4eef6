"""One broker of the default stack: who hears what.

It is put together from parts, each a file: the way of a bundle (`core`), clients (`clients`), coming and going
(`joining`), a member's part in a repair (`attach`) and the coordinator's (`flush`); who lives and who may say otherwise
is the business of `overlay`.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from resprout.core.contract import (
    Close,
    Effect,
    Event,
    Heard,
    LinkDown,
    LinkUp,
    ProtocolMessage,
    Received,
    Recovered,
    Request,
    SetTimer,
    Silent,
    Timer,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.errors import PeerError, UsageError
from resprout.edge.ghosts import Ghosts
from resprout.edge.guest import Guest
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
from resprout.order.reports import ReportTaken
from resprout.order.total_levels import TotalLevels
from resprout.overlay.council import Council
from resprout.overlay.messages import Ping
from resprout.overlay.places import Life
from resprout.overlay.status import CouncilOptions
from resprout.overlay.waves import Waves
from resprout.spread.messages import Advertised, InterestConfirmed, Interested, Unadvertised, Uninterested
from resprout.stacks.resprout.attach import Members
from resprout.stacks.resprout.balance import Balance
from resprout.stacks.resprout.clients import Clients
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.durable import Durable
from resprout.stacks.resprout.flush import Flushes, GhostOver
from resprout.stacks.resprout.forgetting import Forgetting
from resprout.stacks.resprout.joining import JoinAgain, Joining
from resprout.stacks.resprout.messages import (
    LOCK_PARTS,
    PARCELS,
    PARTS,
    Attach,
    AttachRequest,
    Grant,
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    MoveAway,
    NotMember,
    ParcelEnd,
    Welcome,
)
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.parcels import Parcel
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
        self.ghosts = Ghosts(core.lobby, core.log, core.interest)
        self.durable = Durable(core) if options.durable else None
        self.clients = Clients(core, self.ghosts, self.durable)
        self.members = Members(core, self.waves, self._shut, self._repaired)
        self.flushes = Flushes(core, self.council, self.waves, self.ghosts, self._shut, self._repaired)
        self.balance = Balance(core)
        self.joining = Joining(core, self.waves, self._is_calm, self._settled)
        self.forgetting = Forgetting(core, self.council, lambda: self.joining.attached)
        self.waits = Waits(core, self.council)
        self._parcels: dict[str, Parcel] = {}
        self._estranged: dict[str, int] = {}
        """Children that ended their sessions, and when: they are asked whether this broker was declared dead."""
        self._on_event: dict[type, Callable[[Any], None]] = {
            Received: self._received,
            Writable: self._writable,
            TimerFired: self._timer_fired,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Silent: self._silent,
            Heard: self._heard,
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
            MoveAway: lambda link, message: self.joining.move_away(link.name),
            Leaving: lambda link, message: self.council.silent(link.name, True, core.now_us),
        }
        self._on_neighbour.update({kind: self._at_totals(handler) for kind, handler in core.totals.handlers.items()})
        self._on_neighbour.update({kind: self._at_overlay(handler) for kind, handler in self.waves.handlers.items()})
        self._on_broker: dict[type, Callable[[str, int, Any], None]] = {
            JoinRequest: self.joining.requested,
            JoinWithdrawn: lambda peer, incarnation, message: self.joining.withdrawn(peer, message),
            JoinElsewhere: lambda peer, incarnation, message: self.joining.sent_elsewhere(peer, message),
            AttachRequest: lambda peer, incarnation, message: self.members.requested(peer, message),
            NotMember: lambda peer, incarnation, message: self.flushes.not_member(peer, message),
            ParcelEnd: self._parcel_complete,
        }
        self._on_broker.update(dict.fromkeys(PARCELS, self._parcel_begins))
        self._on_broker.update(dict.fromkeys((*PARTS, *LOCK_PARTS), self._parcel_part))
        self._on_broker.update({kind: self._at_council(handler) for kind, handler in self.council.handlers.items()})
        self._on_parcel: dict[type, Callable[[str, int, Parcel], None]] = {
            Attach: self.flushes.attached,
            Grant: self.members.granted,
            Welcome: self.joining.welcomed,
        }
        self._on_client: dict[type, Callable[[Guest, Any], None]] = {
            Attend: self.clients.attend,
            Publish: self.clients.publish,
            Taken: lambda guest, message: core.lobby.taken(guest, message, core.says, core.out),
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Advertise: lambda guest, message: core.lobby.advertise(guest, message, core.says, core.out),
            Unadvertise: lambda guest, message: core.lobby.unadvertise(guest, message, core.says, core.out),
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
            core.end()
            if self.durable is not None:
                self.durable.forget()
        return out

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        core = self.core
        name = event.peer
        if event.role == "client":
            self.clients.arrive(name, event.incarnation, event.room)
            return
        if name in core.guests or core.peers.came_up(name, event.incarnation, event.room, core.now_us) is None:
            core.out.append(Close(name, f"{core.seat.name} takes no broker of the name {name!r}, or no more at all"))
            return
        self._parcels.pop(name, None)
        core.standing.sessions[name] = event.incarnation
        self.council.heard(name, core.now_us, event.incarnation)

    def _link_down(self, event: LinkDown) -> None:
        core = self.core
        name = event.peer
        if name in core.guests:
            self.clients.leave(name)
            return
        life = core.peers.incarnation(name)
        core.peers.went_down(name)
        self._parcels.pop(name, None)
        self.joining.lost(name)
        link = core.links.get(name)
        if link is None or not link.open or link.incarnation != life:
            return  # it was no neighbour, or a later life of one
        core.note("suspect", f"{name}: {event.reason}")
        if event.cause != "restarted" and name == core.standing.parent:
            core.retire(f"{name} ended the session: {event.reason}")
        elif event.cause == "closed" and self._is_stranger(link):
            self.flushes.unlink(link)
        elif event.cause == "closed":  # it lives: perhaps this broker does not, in the eyes of others
            link.quiet = True
            self._estranged[name] = core.now_us
            self._post(name, Ping(core.now_us, 0))
        else:  # the session cannot go on, so this life of the neighbour is over for the tree
            self.council.silent(name, True, core.now_us)

    def _is_stranger(self, link: Link) -> bool:
        """A newcomer that was welcomed here and had gone elsewhere by then: it never spoke as a child."""
        place = self.core.standing.places.get(link.name)
        me = self.core.seat.name
        return place is None or place.incarnation != link.incarnation or not place.version or place.parent != me

    def _silent(self, event: Silent) -> None:
        core = self.core
        peer = core.peers.get(event.peer)
        if peer is None:
            return
        peer.silent = True
        link = core.links.get(event.peer)
        if link is not None and link.open:
            if not link.quiet:
                core.note("suspect", f"{event.peer} is not heard")
            link.quiet = True
        if self.flushes.awaits(event.peer):
            core.peers.open(event.peer)  # its host will tell whether it is gone
        self.council.silent(event.peer, event.refused, core.now_us)
        self.flushes.tick()
        self.joining.silent(event.peer)

    def _heard(self, event: Heard) -> None:
        core = self.core
        peer = core.peers.get(event.peer)
        if peer is None:
            return
        peer.silent = False
        self.council.heard(event.peer, core.now_us)
        self._clear(event.peer)
        self.clients.decide_all()

    def _clear(self, name: str) -> None:
        """Reports go on where nothing waits before them."""
        core = self.core
        link = core.links.get(name)
        if link is not None and link.quiet and link.open and core.peers.is_clear(name):
            link.quiet = False
            core.reports.all_soon()

    def _writable(self, event: Writable) -> None:
        core = self.core
        if (guest := core.guests.get(event.peer)) is not None:
            core.lobby.writable(guest, event.room, core.out)
            return
        core.peers.writable(event.peer, event.room)
        link = core.links.get(event.peer)
        peer = core.peers.get(event.peer)
        if link is not None and peer is not None and not peer.queue:
            link.room = peer.room
            self._clear(event.peer)
            core.pump(link)

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
                    self._on_neighbour[kind](link, message)
                return  # a neighbour that was declared dead may not know it yet
            self.council.heard(name, core.now_us)
            self.joining.answered(name)
            handler = self._on_broker.get(kind)
            if handler is None:
                raise PeerError(f"{kind.__name__} is not for a broker to say")
            handler(name, peer.incarnation, message)
        except PeerError as error:
            self._cut_off(name, str(error))

    def _cut_off(self, name: str, reason: str) -> None:
        core = self.core
        core.out.append(Close(name, reason))
        if name in core.guests:
            self.clients.leave(name)
        else:
            core.note("suspect", f"{name}: {reason}")
            life = core.peers.incarnation(name)
            core.peers.close(name, reason)
            self._parcels.pop(name, None)
            if name in core.links and core.links[name].incarnation == life:
                if name == core.standing.parent:
                    core.retire(f"{name}: {reason}")
                else:
                    self.council.silent(name, True, core.now_us)

    def _at_totals(self, handler: Callable[[str, Any], None]) -> Callable[[Link, Any], None]:
        return lambda link, message: handler(link.name, message)

    def _at_overlay(self, handler: Callable[[str, Any, int], None]) -> Callable[[Link, Any], None]:
        def handle(link: Link, message: Any) -> None:
            core = self.core
            handler(link.name, message, core.now_us)
            if core.standing.parent is None and len(core.standing.succession.seats) <= 2 * core.faults:
                self.council.extend_list(core.now_us)  # a young root has nobody to follow it: let newcomers do so

        return handle

    def _at_council(self, handler: Callable[[str, Any, int], None]) -> Callable[[str, int, Any], None]:
        return lambda peer, incarnation, message: handler(peer, message, self.core.now_us)

    def _parcel_begins(self, peer: str, incarnation: int, message: Any) -> None:
        self._parcels[peer] = Parcel(message)

    def _parcel_part(self, peer: str, incarnation: int, message: ProtocolMessage) -> None:
        parcel = self._parcels.get(peer)
        if parcel is None:
            raise PeerError(f"{type(message).__name__} outside of a parcel")
        parcel.add(message)

    def _parcel_complete(self, peer: str, incarnation: int, message: ParcelEnd) -> None:
        parcel = self._parcels.pop(peer, None)
        if parcel is None:
            raise PeerError("the end of a parcel that never began")
        self._on_parcel[type(parcel.head)](peer, incarnation, parcel)

    # -- what neighbours say -------------------------------------------------------------------------------------------

    def _forwarded(self, link: Link, message: Forward) -> None:
        core = self.core
        entry = core.accept(message.bundle, link, None, message.hops, message.prompt, message.is_backup)
        if entry is not None:
            core.reports.arrived(entry, link)
        core.show()
        core.pressure.check_link(link, core.out)

    def _interested(self, link: Link, message: Interested) -> None:
        core = self.core
        try:
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            raise PeerError(str(error)) from None
        core.confirmed(core.interest.asked_by(link.name, message, predicate, core.says))

    def _subscribe(self, guest: Guest, message: Subscribe) -> None:
        core = self.core
        core.lobby.subscribe(guest, message, core.says, core.out)
        core.routes.forget()

    def _unsubscribe(self, guest: Guest, message: Unsubscribe) -> None:
        core = self.core
        core.lobby.unsubscribe(guest, message, core.says, core.out)
        core.routes.forget()

    # -- time, deaths, repairs -----------------------------------------------------------------------------------------

    def _timer_fired(self, event: TimerFired) -> None:
        core = self.core
        timer = event.timer
        match timer:
            case Tick():
                self._tick()
            case JoinAgain():
                self.joining.again()
            case GhostOver(ghost):
                if ghost in self.ghosts:
                    self.ghosts.expire(ghost, core.says, core.out)
                    core.routes.forget()
            case _:
                if isinstance(timer, ReportTaken):
                    core.lobby.flush_all(core.out)
                core.reports.fired(timer, core.out)
                core.report_totals()

    def _tick(self) -> None:
        core = self.core
        for name, since_us in list(self._estranged.items()):
            if core.now_us - since_us > core.options.lease_us:
                del self._estranged[name]
                if name in core.links and core.links[name].open:
                    self.council.silent(name, True, core.now_us)
        if self.joining.attached:
            self._bury_children()
            self.council.tick(core.now_us)
            self.flushes.tick()
            wanted = (*core.links, *self.council.standby())
            core.peers.keep_only(wanted, IDLE_LEASES * core.options.lease_us, core.now_us)
            self.joining.admit()
            if self._is_calm() and (leaf := self.balance.find_leaf()) is not None:
                core.peers.send(leaf, MoveAway())
            self.clients.decide_all()
            self.clients.settle()
            self.clients.tell_refuges()
            self.waits.tick()
        self._set_tick()

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
            self.clients.serving = self._is_calm()

    def _is_calm(self) -> bool:
        return self.flushes.current is None and not self.members.busy

    def _repaired(self, dead: tuple[str, ...], heir: str) -> None:
        self.clients.inherit(dead, heir)
        self._settled()
        self.core.drain()

    def _settled(self) -> None:
        """The neighbours have changed, or this broker has found its place."""
        self.clients.placed = self.joining.attached
        self.clients.serving = self.joining.attached and self._is_calm()
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


def _out_of_place(guest: Guest, message: Any) -> None:
    raise PeerError(f"{type(message).__name__} is not for {guest.name} to say")
