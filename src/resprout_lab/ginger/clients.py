"""Clients (sections 4.2.2.1 and 4.2.3.1): they count in the degree, and synchronise with any broker of their view.

A client is told the brokers around its own one (`Successors`), the nearest first. When its broker fails it asks them in
turn. It says which identifiers it has received last (`Attend.received`); the broker answers from its buffer. This is
the exchange of Algorithms 10 to 12, in one message of the product's client. What the client published and was not told
to be safe, it publishes again.

As published, a broker serves a client if it subscribes to the client's topics, and at once. With `whole_tree` any
broker does, once it has everything that the client has seen: otherwise an answer of the client could overtake its
cause.
"""

from resprout.edge.broker.owed import Owed, read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Successor
from resprout_lab.ginger.reconfiguration import Reconfiguration
from resprout_lab.ginger.state import State
from resprout_lab.ginger.tree_view import TreeView

WAIT_US = 5_000_000
"""How long a client waits at most until a broker has what the client has seen. Less than a client's own patience."""


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
        state.sessions.let_read(session, attend, state.held_back)
        for entry in list(state.buffer.values()):
            if entry.processed and entry.shown and (offsets := owed.offsets(entry.bundle)):
                state.sessions.hand_over(session, entry, offsets, state.out)
