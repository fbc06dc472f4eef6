"""Limits of names, topics, keys, attributes, payloads and frames, and the checks that enforce them.

A limit is the largest value that is allowed. Sizes of text are bytes of UTF-8. The wire refuses a message that exceeds
a limit. The `check_...` functions refuse what a user gives, at the moment of the call. They return plain values: a
subclass of str or int (an enumeration, a NumPy scalar) comes back as the str or int that it stands for, so that code
that encodes or compares it later meets no surprise.

`ClientLimits` bound how much of a broker one identity may use. A client that has proven no identity counts for itself,
by its name.
"""

import re
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from resprout.core.errors import NameRefusedError, PayloadRefusedError, UsageError

NAME_BYTES: Final = 64
"""A broker's or client's name."""
DEAD_LETTER: Final = "dead-letter."
FOLLOW_UP: Final = "follow-up."
"""Brokers publish dead letters and follow-ups under names that begin so, each under a name and a life of its own with
94 bits of a digest in them. No client may have such a name: it could publish first what a broker has to publish."""

ADDRESS_BYTES: Final = 300
"""Host and port of a broker; the longest host name has 253."""

TOPIC_BYTES: Final = 512
TOPIC_LEVELS: Final = 32

KEY_BYTES: Final = 256
KEYS_PER_PUBLICATION: Final = 64

PARTITIONS: Final = 64
"""Partitions of one log."""
COMPACT_GRACE_US: Final = 24 * 3_600 * 1_000_000
"""Age at which a compacted log drops a tombstone, unless it says otherwise."""
COMPACT_BYTES: Final = 16 << 20
"""Bytes of new entries after which a replica of a compacted log compacts, unless the log says otherwise."""

ATTRIBUTES_PER_MESSAGE: Final = 64
ATTRIBUTE_NAME_BYTES: Final = 128
ATTRIBUTE_TEXT_BYTES: Final = 1024

PAYLOAD_BYTES: Final = 1 << 20
"""One message's payload, unless the brokers are configured otherwise (`max_payload`)."""
PAYLOAD_BYTES_MAX: Final = 64 << 20
"""The largest `max_payload` that a broker can be configured with."""

BUNDLE_MESSAGES: Final = 1024
_ATTRIBUTES_AND_HEADERS: Final = 4096
BUNDLE_BYTES: Final = PAYLOAD_BYTES + _ATTRIBUTES_AND_HEADERS
"""Both columns of a bundle together: at least one message of `PAYLOAD_BYTES` always fits. A bundle with one message may
have more where `max_payload` is larger (`bundle_bytes`)."""

WHERE_BYTES: Final = 4096
WHERE_DEPTH: Final = 32
WHERE_STEPS: Final = 8_448
"""What testing a condition may cost for one message (`filters.predicate`): up to 1 ms."""

FRAME_BYTES: Final = 4 << 20
"""One frame on a connection; a header that claims more is refused before anything is read."""

FRAME_ITEMS: Final = 256
"""Messages in one frame: what a broker does in one go for one peer before it looks after the others."""

_KEYS_AND_COLUMNS: Final = 128 << 10
"""More than everything in a message beside its payload takes: columns, and at most 64 keys with their topics."""

INTERNED_NAMES: Final = 65_536
"""Names that one connection remembers in each direction; later ones travel in full."""

REASON_BYTES: Final = 512
"""Text that explains a refusal."""

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]

