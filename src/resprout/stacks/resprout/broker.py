"""One broker of the default stack: which part hears which event, message, timer and outcome.

`parts` makes the parts and says what each uses. Bundles are in `forwarding`, totals in `total_delivery`, clients in
`served_clients` and `publishing`, coming and going in `joining/`, what links tell of peers in `sessions`, and both ends
of a repair in `repair/`. `overlay` decides who lives. The tables are those of `stacks.shell`.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from resprout.core.bundle import Bundle
from resprout.core.contract import (
    Congested,
    Heard,
    HoldRoles,
    LinkDown,
    LinkUp,
    ProtocolMessage,
    Recovered,
    Request,
    Sender,
    SetTimer,
    Silent,
    Stirred,
    Timer,
    Writable,
)  # fmt: skip
from resprout.core.message import Message
from resprout.edge.broker.ghosts import GhostOver
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import (
    Acknowledge,
    Consume,
    DurableDue,
    EndSubscription,
    FollowUp,
    Replayed,
    RetryDue,
    Settle,
)
from resprout.edge.messages import (
    AskAudience,
    Attend,
    DropsAcknowledged,
    ForgetBrokers,
    Publish,
    Subscribe,
    Taken,
    Unsubscribe,
)
from resprout.edge.requests import LeaveRequest, LookForRequest
from resprout.edge.value_messages import AskOutcome, AskValues
from resprout.logs.messages import LOG_MESSAGES
from resprout.order.messages import (
    AlreadyOrdered,
    Closed,
    Forward,
    Levels,
    Lock,
    OrderedTotal,
    ReportSpread,
    ReportTaken,
    ReportTotals,
    Republished,
    Submit,
    TotalCopy,
)
from resprout.order.totals.levels import TotalLevels
from resprout.overlay.configurations import Whereabouts
from resprout.overlay.messages import (
    Declared,
    Enrol,
    Enrolled,
    Expelled,
    Probe,
    Probed,
    Registered,
    Seek,
    Sought,
    Suspect,
    Tell,
    Told,
)
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.spread.messages import SPREAD_MESSAGES, InterestConfirmed, Interested, Uninterested
from resprout.stacks.desk import Desk, Handler, on, said_by
from resprout.stacks.peers import Peer
from resprout.stacks.resprout import account
from resprout.stacks.resprout.draining import DrainOver
from resprout.stacks.resprout.durable_state import DurableDone, DurableHeard, DurableIds, DurableKnown
from resprout.stacks.resprout.joining.newcomer import JoinAgain, NewcomerState
from resprout.stacks.resprout.joining.offers import ChooseParent
from resprout.stacks.resprout.messages import (
    PARCELS,
    AttachRequest,
    BroughtAlong,
    Cleared,
    ClientAtFault,
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
    ParcelEnd,
    ParcelRows,
    Recollect,
    Recollected,
    Recollection,
    Repaired,
    Reunited,
    Revived,
    Settled,
    Superseded,
    TakenIn,
    TreeChanged,
    ValuesRecollected,
)
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.parts import BrokerParts
from resprout.stacks.resprout.pauses import ReadersPaused
from resprout.stacks.resprout.shares import LookAtReaders
from resprout.stacks.resprout.subscribing import DropMore, TakeUpRequests
from resprout.stacks.resprout.unsettled import AskUnread, HoldOver, SearchDue, UnreadTold
from resprout.stacks.resprout.value_reads import AnswerValues
from resprout.stacks.shell import Shell
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
    """A broker of the default stack: the tables that connect events, messages, timers and outcomes to its parts."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        parts = self.parts = BrokerParts(seat, options, rng)
        self.life = parts.life
        self.from_non_neighbours = 0
        """Messages for neighbours that came from brokers that are none, and were dropped."""
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
                HoldRoles: self._hold_roles,
                Request: self._request,
                Recovered: self._recovered,
            },
            desks=self._desks(),
            cut_off=parts.peer_sessions.cut_off,
            timers={
                Tick: self._tick,
                JoinAgain: lambda timer: parts.newcomer.again(),
                DrainOver: parts.draining.over,
                ChooseParent: lambda timer: parts.newcomer.choose(),
                GhostOver: parts.ghost_expiry.due,
                DurableDue: parts.durables.due,
                RetryDue: parts.durables.retry_due,
                SearchDue: lambda timer: parts.served.search(),
                HoldOver: parts.served.hold_over,
                DropMore: lambda timer: parts.served.drop_more(),
                TakeUpRequests: lambda timer: parts.wishes.postponed.take_up(),
                AnswerValues: lambda timer: parts.values.reads.go_on(timer.party),
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
                BroughtAlong: parts.served.brought,
                ClientAtFault: lambda fault: parts.peer_sessions.cut_off(fault.name, fault.reason, fault.code),
                TreeChanged: parts.tree_news.changed,
            },
            at_end=(
                (parts.served.awaited, parts.served.look_again),
                (parts.client_book.listeners.answers, parts.client_book.listeners.settle),
                (parts.ghosts.idle, parts.ghost_expiry.let_idle_go),
                (parts.sessions.quotas.overspent, parts.served.cut_off_overspent),
                (parts.sessions.waking, parts.durables.hand_out),
                (parts.spilling.unlooked, parts.spilling.look),
                (parts.spilling.candidates, parts.spilling.tidy),
                (parts.sessions.filling, parts.shares.watch),
                (parts.shares.watched, parts.shares.look),
                (parts.log.stuck, parts.shares.look_at_copies),
                (parts.pauses.unsaid, parts.pauses.say),
                (parts.values.late, parts.values.settle),
                (parts.values.giving, parts.values.given),
                parts.reporting.end_step,
                *([parts.until_safe.forget] if parts.until_safe is not None else []),
                *([parts.disk.end] if parts.disk is not None else []),
                (parts.draining.asked, parts.draining.check),
            ),
            in_runs=(*SPREAD_MESSAGES, Seek, Sought, ListenersChanged, ListenersHeard, ClientBegan, DurableHeard),
        )
        self.value_owners = parts.values.owners

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

    def consumers_of(self, durable: str) -> tuple[str, ...] | None:
        """Return the first consumers of a durable subscription, wherever it is held; None when there is none."""
        state = self.parts.client_book.durables.states.get(durable)
        return None if state is None or state.over else state.consumers

    def home_of(self, durable: str) -> str:
        """Return the name of the broker that holds a durable subscription; empty if there is none."""
        state = self.parts.client_book.durables.states.get(durable)
        return "" if state is None or state.over else state.home.name

    def has_audience(self, topic: str) -> bool:
        """Return whether a subscription in the network may match the topic; True while this broker is not certain."""
        return self.parts.audience.may_exist((topic,))

    def walk_last_values(self, topic_filter: str) -> Iterator[Message | None]:
        """Return the last values of topics that match step by step, for what runs inside this broker."""
        return self.parts.values.walk(topic_filter)

    def on_value_applied(self, hear: Callable[[Bundle], None]) -> None:
        """Call this function with each retained bundle that is applied here."""
        self.parts.values.on_applied = hear

    @property
    def value_count(self) -> tuple[int, int]:
        """Last values, and their bytes of memory."""
        store = self.parts.values.store
        return len(store), store.bytes

    @property
    def keeps_values(self) -> bool:
        """Whether last values survive a restart of all brokers."""
        return self.life.options.durable == "journal"

    def excess_of_value(self, writer: str, topic: str, cost: int) -> str:
        """Return why a client may not retain these bytes on a topic; empty if it may."""
        return self.parts.values.excess(writer, topic, cost)

    def status(self) -> StackStatus:
        return account.status_of(self.parts, self.from_non_neighbours, self.out_of_bounds)

    def store_failed(self, reason: str) -> None:
        self.life.retire(f"{reason}; others have copies")

    def readers(self, topic: str) -> TopicReaders:
        return account.readers_of(self.parts, topic)

    # -- who may say what ----------------------------------------------------------------------------------------------

    def _desks(self) -> tuple[Desk, ...]:
        """Return one desk for each kind of peer: clients, neighbours, other brokers, newcomers. Each message class
        declares which of them may send it (`said_by`). Messages of a neighbour that was declared dead, and may not know
        it yet, are dropped."""
        parts, handlers = self.parts, self._handlers()
        heard = parts.council.heard
        clients = said_by(Sender.CLIENT, handlers)
        return (
            Desk(parts.sessions.all.get, clients, check=ClientSession.check_turn, is_only=True, is_guarded=True),
            Desk(parts.neighbours.find, said_by(Sender.NEIGHBOUR, handlers), heard=heard, unknown_peer=self._drop),
            Desk(parts.peers.find_settled, said_by(Sender.BROKER, handlers), heard=heard),
            Desk(parts.peers.find, said_by(Sender.NEWCOMER, handlers), is_only=True),
        )

    def _handlers(self) -> dict[type[ProtocolMessage], Handler]:
        """Return the handler of each message class: the place to look up where a message goes."""
        parts, revival = self.parts, self.parts.revival
        book, durables, totals = parts.client_book, parts.durables, parts.total_delivery
        restart = () if revival is None else (
            on(Recollected, revival.recollected), on(Recollection, revival.recollection),
            on(ValuesRecollected, revival.values_told), on(Republished, revival.restored), on(Revived, revival.revived),
        )  # fmt: skip
        return dict((
            # clients
            on(Attend, parts.served.attend), on(Publish, parts.publishing.publish), on(Taken, parts.served.taken),
            on(DropsAcknowledged, parts.sessions.drops_acknowledged), on(ForgetBrokers, parts.forgetting.asked),
            on(Subscribe, parts.wishes.postponed.ask), on(Unsubscribe, parts.wishes.postponed.ask),
            on(AskAudience, parts.audience.asked), on(AskValues, parts.values.ask),
            on(AskOutcome, parts.values.ask_outcome), on(Consume, durables.consume),
            on(Acknowledge, durables.consumers.acknowledge), on(Replayed, durables.consumers.replayed),
            on(Settle, durables.settle), on(FollowUp, durables.follow_ups.follow),
            on(EndSubscription, durables.end_subscription),
            # bundles, totals, interest, and what is said of clients
            on(Forward, parts.forwarding.forwarded), on(Levels, parts.forwarding.take_levels),
            on(Submit, totals.submitted), on(Lock, parts.publishing.take_lock), on(Closed, totals.closed),
            on(OrderedTotal, totals.ordered), on(AlreadyOrdered, totals.already_ordered),
            on(TotalCopy, totals.kept), on(TotalLevels, totals.take_levels),
            on(Interested, parts.wishes.interested), on(InterestConfirmed, parts.wishes.confirmed),
            on(Uninterested, parts.wishes.uninterested), on(ListenersChanged, book.listeners.changed),
            on(ListenersHeard, book.listeners.heard), on(ClientBegan, book.roll.heard),
            on(DurableKnown, book.durables.known), on(DurableHeard, book.durables.heard),
            on(DurableDone, book.durables.done), on(DurableIds, book.durables.ids),
            on(ReadersPaused, parts.pauses.heard),
            on(AskUnread, parts.unread.asked), on(UnreadTold, parts.unread.told),
            # the tree: who lives, who comes and goes, and repairs
            *dict.fromkeys((Tell, Told, Seek, Sought), parts.tree_news.heard).items(),
            *dict.fromkeys(parts.council.messages, self._to_council).items(),
            on(Probe, self._probe), on(Probed, self._probed), on(Suspect, self._suspect),
            on(Enrol, self._enrol), on(Enrolled, self._enrolled), on(Whereabouts, parts.reunion.heard),
            on(JoinRequest, parts.admission.requested), on(JoinWithdrawn, parts.admission.withdrawn),
            on(JoinElsewhere, parts.newcomer.sent_elsewhere), on(NameTaken, parts.newcomer.refused),
            on(MoveAway, parts.newcomer.move_away), on(Leaving, parts.draining.told),
            on(AttachRequest, parts.member.requested), on(NotMember, parts.coordinator.not_member),
            *dict.fromkeys(PARCELS, parts.parcels.begin).items(),
            on(ParcelRows, parts.parcels.add), on(ParcelEnd, parts.parcels.complete),
            on(Recollect, self._recollect), *restart,
            *dict.fromkeys((*LOG_MESSAGES, *REPLICA_MESSAGES), self._pass_over_log).items(),
        ))  # fmt: skip

    def _drop(self, name: str, message: Any) -> None:
        """Drop a message that only neighbours may send. Its sender is usually a former neighbour that has not heard
        yet that it was replaced."""
        self.from_non_neighbours += 1

    def _pass_over_log(self, peer: Peer, message: Any) -> None:
        """About a log, at a broker that was not told of any: perhaps others were restarted with it before this one."""

    def _to_council(self, peer: Peer, message: Any) -> None:
        """Hand a message to the overlay, which knows peers by name and has no clock of its own."""
        self.parts.council.take(peer.name, message, self.life.now_us)

    def _probe(self, peer: Peer, message: Probe) -> None:
        if peer.is_newcomer:
            self.parts.peers.post(peer.name, Probed(message.number))
        else:
            self._to_council(peer, message)

    def _probed(self, peer: Peer, message: Probed) -> None:
        self._to_council(peer, message)
        self.parts.newcomer.probed(peer, message)
        self.parts.draining.probed(peer, message)

    def _suspect(self, peer: Peer, message: Suspect) -> None:
        if self.life.attached:  # who has no place judges nobody
            self._to_council(peer, message)

    def _enrol(self, peer: Peer, message: Enrol) -> None:
        hear = self.parts.reunion.asked if self._seeks_network(peer) else self._to_council
        hear(peer, message)

    def _enrolled(self, peer: Peer, message: Enrolled) -> None:
        hear = self.parts.reunion.answered if self._seeks_network(peer) else self._to_council
        hear(peer, message)

    def _seeks_network(self, peer: Peer) -> bool:
        """Whether this broker or the peer has no place yet, and looks for its network."""
        return peer.is_newcomer or not self.life.attached

    def _recollect(self, peer: Peer, message: Recollect) -> None:
        if self.parts.revival is not None:
            self.parts.revival.told(peer, message)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        self.parts.wishes.postponed.forget_peer(event.peer)
        self.parts.peer_sessions.up(event)

    def _link_down(self, event: LinkDown) -> None:
        self.parts.wishes.postponed.forget_peer(event.peer)
        self.parts.peer_sessions.down(event)

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
                parts.peers.post(*move)
            parts.served.decide_all()
            parts.durables.tick()
            parts.wishes.postponed.take_up()
            parts.shares.look_at_copies()
            parts.pauses.tick()
            parts.served.settle()
            parts.ghost_expiry.tick()
            parts.values.expire()
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
        """A repair is over, here as coordinator or as member: decide again about clients that waited for it, and
        accept the publications that did."""
        parts = self.parts
        parts.lost.succeeded(outcome.dead, outcome.successor)
        self._settled(Settled())
        parts.publishing.drain_all()

    def _settled(self, outcome: Settled) -> None:
        """This broker has its place in the tree, or new neighbours: tell clients, and decide about those that wait."""
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

    def _hold_roles(self, event: HoldRoles) -> None:
        self.life.is_disk_full = "broker" in event.roles

    def _request(self, event: Request) -> None:
        parts = self.parts
        if isinstance(event.body, LeaveRequest):
            parts.draining.begin(event.body.within_us)
        elif isinstance(event.body, LookForRequest):
            parts.reunion.look_for(event.body.names)
