"""The overlay maintenance protocol (sections 4.2.3 and 4.2.4, Algorithms 3 to 8), for brokers and for clients.

A broker whose parent failed asks a broker of its tree view to be its parent: the nearest ancestor, then its siblings,
then the other ancestors, as in the log of annex VIII. When all have declined, it asks again and breaks the degree. The
children of a failed root elect one of them. With `succession` nobody votes: a child of the root asks those whose names
come before its own, and is the root when there are none.

*Clients* (sections 4.2.2.1 and 4.2.3.1) count in the degree, and synchronise with any broker of their view. A client is
told the brokers around its own one (`Successors`), the nearest first. When its broker fails it asks them in turn. It
says which identifiers it has received last (`Attend.received`); the broker answers from its buffer. This is the
exchange of Algorithms 10 to 12, in one message of the product's client. A client publishes again what it was not told
to be safe. As published, a broker serves a client at once if it subscribes to the client's topics. With `whole_tree`
any broker does, once it has everything that the client has seen: otherwise an answer of the client could overtake its
cause.
"""

from resprout.core.contract import CancelTimer, Retire, SetTimer
from resprout.edge.broker.owed import Owed, read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Successor
from resprout.spread.messages import Interested
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.ginger.dissemination import Dissemination
from resprout_lab.ginger.messages import NodeGone, ParentRequest, ParentResponse, RootElection
from resprout_lab.ginger.reconfiguration import ConnectionDue, Reconfiguration
from resprout_lab.ginger.state import Known, Neighbor, State, TreeView

RETRY = "(nobody)"
"""Stands for a broker in `ConnectionDue` when there is nobody to ask."""

WAIT_US = 5_000_000
"""How long a client waits at most until a broker has what the client has seen. Less than a client's own patience."""


