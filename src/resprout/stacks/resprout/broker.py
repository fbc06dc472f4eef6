"""One broker of the default stack: which part hears which event, message, timer and outcome.

`parts` makes the parts and says what each uses. Bundles are in `forwarding`, totals in `total_way`, clients in
`served_clients` and `publishing`, coming and going in `joining/`, what links tell of peers in `sessions`, and both ends
of a repair in `repair/`. `overlay` decides who lives. The tables are those of `stacks.shell`.
"""

import random
from collections.abc import Callable
from typing import Any

from resprout.core.contract import (
    Congested,
    Heard,
    LinkDown,
    LinkUp,
    Recovered,
    Request,
    SetTimer,
    Silent,
    Stirred,
    Timer,
    Writable,
)  # fmt: skip
from resprout.edge.broker.answering import NothingKept
from resprout.edge.broker.ghosts import GhostOver
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import AskAudience, Attend, DropsAcknowledged, ForgetBrokers, Publish, Taken
from resprout.edge.requests import LeaveRequest, LookForRequest
from resprout.order.link import Link
from resprout.order.messages import Forward, Levels
from resprout.order.timers import ReportSpread, ReportTaken, ReportTotals
from resprout.order.totals.levels import TotalLevels
from resprout.order.totals.messages import Lock, Submit, TotalCopy, check_total
from resprout.overlay.memory import Whereabouts
from resprout.overlay.messages import Enrol, Enrolled, Probe, Probed, Seek, Sought, Suspect
from resprout.overlay.outcomes import Declared, Expelled, Registered
from resprout.spread.messages import SPREAD_MESSAGES
from resprout.stacks.resprout import account
from resprout.stacks.resprout.client_interest import DropMore
from resprout.stacks.resprout.draining import DrainOver
from resprout.stacks.resprout.durable_messages import DurableDone, DurableHeard, DurableKnown
from resprout.stacks.resprout.joining.choosing import ChooseParent
from resprout.stacks.resprout.joining.newcomer import JoinAgain, NewcomerState
from resprout.stacks.resprout.messages import (
    AttachRequest,
    ClientBegan,
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    ListenersChanged,
    ListenersHeard,
    MoveAway,
    NameTaken,
    NotMember,
    Recollect,
)
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.outcomes import Cleared, Repaired, Reunited, Settled, Superseded, TakenIn, TreeChanged
from resprout.stacks.resprout.parts import BrokerParts
from resprout.stacks.resprout.pauses import ReadersPaused
from resprout.stacks.resprout.postponed import TakeUpRequests
from resprout.stacks.resprout.shares import LookAtReaders
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.peers import Peer
from resprout.stacks.shell.shell import Shell
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, TopicReaders

IDLE_LEASES = 4
"""A session with a broker that nobody needs any more is kept this long."""


class Tick(Timer, frozen=True):
    """When to give signs of life, and to look for those of others."""

    @property
    def background(self) -> bool:
        return True


class ResproutBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        parts = self.parts = BrokerParts(seat, options, rng)
        self.life = parts.life
        self.strange = 0
        """How often somebody spoke as a neighbour who is none."""
        super().__init__(
            parts.life,
            events={
                Writable: parts.peer_sessions.writable,
                LinkUp: self._link_up,
                LinkDown: self._link_down,
                Congested: parts.wishes.postponed.congested,
                Silent: parts.peer_sessions.silent,
                Heard: parts.peer_sessions.heard,
                Stirred: parts.peer_sessions.stirred,
                Request: self._request,
                Recovered: self._recovered,
            },
            desks=(self._clients(), self._neighbours(), self._brokers(), self._newcomers()),
            cut_off=parts.peer_sessions.cut_off,
            timers={
                Tick: self._tick,
                JoinAgain: lambda timer: parts.newcomer.again(),
                DrainOver: parts.draining.over,
                ChooseParent: lambda timer: parts.newcomer.choose(),
                GhostOver: parts.ghost_expiry.due,
                NothingKept: lambda timer: parts.served.settle(),
                DropMore: lambda timer: parts.served.drop_more(),
                TakeUpRequests: lambda timer: parts.wishes.postponed.take_up(),
                LookAtReaders: lambda timer: None,  # at the end of the step
                **dict.fromkeys((ReportTaken, ReportSpread, ReportTotals), parts.reporting.fired),
            },
            outcomes={
                Declared: lambda outcome: parts.coordinator.declared(outcome.names),
                Registered: lambda outcome: parts.coordinator.check(),
                Expelled: lambda outcome: parts.life.retire(outcome.reason),
                Repaired: self._repaired,
                Settled: self._settled,
                TakenIn: self._joined,
                Reunited: self._reunited,
                Cleared: lambda outcome: parts.admission.admit(),
                Superseded: parts.served.superseded,
                TreeChanged: parts.tree_news.changed,
            },
            at_end=(
                (parts.served.awaited, parts.served.look_again),
                (parts.client_book.listeners.answers, parts.client_book.listeners.settle),
                (parts.ghosts.idle, parts.ghost_expiry.let_idle_go),
                (parts.sessions.quotas.overspent, parts.served.cut_off_overspent),
                (parts.sessions.waking, parts.durables.hand_out),
                (parts.spilling.candidates, parts.spilling.tidy),
                (parts.sessions.filling, parts.shares.watch),
                (parts.shares.watched, parts.shares.look),
                (parts.log.stuck, parts.shares.look_at_copies),
                (parts.pauses.unsaid, parts.pauses.say),
                parts.reporting.end_step,
                *([parts.until_safe.forget] if parts.until_safe is not None else []),
                *([parts.disk.end] if parts.disk is not None else []),
                (parts.draining.asked, parts.draining.check),
            ),
            in_runs=(*SPREAD_MESSAGES, Seek, Sought, ListenersChanged, ListenersHeard, ClientBegan, DurableHeard),
        )

    def begin(self) -> None:
        parts, life = self.parts, self.life
        parts.lost.began_us = life.now_us
        if life.seat.memory and parts.remembered.memory is None:
            life.refuse(f"what {life.seat.name} remembers of its network cannot be read")
            return
        parts.newcomer.start()
        if parts.newcomer.state is NewcomerState.SEEKING:
            parts.reunion.start()
        self._set_tick()

    def latest_life(self, client: str) -> int:
        """The latest life of a client that is known anywhere."""
        return self.parts.client_book.roll.latest(client)

    def knows_broker(self, name: str) -> bool:
        return self.parts.remembered.knows(name)

    def status(self) -> StackStatus:
        return account.status_of(self.parts, self.strange, self.out_of_bounds)

    def store_failed(self, reason: str) -> None:
        self.life.retire(f"{reason}; others have copies")

    def readers(self, topic: str) -> TopicReaders:
        return account.readers_of(self.parts, topic)

    # -- who may say what ----------------------------------------------------------------------------------------------

    def _clients(self) -> Desk:
        parts = self.parts
        sessions = parts.sessions.all
        return Desk(
            sessions.get,
            {
                Attend: parts.served.attend,
                Publish: parts.publishing.publish,
                Taken: parts.served.taken,
                DropsAcknowledged: parts.sessions.drops_acknowledged,
                ForgetBrokers: parts.forgetting.asked,
                **parts.durables.of_clients,
                AskAudience: parts.audience.asked,
                **parts.wishes.of_clients,
            },
            check=ClientSession.check_turn,
            is_only=True,
            is_guarded=True,
        )

    def _neighbours(self) -> Desk:
        """A neighbour that was declared dead may not know it yet: what it says is dropped."""
        parts = self.parts

        def at_totals(handler: Callable[[str, Any], None]) -> Callable[[Link, Any], None]:
            return lambda link, message: handler(link.name, message)

        return Desk(
            parts.neighbours.heard.get,
            {
                Forward: parts.forwarding.forwarded,
                Levels: parts.forwarding.take_levels,
                TotalLevels: parts.total_way.take_levels,
                TotalCopy: parts.total_way.kept,
                ListenersChanged: parts.client_book.listeners.changed,
                ListenersHeard: parts.client_book.listeners.heard,
                ClientBegan: lambda link, message: parts.client_book.roll.heard(link.name, message),
                DurableKnown: parts.client_book.durables.known,
                DurableHeard: parts.client_book.durables.heard,
                DurableDone: parts.client_book.durables.done,
                ReadersPaused: parts.pauses.heard,
                MoveAway: lambda link, message: parts.newcomer.move_away(link.name, message),
                **(parts.revival.of_neighbours if parts.revival is not None else {}),
                **parts.wishes.of_neighbours,
                **{kind: at_totals(handler) for kind, handler in parts.totals.handlers.items()},
                Submit: self._submitted,
                Lock: parts.publishing.take_lock,
                **parts.tree_news.handlers,
            },
            heard=parts.council.heard,
            strange=self._pass_over,
        )

    def _pass_over(self, name: str, message: Any) -> None:
        """From one that is no neighbour; often it was one, and does not know yet."""
        self.strange += 1

    def _newcomers(self) -> Desk:
        """Brokers that have no right to their names yet: others are taken before."""
        parts = self.parts
        admission, outbox = parts.admission, parts.outbox
        return Desk(
            parts.peers.find,
            {
                JoinRequest: lambda peer, message: admission.requested(peer.name, peer.incarnation, message),
                JoinWithdrawn: lambda peer, message: admission.withdrawn(peer.name, message),
                Probe: lambda peer, message: outbox.send(peer.name, Probed(message.number)),
                **self._seekers(),
            },
            is_only=True,
        )

    def _seekers(self) -> dict[type, Callable[[Peer, Any], None]]:
        """What brokers say that look for their network."""
        reunion = self.parts.reunion
        return {
            Whereabouts: lambda peer, message: reunion.heard(peer.name, peer.incarnation, message),
            Enrol: lambda peer, message: reunion.asked(peer.name, message),
            Enrolled: lambda peer, message: reunion.answered(peer.name, message),
        }

    def _brokers(self) -> Desk:
        parts, life = self.parts, self.life
        newcomer, admission = parts.newcomer, parts.admission

        def at_council(handler: Callable[[str, Any, int], None]) -> Callable[[Peer, Any], None]:
            return lambda peer, message: handler(peer.name, message, life.now_us)

        probed = at_council(parts.council.handlers[Probed])
        enrol, enrolled = at_council(parts.council.handlers[Enrol]), at_council(parts.council.handlers[Enrolled])
        suspect = at_council(parts.council.handlers[Suspect])  # who has no place judges nobody
        reunion = parts.reunion

        def all_probed(peer: Peer, message: Probed) -> None:
            probed(peer, message)
            newcomer.probed(peer.name, message)
            parts.draining.probed(peer.name, message)

        return Desk(
            parts.peers.find_settled,
            {
                JoinRequest: lambda peer, message: admission.requested(peer.name, peer.incarnation, message),
                JoinWithdrawn: lambda peer, message: admission.withdrawn(peer.name, message),
                JoinElsewhere: lambda peer, message: newcomer.sent_elsewhere(peer.name, message),
                NameTaken: lambda peer, message: newcomer.refused(peer.name, message),
                AttachRequest: self._attach_requested,
                Leaving: lambda peer, message: parts.draining.told(peer.name),
                NotMember: lambda peer, message: parts.coordinator.not_member(peer.name, message),
                Recollect: lambda peer, message: parts.revival.told(peer.name) if parts.revival is not None else None,
                **parts.parcels.handlers,
                **{kind: at_council(handler) for kind, handler in parts.council.handlers.items()},
                Probed: all_probed,
                Whereabouts: self._seekers()[Whereabouts],
                Suspect: lambda peer, message: suspect(peer, message) if life.attached else None,
                Enrol: lambda peer, message: (
                    enrol(peer, message) if life.attached else reunion.asked(peer.name, message)
                ),
                Enrolled: lambda peer, message: (
                    enrolled(peer, message) if life.attached else reunion.answered(peer.name, message)
                ),
            },
            heard=parts.council.heard,
        )

    # -- what happens --------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        self.parts.wishes.postponed.forget_peer(event.peer)
        self.parts.peer_sessions.up(event)

    def _link_down(self, event: LinkDown) -> None:
        self.parts.wishes.postponed.forget_peer(event.peer)
        self.parts.peer_sessions.down(event)

    def _submitted(self, link: Link, message: Submit) -> None:
        parts = self.parts
        check_total(message.bundle)
        if not parts.forwarding.is_forged_total(message.bundle):
            parts.totals.handlers[Submit](link.name, message)

    def _attach_requested(self, peer: Peer, message: AttachRequest) -> None:
        parts = self.parts
        if parts.council.may_repair(peer.name, message.dead, self.life.now_us):
            parts.member.requested(peer.name, message)

    def _tick(self, timer: Tick) -> None:
        parts, life = self.parts, self.life
        parts.peer_sessions.tick()
        self.act()
        parts.reporting.tick()
        if life.attached:
            parts.remembered.write()
            parts.coordinator.declare_dead_children()
            parts.council.tick(life.now_us)
            self.act()  # whether this is a moment of calm depends on it
            parts.coordinator.tick()
            wanted = (*parts.links, *parts.council.standby(), *parts.coordinator.members, *life.view.attached.values())
            parts.peers.keep_only(wanted, IDLE_LEASES * life.options.lease_us)
            self.act()
            parts.admission.admit()
            if life.is_calm and (move := parts.balance.find_move()) is not None:
                parts.outbox.send(*move)
            parts.served.decide_all()
            parts.durables.tick()
            parts.wishes.postponed.take_up()
            parts.shares.look_at_copies()
            parts.pauses.tick()
            parts.served.settle()
            parts.ghost_expiry.tick()
            parts.served.tell_successors()
            parts.waits.tick()
        parts.reunion.tick()
        self.act()
        if parts.revival is not None:
            parts.revival.tick()
        self._set_tick()

    def _set_tick(self) -> None:
        life = self.life
        life.out.append(SetTimer(Tick(), life.now_us + life.options.heartbeat_us))

    def _repaired(self, outcome: Repaired) -> None:
        parts = self.parts
        parts.lost.succeeded(outcome.dead, outcome.successor)
        self._settled(Settled())
        parts.publishing.drain_all()

    def _settled(self, outcome: Settled) -> None:
        parts = self.parts
        parts.remembered.write()
        parts.served.tell_successors()
        if parts.until_safe is not None and parts.served.serving:
            parts.until_safe.offer()
        parts.served.decide_all()
        if self.life.attached and parts.claims.waiting:
            parts.admission.admit()

    def _reunited(self, outcome: Reunited) -> None:
        parts = self.parts
        if parts.revival is not None:
            parts.revival.lead_again()
        self._settled(Settled())

    def _keep_memory(self) -> None:
        self.parts.remembered.write()

    def _joined(self, outcome: TakenIn) -> None:
        parts = self.parts
        if parts.revival is not None:
            parts.revival.joined(outcome.parent)

    def _recovered(self, event: Recovered) -> None:
        parts = self.parts
        if parts.until_safe is not None:
            parts.until_safe.recovered(event.records)
            if parts.served.serving:
                parts.until_safe.offer()
        elif parts.revival is not None:
            parts.revival.recovered(event.records)
            self.act()

    def _request(self, event: Request) -> None:
        parts = self.parts
        if isinstance(event.body, LeaveRequest):
            parts.draining.begin(event.body.within_us)
        elif isinstance(event.body, LookForRequest):
            parts.reunion.look_for(event.body.names)
