"""Clients at the door: whom this broker serves, who has to wait, and who is sent on.

A client that lost its broker is served where it is expected: by whoever led that broker's repair. While the repair is
not complete it waits, because what it saw there may not have arrived here yet.
"""

from resprout.core.contract import CancelTimer, Send, SetTimer, Timer
from resprout.edge.messages import Attend, GoTo, Refuge
from resprout.stacks.ginger.core import Core
from resprout.stacks.ginger.guest import Guest
from resprout.stacks.ginger.guests import Guests
from resprout.stacks.ginger.tree import Tree
from resprout.stacks.ginger.view import View


class AttendDue(Timer, frozen=True):
    """When to send a client back to its broker, which seems to live."""

    client: str


class Reception:
    def __init__(self, core: Core, guests: Guests, view: View, tree: Tree) -> None:
        self._core = core
        self._guests = guests
        self._view = view
        self._tree = tree
        self._waiting: dict[str, Attend] = {}
        """Clients that cannot be served now."""

    def attend(self, guest: Guest, message: Attend) -> None:
        core = self._core
        self._waiting[guest.name] = message
        core.out.append(SetTimer(AttendDue(guest.name), core.now_us + 2 * core.options.timer_us))

    def serve(self) -> None:
        """Those whose former broker is buried, or who had none."""
        if not self._waiting or not self._tree.is_settled:
            return
        for name, message in list(self._waiting.items()):
            expected = any(t in self._guests.ghosts or t == self._core.name for t in message.tried)
            if not expected and any(tried in self._core.links for tried in message.tried):
                continue
            self.forget(name)
            leader = self._who_expects(message)
            if leader is not None:
                self._send_to(name, leader)
            else:
                self._guests.serve(self._guests.all[name], message, self._view.refuges)
        self.count()

    def count(self) -> None:
        """Neighbours know whom this broker serves, to expect them if it dies."""
        self._view.clients = tuple(guest.name for guest in self._guests.all.values() if guest.attended)
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
            self.attend(self._guests.all[timer.client], message)

    def forget(self, client: str) -> None:
        if self._waiting.pop(client, None) is not None:
            self._core.out.append(CancelTimer(AttendDue(client)))

    def _who_expects(self, message: Attend) -> str | None:
        """Another broker that keeps what this client may have missed."""
        if not message.subscriptions or any(t in self._guests.ghosts or t == self._core.name for t in message.tried):
            return None
        for tried in reversed(message.tried):
            leader = self._tree.seeker.led.get(tried) or self._view.parents.get(tried)
            if leader is not None and leader not in message.tried and leader not in self._tree.peers.dead:
                return leader
        return None

    def _send_to(self, client: str, broker: str) -> None:
        refuge = Refuge(broker, self._view.addresses.get(broker, ""))
        self._core.out.append(Send(client, GoTo(refuge)))
