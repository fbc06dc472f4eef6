"""Maps properties of MQTT messages to message attributes in the tree, and back.

A user property becomes an attribute of the same name, so every subscriber can filter on it with `where`. All other
properties become attributes with the prefix `mqtt.`, which user properties cannot use:

    mqtt.qos               0 or 1; absent means 2, so messages of native clients are sent with the subscription's QoS
    mqtt.retain            true if the message is retained
    mqtt.expires           expiry time in microseconds since 1970
    mqtt.payload_format    1 for UTF-8 text, 0 for bytes if the publisher said so
    mqtt.content_type, mqtt.response_topic
    mqtt.correlation_data  in base64
    mqtt.user              all user properties as JSON, if they cannot be attributes: a name repeats, is empty, is too
                           long or begins with `mqtt.`, a value is too long, or there are too many

A string longer than the limit of an attribute continues in `NAME.1`, `NAME.2` and so on.
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
from resprout.core.timing import EXPIRES
from resprout.mqtt.fields import TEXT_BYTES_MAX
from resprout.mqtt.packets import NO_PROPERTIES, Properties
from resprout.mqtt.reasons import MqttError, Reason

PREFIX: Final = "mqtt."
QOS: Final = "mqtt.qos"
RETAIN: Final = "mqtt.retain"
PAYLOAD_FORMAT: Final = "mqtt.payload_format"
CONTENT_TYPE: Final = "mqtt.content_type"
RESPONSE_TOPIC: Final = "mqtt.response_topic"
CORRELATION_DATA: Final = "mqtt.correlation_data"
USER: Final = "mqtt.user"
GUARANTEE: Final = "resprout-guarantee"
"""User property that sets the delivery guarantee of a publication."""
SET_BY_SERVER: Final = 3
"""Number of attributes reserved for the server, which it adds to a publication later."""

_SPECIAL: Final = frozenset((PAYLOAD_FORMAT, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA))
_PIECE_LETTERS: Final = ATTRIBUTE_TEXT_BYTES // 4
"""Maximum number of characters in one attribute: each takes at most four bytes in UTF-8."""
_EXPIRY_MAX_US: Final = 1 << 60
_pairs: Final = msgspec.json.Decoder(tuple[tuple[str, str], ...])


def attributes_of(qos: int, retain: bool, values: Properties, wall_us: int) -> dict[str, AttributeValue]:
    """Return the attributes of a publication. Raises MqttError if there are too many."""
    found: dict[str, AttributeValue] = {}
    if qos != 2:
        found[QOS] = qos
    if retain:
        found[RETAIN] = True
    if values is NO_PROPERTIES:
        return found
    if values.message_expiry is not None:
        found[EXPIRES] = wall_us + values.message_expiry * 1_000_000
    if values.payload_format is not None:
        found[PAYLOAD_FORMAT] = values.payload_format
    if values.content_type is not None:
        _put_text(found, CONTENT_TYPE, values.content_type)
    if values.response_topic is not None:
        _put_text(found, RESPONSE_TOPIC, values.response_topic)
    if values.correlation_data is not None:
        _put_text(found, CORRELATION_DATA, base64.b64encode(values.correlation_data).decode())
    if values.user:
        found = _with_user(found, values.user)
    if len(found) > ATTRIBUTES_PER_MESSAGE - SET_BY_SERVER:
        raise MqttError(Reason.QUOTA_EXCEEDED, "the properties take more attributes than a message may have")
    return found


def guarantee_of(values: Properties) -> str | None:
    """Return the value of the user property `resprout-guarantee`, not validated; None if absent."""
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


def _with_user(found: dict[str, AttributeValue], user: tuple[tuple[str, str], ...]) -> dict[str, AttributeValue]:
    """Return the attributes with the user properties: each as an attribute if possible, and all as JSON if that is not
    possible for each. If there are too many attributes then, return only the JSON."""
    plain: dict[str, AttributeValue] = {}
    is_whole = True
    for name, value in user:
        if name in plain or not _fits(name, value):
            is_whole = False
        else:
            plain[name] = value
    if is_whole and len(found) + len(plain) <= ATTRIBUTES_PER_MESSAGE - SET_BY_SERVER:
        return {**found, **plain}
    _put_text(found, USER, msgspec.json.encode(user).decode())
    both = {**found, **plain}
    return both if len(both) <= ATTRIBUTES_PER_MESSAGE - SET_BY_SERVER else found


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
    """Return the expiry time in microseconds since 1970; 0 if the message does not expire."""
    value = attributes.get(EXPIRES)
    return value if type(value) is int and 0 < value <= _EXPIRY_MAX_US else 0


def properties_of(attributes: Attributes) -> Properties:
    """Return the MQTT properties of a message, except for its expiry. Attributes of native clients become user
    properties."""
    if not attributes or (len(attributes) == 1 and QOS in attributes):  # the common case
        return NO_PROPERTIES
    found: dict[str, Any] = {}
    if any(map(_SPECIAL.__contains__, attributes)):
        found = _special_properties(attributes)
    if user := _user(attributes):
        found["user"] = user
    return Properties(**found) if found else NO_PROPERTIES


def _special_properties(attributes: Attributes) -> dict[str, Any]:
    """Return the MQTT properties other than user properties, as fields of `Properties`."""
    found: dict[str, Any] = {}
    payload_format = attributes.get(PAYLOAD_FORMAT)
    if isinstance(payload_format, int) and payload_format in (0, 1):
        found["payload_format"] = int(payload_format)
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
        return _clean(first) if _is_field(first) or name == USER else None
    pieces = [first]
    for number in range(1, ATTRIBUTES_PER_MESSAGE):
        piece = attributes.get(f"{name}.{number}")
        if not isinstance(piece, str):
            break
        pieces.append(piece)
    whole = _clean("".join(pieces))
    return whole if _is_field(whole) or name in (USER, CORRELATION_DATA) else None


def _binary(attributes: Attributes, name: str) -> bytes | None:
    text = _text(attributes, name)
    if text is None:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) <= TEXT_BYTES_MAX else None


def _user(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    whole = _text(attributes, USER) if USER in attributes else None
    if whole is not None:
        try:
            return _fields([(_clean(name), _clean(value)) for name, value in _pairs.decode(whole)])
        except (msgspec.DecodeError, UnicodeEncodeError):
            pass  # published by a native client: use the other attributes
    return _fields([(_clean(name), _shown(value)) for name, value in attributes.items() if not name.startswith(PREFIX)])


def _fields(user: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Leave out what no packet can carry. Only a hostile broker passes attributes on that are so long."""
    return tuple([pair for pair in user if _is_field(pair[0]) and _is_field(pair[1])])


def _is_field(text: str) -> bool:
    return 4 * len(text) <= TEXT_BYTES_MAX or len(text.encode()) <= TEXT_BYTES_MAX


def _shown(value: AttributeValue) -> str:
    if isinstance(value, str):
        return _clean(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _clean(text: str) -> str:
    """Remove null characters, which MQTT strings cannot contain."""
    return text.replace("\0", "\ufffd") if "\0" in text else text
