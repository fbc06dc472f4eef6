"""MQTT clients in virtual time: the application of a scenario on an MQTT session, and the rows of its trace.

A client keeps its session while its process lives. It connects to its broker, and when that does not answer to the
other brokers in turn, with clean start off, and sends again what is in flight. A process that starts after a crash
begins a new session.

In the trace its subscriptions are durable subscriptions, named by client, process and filter, because that is what its
session promises: every message that matches, at least once, and in order on one connection. Each connection is a
consumer that begins and ends. A message with QoS 1 that was handed out on an earlier connection says so. One with QoS 2
never does: it must not come twice.

A publication with QoS 1 that is sent again may reach subscribers twice. So what is sent again is another publication in
the trace, and whether the first one arrived is open (receipt `failed`). A publication has its row when it is sent: what
waits for a connection was not published yet.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from resprout.core.contract import (
    Arrived,
    CancelTimer,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Request,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
)
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message import Message
from resprout.edge.requests import (
    ClientNews,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
)
from resprout.mqtt import packets
from resprout.mqtt.client import (
    ClientSession,
    MessageReceived,
    PublicationAcknowledged,
    SubscriptionAnswered,
)
from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.mapping import GUARANTEE, QOS
from resprout.mqtt.packets import Connack, FilterRequest, Packet, Pingreq, Pingresp, Properties, Publish
from resprout.mqtt.reasons import MqttError, reason_name
from resprout.mqtt_sessions.records import SESSION_KEYS
from resprout.scenario.app import App, AppWish, WakeAt
from resprout.scenario.model import ClientSpec
from resprout.sim.mqtt.server import listener_of
from resprout.sim.mqtt.tags import TAG, TraceTags
from resprout.sim.network import SignOfLifeBytes
from resprout.trace import kinds
from resprout.trace.schema import Row, texts

KEEP_ALIVE_SECONDS: Final = 2
PING_US: Final = 1_000_000
ANSWER_US: Final = 2_000_000
"""Time without a packet of the broker after which the client connects elsewhere."""
CONNECT_US: Final = 25_000_000
"""Timeout for CONNACK: longer than a broker takes to open a session while the tree is repaired."""
RETRY_US: Final = 200_000
FIRST_ATTEMPTS: Final = 50
"""Attempts to connect to the first broker, which may not serve MQTT clients yet, before the next one is tried."""
EXPIRY_SECONDS: Final = 3_600


class ConnectAgain(Timer, frozen=True):
    """When to connect after a connection ended."""


class Ping(Timer, frozen=True):
    """When to send PINGREQ, and to see whether the broker has answered."""

    @property
    def background(self) -> bool:
        return True


class GiveUp(Timer, frozen=True):
    """When to close a connection on which no CONNACK came."""


class WakeApp(Timer, frozen=True):
    """When to wake the application."""

    at_us: int


class _Publication(msgspec.Struct):
    request: PublishRequest
    stream: str
    number: int
    """Number that the application knows."""
    row: Row | None = None
    """Row of the last copy that was sent; None if it was not sent yet."""
    tag: str = ""
    """Tag of the same."""


class MqttClientMachine:
    """One life of a client. `brokers` are those that it may connect to, its own first."""

    def __init__(
        self,
        spec: ClientSpec,
        incarnation: int,
        app: App,
        brokers: Callable[[], Sequence[str]],
        record: Callable[[Row], None],
        tags: TraceTags,
    ) -> None:
        self._spec = spec
        self._incarnation = incarnation
        self._app = app
        self._brokers = brokers
        self._record = record
        self._tags = tags
        self._qos = spec.qos
        self._session = ClientSession(spec.name, KEEP_ALIVE_SECONDS, EXPIRY_SECONDS)
        self._decoder = PacketDecoder(version=packets.V5)
        self._connection = 0
        self._attempts = 0
        self._heard_us = 0
        self._has_session = False
        """Whether the server has accepted a connection of this life."""
        self._filters: dict[str, bool] = {}
        """Whether the subscription is confirmed, by filter; its place is its subscription identifier."""
        self._handed: dict[tuple[str, str], int] = {}
        """Last connection on which a message was handed out, by filter and tag."""
        self._publications: dict[int, _Publication] = {}
        """Publications without an acknowledgement, by token."""
        self._tokens = 0
        self._copies = 0
        self._numbers: dict[str, int] = {}
        """Number of the last publication of each stream, for the application."""
        self._seqs: dict[str, int] = {}
        """The same, for the trace."""
        self._now_us = 0
        self._out: list[Effect] = []
        self._position = -1

    @property
    def busy(self) -> bool:
        """Whether the application will act of its own accord, or a publication is not finished."""
        return not self._app.done or not self._session.is_settled

    # -- events --------------------------------------------------------------------------------------------------------

    def start(self, now_us: int) -> Sequence[Effect]:
        self._now_us = now_us
        self._connect()
        self._grant(self._app.start(now_us))
        return self._take_out()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self._now_us = now_us
        if isinstance(event, Arrived):
            if event.connection == self._connection:
                self._hear(event.frame)
        elif isinstance(event, Connected):
            self._open(event.connection)
        elif isinstance(event, Disconnected):
            if event.connection == self._connection or not event.connection:
                self._lost(event.reason)
        elif isinstance(event, TimerFired):
            self._due(event.timer)
        elif isinstance(event, Request) and self._connection:  # it leaves
            self._send([packets.Disconnect()])
        return self._take_out()

    def _take_out(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def _due(self, timer: Timer) -> None:
        if isinstance(timer, WakeApp):
            self._grant(self._app.woke(self._now_us))
        elif isinstance(timer, ConnectAgain):
            self._connect()
        elif isinstance(timer, GiveUp):
            self._close("no CONNACK came in time")
        elif self._connection:
            if self._now_us - self._heard_us > ANSWER_US:
                self._close("the broker does not answer")
            else:
                self._out.append(Transmit(self._connection, SignOfLifeBytes(encode(Pingreq(), packets.V5))))
                self._out.append(SetTimer(Ping(), self._now_us + PING_US))

    # -- the connection ------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        brokers = self._brokers()
        place = self._attempts if self._has_session else self._attempts // FIRST_ATTEMPTS
        self._out.append(Connect(listener_of(brokers[place % len(brokers)])))
        self._attempts += 1

    def _open(self, connection: int) -> None:
        self._connection = connection
        self._decoder = PacketDecoder(version=packets.V5)
        self._heard_us = self._now_us
        self._send([self._session.connect(clean_start=not self._has_session)])
        self._out.append(SetTimer(GiveUp(), self._now_us + CONNECT_US))

    def _close(self, reason: str) -> None:
        if self._connection:
            self._out.append(Disconnect(self._connection, reason))
            self._lost(reason)

    def _lost(self, reason: str) -> None:
        self._connection = 0
        self._out += [CancelTimer(Ping()), CancelTimer(GiveUp())]
        if self._session.is_connected:
            self._session.disconnected()
            for topic_filter, is_confirmed in self._filters.items():
                if is_confirmed:
                    self._record(self._consumer_row(kinds.CONSUME_OVER, topic_filter, detail=reason))
        self._out.append(SetTimer(ConnectAgain(), self._now_us + RETRY_US))

    def _hear(self, data: bytes) -> None:
        self._heard_us = self._now_us
        for packet in self._decoder.feed(data):
            assert not isinstance(packet, MqttError), f"the broker sent an invalid packet: {packet}"
            if isinstance(packet, Connack):
                self._accepted(packet)
            elif isinstance(packet, packets.Disconnect):
                self._close(reason_name(packet.reason))
                return
            elif not isinstance(packet, Pingresp):
                self._receive(packet)

    def _accepted(self, packet: Connack) -> None:
        if packet.reason:
            self._close(reason_name(packet.reason))
            return
        place = self._attempts - 1 if self._has_session else (self._attempts - 1) // FIRST_ATTEMPTS
        self._attempts = place  # the same broker first, the next time
        self._out += [CancelTimer(GiveUp()), SetTimer(Ping(), self._now_us + PING_US)]
        is_new = not packet.session_present
        self._record(self._row(kinds.MQTT_CONNECTED, attributes={"session": "new" if is_new else "present"}))
        if is_new:
            self._filters = dict.fromkeys(self._filters, False)
        self._has_session = True
        for topic_filter, is_confirmed in self._filters.items():
            if is_confirmed:
                self._record(self._consumer_row(kinds.CONSUME, topic_filter))
                self._record(self._consumer_row(kinds.CONSUMING, topic_filter))
        self._send(self._session.connected(packet))
        for topic_filter, is_confirmed in self._filters.items():
            if not is_confirmed:
                self._subscribe(topic_filter)

    def _send(self, some: Sequence[Packet]) -> None:
        if some and self._connection:
            data = b"".join([encode(self._stamped(packet), packets.V5) for packet in some])
            self._out.append(Transmit(self._connection, data))

    # -- what the application wants ------------------------------------------------------------------------------------

    def _grant(self, wishes: Sequence[AppWish]) -> None:
        for wish in wishes:
            if isinstance(wish, WakeAt):
                self._out.append(SetTimer(WakeApp(wish.at_us), wish.at_us))
            elif isinstance(wish, PublishRequest):
                self._publish(wish)
            else:
                assert isinstance(wish, SubscribeRequest), "the scenario was checked"
                self._filters[wish.filter] = False
                if self._session.is_connected:
                    self._subscribe(wish.filter)

    def _subscribe(self, topic_filter: str) -> None:
        self._record(self._consumer_row(kinds.CONSUME, topic_filter))
        number = list(self._filters).index(topic_filter) + 1
        request = FilterRequest(topic_filter, self._qos)
        self._send([self._session.subscribe([request], Properties(subscription_identifiers=(number,)))])

    def _publish(self, wish: PublishRequest) -> None:
        guarantee = max(wish.guarantee, Guarantee.FIFO) if self._qos == 2 else wish.guarantee  # docs/mqtt.md
        attributes = {name: str(value) for name, value in wish.attributes.items()}
        request = replace(wish, keys=(), guarantee=guarantee, attributes=attributes)
        stream = request.guarantee.stream
        number = self._numbers[stream] = self._numbers.get(stream, 0) + 1
        self._tokens += 1
        token = self._tokens
        self._publications[token] = _Publication(request, stream, number)
        user = (*attributes.items(), (GUARANTEE, guarantee.label), (TAG, str(token)))
        self._tell(Published(stream, number))
        self._send(self._session.publish(request.topic, request.payload, self._qos, token, Properties(user=user)))

    def _published(self, request: PublishRequest) -> tuple[Row, str]:
        """Record a publication, or another copy of it, and return the row and the tag."""
        stream = request.guarantee.stream
        seq = self._seqs[stream] = self._seqs.get(stream, 0) + 1
        self._copies += 1
        tag = f"{self._spec.name}.{self._incarnation}.{self._copies}"
        row = self._row(
            kinds.PUBLISH,
            publisher=self._spec.name,
            incarnation=self._incarnation,
            stream=stream,
            seq=seq,
            topic=request.topic,
            keys=SESSION_KEYS if self._qos == 2 else (),
            guarantee=request.guarantee.label,
            attributes=texts({**request.attributes, GUARANTEE: request.guarantee.label, QOS: self._qos, TAG: tag}),
            payload_bytes=len(request.payload),
        )
        self._record(row)
        self._tags.publish(tag, row)
        return row, tag

    def _stamped(self, packet: Packet) -> Packet:
        """Return the packet as it leaves. The session has the token in place of the tag. What may be published twice
        has a tag of its own for each copy."""
        if not isinstance(packet, Publish):
            return packet
        user = dict(packet.properties.user)
        published = self._publications[int(user[TAG])]
        if published.row is None or packet.qos == 1 or not packet.dup:
            if published.row is not None:
                self._record(self._receipt("failed", published.row))
            published.row, published.tag = self._published(published.request)
        user[TAG] = published.tag
        return replace(packet, properties=replace(packet.properties, user=tuple(user.items())))

    # -- what the broker says ------------------------------------------------------------------------------------------

    def _receive(self, packet: Packet) -> None:
        answers, events = self._session.receive(packet)
        self._send(answers)
        for event in events:
            if isinstance(event, MessageReceived):
                self._message(event.packet)
            elif isinstance(event, SubscriptionAnswered):
                self._answered(event)
            else:
                self._acknowledged(event)

    def _answered(self, event: SubscriptionAnswered) -> None:
        for topic_filter, reason in zip(event.filters, event.reasons, strict=True):
            assert reason < 0x80, f"{topic_filter} was refused: {reason_name(reason)}"
            self._filters[topic_filter] = True
            self._record(self._consumer_row(kinds.CONSUMING, topic_filter))
            self._tell(SubscriptionConfirmed(topic_filter, None))

    def _acknowledged(self, event: PublicationAcknowledged) -> None:
        published = self._publications.pop(event.token)
        assert published.row is not None, "it was sent"
        if event.reason < 0x80:
            self._record(self._receipt("safe", published.row))
            safe = ReceiptLevel.SAFE
            self._tell(ReceiptTurned(published.stream, safe, published.number, published.number))
            return
        reason = reason_name(event.reason)
        self._record(replace(self._receipt(None, published.row), kind=kinds.REFUSED, detail=reason))
        self._tell(Refused(None, reason, True, published.stream, published.number, published.number))

    def _message(self, packet: Publish) -> None:
        tag = dict(packet.properties.user)[TAG]
        row = self._tags.find(tag)
        identity = _identity(row)
        for number in packet.properties.subscription_identifiers:
            topic_filter = list(self._filters)[number - 1]
            before = self._handed.get((topic_filter, tag))
            self._handed[topic_filter, tag] = self._connection
            is_again = packet.qos == 1 and before is not None and before != self._connection
            about = {"qos": str(packet.qos), **({"redelivered": "yes"} if is_again else {})}
            columns = {
                **identity, "topic": packet.topic, "keys": row.keys, "guarantee": row.guarantee,
                "payload_bytes": len(packet.payload),
            }  # fmt: skip
            self._record(self._consumer_row(kinds.HANDED, topic_filter, about, **columns))
            if packet.qos:
                self._record(self._consumer_row(kinds.ACKNOWLEDGED, topic_filter, **identity))
        self._position += 1
        assert row.publisher is not None and row.incarnation is not None and row.seq is not None
        assert row.guarantee is not None
        attributes = {name: value for name, value in packet.properties.user if name != TAG}
        guarantee = Guarantee.parse(row.guarantee)
        message = Message(
            row.publisher, row.incarnation, row.seq, packet.topic, row.keys or (), guarantee, dict(attributes),
            packet.payload, self._position,
        )  # fmt: skip
        self._grant(self._app.delivered(message, self._now_us))

    def _tell(self, news: ClientNews) -> None:
        self._grant(self._app.told(news, self._now_us))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _receipt(self, receipt: str | None, row: Row) -> Row:
        return self._row(kinds.RECEIPT, **_identity(row), receipt=receipt)

    def _consumer_row(self, kind: str, topic_filter: str, more: dict[str, str] | None = None, **columns: Any) -> Row:
        about = {"durable": f"mqtt.{self._spec.name}.{self._incarnation}.{topic_filter}", **(more or {})}
        if kind in (kinds.CONSUME, kinds.CONSUMING):
            columns["filter"] = topic_filter
        return self._row(kind, attributes=about, **columns)

    def _row(self, kind: str, **columns: Any) -> Row:
        return Row(time_us=self._now_us, node=self._spec.name, kind=kind, **columns)


def _identity(row: Row) -> dict[str, Any]:
    return {"publisher": row.publisher, "incarnation": row.incarnation, "stream": row.stream, "seq": row.seq}
