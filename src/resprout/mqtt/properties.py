"""Decodes and encodes properties of MQTT 5: which packets may carry each one, how often, and its valid values."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from resprout.mqtt.fields import (
    binary,
    read_binary,
    read_byte,
    read_four,
    read_text,
    read_two,
    read_varint,
    text,
    varint,
)
from resprout.mqtt.packets import NO_PROPERTIES, Properties
from resprout.mqtt.reasons import MqttError, Reason, malformed, protocol_error

USER_PROPERTIES_MAX: Final = 1_024
"""Maximum number of user properties in one packet, and of subscription identifiers."""

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15
WILL: Final = 0
"""Pseudo packet type for will properties, which are part of CONNECT."""

_Read = Callable[[bytes, int, int], tuple[Any, int]]


class _Kind:
    """Definition of one property: field name, codec, valid packet types."""

    __slots__ = ("code", "field", "least", "most", "number", "packets", "read", "write")

    def __init__(
        self,
        number: int,
        field: str,
        read: _Read,
        write: Callable[[Any], bytes],
        packets: tuple[int, ...],
        least: int = 0,
        most: int = 0xFFFFFFFF,
    ) -> None:
        self.number = number
        self.code = bytes((number,))
        self.field = field
        self.read = read
        self.write = write
        self.packets = packets
        self.least = least
        self.most = most


def _read_pair(data: bytes, at: int, end: int) -> tuple[tuple[str, str], int]:
    name, at = read_text(data, at, end)
    value, at = read_text(data, at, end)
    return (name, value), at


def _byte(value: int) -> bytes:
    return value.to_bytes(1, "big")


def _two(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _four(value: int) -> bytes:
    return value.to_bytes(4, "big")


_ACKS: Final = (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH)
_SUBSCRIPTION: Final = 0x0B
_TOPIC_ALIAS: Final = 0x23
_RESPONSE_TOPIC: Final = 0x08
_USER: Final = 0x26

_KINDS: Final[Mapping[int, _Kind]] = {
    kind.number: kind
    for kind in (
        _Kind(0x01, "payload_format", read_byte, _byte, (PUBLISH, WILL), 0, 1),
        _Kind(0x02, "message_expiry", read_four, _four, (PUBLISH, WILL)),
        _Kind(0x03, "content_type", read_text, text, (PUBLISH, WILL)),
        _Kind(_RESPONSE_TOPIC, "response_topic", read_text, text, (PUBLISH, WILL)),
        _Kind(0x09, "correlation_data", read_binary, binary, (PUBLISH, WILL)),
        _Kind(_SUBSCRIPTION, "subscription_identifiers", read_varint, varint, (PUBLISH, SUBSCRIBE), 1),
        _Kind(0x11, "session_expiry", read_four, _four, (CONNECT, CONNACK, DISCONNECT)),
        _Kind(0x12, "assigned_client_identifier", read_text, text, (CONNACK,)),
        _Kind(0x13, "server_keep_alive", read_two, _two, (CONNACK,)),
        _Kind(0x15, "authentication_method", read_text, text, (CONNECT, CONNACK, AUTH)),
        _Kind(0x16, "authentication_data", read_binary, binary, (CONNECT, CONNACK, AUTH)),
        _Kind(0x17, "request_problem_information", read_byte, _byte, (CONNECT,), 0, 1),
        _Kind(0x18, "will_delay", read_four, _four, (WILL,)),
        _Kind(0x19, "request_response_information", read_byte, _byte, (CONNECT,), 0, 1),
        _Kind(0x1A, "response_information", read_text, text, (CONNACK,)),
        _Kind(0x1C, "server_reference", read_text, text, (CONNACK, DISCONNECT)),
        _Kind(0x1F, "reason_string", read_text, text, _ACKS),
        _Kind(0x21, "receive_maximum", read_two, _two, (CONNECT, CONNACK), 1),
        _Kind(0x22, "topic_alias_maximum", read_two, _two, (CONNECT, CONNACK)),
        _Kind(_TOPIC_ALIAS, "topic_alias", read_two, _two, (PUBLISH,)),
        _Kind(0x24, "maximum_qos", read_byte, _byte, (CONNACK,), 0, 1),
        _Kind(0x25, "retain_available", read_byte, _byte, (CONNACK,), 0, 1),
        _Kind(0x27, "maximum_packet_size", read_four, _four, (CONNECT, CONNACK), 1),
        _Kind(0x28, "wildcard_subscription_available", read_byte, _byte, (CONNACK,), 0, 1),
        _Kind(0x29, "subscription_identifiers_available", read_byte, _byte, (CONNACK,), 0, 1),
        _Kind(0x2A, "shared_subscription_available", read_byte, _byte, (CONNACK,), 0, 1),
    )
}
_ALLOWED: Final[Mapping[int, tuple[_Kind, ...]]] = {
    packet: tuple([kind for kind in _KINDS.values() if packet in kind.packets]) for packet in range(AUTH + 1)
}
_PAIR: Final = bytes((_USER,))


def read_properties(data: bytes, at: int, end: int, packet: int) -> tuple[Properties, int]:
    """Decode the property length and the properties of a packet. `packet` is the packet type, or `WILL`."""
    if at < end and data[at] == 0:
        return NO_PROPERTIES, at + 1
    length, at = read_varint(data, at, end)
    after = at + length
    if after > end:
        raise malformed("the packet ends within its properties")
    found: dict[str, Any] = {}
    user: list[tuple[str, str]] = []
    identifiers: list[int] = []
    while at < after:
        code = data[at]
        if code == _USER:
            pair, at = _read_pair(data, at + 1, after)
            user.append(pair)
            if len(user) > USER_PROPERTIES_MAX:
                raise MqttError(Reason.QUOTA_EXCEEDED, f"more than {USER_PROPERTIES_MAX} user properties")
            continue
        kind = _KINDS.get(code)
        if kind is None or packet not in kind.packets:
            raise malformed(f"property 0x{code:02x} is not allowed here")
        value, at = kind.read(data, at + 1, after)
        _check(kind, value)
        if code == _SUBSCRIPTION and packet == PUBLISH:
            identifiers.append(value)
            if len(identifiers) > USER_PROPERTIES_MAX:
                raise MqttError(Reason.QUOTA_EXCEEDED, f"more than {USER_PROPERTIES_MAX} subscription identifiers")
            continue
        if kind.field in found:
            raise protocol_error(f"property {kind.field} occurs twice")
        found[kind.field] = (value,) if code == _SUBSCRIPTION else value
    if user:
        found["user"] = tuple(user)
    if identifiers:
        found["subscription_identifiers"] = tuple(identifiers)
    return Properties(**found), after


def _check(kind: _Kind, value: Any) -> None:
    if isinstance(value, int):
        if not kind.least <= value <= kind.most:
            raise protocol_error(f"property {kind.field} cannot be {value}")
        if kind.field == "topic_alias" and not value:
            raise MqttError(Reason.TOPIC_ALIAS_INVALID, "topic alias 0")
    elif kind.field == "response_topic" and (not value or "+" in value or "#" in value):
        raise protocol_error("the response topic is not a valid topic name")


def properties(values: Properties, packet: int) -> bytes:
    """Encode the properties of a packet with their length. Properties that the packet may not carry are left out."""
    if values is NO_PROPERTIES:
        return b"\0"
    parts: list[bytes] = []
    for kind in _ALLOWED[packet]:
        value = getattr(values, kind.field)
        if value is None:
            continue
        if isinstance(value, tuple):
            for identifier in value:
                parts += (kind.code, kind.write(identifier))
        else:
            parts += (kind.code, kind.write(value))
    for name, value in values.user:
        parts += (_PAIR, text(name), text(value))
    body = b"".join(parts)
    return varint(len(body)) + body