_PLAIN = frozenset((str, int, float, bool))
_QUOTED_LETTERS = 40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SIZE = re.compile(r"([0-9]{1,15}) *(KiB|MiB|GiB|)")
_SHIFTS: Final = {"": 0, "KiB": 10, "MiB": 20, "GiB": 30}
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def parse_size(text: str) -> int:
    """Return the bytes that a text such as `64MiB`, `512 KiB` or `4096` stands for."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{shown(text)} is no size: write bytes, or a number with KiB, MiB or GiB, such as 64MiB")
    return int(match[1]) << _SHIFTS[match[2]]


def bundle_bytes(max_payload: int, count: int = 1) -> int:
    """Return how many bytes both columns of a bundle with `count` messages may have where payloads may have
    `max_payload` bytes."""
    return BUNDLE_BYTES if count > 1 or max_payload <= PAYLOAD_BYTES else max_payload + _ATTRIBUTES_AND_HEADERS


def body_bytes(max_payload: int) -> int:
    """Return how many bytes a message that travels in parts may have where payloads may have `max_payload` bytes."""
    return max(FRAME_BYTES, max_payload + _KEYS_AND_COLUMNS)


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one identity at one broker."""

    client_subscriptions: int = 100_000
    """Subscriptions of each of its clients."""
    identity_subscriptions: int = 100_000
    """Subscriptions of all its clients together."""
    identity_wildcards: int = 64
    """Different placements of wildcards among the filters of its subscriptions. `a/+/x` and `b/+/y` have the same one,
    `a/+/x` and `a/x/+` do not. A topic matches at most one filter of each, so this bounds what a new topic costs."""
    identity_condition_bytes: int = 1 << 20
    """Bytes of the conditions of all its subscriptions; each counts with 64 bytes more than its canonical text."""
    identity_steps: int = 2_000_000
    """Steps (`filters.predicate`) that testing its conditions may take in a second: about 0.2 s of a processor."""
    identity_durables: int = 1_000
    """Durable subscriptions that its clients have begun at this broker, and that are held there."""
    durable_steps: int = 4_096
    """Steps that the conditions of these may take together for one message: nobody can be cut off for them."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"limit {name} must be 1 or more, not {getattr(self, name)}")


DEFAULT_LIMITS = ClientLimits()


def check_name(name: str, what: str = "name") -> str:
    """A broker's, client's or site's name: it appears in traces, files and commands, so it stays plain."""
    if not isinstance(name, str) or len(name) > NAME_BYTES or not _NAME.fullmatch(name):
        raise NameRefusedError(
            f"{what} {shown(name)} is refused: letters, digits, dot, dash and underscore, at most {NAME_BYTES}"
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
    _check_text(topic, "topic", TOPIC_BYTES)
    if "+" in topic or "#" in topic:
        raise NameRefusedError(f"topic {shown(topic)} holds a wildcard; only a subscription may")
    if topic.count("/") >= TOPIC_LEVELS:
        raise NameRefusedError(f"topic {shown(topic)} has more than {TOPIC_LEVELS} levels")
    return str.__str__(topic)


def check_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Sorted and without repeats, so that equal key sets are equal values."""
    if isinstance(keys, str) or not isinstance(keys, tuple | Collection):
        raise NameRefusedError(f"keys are a list of texts, not {shown(keys)}")
    for key in keys:
        foreign = isinstance(key, str) and "#" in key  # a key of another topic, see `core.bundle`
        _check_text(key, "key", KEY_BYTES + TOPIC_BYTES if foreign else KEY_BYTES)
        if foreign:
            topic, _, rest = key.partition("#")
            check_topic(topic)
            _check_text(rest, "key", KEY_BYTES)
    unique = tuple(sorted({str.__str__(key) for key in keys}))
    if len(unique) > KEYS_PER_PUBLICATION:
        raise NameRefusedError(f"{len(unique)} keys in one publication; at most {KEYS_PER_PUBLICATION}")
    return unique


def check_attributes(attributes: Attributes) -> dict[str, AttributeValue]:
    if not isinstance(attributes, dict | Mapping):
        raise NameRefusedError(f"attributes map names to values; {shown(attributes)} does not")
    if len(attributes) > ATTRIBUTES_PER_MESSAGE:
        raise NameRefusedError(f"{len(attributes)} attributes; at most {ATTRIBUTES_PER_MESSAGE}")
    checked: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        _check_text(name, "attribute name", ATTRIBUTE_NAME_BYTES)
        if isinstance(value, str):
            if len(value.encode("utf-8", "surrogatepass")) > ATTRIBUTE_TEXT_BYTES:
                raise NameRefusedError(f"attribute {name!r} is longer than {ATTRIBUTE_TEXT_BYTES} bytes")
            _check_encodable(value, f"attribute {name!r}")
        elif isinstance(value, int):
            if not _INT64_MIN <= value <= _INT64_MAX:
                raise NameRefusedError(f"attribute {name!r} does not fit in 64 bits")
        elif not isinstance(value, float) or value != value:
            raise NameRefusedError(f"attribute {name!r} must be text, a number (not NaN) or true/false")
        checked[str.__str__(name)] = value if type(value) in _PLAIN else _plain(value)
    return checked


def check_payload(payload: bytes | bytearray | memoryview, bytes_max: int = PAYLOAD_BYTES) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise PayloadRefusedError(f"a payload is bytes, not {type(payload).__name__}")
    # The length of a view counts its elements, which may be wider than a byte.
    size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
    if size > bytes_max:
        raise PayloadRefusedError(f"a payload of {size} bytes; at most {bytes_max} (max_payload)")
    return bytes(payload)


def _check_text(text: str, what: str, bytes_max: int) -> None:
    if not isinstance(text, str) or not text:
        raise NameRefusedError(f"{what} must be a text that is not empty, not {shown(text)}")
    _check_encodable(text, what)
    if len(text.encode()) > bytes_max:
        raise NameRefusedError(f"{what} {shown(text)} is longer than {bytes_max} bytes")
    if "\0" in text:
        raise NameRefusedError(f"{what} {shown(text)} holds a null character")


def _plain(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def shown(value: object) -> str:
    """Return a value as an error shows it: never all of something huge, and with its type where that is not obvious."""
    if isinstance(value, str):
        return repr(value if len(value) <= _QUOTED_LETTERS else value[:_QUOTED_LETTERS] + "...")
    text = reprlib.repr(value)
    return text if value is None or isinstance(value, bool | int | float) else f"{text} ({type(value).__name__})"


def _check_encodable(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NameRefusedError(f"{what} {shown(text)} is not valid Unicode") from None
