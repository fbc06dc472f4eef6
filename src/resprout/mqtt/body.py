"""Decodes the bodies of all packets except PUBLISH, with all checks that do not depend on earlier packets."""

from collections.abc import Callable, Mapping
from typing import Final

from resprout.mqtt import packets
from resprout.mqtt.fields import (
    check_topic_name,
    read_binary,
    read_byte,
    read_packet_id,
    read_text,
    read_two,
)
from resprout.mqtt.packets import NO_PROPERTIES, V3_1, V3_1_1, V5, Packet, Properties
from resprout.mqtt.properties import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
    read_properties,
)
from resprout.mqtt.reasons import FAILURE, MqttError, Reason, ReturnCode, malformed, protocol_error

FILTERS_MAX: Final = 8_192
"""Maximum number of topic filters in one SUBSCRIBE or UNSUBSCRIBE."""

_NAMES: Final[Mapping[tuple[str, int], int]] = {("MQIsdp", 3): V3_1, ("MQTT", 4): V3_1_1, ("MQTT", 5): V5}
_PRIVATE: Final = 0x80
"""Bit of the protocol level that MQTT 3 bridges set. A bridge connects without it if the server refuses."""

_PUBLISHED: Final = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
_RELEASED: Final = frozenset((0x00, 0x92))
REASON_CODES: Final[Mapping[int, frozenset[int]]] = {
    CONNACK: frozenset((0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F)),
    PUBACK: _PUBLISHED,
    PUBREC: _PUBLISHED,
    PUBREL: _RELEASED,
    PUBCOMP: _RELEASED,
    SUBACK: frozenset((0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)),
    UNSUBACK: frozenset((0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),
    DISCONNECT: frozenset((0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, *range(0x8B, 0x91), *range(0x93, 0xA3))),
    AUTH: frozenset((0x00, 0x18, 0x19)),
}
"""Valid reason codes by packet type."""
_GRANTED_OF_MQTT_3: Final = frozenset((0, 1, 2, FAILURE))


def read_connect(data: bytes, at: int, end: int) -> packets.Connect:
    name, at = read_text(data, at, end)
    level, at = read_byte(data, at, end)
    version = _NAMES.get((name, level))
    if version is None:
        text = f"protocol {name[:16]!r} of version {level} is unknown"
        answer = V5 if name == "MQTT" and level & ~_PRIVATE > V5 else V3_1_1
        raise MqttError(Reason.UNSUPPORTED_PROTOCOL_VERSION, text, answer)
    try:
        return _read_connect(data, at, end, version)
    except MqttError as error:
        raise MqttError(error.reason, error.text, version) from None


def _read_connect(data: bytes, at: int, end: int, version: int) -> packets.Connect:
    flags, at = read_byte(data, at, end)
    keep_alive, at = read_two(data, at, end)
    has_user, has_password, has_will = flags & 0x80 != 0, flags & 0x40 != 0, flags & 0x04 != 0
    if flags & 0x01 and version != V3_1:
        raise malformed("the reserved flag of CONNECT is set")
    if flags & 0x38 and not has_will:
        raise malformed("Will QoS or Will Retain is set without the Will Flag")
    if flags & 0x18 == 0x18:
        raise malformed("a will with QoS 3")
    if has_password and not has_user and version != V5:
        raise malformed("a password without a user name")
    values = NO_PROPERTIES
    if version == V5:
        values, at = read_properties(data, at, end, CONNECT)
        if values.authentication_data is not None and values.authentication_method is None:
            raise protocol_error("authentication data without an authentication method")
    client_id, at = read_text(data, at, end)
    will = None
    if has_will:
        will, at = _read_will(data, at, end, version, (flags >> 3) & 3, flags & 0x20 != 0)
    username, password = None, None
    if has_user:
        username, at = read_text(data, at, end)
    if has_password:
        password, at = read_binary(data, at, end)
    _check_end(at, end)
    return packets.Connect(client_id, version, flags & 0x02 != 0, keep_alive, will, username, password, values)


def _read_will(data: bytes, at: int, end: int, version: int, qos: int, retain: bool) -> tuple[packets.Will, int]:
    values = NO_PROPERTIES
    if version == V5:
        values, at = read_properties(data, at, end, WILL)
    topic, at = read_text(data, at, end)
    if not topic:
        raise malformed("a will with an empty topic name")
    check_topic_name(topic)
    payload, at = read_binary(data, at, end)
    return packets.Will(topic, payload, qos, retain, values), at


def _connack(data: bytes, at: int, end: int, version: int) -> packets.Connack:
    flags, at = read_byte(data, at, end)
    if flags > 1:
        raise malformed("reserved flags of CONNACK are set")
    reason, at = read_byte(data, at, end)
    values = NO_PROPERTIES
    if version == V5:
        _check_reason(CONNACK, reason)
        values, at = read_properties(data, at, end, CONNACK)
    elif reason > max(ReturnCode):
        raise protocol_error(f"return code {reason}")
    _check_end(at, end)
    if flags and reason:
        raise protocol_error("CONNACK refuses the connection with session present")
    return packets.Connack(flags == 1, reason, values)


def _ack(kind: int) -> Callable[[bytes, int, int, int], tuple[int, int, Properties]]:
    """Return a decoder for the common body of PUBACK, PUBREC, PUBREL or PUBCOMP."""

    def read(data: bytes, at: int, end: int, version: int) -> tuple[int, int, Properties]:
        packet_id, at = read_packet_id(data, at, end)
        reason, values = 0, NO_PROPERTIES
        if version == V5:
            reason, values, at = _reason_and_properties(data, at, end, kind)
        _check_end(at, end)
        return packet_id, reason, values

    return read


_read_puback, _read_pubrec, _read_pubrel, _read_pubcomp = _ack(PUBACK), _ack(PUBREC), _ack(PUBREL), _ack(PUBCOMP)


def _puback(data: bytes, at: int, end: int, version: int) -> packets.Puback:
    return packets.Puback(*_read_puback(data, at, end, version))


def _pubrec(data: bytes, at: int, end: int, version: int) -> packets.Pubrec:
    return packets.Pubrec(*_read_pubrec(data, at, end, version))


def _pubrel(data: bytes, at: int, end: int, version: int) -> packets.Pubrel:
    return packets.Pubrel(*_read_pubrel(data, at, end, version))


def _pubcomp(data: bytes, at: int, end: int, version: int) -> packets.Pubcomp:
    return packets.Pubcomp(*_read_pubcomp(data, at, end, version))


def _reason_and_properties(data: bytes, at: int, end: int, kind: int) -> tuple[int, Properties, int]:
    """Return reason code, properties and end offset. Both fields are optional at the end of a packet; the defaults are
    success and no properties."""
    if at == end:
        return 0, NO_PROPERTIES, at
    reason, at = read_byte(data, at, end)
    _check_reason(kind, reason)
    if at == end:
        return reason, NO_PROPERTIES, at
    values, at = read_properties(data, at, end, kind)
    return reason, values, at


def _subscribe(data: bytes, at: int, end: int, version: int) -> packets.Subscribe:
    packet_id, at = read_packet_id(data, at, end)
    values = NO_PROPERTIES
    if version == V5:
        values, at = read_properties(data, at, end, SUBSCRIBE)
    requests: list[packets.FilterRequest] = []
    while at < end:
        topic_filter, at = read_text(data, at, end)
        options, at = read_byte(data, at, end)
        requests.append(_filter_request(topic_filter, options, version))
        _check_number(len(requests))
    if not requests:
        raise protocol_error("SUBSCRIBE without a topic filter")
    return packets.Subscribe(packet_id, tuple(requests), values)


def _filter_request(topic_filter: str, options: int, version: int) -> packets.FilterRequest:
    qos = options & 0x03
    if qos == 3:
        raise protocol_error("a subscription with QoS 3")
    if version != V5:
        if options & 0xFC:
            raise malformed("reserved bits of a subscription are set")
        return packets.FilterRequest(topic_filter, qos)
    if options & 0xC0:
        raise malformed("reserved bits of a subscription are set")
    handling = (options >> 4) & 0x03
    if handling == 3:
        raise protocol_error("retain handling 3")
    return packets.FilterRequest(topic_filter, qos, options & 0x04 != 0, options & 0x08 != 0, handling)


def _suback(data: bytes, at: int, end: int, version: int) -> packets.Suback:
    packet_id, at = read_packet_id(data, at, end)
    values = NO_PROPERTIES
    allowed = _GRANTED_OF_MQTT_3
    if version == V5:
        values, at = read_properties(data, at, end, SUBACK)
        allowed = REASON_CODES[SUBACK]
    return packets.Suback(packet_id, _reasons(data[at:end], allowed), values)


def _unsubscribe(data: bytes, at: int, end: int, version: int) -> packets.Unsubscribe:
    packet_id, at = read_packet_id(data, at, end)
    values = NO_PROPERTIES
    if version == V5:
        values, at = read_properties(data, at, end, UNSUBSCRIBE)
    filters: list[str] = []
    while at < end:
        topic_filter, at = read_text(data, at, end)
        filters.append(topic_filter)
        _check_number(len(filters))
    if not filters:
        raise protocol_error("UNSUBSCRIBE without a topic filter")
    return packets.Unsubscribe(packet_id, tuple(filters), values)


def _unsuback(data: bytes, at: int, end: int, version: int) -> packets.Unsuback:
    packet_id, at = read_packet_id(data, at, end)
    if version != V5:
        _check_end(at, end)
        return packets.Unsuback(packet_id)
    values, at = read_properties(data, at, end, UNSUBACK)
    return packets.Unsuback(packet_id, _reasons(data[at:end], REASON_CODES[UNSUBACK]), values)


def _pingreq(data: bytes, at: int, end: int, version: int) -> packets.Pingreq:
    _check_end(at, end)
    return packets.Pingreq()


def _pingresp(data: bytes, at: int, end: int, version: int) -> packets.Pingresp:
    _check_end(at, end)
    return packets.Pingresp()


def _disconnect(data: bytes, at: int, end: int, version: int) -> packets.Disconnect:
    reason, values = 0, NO_PROPERTIES
    if version == V5:
        reason, values, at = _reason_and_properties(data, at, end, DISCONNECT)
    _check_end(at, end)
    return packets.Disconnect(reason, values)


def _auth(data: bytes, at: int, end: int, version: int) -> packets.Auth:
    if version != V5:
        raise malformed("AUTH does not exist in this version")
    reason, values, at = _reason_and_properties(data, at, end, AUTH)
    _check_end(at, end)
    return packets.Auth(reason, values)


def _reasons(raw: bytes, allowed: frozenset[int]) -> tuple[int, ...]:
    if not raw:
        raise protocol_error("no reason codes")
    _check_number(len(raw))
    if not allowed.issuperset(raw):
        raise protocol_error("a reason code that is not valid in this packet")
    return tuple(raw)


def _check_reason(kind: int, reason: int) -> None:
    if reason not in REASON_CODES[kind]:
        raise protocol_error(f"packet type {kind} with reason code 0x{reason:02x}")


def _check_number(filters: int) -> None:
    if filters > FILTERS_MAX:
        raise MqttError(Reason.QUOTA_EXCEEDED, f"more than {FILTERS_MAX} topic filters in one packet")


def _check_end(at: int, end: int) -> None:
    if at != end:
        raise malformed(f"{end - at} bytes after the last field of the packet")


READERS: Final[Mapping[int, Callable[[bytes, int, int, int], Packet]]] = {
    CONNACK: _connack,
    PUBACK: _puback,
    PUBREC: _pubrec,
    PUBREL: _pubrel,
    PUBCOMP: _pubcomp,
    SUBSCRIBE: _subscribe,
    SUBACK: _suback,
    UNSUBSCRIBE: _unsubscribe,
    UNSUBACK: _unsuback,
    PINGREQ: _pingreq,
    PINGRESP: _pingresp,
    DISCONNECT: _disconnect,
    AUTH: _auth,
}
"""Body decoders by packet type, except for CONNECT and PUBLISH."""
