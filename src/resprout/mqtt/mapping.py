"""Properties of MQTT messages as attributes of messages in the tree, and back.

A user property becomes an attribute with its name, so that `where` of any subscriber can test it. Everything else has
the prefix `mqtt.`, which no user property can have as an attribute:

    mqtt.qos               0 or 1; without it 2, so that a message of a native client has the QoS of the subscription
    mqtt.retain            true for a message to retain
    mqtt.expires           when it expires, in microseconds since 1970
    mqtt.payload_format    1 for text
    mqtt.content_type, mqtt.response_topic
    mqtt.correlation_data  in base64
    mqtt.user              all user properties as JSON, if attributes cannot hold them: names that repeat, are empty,
                           too long or begin with `mqtt.`, and values that are too long

A text that is longer than an attribute goes on in `NAME.1`, `NAME.2` and so on.
"""

import base64
import binascii
from typing import Any, Final

import msgspec

from resprout.core.limits import (
    ATTRIBUTE_NAME_BYTES,
    ATTRIBUTE_TEXT_BYTES,
    ATTRIBUTES_PER_MESSAGE,
    Attributes,
    AttributeValue,
)
from resprout.mqtt.packets import NO_PROPERTIES, Properties
from resprout.mqtt.reasons import MqttError, Reason

PREFIX: Final = "mqtt."
QOS: Final = "mqtt.qos"
RETAIN: Final = "mqtt.retain"
EXPIRES: Final = "mqtt.expires"
PAYLOAD_FORMAT: Final = "mqtt.payload_format"
CONTENT_TYPE: Final = "mqtt.content_type"
RESPONSE_TOPIC: Final = "mqtt.response_topic"
CORRELATION_DATA: Final = "mqtt.correlation_data"
USER: Final = "mqtt.user"
GUARANTEE: Final = "resprout-guarantee"
"""The user property that names the guarantee of a publication."""
SET_BY_SERVER: Final = 2
"""Attributes that may be added to those of a message later."""

_SPECIAL: Final = frozenset((PAYLOAD_FORMAT, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA))
_PIECE_LETTERS: Final = ATTRIBUTE_TEXT_BYTES // 4
"""As many letters fit into an attribute, whatever they are."""
_EXPIRY_MAX_US: Final = 1 << 60
_pairs: Final = msgspec.json.Decoder(tuple[tuple[str, str], ...])


def attributes_of(qos: int, retain: bool, values: Properties, wall_us: int) -> dict[str, AttributeValue]:
    """The attributes of a publication; MqttError when they are too many."""
    found: dict[str, AttributeValue] = {}
    if qos != 2:
        found[QOS] = qos
    if retain:
        found[RETAIN] = True
    if values is NO_PROPERTIES:
        return found
    if values.message_expiry is not None:
        found[EXPIRES] = wall_us + values.message_expiry * 1_000_000
    if values.payload_format:
        found[PAYLOAD_FORMAT] = values.payload_format
    if values.content_type is not None:
        _put_text(found, CONTENT_TYPE, values.content_type)
    if values.response_topic is not None:
        _put_text(found, RESPONSE_TOPIC, values.response_topic)
    if values.correlation_data is not None:
        _put_text(found, CORRELATION_DATA, base64.b64encode(values.correlation_data).decode())
    if values.user:
        _put_user(found, values.user)
    if len(found) > ATTRIBUTES_PER_MESSAGE - SET_BY_SERVER:
        raise MqttError(Reason.QUOTA_EXCEEDED, "more properties than a message may have")
    return found


def guarantee_of(values: Properties) -> str | None:
    """The guarantee that the publisher asks for, in its own word."""
    if values is not NO_PROPERTIES:
        for name, value in values.user:
            if name == GUARANTEE:
                return value
    return None


def _put_text(found: dict[str, AttributeValue], name: str, text: str) -> None:
    if len(text) <= _PIECE_LETTERS:
        found[name] = text
        return
    step = ATTRIBUTE_TEXT_BYTES if text.isascii() else _PIECE_LETTERS
    for number, begin in enumerate(range(0, len(text), step)):
        found[f"{name}.{number}" if number else name] = text[begin : begin + step]


def _put_user(found: dict[str, AttributeValue], user: tuple[tuple[str, str], ...]) -> None:
    plain: dict[str, AttributeValue] = {}
    is_whole = True
    for name, value in user:
        if name in plain or not _fits(name, value):
            is_whole = False
        else:
            plain[name] = value
    if not is_whole:
        _put_text(found, USER, msgspec.json.encode(user).decode())
    found.update(plain)


def _fits(name: str, value: str) -> bool:
    if not name or name.startswith(PREFIX):
        return False
    return len(name.encode()) <= ATTRIBUTE_NAME_BYTES and len(value.encode()) <= ATTRIBUTE_TEXT_BYTES


# -- back --------------------------------------------------------------------------------------------------------------


def qos_of(attributes: Attributes) -> int:
    value = attributes.get(QOS)
    return value if type(value) is int and 0 <= value <= 1 else 2


def is_retained(attributes: Attributes) -> bool:
    return attributes.get(RETAIN) is True


def expires_us(attributes: Attributes) -> int:
    """By the wall clock; 0 for never."""
    value = attributes.get(EXPIRES)
    return value if type(value) is int and 0 < value <= _EXPIRY_MAX_US else 0


def properties_of(attributes: Attributes) -> Properties:
    """The properties of a message, but for its expiry. Attributes of native clients become user properties."""
    if not attributes or (len(attributes) == 1 and QOS in attributes):  # most messages
        return NO_PROPERTIES
    found: dict[str, Any] = {}
    if any(map(_SPECIAL.__contains__, attributes)):
        found = _special_properties(attributes)
    if user := _user(attributes):
        found["user"] = user
    return Properties(**found) if found else NO_PROPERTIES


def _special_properties(attributes: Attributes) -> dict[str, Any]:
    """Those that are no user properties."""
    found: dict[str, Any] = {}
    if attributes.get(PAYLOAD_FORMAT) == 1:
        found["payload_format"] = 1
    if (content_type := _text(attributes, CONTENT_TYPE)) is not None:
        found["content_type"] = content_type
    response_topic = _text(attributes, RESPONSE_TOPIC)
    if response_topic and "+" not in response_topic and "#" not in response_topic:
        found["response_topic"] = response_topic
    if (data := _binary(attributes, CORRELATION_DATA)) is not None:
        found["correlation_data"] = data
    return found


def _text(attributes: Attributes, name: str) -> str | None:
    first = attributes.get(name)
    if not isinstance(first, str):
        return None
    if f"{name}.1" not in attributes:
        return _clean(first)
    pieces = [first]
    for number in range(1, ATTRIBUTES_PER_MESSAGE):
        piece = attributes.get(f"{name}.{number}")
        if not isinstance(piece, str):
            break
        pieces.append(piece)
    return _clean("".join(pieces))


def _binary(attributes: Attributes, name: str) -> bytes | None:
    text = _text(attributes, name)
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _user(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    whole = _text(attributes, USER) if USER in attributes else None
    if whole is not None:
        try:
            return tuple([(_clean(name), _clean(value)) for name, value in _pairs.decode(whole)])
        except (msgspec.DecodeError, UnicodeEncodeError):
            pass  # a native client wrote it: its other attributes count
    return tuple([(_clean(name), _shown(value)) for name, value in attributes.items() if not name.startswith(PREFIX)])


def _shown(value: AttributeValue) -> str:
    if isinstance(value, str):
        return _clean(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _clean(text: str) -> str:
    """MQTT has no null characters."""
    return text.replace("\0", "\ufffd") if "\0" in text else text
