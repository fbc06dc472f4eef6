"""How a bundle travels: an array of eight columns, in which names are numbers as soon as both sides know them.

    [origin, first, stamp, shape, topic, keys, attributes, payloads]

    origin      number of an origin, or [publisher, incarnation, high half of first, high half of stamp] to name one
    first       low 32 bits of the first sequence number (>= 1)
    stamp       low 32 bits of the Lamport stamp
    shape       count * 4 + guarantee
    topic       number of a topic, or its text
    keys        array of numbers of keys or their texts; sorted by text, no repeats; empty when there are none
    attributes  the column as a byte string, nil when empty
    payloads    the column as a byte string; nobody looks inside on the way

Naming is implicit and belongs to one connection and direction. There are three tables (origins, topics, keys). A name
that is written out in full gets the next number of its table, from 0, at both ends. A full table stays as it is, and
later names go on travelling in full. The sizes of the tables sum up to `limits.INTERNED_NAMES`. Keys have a table of
their own so that a publisher with endless keys cannot crowd out the origins.

An origin's entry holds the high halves of its numbers because they change once in 2^32 steps: so the order of a bundle
costs at most 3 + 5 + 5 bytes here, whatever its numbers are, and the hops that its message carries beside it.

`checked_name`, `checked_topic` and `checked_key` check texts from the network by the rules of `core.limits` and raise
`WireError`. The broker that takes a bundle from a client checks its columns (`check_columns`). Brokers further on trust
that check and never look into the payload column.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final

from msgspec import Meta, MsgspecError, Raw
from msgspec.msgpack import Decoder

from resprout.core import limits
from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.errors import NameRefusedError, UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_attributes
from resprout.core.message_fields import NUMBER_MAX, STAMP_MAX

KEY_TEXT_BYTES: Final = limits.TOPIC_BYTES + limits.KEY_BYTES
"""A key of another topic is written with that topic."""


@cache
def _payload_decoder(max_payload: int) -> Decoder[list[bytes]]:
    payload: Any = Annotated[bytes, Meta(max_length=max_payload)]
    return Decoder(Annotated[list[payload], Meta(max_length=limits.BUNDLE_MESSAGES)])


# Rows that pass this decoder keep the limits whatever their characters are (at most four bytes each) and hold neither
# NaN nor an integer beyond 64 bits. The rare row that does not pass is looked at again with the exact rules.
_Name = Annotated[str, Meta(min_length=1, max_length=limits.ATTRIBUTE_NAME_BYTES // 4)]
_Text = Annotated[str, Meta(max_length=limits.ATTRIBUTE_TEXT_BYTES // 4)]
_Integer = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Float = Annotated[float, Meta(ge=-sys.float_info.max)]
_Row = Annotated[dict[_Name, _Text | _Integer | _Float | bool], Meta(max_length=limits.ATTRIBUTES_PER_MESSAGE)]
_decode_plain_rows: Final = Decoder(Annotated[list[_Row], Meta(max_length=limits.BUNDLE_MESSAGES)]).decode

ORIGINS: Final = limits.INTERNED_NAMES // 2
TOPICS: Final = limits.INTERNED_NAMES // 4
KEYS: Final = limits.INTERNED_NAMES // 4

INT64_MAX: Final = (1 << 63) - 1
LOW_MASK: Final = (1 << 32) - 1
_HIGH_MAX: Final = INT64_MAX >> 32
_SHAPE_MAX: Final = limits.BUNDLE_MESSAGES * 4 + 3
_GUARANTEES: Final = tuple(Guarantee(number) for number in range(4))


def checked_name(name: Any) -> str:
    """A broker's or client's name."""
    check_text(name, "a name", limits.NAME_BYTES)
    return _refused_by_the_wire(limits.check_name, name)


def checked_topic(topic: Any) -> str:
    """A topic to publish on: no wildcards."""
    check_text(topic, "a topic", limits.TOPIC_BYTES)
    return _refused_by_the_wire(limits.check_topic, topic)


def checked_key(key: Any) -> str:
    """A key, perhaps of another topic."""
    check_text(key, "a key", KEY_TEXT_BYTES)
    return _refused_by_the_wire(lambda text: limits.check_keys([text])[0], key)


def check_text(text: Any, what: str, bytes_max: int) -> None:
    """Only type and size, and never quoting the text: what is refused for its size must not be repeated in a reason."""
    if type(text) is not str:
        raise WireError(f"{what} is a text")
    if len(text) * 4 > bytes_max and len(text.encode()) > bytes_max:
        raise WireError(f"{what} has more than {bytes_max} bytes")


def _refused_by_the_wire(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except NameRefusedError as error:
        raise WireError(str(error)) from None


def check_columns(bundle: Bundle, max_payload: int = limits.PAYLOAD_BYTES) -> None:
    """Raises WireError unless the columns hold exactly `count` payloads, and as many rows of attributes or none,
    all within the limits."""
    most = limits.bundle_bytes(max_payload, bundle.count)
    if len(bundle.payloads) + len(bundle.attributes) > most:
        raise WireError(f"{bundle!r} has more than {most} bytes")
    try:
        payloads = len(_payload_decoder(max_payload).decode(bundle.payloads))
    except MsgspecError as error:
        raise WireError(f"payload column of {bundle!r}: {error}") from None
    if payloads != bundle.count:
        raise WireError(f"payload column of {bundle!r} holds {payloads} messages")
    if bundle.attributes:
        _check_attribute_column(bundle)


def check_head(bundle: Bundle) -> None:
    """Raises WireError unless the connection of a broker would let everything pass but the content of the columns. For
    bundles that have come inside of something else."""
    checked_name(bundle.publisher)
    checked_topic(bundle.topic)
    keys, count = bundle.keys, bundle.count
    if len(keys) > limits.KEYS_PER_PUBLICATION or tuple(sorted({checked_key(key) for key in keys})) != keys:
        raise WireError(f"keys of {bundle.publisher} are not sorted, or too many")
    if not 1 <= count <= limits.BUNDLE_MESSAGES:
        raise WireError(f"a bundle of {count} messages; at most {limits.BUNDLE_MESSAGES}")
    if not (1 <= bundle.incarnation <= NUMBER_MAX and 1 <= bundle.first <= NUMBER_MAX + 1 - count):
        raise WireError("incarnations and sequence numbers are from 1 to 2^53")
    if not 0 <= bundle.stamp <= STAMP_MAX:
        raise WireError(f"a stamp of {bundle.stamp}; at most 2^62")
    size, most = len(bundle.attributes) + len(bundle.payloads), limits.bundle_bytes(limits.PAYLOAD_BYTES_MAX, count)
    if size > most:
        raise WireError(f"a bundle of {size} bytes; at most {most}")


def _check_attribute_column(bundle: Bundle) -> None:
    try:
        rows = _decode_plain_rows(bundle.attributes)
    except (MsgspecError, UnicodeDecodeError):
        _check_rows_exactly(bundle)
        return
    if len(rows) != bundle.count:
        raise WireError(f"attribute column of {bundle!r} holds {len(rows)} rows")
    for name in set().union(*rows):
        if "\0" in name:
            raise WireError(f"attribute column of {bundle!r}: the name {name!r} holds a null character")


def _check_rows_exactly(bundle: Bundle) -> None:
    for row in unpack_attributes(bundle):
        try:
            check_attributes(row)
        except NameRefusedError as error:
            raise WireError(f"attribute column of {bundle!r}: {str(error)[: limits.REASON_BYTES]}") from None


class BundleWriter:
    """Bundles to columns; remembers what this direction of the connection has named."""

    __slots__ = ("_keys", "_origins", "_topics", "apart", "apart_from", "apart_mark", "given")

    def __init__(self) -> None:
        self.apart_from = 0
        """Payload columns of at least this many bytes are kept apart; 0: none are."""
        self.apart_mark = b""
        """Stands in an encoded body for each of them."""
        self.apart: list[bytes] = []
        """Payload columns that were kept apart, in their order."""
        self.given: list[dict[Any, int]] = []
        """Where names were given since the last `keep`: the tables, one by one."""
        self._origins: dict[tuple[str, int, int, int], int] = {}
        self._topics: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def columns(self, bundle: Any) -> tuple[Any, ...]:
        """What msgspec encodes in place of a bundle (an `enc_hook`)."""
        if type(bundle) is not Bundle:
            raise UsageError(f"{type(bundle).__name__} has no form on the wire")
        first, stamp, topic, keys = bundle.first, bundle.stamp, bundle.topic, bundle.keys
        origin = (bundle.publisher, bundle.incarnation, first >> 32, stamp >> 32)
        origin_number = self._origins.get(origin)
        topic_number = self._topics.get(topic)
        if origin_number is None and len(self._origins) < ORIGINS:
            self._give(self._origins, origin)
        if topic_number is None and len(self._topics) < TOPICS:
            self._give(self._topics, topic)
        return (
            origin if origin_number is None else origin_number,
            first & LOW_MASK,
            stamp & LOW_MASK,
            bundle.count << 2 | bundle.guarantee,
            topic if topic_number is None else topic_number,
            [self._key(key) for key in keys] if keys else keys,
            bundle.attributes or None,
            bundle.payloads if not self.apart_from else self._maybe_apart(bundle.payloads),
        )

    def _maybe_apart(self, payloads: bytes) -> bytes | Raw:
        if len(payloads) < self.apart_from:
            return payloads
        self.apart.append(payloads)
        return Raw(b"\xc6" + len(payloads).to_bytes(4, "big") + self.apart_mark)  # a byte string of this length begins

    def _key(self, key: str) -> int | str:
        number = self._keys.get(key)
        if number is not None:
            return number
        if len(self._keys) < KEYS:
            self._give(self._keys, key)
        return key

    def _give(self, table: dict[Any, int], name: Any) -> None:
        table[name] = len(table)
        self.given.append(table)

    def keep(self) -> None:
        """The frames up to now are sent: the peer knows what was named in them."""
        self.given.clear()

    def take_back(self) -> None:
        """Forgets what was named since the last `keep`: the peer never sees it."""
        while self.given:
            self.given.pop().popitem()


class BundleReader:
    """Columns to bundles. A name is checked once, when it is given in full; a number never given is refused."""

    __slots__ = ("_bundle_max", "_keys", "_origins", "_topics")

    def __init__(self, bundle_max: int = limits.BUNDLE_BYTES) -> None:
        """`bundle_max`: bytes that both columns of a bundle with one message may have."""
        self._bundle_max = bundle_max
        self._origins: dict[int, tuple[str, int, int, int]] = {}
        self._topics: dict[int, str] = {}
        self._keys: dict[int, str] = {}

    def bundle(self, _kind: type, columns: Any) -> Bundle:
        """What msgspec puts in place of the columns (a `dec_hook`)."""
        if type(columns) is not list or len(columns) != 8:
            raise WireError("a bundle is an array of 8 columns")
        origin, first, stamp, shape, topic, keys, attributes, payloads = columns
        named = self._origins.get(origin) if type(origin) is int else self._named_origin(origin)
        if named is None:
            raise WireError(f"origin number {origin} was never given")
        publisher, incarnation, first_base, stamp_base = named
        topic = self._topics.get(topic) if type(topic) is int else self._named_topic(topic)
        if topic is None:
            raise WireError("a topic number was never given")
        if type(first) is not int or not 0 <= first <= LOW_MASK or type(stamp) is not int or not 0 <= stamp <= LOW_MASK:
            raise WireError("first and stamp of a bundle are 32-bit numbers")
        if type(shape) is not int or not 4 <= shape <= _SHAPE_MAX:
            raise WireError(f"a bundle holds 1 to {limits.BUNDLE_MESSAGES} messages; its shape is not such a number")
        if attributes is None:
            attributes = b""
        if type(attributes) is not bytes or type(payloads) is not bytes:
            raise WireError("the attributes and payloads of a bundle are byte strings")
        size = len(attributes) + len(payloads)
        if size > limits.BUNDLE_BYTES and (size > self._bundle_max or shape >> 2 > 1):
            raise WireError(f"a bundle of {size} bytes; at most {limits.BUNDLE_BYTES}")
        first += first_base
        stamp += stamp_base
        if not 1 <= first <= NUMBER_MAX + 1 - (shape >> 2) or stamp > STAMP_MAX:
            raise WireError(f"sequence numbers from {first} on, stamp {stamp}: at most 2^53 and 2^62")
        return Bundle(
            publisher, incarnation, first, shape >> 2, stamp, topic,
            () if keys == [] else self._known_keys(keys), _GUARANTEES[shape & 3], attributes, payloads,
        )  # fmt: skip

    def _named_origin(self, columns: Any) -> tuple[str, int, int, int]:
        if type(columns) is not list or len(columns) != 4:
            raise WireError("an origin is a number or an array of 4")
        publisher, incarnation, first_high, stamp_high = columns
        if type(incarnation) is not int or not 1 <= incarnation <= NUMBER_MAX:
            raise WireError("an incarnation is a number from 1 to 2^53")
        for high in (first_high, stamp_high):
            if type(high) is not int or not 0 <= high <= _HIGH_MAX:
                raise WireError("the high half of a number is from 0 to 2^31 - 1")
        origin = (checked_name(publisher), incarnation, first_high << 32, stamp_high << 32)
        if len(self._origins) < ORIGINS:
            self._origins[len(self._origins)] = origin
        return origin

    def _named_topic(self, topic: Any) -> str:
        text = checked_topic(topic)
        if len(self._topics) < TOPICS:
            self._topics[len(self._topics)] = text
        return text

    def _known_keys(self, columns: Any) -> tuple[str, ...]:
        if type(columns) is not list or len(columns) > limits.KEYS_PER_PUBLICATION:
            raise WireError(f"keys are an array of at most {limits.KEYS_PER_PUBLICATION}")
        keys: list[str] = []
        for column in columns:
            key = self._keys.get(column) if type(column) is int else self._named_key(column)
            if key is None:
                raise WireError(f"key number {column} was never given")
            if keys and key <= keys[-1]:
                raise WireError("keys are sorted and given once each")
            keys.append(key)
        return tuple(keys)

    def _named_key(self, column: Any) -> str:
        key = checked_key(column)
        if len(self._keys) < KEYS:
            self._keys[len(self._keys)] = key
        return key