class Overlay:
    def __init__(
        self,
        seat: BrokerSeat,
        state: State,
        view: TreeView,
        reconfiguration: Reconfiguration,
        dissemination: Dissemination,
    ) -> None:
        self._seat = seat
        self._state = state
        self._view = view
        self._reconfiguration = reconfiguration
        self._dissemination = dissemination
        self._acyclic = state.options.corrects("acyclic")
        self._asked: str | None = None
        """The broker that was asked to be the parent."""
        self._asks: dict[str, tuple[Interested, ...]] = {}
        """What each broker was asked for that was to be the parent."""
        self._break_degree = False
        self.declined_by: dict[str, None] = {}
        self.sibling_sync: dict[str, int] = {}
        """*siblingSync*: the votes that have come, by name."""
        self._vote: int | None = None
        """Its own one, while an election goes on."""
        self._follows_root = False
        """With `succession`: its parent was the root, and all before it in line are its ancestors."""
        self._later: dict[str, ParentRequest] = {}
        """Brokers that want to join before this one has a place."""

    def start(self) -> None:
        """Section 3.1: the overlay is configured."""
        if self._seat.parent is None:
            self._state.is_root = True
        else:
            self._reconfiguration.is_seeking = True
            self._ask(self._seat.parent)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def session_began(self, name: str) -> None:
        if name == self._asked:
            failed = self._reconfiguration.failed
            request = ParentRequest(self._asks[name], self._break_degree, failed, self._seat.address)
            self._state.log(f"sending ParentRequest [breakDegree={self._break_degree}] to: {name}")
            self._state.outbox.send(name, request)
            self._set_connection_timer(name)
        if self._vote is not None and name in self._view.siblings:
            self._state.outbox.send(name, RootElection(self._vote))

    def refused(self, name: str) -> None:
        """Nobody listens there any more."""
        if name in self._state.neighbors or self._reconfiguration.failed:
            self.declare(name)

    def declare(self, name: str) -> None:
        """It counts as dead from now on."""
        state = self._state
        if name in state.dead or name == state.name:
            return
        state.dead[name] = state.peers.incarnation(name)
        state.outbox.pass_by(name, NodeGone(state.dead[name]))
        state.peers.close(name, "declared dead")
        self._view.former.pop(name, None)
        self._later.pop(name, None)
        self._reconfiguration.lose(name)
        if name in state.neighbors:
            self.on_neighbor_down(name)
        self._view.remove(name)
        if name == self._asked:
            self._asked = None
            self._send_parent_request()
        self._count_votes()
        self._reconfiguration.check_complete()

    def hear_gone(self, peer: Peer, message: NodeGone) -> None:
        if message.incarnation == self._seat.incarnation:
            self._state.end_life(Retire(f"declared dead by {peer.name}"))

    # -- Algorithms 3 and 4 --------------------------------------------------------------------------------------------

    def on_neighbor_down(self, name: str) -> None:
        state, reconfiguration = self._state, self._reconfiguration
        self._state.log(f"lost connection to {name}")
        state.note("suspect", name)
        children = self._remove_neighbor(name)
        was_parent = name == state.parent
        if was_parent:
            state.parent = None
            reconfiguration.is_seeking = True
            reconfiguration.failed = name
            state.note("repair_begin", name)
        reconfiguration.begin()
        self._state.log(f"removing neighbor {name}. Can receive {state.residual_degree} connections")
        self._view.send_tree_view_update(name, True)
        if was_parent:
            self._parent_failed()
        else:
            amount = max(0, min(state.residual_degree, len(children)))
            reconfiguration.expect(amount, children)
            self._set_connection_timer("")
            reconfiguration.check_complete()

    def _remove_neighbor(self, name: str) -> tuple[str, ...]:
        """*removeNeighbor*, and *removeFromTopicData* for all topics."""
        state = self._state
        neighbor = state.neighbors.pop(name)
        self._dissemination.release_all_of(neighbor)
        state.sessions.confirm(state.wishes.remove_link(name), state.out)
        self._reconfiguration.totals.forget_neighbor(name)
        state.show_safe()
        state.forget(name)
        return neighbor.children if name != state.parent else ()

    def _parent_failed(self) -> None:
        view, state = self._view, self._state
        self.declined_by.clear()
        self._break_degree = False
        is_below_root = not any(known.is_above for known in view.ancestors.values())
        self._follows_root = is_below_root and state.options.corrects("succession")
        if self._follows_root:
            view.ancestors.clear()  # brokers below its siblings, taken for uncles
            for name in sorted(view.siblings, key=_node_id):
                if _node_id(name) < _node_id(state.name):
                    view.ancestors[name] = Known(2 + len(view.ancestors), view.siblings.pop(name).address)
        if view.ancestors:
            self._send_parent_request()
        elif view.siblings and not self._follows_root:
            self._vote = state.residual_degree
            self._reconfiguration.expect(min(len(view.siblings), max(0, state.residual_degree)), ())
            for name in view.siblings:
                self._state.log(f"sending RootElection [residualDegree={self._vote}] to: {name}")
                if state.peers.open(name).up:
                    state.outbox.send(name, RootElection(self._vote))
            self._set_connection_timer("")
            self._count_votes()
        else:
            self._become_root(tuple(view.siblings))

    def _become_root(self, siblings: tuple[str, ...]) -> None:
        state, view = self._state, self._view
        self._state.log(f"I will be the next root, can receive {state.residual_degree} connections")
        state.is_root = True
        self._asked = self._vote = None
        self.sibling_sync.clear()
        view.siblings.clear()
        reconfiguration = self._reconfiguration
        reconfiguration.is_seeking = False
        reconfiguration.expected = 0
        if siblings:
            reconfiguration.expect(min(len(siblings), max(0, state.residual_degree)), siblings)
            self._set_connection_timer("")
        reconfiguration.check_complete()
        self._answer_later()

    def _send_parent_request(self) -> None:
        """*sendParentRequest*, *getReplacementParent*."""
        state, view = self._state, self._view
        if state.parent is not None or state.is_root:
            return
        name = self._candidate()
        if self._follows_root and not view.ancestors:
            self._become_root(tuple(view.siblings))
            return
        if name is None and not self._break_degree:
            self._break_degree = True
            self.declined_by.clear()
            name = self._candidate()
        if name is not None:
            self._reconfiguration.expected = 1
            self._ask(name)
        elif not view.ancestors and not view.siblings and self._reconfiguration.failed:
            self._nobody_left()
        else:
            self._set_connection_timer(RETRY)

    def _nobody_left(self) -> None:
        """The view is empty. As published the broker looks for ever (G2); here it is the root of what is below it,
        or, if it ever knew anybody else, asks those again."""
        if self._view.former and self._acyclic:
            for name, address in self._view.former.items():
                self._view.ancestors[name] = Known(self._state.options.max_hops, address)
            self._set_connection_timer(RETRY)
        else:
            self._become_root(())

    def _candidate(self) -> str | None:
        ancestors = self._view.nearest_ancestors()
        order = [*ancestors[:1], *self._view.siblings, *ancestors[1:]]
        return next((name for name in order if name not in self.declined_by), None)

    def _ask(self, name: str) -> None:
        state = self._state
        self._asked = name
        self._asks[name] = state.wishes.asks_for(name) if self._reconfiguration.failed else ()
        if self._reconfiguration.failed:
            state.note("repair_round", self._reconfiguration.failed)
        peer = state.peers.open(name)
        self._set_connection_timer(name)
        if peer.up:
            self.session_began(name)

    def _set_connection_timer(self, name: str) -> None:
        if name != self._seat.parent or self._reconfiguration.failed:
            self._state.log("setting a timer for expected connections")
            self._state.out.append(SetTimer(ConnectionDue(name), self._state.now_us + self._state.options.timer_us))

    # -- Algorithm 5 ---------------------------------------------------------------------------------------------------

    def on_parent_request(self, peer: Peer, request: ParentRequest) -> None:
        state, name = self._state, peer.name
        if request.failed:
            self.declare(request.failed)  # if it was not noticed here yet
        elif not state.attached:
            self._later[name] = request
            return
        self._state.log(f"received ParentRequest from {name}, my residual degree is {state.residual_degree}")
        if name in state.neighbors:  # it gave up waiting for the answer, and asks again
            self._drop(name)
        if not request.failed or self._may_accept(name, request):
            self._accept(name, request)
        else:
            self._state.log("declined parent request")
            state.outbox.send(name, ParentResponse(False))
            self._reconfiguration.check_expected(name)

    def _may_accept(self, name: str, request: ParentRequest) -> bool:
        state = self._state
        if self._acyclic and (not state.attached or name in self._view.ancestors or name == state.parent):
            return False
        mine = {(one.filter, one.where_text) for one in state.subscribed_topics(name)}
        is_subscribed = state.whole_tree or all((one.filter, one.where) in mine for one in request.subscribed)
        return request.break_degree or (state.residual_degree > 0 and is_subscribed)

    def _accept(self, name: str, request: ParentRequest) -> None:
        state = self._state
        asks = state.wishes.asks_for(name)
        self._state.log(f"sending ParentResponse [accepted=true] to: {name}")
        state.outbox.send(name, ParentResponse(True, asks, self._seat.address))
        self._view.remove(name)
        self._add_neighbor(name, request.address, asks, request.subscribed)
        if request.failed:
            self._reconfiguration.send_last_ids(name)
            self._reconfiguration.check_expected(name)
        else:
            self._reconfiguration.join(name)

    def _add_neighbor(
        self, name: str, address: str, mine: tuple[Interested, ...], theirs: tuple[Interested, ...]
    ) -> None:
        """*addNeighbor* of Algorithm 6, *addToTopicData* of Algorithm 5."""
        state = self._state
        state.neighbors[name] = Neighbor(name, address)
        state.locate(name, address)
        self._state.log(f"adding neighbor {name}. Can receive {state.residual_degree} connections")
        state.wishes.add_link(name, mine)
        for wish in theirs:
            self._state.log(f"{name} subscribed topic {wish.filter!r}")
            state.sessions.confirm(state.wishes.hear(name, wish), state.out)
        self._view.send_tree_view_update(name, False)

    def _drop(self, name: str) -> None:
        """It is no child any more, and lives."""
        self._reconfiguration.lose(name)
        self._remove_neighbor(name)

    # -- Algorithm 6 ---------------------------------------------------------------------------------------------------

    def on_parent_response(self, peer: Peer, response: ParentResponse) -> None:
        state, name = self._state, peer.name
        if name in state.neighbors and name != state.parent and not response.accepted:
            self._drop(name)  # it has found another parent meanwhile
            self._reconfiguration.check_complete()
        elif response.accepted and (state.attached or name not in self._asks):
            state.outbox.send(name, ParentResponse(False))  # too late
        elif response.accepted:
            self._state.log(f"{name} accepted parent request, connecting...")
            self._attach(name, response)
        elif name == self._asked:
            self._state.log(f"{name} declined parent request")
            self._state.out.append(CancelTimer(ConnectionDue(name)))
            self.declined_by[name] = None
            self._asked = None
            self._send_parent_request()

    def _attach(self, name: str, response: ParentResponse) -> None:
        state, reconfiguration = self._state, self._reconfiguration
        self.declined_by.clear()
        self._asked = None
        state.out.append(CancelTimer(ConnectionDue(name)))
        state.parent = name
        if not reconfiguration.failed:
            state.note("joined", name)
        self._view.siblings.clear()
        self._view.remove(name)
        reconfiguration.ongoing += 1
        reconfiguration.synchronising[name] = None
        reconfiguration.expected = max(0, reconfiguration.expected - 1)
        reconfiguration.is_seeking = False
        reconfiguration.begin()
        self._add_neighbor(name, response.address, self._asks[name], response.subscribed)
        self._asks.clear()
        self._answer_later()

    def _answer_later(self) -> None:
        later, self._later = self._later, {}
        for name, request in later.items():
            peer = self._state.peers.find(name)
            if peer is not None:
                self.on_parent_request(peer, request)

    # -- Algorithms 7 and 8 --------------------------------------------------------------------------------------------

    def on_root_election(self, peer: Peer, message: RootElection) -> None:
        self._state.log(f"received RootElection [residualDegree={message.residual_degree}] from {peer.name}")
        self.sibling_sync[peer.name] = message.residual_degree
        self._count_votes()

    def _count_votes(self) -> None:
        """The highest residual degree wins, then the lowest identifier."""
        siblings = self._view.siblings
        if self._vote is None or any(name not in self.sibling_sync for name in siblings):
            return
        votes = {self._state.name: self._vote, **{name: self.sibling_sync[name] for name in siblings}}
        chosen = min(votes, key=lambda name: (-votes[name], _node_id(name)))
        if chosen == self._state.name:
            self._become_root(tuple(siblings))
        else:
            self._vote = None
            self.sibling_sync.clear()
            self._reconfiguration.expected = 1
            del siblings[chosen]
            self._ask(chosen)

    def on_timer_expired(self, timer: ConnectionDue) -> None:
        if timer.broker == RETRY:
            self.declined_by.clear()
            self._break_degree = False
            self._send_parent_request()
        elif timer.broker:
            if timer.broker == self._asked:
                if self._acyclic:  # it may be busy, and is asked again after the others
                    self.declined_by[timer.broker] = None
                else:
                    self._view.remove(timer.broker)
                self._asked = None
                self._send_parent_request()
        elif self._vote is not None:
            for name in [name for name in self._view.siblings if name not in self.sibling_sync]:
                self._view.remove(name)
            self._count_votes()
        else:
            self._reconfiguration.give_up_waiting()


