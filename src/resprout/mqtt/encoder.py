"""Encodes packets. Values must be valid according to the standard; a string that is too long raises UsageError."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from resprout.mqtt import packets
from resprout.mqtt.fields import binary, text, varint
from resprout.mqtt.packets import NO_PROPERTIES, V3_1, V5, Packet, Puback, Publish
from resprout.mqtt.properties import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
    properties,
)

_FLAGS: Final = 0x02
"""Fixed header flags of PUBREL, SUBSCRIBE and UNSUBSCRIBE."""
_NO_PROPERTIES: Final = b"\0"


def encode(packet: Packet, version: int) -> bytes:
    """Return the bytes of a packet in the given protocol version."""
    if type(packet) is Publish:
        return _publish(packet, version)
    if type(packet) is Puback and not packet.reason and packet.properties is NO_PROPERTIES:
        return b"\x40\x02" + packet.packet_id.to_bytes(2, "big")
    first, write = _WRITERS[type(packet)]
    body = write(packet, version)
    return bytes((first,)) + varint(len(body)) + body


def _publish(packet: Publish, version: int) -> bytes:
    topic = packet.topic.encode()
    payload = packet.payload
    qos = packet.qos
    first = PUBLISH << 4 | (8 if packet.dup else 0) | qos << 1 | packet.retain
    head = len(topic).to_bytes(2, "big") if len(topic) < 0x10000 else binary(topic)  # `binary` raises UsageError
    middle = packet.packet_id.to_bytes(2, "big") if qos else b""
    if version == V5:
        middle += _NO_PROPERTIES if packet.properties is NO_PROPERTIES else properties(packet.properties, PUBLISH)
    size = 2 + len(topic) + len(middle) + len(payload)
    start = bytes((first, size)) if size < 0x80 else bytes((first,)) + varint(size)
    return b"".join((start, head, topic, middle, payload))


def _connect(packet: packets.Connect, version: int) -> bytes:
    will = packet.will
    flags = packet.clean_start << 1
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    flags |= (packet.password is not None) << 6 | (packet.username is not None) << 7
    name = "MQIsdp" if packet.version == V3_1 else "MQTT"
    parts = [text(name), bytes((packet.version, flags)), packet.keep_alive.to_bytes(2, "big")]
    if packet.version == V5:
        parts.append(properties(packet.properties, CONNECT))
    parts.append(text(packet.client_id))
    if will is not None:
        if packet.version == V5:
            parts.append(properties(will.properties, WILL))
        parts += (text(will.topic), binary(will.payload))
    if packet.username is not None:
        parts.append(text(packet.username))
    if packet.password is not None:
        parts.append(binary(packet.password))
    return b"".join(parts)


def _connack(packet: packets.Connack, version: int) -> bytes:
    start = bytes((packet.session_present, packet.reason))
    return start + properties(packet.properties, CONNACK) if version == V5 else start


def _ack(kind: int) -> Callable[[Any, int], bytes]:
    def write(packet: packets.Puback | packets.Pubrec | packets.Pubrel | packets.Pubcomp, version: int) -> bytes:
        packet_id = packet.packet_id.to_bytes(2, "big")
        return packet_id + _ending(packet.reason, packet.properties, kind) if version == V5 else packet_id

    return write


def _ending(reason: int, values: packets.Properties, kind: int) -> bytes:
    """Encode reason code and properties, leaving out defaults at the end of the packet."""
    if values is not NO_PROPERTIES:
        return bytes((reason,)) + properties(values, kind)
    return bytes((reason,)) if reason else b""


def _subscribe(packet: packets.Subscribe, version: int) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big")]
    if version == V5:
        parts.append(properties(packet.properties, SUBSCRIBE))
    for request in packet.requests:
        options = request.qos
        if version == V5:
            options |= request.no_local << 2 | request.retain_as_published << 3 | request.retain_handling << 4
        parts += (text(request.filter), bytes((options,)))
    return b"".join(parts)


def _suback(packet: packets.Suback, version: int) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big")]
    if version == V5:
        parts.append(properties(packet.properties, SUBACK))
    return b"".join(parts) + bytes(packet.reasons)


def _unsubscribe(packet: packets.Unsubscribe, version: int) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big")]
    if version == V5:
        parts.append(properties(packet.properties, UNSUBSCRIBE))
    return b"".join(parts + [text(each) for each in packet.filters])


def _unsuback(packet: packets.Unsuback, version: int) -> bytes:
    packet_id = packet.packet_id.to_bytes(2, "big")
    return packet_id + properties(packet.properties, UNSUBACK) + bytes(packet.reasons) if version == V5 else packet_id


def _disconnect(packet: packets.Disconnect, version: int) -> bytes:
    return _ending(packet.reason, packet.properties, DISCONNECT) if version == V5 else b""


def _auth(packet: packets.Auth, version: int) -> bytes:
    return _ending(packet.reason, packet.properties, AUTH)


def _nothing(packet: packets.Pingreq | packets.Pingresp, version: int) -> bytes:
    return b""


_WRITERS: Final[Mapping[type, tuple[int, Callable[[Any, int], bytes]]]] = {
    packets.Connect: (CONNECT << 4, _connect),
    packets.Connack: (CONNACK << 4, _connack),
    packets.Puback: (PUBACK << 4, _ack(PUBACK)),
    packets.Pubrec: (PUBREC << 4, _ack(PUBREC)),
    packets.Pubrel: (PUBREL << 4 | _FLAGS, _ack(PUBREL)),
    packets.Pubcomp: (PUBCOMP << 4, _ack(PUBCOMP)),
    packets.Subscribe: (SUBSCRIBE << 4 | _FLAGS, _subscribe),
    packets.Suback: (SUBACK << 4, _suback),
    packets.Unsubscribe: (UNSUBSCRIBE << 4 | _FLAGS, _unsubscribe),
    packets.Unsuback: (UNSUBACK << 4, _unsuback),
    packets.Pingreq: (PINGREQ << 4, _nothing),
    packets.Pingresp: (PINGRESP << 4, _nothing),
    packets.Disconnect: (DISCONNECT << 4, _disconnect),
    packets.Auth: (AUTH << 4, _auth),
}
"""First byte and body encoder by packet class."""
