"""One broker (section 3.1): its parts, and who hears what. What it shares with other stacks is in `stacks.shell`."""

import random

import msgspec

from resprout.core.contract import (
    CancelTimer,
    EndCause,
    Heard,
    LinkDown,
    LinkUp,
    ProtocolMessage,
    Retire,
    SetTimer,
    Silent,
    Timer,
)  # fmt: skip
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.desk import Desk
from resprout.stacks.shell import Shell
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import MemberSeen, RepairSeen, StackStatus, TopicReaders, readers_here
from resprout_lab.blocks.recorded import Asking
from resprout_lab.blocks.serving import ClientDesk, ReceiptsDue, SessionEvents
from resprout_lab.ginger.dissemination import Dissemination, KeepOver, WorkDone
from resprout_lab.ginger.messages import (
    LostMessage,
    LostMessageRequest,
    Metadata,
    NodeGone,
    ParentBuffer,
    ParentRequest,
    ParentResponse,
    Retransmitted,
    RootElection,
    Stored,
    Subscribe,
    TotalAck,
    TotalLock,
    TotalProcessed,
    TreeViewUpdate,
)  # fmt: skip
from resprout_lab.ginger.overlay import Clients, Overlay
from resprout_lab.ginger.reconfiguration import ConnectionDue, Reconfiguration
from resprout_lab.ginger.root_order import RootOrder
from resprout_lab.ginger.state import GingerOptions, Neighbor, State, TreeView
from resprout_lab.ginger.total_order import PublishedTotals


class SuspectDue(Timer, frozen=True):
    """When to declare a silent broker dead."""

    peer: str


class GingerBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: GingerOptions, rng: random.Random) -> None:
        self.seat = seat
        state = self.state = State(seat.name, options)
        self.view = TreeView(state, seat.address)
        self.reconfiguration = Reconfiguration(state)
        self.dissemination = Dissemination(state, rng, lambda: self.reconfiguration.is_holding)
        totals_of = RootOrder if options.corrects("root_order") else PublishedTotals
        self.totals: RootOrder | PublishedTotals = totals_of(state, self.dissemination)
        self.dissemination.totals = self.reconfiguration.totals = self.totals
        self.reconfiguration.dissemination = self.dissemination
        if isinstance(self.totals, RootOrder):
            self.totals.synchronising = self.reconfiguration.synchronising
        self.overlay = Overlay(seat, state, self.view, self.reconfiguration, self.dissemination)
        clients = Clients(state, self.view, self.reconfiguration, seat.address)
        self._asking = Asking(state, state.sessions, state.wishes, self._say)
        desk = ClientDesk(
            state,
            state.sessions,
            publish=self.dissemination.publish,
            is_ready=lambda: state.attached,
            door=clients.door,
            welcome=clients.serve,
            successors=self.view.successors,
            left=state.forget,
        )
        sessions = SessionEvents(state, desk, self, state.outbox.writable)
        super().__init__(
            state,
            events=sessions.table,
            desks=(desk.desk(), self._any_broker(), self._neighbor()),
            cut_off=sessions.cut_off,
            timers={
                ReceiptsDue: desk.receipts_due,
                SuspectDue: lambda timer: self.overlay.declare(timer.peer),
                ConnectionDue: self.overlay.on_timer_expired,
                KeepOver: self.dissemination.keep_over,
                WorkDone: self.dissemination.workers.done,
            },
            outcomes={},
            at_end=(
                self._go_on,
                (state.wishes.outbound, self._asking.ask),
                desk.serve,
                (state.wishes.outbound, self._asking.ask),
                desk.tell,
                lambda: state.push_back(state.out),
            ),
        )

    def begin(self) -> None:
        self.overlay.start()

    def _any_broker(self) -> Desk:
        return Desk(
            self.state.peers.find,
            {
                ParentRequest: self.overlay.on_parent_request,
                ParentResponse: self.overlay.on_parent_response,
                RootElection: self.overlay.on_root_election,
                NodeGone: self.overlay.hear_gone,
            },
        )

    def _neighbor(self) -> Desk:
        reconfiguration, totals = self.reconfiguration, self.totals
        return Desk(
            self.state.neighbors.get,
            {
                Metadata: self.dissemination.receive_metadata,
                Stored: self.dissemination.hear_stored,
                TotalLock: totals.hear_lock,
                TotalAck: totals.hear_ack,
                TotalProcessed: self._hear_processed,
                TreeViewUpdate: self.view.on_tree_view_update,
                ParentBuffer: reconfiguration.on_parent_buffer,
                LostMessageRequest: reconfiguration.on_lost_message_request,
                LostMessage: reconfiguration.on_lost_message,
                Retransmitted: reconfiguration.on_retransmitted,
                Subscribe: self._hear_subscribe,
                InterestConfirmed: self._asking.handlers[InterestConfirmed],
                Uninterested: self._asking.handlers[Uninterested],
            },
            unknown_peer=lambda name, message: None,  # it was a neighbour a moment ago
        )

    # -- messages ------------------------------------------------------------------------------------------------------

    def _hear_processed(self, neighbor: Neighbor, message: TotalProcessed) -> None:
        self.dissemination.receive_in_place(neighbor, lambda: self.totals.hear_processed(neighbor, message))

    def _hear_subscribe(self, neighbor: Neighbor, message: Subscribe) -> None:
        """Section 3.4: store it, and send it on to the other neighbours with a longer path."""
        path = self.view.handle_path(neighbor.name, message.path)
        if message.id:
            self.view.paths[message.filter, message.where] = (neighbor.name, path)
            self._asking.confirm(self.state.wishes.hear(neighbor.name, message))
        asked = [name for name, one in self.state.wishes.outbound if isinstance(one, Interested)]
        for name in self.state.neighbors:
            if name != neighbor.name and name not in asked:  # it was asked before: it learns the path alone
                onward = self.view.extended(path, name)
                self.state.outbox.send(name, Subscribe(0, message.filter, message.where, onward))

    def _say(self, name: str, message: ProtocolMessage) -> None:
        if isinstance(message, Interested):
            source, path = self.view.paths.get((message.filter, message.where), ("", ()))
            onward = self.view.extended(path if source in self.state.neighbors else (), name)
            message = Subscribe(message.id, message.filter, message.where, onward)
        if name in self.state.neighbors:
            self.state.outbox.send(name, message)

    def _go_on(self) -> None:
        if isinstance(self.totals, RootOrder):
            self.totals.go_on()

    # -- sessions with brokers (`BrokerSessions`) ----------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.state.peers.is_up(name) or name in self.state.neighbors

    def up(self, event: LinkUp) -> None:
        name, state = event.peer, self.state
        if name in state.neighbors:
            self.overlay.declare(name)  # its session is a new one, so the old one is lost
        state.peers.came_up(name, event.incarnation, event.room)
        if state.dead.get(name) == event.incarnation:
            state.outbox.pass_by(name, NodeGone(event.incarnation))
            state.peers.close(name, "declared dead")
            return
        state.dead.pop(name, None)
        self.heard(Heard(name))
        self.overlay.session_began(name)

    def down(self, event: LinkDown) -> None:
        name, state = event.peer, self.state
        state.peers.went_down(name)
        if name in state.neighbors and event.cause is EndCause.CLOSED:  # only those end a session that declared it dead
            state.end_life(Retire(f"declared dead by {name}: {event.reason}"))
        elif name in state.neighbors:
            self.overlay.declare(name)
        else:
            self.overlay.refused(name)

    def silent(self, event: Silent) -> None:
        name, state = event.peer, self.state
        if state.peers.lost(name, event.refused) is None or name in state.dead:
            return
        if event.refused:
            self.overlay.refused(name)
        elif name in state.neighbors:
            state.out.append(SetTimer(SuspectDue(name), state.now_us + state.options.timer_us))

    def heard(self, event: Heard) -> None:
        if self.state.peers.heard(event.peer) is not None:
            self.state.out.append(CancelTimer(SuspectDue(event.peer)))

    def cut_off(self, name: str, reason: str) -> None:
        if name in self.state.neighbors:
            self.overlay.declare(name)
        else:
            self.state.peers.close(name, reason)

    # -- what people are told ------------------------------------------------------------------------------------------

    def status(self) -> StackStatus:
        state, view = self.state, self.view
        members = [
            *[MemberSeen(one.name, state.peers.incarnation(one.name), one.address) for one in state.neighbors.values()],
            *[MemberSeen(name, address=known.address) for name, known in {**view.ancestors, **view.siblings}.items()],
        ]
        return StackStatus(
            serving=state.attached and not self.reconfiguration.is_holding,
            parent=state.parent if state.parent is not None else None if state.is_root else msgspec.UNSET,
            neighbours=tuple(state.neighbors),
            members=tuple(members),
            silent=tuple([name for name in state.neighbors if not state.peers.is_heard(name)]),
            repairs=(RepairSeen((self.reconfiguration.failed,), None),) if self.reconfiguration.failed else (),
            log_bundles=len(state.buffer),
        )

    def readers(self, topic: str) -> TopicReaders:
        return readers_here(self.state.sessions, topic)
