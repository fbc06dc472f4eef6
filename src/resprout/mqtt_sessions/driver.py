"""Driver of the session machine of one MQTT connection: executes its actions and passes events to it.

The machine (`mqtt.session`) implements the protocol; the driver has no protocol rules. Actions that concern the tree go
to the `TreeSession`, which exists once the session is open. After the connection closes, the driver keeps running the
machine until the session ends or another connection resumes it, because a will may be due.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from resprout.core.message import Message
from resprout.mqtt.actions import (
    AckMessages,
    Action,
    BeginSubscriptions,
    CloseConnection,
    EndSession,
    EndSubscriptions,
    OpenSession,
    PublishMessage,
    PublishWill,
    SaveSession,
    SendPacket,
    SendRetained,
)
from resprout.mqtt.decoder import Decoded
from resprout.mqtt.packets import Disconnect, Packet
from resprout.mqtt.reasons import Reason
from resprout.mqtt.records import Subscription
from resprout.mqtt.session import ServerSession
from resprout.mqtt_sessions.ports import PacketConnection

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer
    from resprout.mqtt_sessions.tree_session import TreeSession


HELD_MAX: Final = 4_096
"""Packets that wait until the session is saved. With more, the server stops reading from the client."""


class ConnectionDriver:
    def __init__(self, server: "SessionServer", connection: PacketConnection, machine: ServerSession) -> None:
        self._server = server
        self.connection = connection
        self.machine = machine
        self.session: TreeSession | None = None
        """Session in the tree; None before CONNECT is accepted and after another connection has resumed the session."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._held: list[Packet | AckMessages | int] = []
        """Packets and `AckMessages` actions that wait until the session is saved, in order, each behind the number of
        the note that has to be safe first."""
        self._is_changed = False
        """Whether the session must be saved at the end of this call."""
        connection.take = self.receive
        connection.lost = self.lost
        connection.drained = self._drained

    # -- what happens --------------------------------------------------------------------------------------------------

    def receive(self, items: Sequence[Decoded]) -> None:
        now = self._server.now_us()
        for one in items:
            self._execute(self.machine.receive(one, now))
            if not self.connection.is_open:
                break
        self._settle()
        if self.is_crowded:
            self.connection.hold()

    @property
    def is_crowded(self) -> bool:
        """Whether so much of the client waits that the server must stop reading from it."""
        session = self.session
        return session is not None and (session.is_crowded or len(self._held) > HELD_MAX)

    def lost(self, reason: str) -> None:
        self.run(self.machine.lost(self._server.now_us()))
        if self.session is None:
            self.stop_timer()

    def stop(self, reason: Reason, text: str) -> None:
        """Close the connection from the server side."""
        self.run(self.machine.stop(reason, text, self._server.now_us()))
        if self.connection.is_open:
            self.connection.close(text)

    def run(self, actions: Sequence[Action]) -> None:
        """Execute the actions and flush the connection."""
        self._execute(actions)
        self._settle()

    def detach(self) -> None:
        """Detach from the session, because it ended or another connection resumed it."""
        self.session = None
        self.stop_timer()

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _execute(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if self.session is None and type(action) in _OF_SESSION:
                continue  # an earlier action has ended the session, such as a publication that was refused
            _DO[type(action)](self, action)

    def _send(self, packet: Packet) -> None:
        if self._held:
            self._held.append(packet)
        else:
            self.connection.send(packet)

    def _acknowledge(self, action: AckMessages) -> None:
        if self._held:
            self._held.append(action)
        else:
            self._tree().acknowledge(action.count)

    def follow(self, before: "ConnectionDriver | None") -> None:
        """Continue after the previous driver of the session: inherit the `AckMessages` actions that it holds back, and
        wait for notes that are not safe yet."""
        if before is not None:
            self._held.extend([held for held in before._held if isinstance(held, int | AckMessages)])
            before._held.clear()
        if self.session is not None and (number := self.session.unsafe_note):
            self._held.append(number)

    def _save_session(self) -> None:
        if self.session is not None and self.session.is_persistent:
            self._is_changed = True
            self._held.append(self.session.next_note)

    def saved(self, number: int) -> None:
        """Send everything that waited for this note, which is safe now."""
        held, done = self._held, 0
        for one in held:
            if isinstance(one, int):
                if one > number:
                    break
            elif isinstance(one, AckMessages):
                if self.session is not None:
                    self.session.acknowledge(one.count)
            else:
                self.connection.send(one)
            done += 1
        del held[:done]  # at once: a client may have sent many packets while a repair delayed the note
        self.connection.flush()
        if self.session is not None and not self.is_crowded:
            self.connection.release()

    def _settle(self) -> None:
        self.connection.flush()
        self.finish()
        if self.session is not None:
            self.session.settle()
        self._set_timer()

    def finish(self) -> None:
        """Publish a note if packets wait for it, or if the will was published or deleted."""
        session = self.session
        if session is not None and (self._is_changed or session.has_new_will):
            session.save()
        self._is_changed = False

    def _tree(self) -> "TreeSession":
        assert self.session is not None, "actions on the tree need a session"
        return self.session

    def _close(self, action: CloseConnection) -> None:
        self._server.closes(self, action.reason, action.text)
        for held in self._held:
            if isinstance(held, Disconnect):  # the client gets all other packets on its next connection
                self.connection.send(held)
        self._held = [held for held in self._held if isinstance(held, int | AckMessages)]
        self.connection.close(action.text)

    def deliver(self, message: Message, source: str) -> None:
        """Pass a message to the machine. `source` is the filter of the durable subscription that delivered it, or
        ""."""
        self._execute(self.machine.deliver(message, self._server.now_us(), source))

    def deliver_retained(self, message: Message, subscription: Subscription) -> None:
        self._execute(self.machine.deliver_retained(message, subscription, self._server.now_us()))

    def _end(self) -> None:
        if self.session is not None:
            self._server.end(self.session)

    def _drained(self) -> None:
        if self.session is not None:
            self.session.pass_messages()

    def _set_timer(self) -> None:
        """Schedule the next tick. A timer that is too early is kept and rescheduled when it fires: deadlines move with
        every packet, and creating timers costs more."""
        due = self.machine.next_deadline_us
        if due is None:
            return
        if self._timer is not None:
            if self._timer_us <= due:
                return
            self._timer.cancel()
        self._timer_us = due
        self._timer = self._server.call_idly(max(0, due - self._server.now_us()) / 1e6, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._server.now_us()
        due = self.machine.next_deadline_us
        if due is not None and due <= now:
            self._execute(self.machine.tick(now))
        self._settle()


_DO: Final[Mapping[type, Callable[[ConnectionDriver, Any], None]]] = {
    SendPacket: lambda driver, action: driver._send(action.packet),
    SaveSession: lambda driver, action: driver._save_session(),
    CloseConnection: ConnectionDriver._close,
    OpenSession: lambda driver, action: driver._server.open(driver, action),
    PublishMessage: lambda driver, action: driver._tree().publish(action),
    BeginSubscriptions: lambda driver, action: driver._tree().subscribe(action),
    SendRetained: lambda driver, action: driver._tree().retained.add(action.subscription),
    EndSubscriptions: lambda driver, action: driver._tree().unsubscribe(action),
    AckMessages: ConnectionDriver._acknowledge,
    PublishWill: lambda driver, action: driver._tree().publish_will(action.will),
    EndSession: lambda driver, action: driver._end(),
}
"""What to do for each action; shared by all connections, which are many."""
_OF_SESSION: Final = frozenset(
    (PublishMessage, BeginSubscriptions, SendRetained, EndSubscriptions, AckMessages, PublishWill)
)
"""Actions that need a session."""
