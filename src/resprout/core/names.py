"""What may be called what: checks of names, topics, keys, attributes and payloads at the moment a user gives them."""

import re
from collections.abc import Mapping, Sequence

from resprout.core import limits
from resprout.core.errors import NameRefusedError

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INT64 = range(-(2**63), 2**63)


def check_name(name: str, what: str = "name") -> str:
    """A broker's, client's or site's name: it appears in traces, files and commands, so it stays plain."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > limits.NAME_BYTES:
        raise NameRefusedError(
            f"{what} {name!r} is refused: letters, digits, dot, dash and underscore, at most {limits.NAME_BYTES}"
        )
    return name


def check_topic(topic: str) -> str:
    """A topic to publish on: MQTT's rules, no wildcards."""
    _check_text(topic, "topic", limits.TOPIC_BYTES)
    if "+" in topic or "#" in topic:
        raise NameRefusedError(f"topic {topic!r} holds a wildcard; only a subscription may")
    if topic.count("/") >= limits.TOPIC_LEVELS:
        raise NameRefusedError(f"topic {topic!r} has more than {limits.TOPIC_LEVELS} levels")
    return topic


def check_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Sorted and without repeats, so that equal key sets are equal values."""
    if isinstance(keys, str):
        raise NameRefusedError(f"keys are a list of texts, not the text {keys!r}")
    for key in keys:
        _check_text(key, "key", limits.KEY_BYTES + limits.TOPIC_BYTES if "#" in key else limits.KEY_BYTES)
        if "#" in key:  # a key of another topic, see `core.keys`
            topic, _, rest = key.partition("#")
            check_topic(topic)
            _check_text(rest, "key", limits.KEY_BYTES)
    unique = tuple(sorted(set(keys)))
    if len(unique) > limits.KEYS_PER_PUBLICATION:
        raise NameRefusedError(f"{len(unique)} keys in one publication; at most {limits.KEYS_PER_PUBLICATION}")
    return unique


def check_attributes(attributes: Attributes) -> dict[str, AttributeValue]:
    if len(attributes) > limits.ATTRIBUTES_PER_MESSAGE:
        raise NameRefusedError(f"{len(attributes)} attributes; at most {limits.ATTRIBUTES_PER_MESSAGE}")
    for name, value in attributes.items():
        _check_text(name, "attribute name", limits.ATTRIBUTE_NAME_BYTES)
        if isinstance(value, str):
            if len(value.encode("utf-8", "surrogatepass")) > limits.ATTRIBUTE_TEXT_BYTES:
                raise NameRefusedError(f"attribute {name!r} is longer than {limits.ATTRIBUTE_TEXT_BYTES} bytes")
            _check_encodable(value, f"attribute {name!r}")
        elif isinstance(value, int):
            if value not in _INT64:
                raise NameRefusedError(f"attribute {name!r} does not fit in 64 bits")
        elif not isinstance(value, float) or value != value:
            raise NameRefusedError(f"attribute {name!r} must be text, a number (not NaN) or true/false")
    return dict(attributes)


def check_payload(payload: bytes) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise NameRefusedError(f"a payload is bytes, not {type(payload).__name__}")
    if len(payload) > limits.PAYLOAD_BYTES:
        raise NameRefusedError(f"a payload of {len(payload)} bytes; at most {limits.PAYLOAD_BYTES}")
    return bytes(payload)


def _check_text(text: str, what: str, bytes_max: int) -> None:
    if not isinstance(text, str) or not text:
        raise NameRefusedError(f"{what} must be a text that is not empty, not {text!r}")
    _check_encodable(text, what)
    if "\0" in text:
        raise NameRefusedError(f"{what} {text!r} holds a null character")
    if len(text.encode()) > bytes_max:
        raise NameRefusedError(f"{what} {text[:40]!r}... is longer than {bytes_max} bytes")


def _check_encodable(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NameRefusedError(f"{what} {text!r} is not valid Unicode") from None