def _node_id(name: str) -> tuple[int, str]:
    """*nodeID*: names that end with numbers, in the order of the numbers."""
    return (len(name), name)


class Clients:
    def __init__(self, state: State, view: TreeView, reconfiguration: Reconfiguration, address: str) -> None:
        self._state = state
        self._view = view
        self._reconfiguration = reconfiguration
        self._me = Successor(state.name, address)

    def door(self, session: ClientSession, attend: Attend, waited_us: int) -> bool | Successor:
        """Algorithm 5 for a client, whose degree is not looked at."""
        state = self._state
        if not attend.tried or attend.anyhow or waited_us > WAIT_US:
            return True
        if not state.whole_tree:
            wanted = state.subscribed_topics(session.name)
            return True if all(held.predicate in wanted for held in read_held(attend.subscriptions)) else self._me
        if self._reconfiguration.is_holding:
            return False
        others = [mark for mark in attend.received if mark.publisher != session.name]
        return all(mark.seq <= state.marks.mark(mark.origin) for mark in others)

    def serve(self, session: ClientSession, attend: Attend) -> None:
        """Accept it, and give it what it missed (*sendLastIds*, *onLostMessageRequest*)."""
        state = self._state
        state.clock = max(state.clock, attend.clock)
        state.sessions.welcome(session, attend, self._view.successors(), True, state.out)
        if not attend.subscriptions:
            return
        owed = Owed(attend)
        state.sessions.let_read(session, owed, state.held_back)
        for entry in list(state.buffer.values()):
            if entry.processed and entry.shown and (offsets := owed.offsets(entry.bundle)):
                state.sessions.hand_over(session, entry, offsets, state.out)
