"""Clients at the door: whom this broker serves, who has to wait, and who is sent on.

A client that lost its broker is served where it is expected: by whoever led that broker's repair. While the repair is
not complete it waits, because what it saw there may not have arrived here yet.
"""

from resprout.core.contract import CancelTimer, Send, SetTimer, Timer
from resprout.edge.broker.owed import read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, GoTo, Successor
from resprout.stacks.ginger.clients import GingerClients
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.tree import Tree
from resprout.stacks.ginger.view import View


class AttendDue(Timer, frozen=True):
    """When to send a client back to its broker, which seems to live."""

    client: str


class Reception:
    def __init__(self, core: GingerCore, clients: GingerClients, view: View, tree: Tree) -> None:
        self._core = core
        self._clients = clients
        self._view = view
        self._tree = tree
        self._waiting: dict[str, Attend] = {}
        """Clients that cannot be served now."""

    def attend(self, session: ClientSession, message: Attend) -> None:
        read_held(message.subscriptions)  # now, while it is its sender that is blamed
        self._wait(session.name, message)

    def _wait(self, client: str, message: Attend) -> None:
        core = self._core
        self._waiting[client] = message
        core.out.append(SetTimer(AttendDue(client), core.now_us + 2 * core.options.timer_us))

    def serve(self) -> None:
        """Those whose former broker is buried, or who had none."""
        if not self._waiting or not self._tree.is_settled:
            return
        for name, message in list(self._waiting.items()):
            if not self._clients.expects(message) and any(tried in self._core.links for tried in message.tried):
                continue
            self.forget(name)
            leader = self._who_expects(message)
            if leader is not None:
                self._send_to(name, leader)
            else:
                self._clients.serve(self._core.sessions.all[name], message, self._view.successors)
        self.count()

    def count(self) -> None:
        """Neighbours know whom this broker serves, to expect them if it dies."""
        self._view.clients = tuple(s.name for s in self._core.sessions.all.values() if s.attending)
        self._view.refresh()

    def attend_due(self, timer: AttendDue) -> None:
        core = self._core
        message = self._waiting.get(timer.client)
        if message is None:
            return
        alive = next((t for t in reversed(message.tried) if t in core.links and t not in core.broken), None)
        if alive is not None and self._tree.is_settled:
            self.forget(timer.client)
            self._send_to(timer.client, alive)
        else:
            self._wait(timer.client, message)

    def forget(self, client: str) -> None:
        if self._waiting.pop(client, None) is not None:
            self._core.out.append(CancelTimer(AttendDue(client)))

    def _who_expects(self, message: Attend) -> str | None:
        """Another broker that keeps what this client may have missed."""
        if not message.subscriptions or self._clients.expects(message):
            return None
        for tried in reversed(message.tried):
            leader = self._tree.seeker.led.get(tried) or self._view.parents.get(tried)
            if leader is not None and leader not in message.tried and leader not in self._tree.peers.dead:
                return leader
        return None

    def _send_to(self, client: str, broker: str) -> None:
        successor = Successor(broker, self._view.addresses.get(broker, ""))
        self._core.out.append(Send(client, GoTo(successor)))
