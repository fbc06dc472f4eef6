"""Publications from the client on one connection: topic aliases, flow control, QoS 2, ordered acknowledgements.

PUBACKs are sent in the order of their PUBLISH packets, and so are PUBRECs: if the tree confirms a later publication
first, its acknowledgement waits for the earlier ones. The session keeps a QoS 2 packet identifier from PUBLISH to
PUBREL, so a client that reconnects and retransmits publishes nothing twice.
"""

from collections import deque
from typing import Final

from resprout.core.errors import UsageError
from resprout.core.limits import PAYLOAD_BYTES, TOPIC_BYTES, check_topic
from resprout.mqtt.actions import Action, PublishMessage
from resprout.mqtt.limits import ServerLimits
from resprout.mqtt.mapping import attributes_of, guarantee_of
from resprout.mqtt.packet_sender import PacketSender
from resprout.mqtt.packets import NO_PROPERTIES, V5, Puback, Pubcomp, Publish, Pubrec
from resprout.mqtt.reasons import FAILURE, MqttError, Reason, protocol_error
from resprout.mqtt.records import Inbound
from resprout.mqtt.state import SessionState
from resprout.mqtt.subscriptions import READ_ONLY, RESERVED

TOPICS_KEPT: Final = 4_096
"""Number of validated topic names that are cached, for all sessions together."""
SHORT_TOPIC_LETTERS: Final = 128
_PUBLISH_REASONS: Final = frozenset((0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
"""Failure codes that are valid in PUBACK and PUBREC."""

_topics: set[str] = set()
_NOTHING: Final[deque[Inbound]] = deque()
"""Shared placeholder for an empty queue. A deque takes 600 bytes, and most of thousands of clients have nothing
queued."""


def check_publish_topic(topic: str) -> None:
    """Raise MqttError if clients may not publish to this topic."""
    if topic in _topics:
        return
    try:
        check_topic(topic)
    except UsageError as error:
        raise MqttError(Reason.TOPIC_NAME_INVALID, str(error)) from None
    first = topic.partition("/")[0]
    if first == READ_ONLY or first in RESERVED:
        raise MqttError(Reason.NOT_AUTHORIZED, f"clients may not publish to topics below {first}")
    if len(topic) <= SHORT_TOPIC_LETTERS:
        if len(_topics) >= TOPICS_KEPT:
            _topics.clear()
        _topics.add(topic)


class Incoming:
    def __init__(self, state: SessionState, limits: ServerLimits, sender: PacketSender) -> None:
        self._state = state
        self._limits = limits
        self._sender = sender
        self._aliases: dict[int, str] = {}
        self._acks: list[deque[Inbound]] = [_NOTHING, _NOTHING]
        """Publications without PUBACK (index 0) or PUBREC (index 1), in order of arrival."""
        self._unreleased: set[int] = set()
        """QoS 2 packet identifiers on this connection, from PUBLISH to PUBCOMP."""

    # -- packets -------------------------------------------------------------------------------------------------------

    def publish(self, packet: Publish, wall_us: int, out: list[Action]) -> None:
        """Handle PUBLISH. Raises MqttError if the connection must be closed."""
        topic = packet.topic
        values = packet.properties
        limits = self._limits
        if values is not NO_PROPERTIES:
            if values.subscription_identifiers:
                raise protocol_error("PUBLISH of a client has a subscription identifier")
            if values.topic_alias is not None:
                topic = self._resolve(topic, values.topic_alias)
        qos = packet.qos
        if qos > limits.maximum_qos:
            raise MqttError(Reason.QOS_NOT_SUPPORTED, f"QoS {qos}")
        if packet.retain and not limits.retain_available:
            raise MqttError(Reason.RETAIN_NOT_SUPPORTED, "retained messages are not supported")
        entry: Inbound | None = None
        if qos:
            is_in_use = self._is_in_use(packet)
            entry = self._enter(packet)
            if entry is None:
                return
            if is_in_use:
                self._answer(entry, Reason.PACKET_IDENTIFIER_IN_USE, "the packet identifier is in use", out)
                return
        try:
            self._check(topic, packet)
            attributes = attributes_of(qos, packet.retain, values, wall_us)
        except MqttError as error:
            if entry is None:
                raise
            self._answer(entry, error.reason, error.text, out)
            return
        token = 0
        if entry is not None:
            token = self._state.next_token()
            self._state.publications[token] = entry
        packet_id = packet.packet_id if qos == 2 else 0
        out.append(PublishMessage(token, topic, packet.payload, guarantee_of(values), attributes, qos > 0, packet_id))

    def release(self, packet_id: int, out: list[Action]) -> None:
        """Handle PUBREL: free the packet identifier and send PUBCOMP."""
        entry = self._state.received.get(packet_id)
        if entry is None:
            reason = Reason.PACKET_IDENTIFIER_NOT_FOUND if self._sender.version == V5 else Reason.SUCCESS
            self._sender.send(Pubcomp(packet_id, reason), "", out)
            return
        if entry.reason < 0 or entry in self._acks[1]:  # the client does not wait for PUBREC
            entry.is_released = True
            return
        del self._state.received[packet_id]
        self._unreleased.discard(packet_id)
        self._sender.send(Pubcomp(packet_id), "", out)

    def _resolve(self, topic: str, alias: int) -> str:
        if alias > self._limits.topic_alias_max:
            raise MqttError(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias}")
        if topic:
            if len(topic) > TOPIC_BYTES:
                raise MqttError(Reason.TOPIC_NAME_INVALID, f"a topic name of more than {TOPIC_BYTES} bytes")
            self._aliases[alias] = topic
            return topic
        try:
            return self._aliases[alias]
        except KeyError:
            raise protocol_error(f"topic alias {alias} is not defined") from None

    def _is_in_use(self, packet: Publish) -> bool:
        """Return whether the client uses this packet identifier for a publication with another QoS. MQTT 3 has no
        reason code for it."""
        if self._sender.version != V5:
            return False
        if packet.qos == 1:
            return packet.packet_id in self._unreleased
        return any(entry.packet_id == packet.packet_id for entry in self._acks[0])

    def _enter(self, packet: Publish) -> Inbound | None:
        """Count a QoS 1 or 2 publication against the receive maximum; return None if it is a retransmission."""
        state = self._state
        packet_id = packet.packet_id
        if packet.qos == 2 and (known := state.received.get(packet_id)) is not None:
            if packet_id not in self._unreleased:
                self._count()
                self._unreleased.add(packet_id)
            known.is_released = False
            if known not in self._acks[1]:
                known.connection = state.connection
                self._append(1, known)
            return None
        self._count()
        if packet.qos == 2 and len(state.received) >= self._limits.unreleased_max:
            raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._limits.unreleased_max} without PUBREL")
        entry = Inbound(packet_id, packet.qos, state.connection)
        self._append(packet.qos - 1, entry)
        if packet.qos == 2:
            state.received[packet_id] = entry
            self._unreleased.add(packet_id)
        return entry

    def _append(self, place: int, entry: Inbound) -> None:
        if self._acks[place] is _NOTHING:
            self._acks[place] = deque()
        self._acks[place].append(entry)

    def _count(self) -> None:
        """Raise MqttError if the receive maximum is exceeded. MQTT 3 has none: there the driver stops reading
        instead."""
        if self._sender.version == V5 and len(self._acks[0]) + len(self._unreleased) >= self._limits.receive_maximum:
            raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._limits.receive_maximum} unacknowledged")

    def _check(self, topic: str, packet: Publish) -> None:
        check_publish_topic(topic)
        if len(packet.payload) > PAYLOAD_BYTES:
            raise MqttError(Reason.QUOTA_EXCEEDED, f"a payload of {len(packet.payload)} bytes; at most {PAYLOAD_BYTES}")
        if packet.properties.payload_format:
            try:
                packet.payload.decode()
            except UnicodeDecodeError:
                raise MqttError(
                    Reason.PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8, as its payload format says"
                ) from None

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def safe(self, token: int, out: list[Action], has_audience: bool = True) -> None:
        entry = self._state.publications.pop(token, None)
        if entry is not None:
            is_unheard = not has_audience and entry.qos == 1 and self._sender.version == V5
            self._answer(entry, Reason.NO_MATCHING_SUBSCRIBERS if is_unheard else Reason.SUCCESS, "", out)

    def refused(self, token: int, reason: int, text: str, out: list[Action]) -> None:
        entry = self._state.publications.pop(token, None)
        if entry is not None:
            self._answer(entry, reason if reason in _PUBLISH_REASONS else Reason.UNSPECIFIED_ERROR, text, out)
        elif not token and reason == Reason.NOT_AUTHORIZED:
            raise MqttError(Reason.NOT_AUTHORIZED, text)

    def _answer(self, entry: Inbound, reason: int, text: str, out: list[Action]) -> None:
        """Send the acknowledgement of a publication. Raises MqttError for a refusal in MQTT 3, whose acknowledgements
        have no reason code."""
        entry.reason = reason
        if reason >= FAILURE and entry.qos == 2:
            self._state.received.pop(entry.packet_id, None)
        if entry.connection != self._state.connection or not self._sender.is_live:
            return
        if reason >= FAILURE and self._sender.version != V5:
            raise MqttError(Reason(reason), text)
        acks = self._acks[entry.qos - 1]
        while acks and acks[0].reason >= 0:
            first = acks.popleft()
            explained = text if first is entry else ""
            if first.qos == 1:
                self._sender.send(Puback(first.packet_id, first.reason), explained, out)
            else:
                if first.reason >= FAILURE:
                    self._unreleased.discard(first.packet_id)
                self._pubrec(first, explained, out)

    def _pubrec(self, entry: Inbound, text: str, out: list[Action]) -> None:
        self._sender.send(Pubrec(entry.packet_id, entry.reason), text, out)
        if entry.is_released and entry.reason < FAILURE:
            self.release(entry.packet_id, out)

    def send_due(self, out: list[Action]) -> None:
        """Acknowledge publications that were confirmed on an earlier connection and retransmitted on this one."""
        acks = self._acks[1]
        while acks and acks[0].reason >= 0:
            first = acks.popleft()
            self._pubrec(first, "", out)
