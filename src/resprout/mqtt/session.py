"""State machine of the server side of one MQTT connection, without I/O.

`ServerSession` receives packets, results from the tree, and the time. Every call returns a list of actions for the
driver.

    machine = ServerSession(limits, now_us, offset_us)
    for item in decoder.feed(data):
        execute(machine.receive(item, now_us))

After the connection closes, the machine keeps running for the session: it publishes the will and ends the session on
time. The machine is finished after `EndSession`, or when another machine takes over its state.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from resprout.core.message import Message
from resprout.mqtt import packets
from resprout.mqtt.actions import (
    AckMessages,
    Action,
    CloseConnection,
    EndSession,
    OpenSession,
    PublishWill,
    SaveSession,
    SendPacket,
)
from resprout.mqtt.connecting import accept, check_connect, disconnect, expiry_of, keep_alive_of, refuse
from resprout.mqtt.decoder import Decoded
from resprout.mqtt.incoming import Incoming
from resprout.mqtt.limits import NEVER_SECONDS, SECOND_US
from resprout.mqtt.limits import ServerLimits as ServerLimits
from resprout.mqtt.packet_sender import PacketSender
from resprout.mqtt.packets import PACKET_ID_MAX, V5, Connect, Disconnect, Pingresp, Publish, Will
from resprout.mqtt.reasons import MqttError, Reason, protocol_error
from resprout.mqtt.records import Subscription
from resprout.mqtt.state import SessionState
from resprout.mqtt.subscribing import SubscribeHandling
from resprout.mqtt.subscriptions import match_of

_PONG: Final = SendPacket(Pingresp())
_Parts = tuple[Incoming, SubscribeHandling]


EARLY_BYTES_MAX: Final = 1 << 20
"""Maximum payload bytes of packets received before the session is open. The driver stops reading at this size."""


class Phase(enum.Enum):
    GREETING = enum.auto()
    """Waiting for the first packet."""
    OPENING = enum.auto()
    """Waiting for the driver to open the session."""
    OPEN = enum.auto()
    AWAY = enum.auto()
    """The connection is closed and the session continues."""
    OVER = enum.auto()


class ServerSession:
    """State machine of one connection and, after it, of its session. `offset_us` converts `now_us` to microseconds
    since 1970."""

    def __init__(self, limits: ServerLimits, now_us: int, offset_us: int = 0) -> None:
        self.limits = limits
        self.phase = Phase.GREETING
        self.state: SessionState | None = None
        """State of the session, from `opened` until the session ends."""
        self.next_deadline_us: int | None = now_us + limits.connect_seconds * SECOND_US
        """Time at which the driver must call `tick`; None for never. It changes with most calls and may move to a later
        time."""
        self._offset_us = offset_us
        self._sender = PacketSender()
        self._connect: Connect | None = None
        self._early: list[Decoded] = []
        self._early_bytes = 0
        self._will: Will | None = None
        self._will_due_us = 0
        """Time at which the will is due, once the connection is closed."""
        self._expiry = 0
        self._ends_us = 0
        """Time at which the session expires, once the connection is closed; 0 for never."""
        self._silence_us = 0
        """One and a half times the keep alive; 0 if keep alive is disabled."""
        self._parts: _Parts | None = None

    @property
    def version(self) -> int:
        """Protocol version; 0 before CONNECT."""
        return self._sender.version

    @property
    def expiry(self) -> int:
        """Session expiry in seconds."""
        return self._expiry

    @property
    def will(self) -> Will | None:
        """Will that was neither published nor deleted."""
        return self._will

    @property
    def is_opening(self) -> bool:
        """Whether the session is being opened. The driver should not read from the connection meanwhile."""
        return self.phase is Phase.OPENING

    @property
    def room(self) -> int:
        """Number of messages that `deliver` accepts now."""
        if self.phase is not Phase.OPEN:
            return 0
        assert self.state is not None
        return self.limits.flight_max + self.limits.waiting_max - self.state.outgoing.unreported

    @property
    def retained_room(self) -> int:
        """Number of messages that `deliver_retained` accepts now."""
        if self.phase is not Phase.OPEN:
            return 0
        assert self.state is not None
        return self.limits.retained_waiting_max - self.state.outgoing.retained_waiting

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, item: Decoded, now_us: int) -> list[Action]:
        """Handle an item from the decoder: a packet, or the error that ends the connection."""
        out: list[Action] = []
        phase = self.phase
        if phase is Phase.OPEN:
            if self._silence_us:
                self.next_deadline_us = now_us + self._silence_us
            self._handle(item, now_us, out)
        elif phase is Phase.OPENING:
            self._early.append(item)
            self._early_bytes += len(item.payload) if isinstance(item, Publish) else 0
            if len(self._early) > self.limits.early_max or self._early_bytes > EARLY_BYTES_MAX:
                self._fail(MqttError(Reason.QUOTA_EXCEEDED, "too many packets before CONNACK"), now_us, out)
        elif phase is Phase.GREETING:
            self._greet(item, now_us, out)
        return self._with_save(out)

    def _greet(self, item: Decoded, now_us: int, out: list[Action]) -> None:
        try:
            if isinstance(item, MqttError):
                raise item
            if not isinstance(item, Connect):
                raise protocol_error("the first packet is not CONNECT")
            self._sender.version = item.version
            self._sender.bytes_max = item.properties.maximum_packet_size or 0
            self._sender.problem_information = item.properties.request_problem_information != 0
            check_connect(item, self.limits)
        except MqttError as error:
            self._fail(error, now_us, out)
            return
        self._connect = item
        self._expiry = expiry_of(item, self.limits)
        self.phase = Phase.OPENING
        self.next_deadline_us = now_us + self.limits.opening_seconds * SECOND_US
        out.append(
            OpenSession(
                item.client_id, item.clean_start, self._expiry, item.username, item.password, item.will,
                keep_alive_of(item, self.limits),
            )
        )  # fmt: skip

    def _handle(self, item: Decoded, now_us: int, out: list[Action]) -> None:
        """Dispatch a packet. If the handler raises MqttError, end the connection."""
        try:
            if isinstance(item, MqttError):
                raise item
            handler = _HANDLERS.get(type(item))
            if handler is None:
                raise protocol_error(f"a client does not send {type(item).__name__.upper()}")
            handler(self, item, now_us, out)
        except MqttError as error:
            self._fail(error, now_us, out)

    def _connect_again(self, packet: Connect, now_us: int, out: list[Action]) -> None:
        raise protocol_error("a second CONNECT")

    def _publish(self, packet: Publish, now_us: int, out: list[Action]) -> None:
        incoming = self._open_parts()[0]
        incoming.publish(packet, now_us + self._offset_us, out)
        if packet.qos == 2:
            incoming.send_due(out)

    def _puback(self, packet: packets.Puback, now_us: int, out: list[Action]) -> None:
        self._open_state().outgoing.acknowledged(packet.packet_id, now_us + self._offset_us, out)

    def _pubrec(self, packet: packets.Pubrec, now_us: int, out: list[Action]) -> None:
        wall_us = now_us + self._offset_us
        self._open_state().outgoing.received(packet.packet_id, packet.reason, wall_us, out)

    def _pubrel(self, packet: packets.Pubrel, now_us: int, out: list[Action]) -> None:
        self._open_parts()[0].release(packet.packet_id, out)

    def _pubcomp(self, packet: packets.Pubcomp, now_us: int, out: list[Action]) -> None:
        self._open_state().outgoing.completed(packet.packet_id, now_us + self._offset_us, out)

    def _subscribe(self, packet: packets.Subscribe, now_us: int, out: list[Action]) -> None:
        self._open_parts()[1].subscribe(packet, out)

    def _unsubscribe(self, packet: packets.Unsubscribe, now_us: int, out: list[Action]) -> None:
        self._open_parts()[1].unsubscribe(packet, out)

    def _pingreq(self, packet: packets.Pingreq, now_us: int, out: list[Action]) -> None:
        out.append(_PONG)

    def _disconnect(self, packet: Disconnect, now_us: int, out: list[Action]) -> None:
        wanted = packet.properties.session_expiry
        if wanted is not None:
            if wanted and not self._expiry:
                raise protocol_error("DISCONNECT sets a session expiry, which was 0 in CONNECT")
            self._expiry = min(wanted, self.limits.session_expiry_max)
        if packet.reason == Reason.SUCCESS:
            self._will = None
        self._leave(now_us, Reason.SUCCESS, "the client left", out)

    def _auth(self, packet: packets.Auth, now_us: int, out: list[Action]) -> None:
        raise protocol_error("AUTH without an authentication method in CONNECT")

    def _with_save(self, out: list[Action]) -> list[Action]:
        """Insert `SaveSession` if the session survives its broker: before the first packet that depends on the dump,
        and before any `AckMessages`. The driver dumps the state after this call, so one `SaveSession` is enough."""
        if self.state is None or not self.state.outgoing.is_persistent:
            return out
        place = next((place for place, action in enumerate(out) if _depends_on_dump(action)), -1)
        if place >= 0:
            takes = [place for place, action in enumerate(out) if isinstance(action, AckMessages)]
            out.insert(min([place, *takes]), SaveSession())
        return out

    def _open_state(self) -> SessionState:
        assert self.state is not None
        return self.state

    def _open_parts(self) -> _Parts:
        assert self._parts is not None
        return self._parts

    # -- the session ---------------------------------------------------------------------------------------------------

    def opened(self, state: SessionState | None, client_id: str, now_us: int, name: str = "") -> list[Action]:
        """Handle an opened session and return CONNACK. `state` is that of the resumed session, or None for a new one;
        `client_id` may be assigned by the server; `name` is the client's name in the tree, for No Local."""
        out: list[Action] = []
        connect = self._connect
        if connect is None or self.phase not in (Phase.OPENING, Phase.OVER):
            return out
        is_present = state is not None
        if state is None:
            state = SessionState(client_id, name or client_id)
        state.connection += 1
        self.state = state
        sender = self._sender
        self._parts = (Incoming(state, self.limits, sender), SubscribeHandling(state, self.limits, sender))
        connack = accept(connect, self.limits, is_present, client_id, self._expiry, state.name)
        if self.phase is Phase.OVER:  # the connection closed before CONNACK, so there is no will
            self._detach(now_us, out)
            return out
        if not sender.fits(connack):
            out.append(
                CloseConnection(Reason.PACKET_TOO_LARGE, "the client does not allow a packet as large as CONNACK")
            )
            self._detach(now_us, out)
            return out
        self.phase = Phase.OPEN
        sender.is_live = True
        self._will = connect.will
        self._silence_us = keep_alive_of(connect, self.limits) * SECOND_US * 3 // 2
        self.next_deadline_us = now_us + self._silence_us if self._silence_us else None
        out.append(SendPacket(connack))
        quota = min(connect.properties.receive_maximum or PACKET_ID_MAX, self.limits.flight_max)
        aliases = min(connect.properties.topic_alias_maximum or 0, self.limits.topic_alias_max)
        state.outgoing.is_persistent = self._expiry > 0
        state.outgoing.begin(
            connect.version, quota, sender.bytes_max, aliases, now_us + self._offset_us, out
        )  # fmt: skip
        out = self._with_save(out)
        early, self._early = self._early, []
        for item in early:
            out += self.receive(item, now_us)
        return out

    def refused(self, reason: int, text: str, now_us: int) -> list[Action]:
        """Refuse the client with this reason."""
        out: list[Action] = []
        if self.phase is Phase.OPENING:
            self._fail(MqttError(Reason(reason), text), now_us, out)
        return out

    def lost(self, now_us: int) -> list[Action]:
        """Handle a connection that closed without DISCONNECT."""
        out: list[Action] = []
        if self.phase in (Phase.GREETING, Phase.OPENING):
            self._over()
        elif self.phase is Phase.OPEN:
            self._detach(now_us, out)
        return out

    def stop(self, reason: int, text: str, now_us: int) -> list[Action]:
        """End the connection from the server side: session takeover, shutdown, or a failure in the tree."""
        out: list[Action] = []
        if self.phase in (Phase.GREETING, Phase.OPENING, Phase.OPEN):
            self._fail(MqttError(Reason(reason), text), now_us, out)
        return out

    def discard(self, now_us: int) -> list[Action]:
        """End the session now, because a client with the same identifier requested a clean start. A delayed will is
        published."""
        out: list[Action] = []
        if self.phase is Phase.OPEN:
            self._fail(
                MqttError(Reason.SESSION_TAKEN_OVER, "a client with this identifier requested a clean start"),
                now_us,
                out,
            )
        if self.phase is Phase.AWAY:
            self._end(out)
        return out

    def tick(self, now_us: int) -> list[Action]:
        """Handle the deadlines that have passed."""
        out: list[Action] = []
        if self.next_deadline_us is None or now_us < self.next_deadline_us:
            return out
        if self.phase is Phase.GREETING:
            self._fail(protocol_error("no CONNECT in time"), now_us, out)
        elif self.phase is Phase.OPENING:
            self._fail(MqttError(Reason.SERVER_UNAVAILABLE, "the session could not be opened in time"), now_us, out)
        elif self.phase is Phase.OPEN:
            self._fail(MqttError(Reason.KEEP_ALIVE_TIMEOUT, "no packet for 1.5 times the keep alive"), now_us, out)
        elif self.phase is Phase.AWAY:
            if self._will is not None and now_us >= self._will_due_us:
                out.append(PublishWill(self._will))
                self._will = None
            if self._ends_us and now_us >= self._ends_us:
                self._end(out)
            else:
                self._set_deadline()
        return out

    # -- outcomes of the tree ------------------------------------------------------------------------------------------

    def deliver(self, message: Message, now_us: int, source: str = "") -> list[Action]:
        """Queue a message for the client; `AckMessages` reports it as done. `source` is the filter of the durable
        subscription that delivered it, or "" for plain subscriptions."""
        out: list[Action] = []
        state = self._open_state()
        match = state.subscriptions.match(message.topic, message.publisher == state.name, source)
        state.outgoing.deliver(message, match, now_us + self._offset_us, out, source)
        return self._with_save(out)

    def safe(self, token: int, now_us: int, has_audience: bool = True) -> list[Action]:
        """Handle a publication that is safe. If no subscription matches it, its PUBACK in MQTT 5 says so."""
        out: list[Action] = []
        try:
            self._open_parts()[0].safe(token, out, has_audience)
        except MqttError as error:
            self._fail_if_open(error, now_us, out)
        return self._with_save(out)

    def publish_refused(self, token: int, reason: int, text: str, now_us: int) -> list[Action]:
        """Handle a refused publication. In MQTT 5 its acknowledgement carries the reason. The connection ends in MQTT
        3, and for an unauthorized QoS 0 publication (token 0)."""
        out: list[Action] = []
        try:
            self._open_parts()[0].refused(token, reason, text, out)
        except MqttError as error:
            self._fail_if_open(error, now_us, out)
        return out

    def is_subscribed(self, subscription: Subscription) -> bool:
        """Return whether the session still has this subscription, and no later one with the same filter."""
        return self.state is not None and self.state.subscriptions.get(subscription.request.filter) is subscription

    def deliver_retained(self, message: Message, subscription: Subscription, now_us: int) -> list[Action]:
        """Queue a retained message that matches a new subscription."""
        out: list[Action] = []
        state = self._open_state()
        if subscription.request.no_local and message.publisher == state.name:
            return out
        state.outgoing.deliver_retained(message, match_of(subscription), now_us + self._offset_us, out)
        return self._with_save(out)

    def subscribed(self, token: int, reasons: Sequence[int], now_us: int) -> list[Action]:
        """Handle the answer to `BeginSubscriptions`. `reasons` has 0 or a failure code per filter."""
        out: list[Action] = []
        try:
            self._open_parts()[1].subscribed(token, reasons, out)
        except MqttError as error:
            self._fail_if_open(error, now_us, out)
        return self._with_save(out)

    def unsubscribed(self, token: int, reasons: Sequence[int], now_us: int) -> list[Action]:
        out: list[Action] = []
        try:
            self._open_parts()[1].unsubscribed(token, reasons, out)
        except MqttError as error:
            self._fail_if_open(error, now_us, out)
        return self._with_save(out)

    def _fail_if_open(self, error: MqttError, now_us: int, out: list[Action]) -> None:
        if self.phase is Phase.OPEN:
            self._fail(error, now_us, out)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _fail(self, error: MqttError, now_us: int, out: list[Action]) -> None:
        """End the connection and send the reason, if the protocol version can express it."""
        if self.phase is Phase.OPEN:
            if self.version == V5:
                self._sender.send(disconnect(error.reason), error.text, out)
        else:
            version = self.version or error.version
            connack = refuse(error.reason, version) if version else None
            if connack is not None:
                self._sender.version = version
                self._sender.send(connack, error.text, out)
        self._leave(now_us, error.reason, error.text, out)

    def _leave(self, now_us: int, reason: int, text: str, out: list[Action]) -> None:
        out.append(CloseConnection(reason, text))
        if self.phase is Phase.OPEN:
            self._detach(now_us, out)
        else:
            self._over()

    def _detach(self, now_us: int, out: list[Action]) -> None:
        """Continue the session without a connection, or end it if its expiry is 0."""
        assert self.state is not None
        self.phase = Phase.AWAY
        self._sender.is_live = False
        self.state.outgoing.end()
        if not self._expiry:
            self._end(out)
            return
        self._ends_us = 0 if self._expiry == NEVER_SECONDS else now_us + self._expiry * SECOND_US
        if self._will is not None:
            delay = self._will.properties.will_delay or 0
            if not delay:
                out.append(PublishWill(self._will))
                self._will = None
            self._will_due_us = now_us + delay * SECOND_US
        self._set_deadline()

    def _set_deadline(self) -> None:
        due = [self._will_due_us] if self._will is not None else []
        if self._ends_us:
            due.append(self._ends_us)
        self.next_deadline_us = min(due, default=None)

    def _end(self, out: list[Action]) -> None:
        """End the session and publish a delayed will."""
        if self._will is not None:
            out.append(PublishWill(self._will))
            self._will = None
        out.append(EndSession())
        self._over()

    def _over(self) -> None:
        self.phase = Phase.OVER
        self.next_deadline_us = None
        self._early = []


def _depends_on_dump(action: Action) -> bool:
    """Return whether the client depends on the dumped state once it receives this packet: on subscriptions or on a
    packet identifier."""
    if not isinstance(action, SendPacket):
        return False
    packet = action.packet
    if isinstance(packet, Publish):
        return packet.qos == 2 and not packet.dup
    return isinstance(packet, packets.Pubrel | packets.Pubcomp | packets.Suback | packets.Unsuback)


_HANDLERS: Final[Mapping[type, Callable[[ServerSession, Any, int, list[Action]], None]]] = {
    packets.Connect: ServerSession._connect_again,
    packets.Publish: ServerSession._publish,
    packets.Puback: ServerSession._puback,
    packets.Pubrec: ServerSession._pubrec,
    packets.Pubrel: ServerSession._pubrel,
    packets.Pubcomp: ServerSession._pubcomp,
    packets.Subscribe: ServerSession._subscribe,
    packets.Unsubscribe: ServerSession._unsubscribe,
    packets.Pingreq: ServerSession._pingreq,
    packets.Disconnect: ServerSession._disconnect,
    packets.Auth: ServerSession._auth,
}
"""Handlers by class of client packet, shared by all sessions."""
