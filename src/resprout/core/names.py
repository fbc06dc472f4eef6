"""What may be called what: checks of names, topics, keys, attributes and payloads at the moment a user gives them.

Every check returns plain values: a subclass of text or number (an enumeration, a NumPy scalar) comes back as what it
stands for, so that whoever encodes or compares it later meets no surprise.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from resprout.core import limits
from resprout.core.errors import NameRefusedError, PayloadRefusedError

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]

_PLAIN = frozenset((str, int, float, bool))
_QUOTED_LETTERS = 40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def check_name(name: str, what: str = "name") -> str:
    """A broker's, client's or site's name: it appears in traces, files and commands, so it stays plain."""
    if not isinstance(name, str) or len(name) > limits.NAME_BYTES or not _NAME.fullmatch(name):
        raise NameRefusedError(
            f"{what} {_quoted(name)} is refused: letters, digits, dot, dash and underscore, at most {limits.NAME_BYTES}"
        )
    return str.__str__(name)


def newcomer_key(name: str, incarnation: int, epoch: int) -> str:
    """Under which a session stands whose opener has no right to its name yet. No name can be equal to it."""
    return f"{name}?{incarnation}.{epoch}"


def newcomer_name(key: str) -> str | None:
    """The name that a newcomer asks for; None for the name of anybody else."""
    name, mark, _ = key.partition("?")
    return name if mark else None


def check_topic(topic: str) -> str:
    """A topic to publish on: MQTT's rules, no wildcards."""
    _check_text(topic, "topic", limits.TOPIC_BYTES)
    if "+" in topic or "#" in topic:
        raise NameRefusedError(f"topic {_quoted(topic)} holds a wildcard; only a subscription may")
    if topic.count("/") >= limits.TOPIC_LEVELS:
        raise NameRefusedError(f"topic {_quoted(topic)} has more than {limits.TOPIC_LEVELS} levels")
    return str.__str__(topic)


def check_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Sorted and without repeats, so that equal key sets are equal values."""
    if isinstance(keys, str) or not isinstance(keys, tuple | Collection):
        raise NameRefusedError(f"keys are a list of texts, not {_quoted(keys)}")
    for key in keys:
        foreign = isinstance(key, str) and "#" in key  # a key of another topic, see `core.bundle`
        _check_text(key, "key", limits.KEY_BYTES + limits.TOPIC_BYTES if foreign else limits.KEY_BYTES)
        if foreign:
            topic, _, rest = key.partition("#")
            check_topic(topic)
            _check_text(rest, "key", limits.KEY_BYTES)
    unique = tuple(sorted({str.__str__(key) for key in keys}))
    if len(unique) > limits.KEYS_PER_PUBLICATION:
        raise NameRefusedError(f"{len(unique)} keys in one publication; at most {limits.KEYS_PER_PUBLICATION}")
    return unique


def check_attributes(attributes: Attributes) -> dict[str, AttributeValue]:
    if not isinstance(attributes, dict | Mapping):
        raise NameRefusedError(f"attributes map names to values; {_quoted(attributes)} does not")
    if len(attributes) > limits.ATTRIBUTES_PER_MESSAGE:
        raise NameRefusedError(f"{len(attributes)} attributes; at most {limits.ATTRIBUTES_PER_MESSAGE}")
    checked: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        _check_text(name, "attribute name", limits.ATTRIBUTE_NAME_BYTES)
        if isinstance(value, str):
            if len(value.encode("utf-8", "surrogatepass")) > limits.ATTRIBUTE_TEXT_BYTES:
                raise NameRefusedError(f"attribute {name!r} is longer than {limits.ATTRIBUTE_TEXT_BYTES} bytes")
            _check_encodable(value, f"attribute {name!r}")
        elif isinstance(value, int):
            if not _INT64_MIN <= value <= _INT64_MAX:
                raise NameRefusedError(f"attribute {name!r} does not fit in 64 bits")
        elif not isinstance(value, float) or value != value:
            raise NameRefusedError(f"attribute {name!r} must be text, a number (not NaN) or true/false")
        checked[str.__str__(name)] = value if type(value) in _PLAIN else _plain(value)
    return checked


def check_payload(payload: bytes | bytearray | memoryview) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise PayloadRefusedError(f"a payload is bytes, not {type(payload).__name__}")
    # The length of a view counts its elements, which may be wider than a byte.
    size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
    if size > limits.PAYLOAD_BYTES:
        raise PayloadRefusedError(f"a payload of {size} bytes; at most {limits.PAYLOAD_BYTES}")
    return bytes(payload)


def _check_text(text: str, what: str, bytes_max: int) -> None:
    if not isinstance(text, str) or not text:
        raise NameRefusedError(f"{what} must be a text that is not empty, not {_quoted(text)}")
    _check_encodable(text, what)
    if len(text.encode()) > bytes_max:
        raise NameRefusedError(f"{what} {_quoted(text)} is longer than {bytes_max} bytes")
    if "\0" in text:
        raise NameRefusedError(f"{what} {_quoted(text)} holds a null character")


def _plain(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def _quoted(value: object) -> str:
    """What a complaint quotes: never all of something huge."""
    if isinstance(value, str):
        return repr(value if len(value) <= _QUOTED_LETTERS else value[:_QUOTED_LETTERS] + "...")
    return f"a value of type {type(value).__name__}"


def _check_encodable(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NameRefusedError(f"{what} {_quoted(text)} is not valid Unicode") from None
