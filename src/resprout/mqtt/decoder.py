"""`PacketDecoder`: incremental decoder from the bytes of a connection to packets.

A packet above the maximum size is rejected as soon as its fixed header is complete, before any memory is allocated for
it. The first packet has a smaller limit, because the client is not authenticated yet. If the bytes violate the
standard, the decoder returns an `MqttError` as the last item.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from resprout.core.limits import PAYLOAD_BYTES
from resprout.mqtt import body
from resprout.mqtt.fields import VARINT_BYTES, check_topic_name, text_of
from resprout.mqtt.packets import NO_PROPERTIES, V3_1, V5, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from resprout.mqtt.properties import (
    CONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    read_properties,
)
from resprout.mqtt.reasons import MqttError, Reason, malformed, protocol_error

Decoded: TypeAlias = Packet | MqttError

PACKET_BYTES_MAX: Final = PAYLOAD_BYTES + (128 << 10)
"""Maximum packet size: the largest payload, the longest topic, and properties of 62 KiB."""
CONNECT_BYTES_MAX: Final = 256 << 10
"""Maximum size of the first packet of a connection: a will of 64 KiB and two strings of the same size fit."""

TOPICS_KEPT: Final = 4_096
"""Number of validated topic names that are cached, for all connections together."""
SHORT_TOPIC_BYTES: Final = 128
"""Maximum length of a cached topic name, in bytes."""

_HEADER_BYTES: Final = 1 + VARINT_BYTES
_DUP: Final = 0x08
_QOS_1: Final = 0x02
_FLAGS: Final[Mapping[int, int]] = {PUBREL: _QOS_1, SUBSCRIBE: _QOS_1, UNSUBSCRIBE: _QOS_1}

_SHORT_ACKS: Final[Mapping[int, Callable[[int], Packet]]] = {
    PUBACK << 4: Puback,
    PUBREC << 4: Pubrec,
    PUBREL << 4 | _QOS_1: Pubrel,
    PUBCOMP << 4: Pubcomp,
}
"""Acknowledgements that have only a packet identifier if their length is 2, by first byte."""

_topics: dict[bytes, str] = {}


class PacketDecoder:
    """Decoder for one connection. A client passes `version`; a server passes none and learns it from CONNECT, which
    must be the first packet."""

    def __init__(
        self,
        packet_bytes_max: int = PACKET_BYTES_MAX,
        connect_bytes_max: int = CONNECT_BYTES_MAX,
        version: int = 0,
    ) -> None:
        self.version = version
        """Protocol version of this connection, also if its CONNECT is invalid; 0 before CONNECT."""
        self._packet_bytes_max = packet_bytes_max
        self._bytes_max = packet_bytes_max if version else min(connect_bytes_max, packet_bytes_max)
        self._held = bytearray()
        """Bytes of an incomplete packet."""
        self._needed = 0
        """Total size of the incomplete packet in bytes; 0 while its length is unknown."""
        self._over = False

    @property
    def held_bytes(self) -> int:
        """Number of buffered bytes that belong to an incomplete packet."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Decoded]:
        """Return the packets that are complete after these bytes, in order. After an `MqttError`, which is always the
        last item, further data is ignored."""
        if self._over:
            return []
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return []
            data = bytes(self._held)
            self._held = bytearray()
        items: list[Decoded] = []
        try:
            at = self._packets(data, items)
        except MqttError as error:
            self._over = True
            self.version = self.version or error.version
            items.append(error)
        else:
            if at < len(data):
                self._held += data[at:]
        return items

    def _packets(self, data: bytes, items: list[Decoded]) -> int:
        """Append all complete packets to `items` and return the offset of the first incomplete one."""
        at = 0
        end = len(data)
        self._needed = 0
        while at + 2 <= end:
            first = data[at]
            length = data[at + 1]
            start = at + 2
            if length >= 0x80:
                length, start = self._long_length(data, at + 1, end)
                if start < 0:
                    self._check_first(first)
                    break
            after = start + length
            if not self.version:
                self._check_first(first)
            if after - at > self._bytes_max:
                raise MqttError(Reason.PACKET_TOO_LARGE, f"a packet of {after - at} bytes; at most {self._bytes_max}")
            if after > end:
                self._needed = after - at
                break
            if first >> 4 == PUBLISH:
                items.append(self._publish(data, first, start, after))
            elif length == 2 and self.version and (ack := _SHORT_ACKS.get(first)) is not None:
                packet_id = (data[start] << 8) | data[start + 1]
                if not packet_id:
                    raise protocol_error("packet identifier 0")
                items.append(ack(packet_id))
            else:
                items.append(self._other(data, first, start, after))
            at = after
        return at

    def _check_first(self, first: int) -> None:
        if not self.version and first != CONNECT << 4:
            raise protocol_error("the first packet is not CONNECT")

    def _long_length(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Decode a remaining length of two or more bytes. Return the length and its end offset; -1 if it is
        incomplete."""
        length = 0
        for place in range(VARINT_BYTES):
            if at + place >= end:
                return 0, -1
            byte = data[at + place]
            length |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if byte == 0 and self.version == V5:
                    raise malformed("the remaining length takes more bytes than it needs")
                return length, at + place + 1
        raise malformed(f"the remaining length takes more than {VARINT_BYTES} bytes")

    def _publish(self, data: bytes, first: int, start: int, end: int) -> Publish:
        qos = (first >> 1) & 3
        at = start + 2
        if at > end:
            raise malformed("the packet ends within a topic name")
        after = at + ((data[start] << 8) | data[start + 1])
        if after > end:
            raise malformed("the packet ends within a topic name")
        raw = data[at:after]
        topic = _topics.get(raw)
        if topic is None:
            topic = _topic_of(raw)
        packet_id = 0
        if qos:
            if qos == 3:
                raise malformed("QoS 3")
            at = after + 2
            if at > end:
                raise malformed("the packet ends within its packet identifier")
            packet_id = (data[after] << 8) | data[after + 1]
            if not packet_id:
                raise protocol_error("packet identifier 0")
            after = at
        elif first & _DUP and self.version != V3_1:
            raise malformed("DUP is set with QoS 0")
        properties = NO_PROPERTIES
        if self.version == V5:
            if after < end and data[after] == 0:
                after += 1
            else:
                properties, after = read_properties(data, after, end, PUBLISH)
            if not topic and properties.topic_alias is None:
                raise protocol_error("neither a topic name nor a topic alias")
        elif not topic:
            raise malformed("an empty topic name")
        return Publish(topic, data[after:end], qos, packet_id, first & 1 == 1, first & _DUP != 0, properties)

    def _other(self, data: bytes, first: int, start: int, end: int) -> Packet:
        kind = first >> 4
        flags = first & 0x0F
        if flags != _FLAGS.get(kind, 0) and not (self.version == V3_1 and flags == _FLAGS.get(kind, -1) | _DUP):
            raise malformed(f"packet type {kind} with flags {flags}")
        if kind == CONNECT:
            connect = body.read_connect(data, start, end)
            if not self.version:
                self.version = connect.version
                self._bytes_max = self._packet_bytes_max
            return connect
        reader = _READERS.get(kind)
        if reader is None:
            raise malformed(f"packet type {kind} does not exist in this version")
        return reader(data, start, end, self.version)


def _topic_of(raw: bytes) -> str:
    topic = text_of(raw)
    check_topic_name(topic)
    if len(raw) <= SHORT_TOPIC_BYTES:
        if len(_topics) >= TOPICS_KEPT:
            _topics.clear()
        _topics[raw] = topic
    return topic


_READERS: Final[Mapping[int, Callable[[bytes, int, int, int], Packet]]] = body.READERS
