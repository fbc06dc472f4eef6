"""Last values as rows: in memory, on disk, and in messages between brokers and to clients.

A retained publication is a `total` that names `RETAIN_KEY`. So every broker applies all of them in one order, and the
last one of a topic is its value. `revision` is the place of that total: it is unique, and grows along the order.

A topic below `KV_PREFIX` is a key of a bucket. There a publication may say in an attribute at which revision it expects
the key, and in another one that it deletes it.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, unpack_attributes, unpack_payloads
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes, AttributeValue, check_attributes, check_keys, check_name, check_topic
from resprout.core.message import Message
from resprout.core.message_fields import BoundedNumber, Stamp, TotalSequence
from resprout.core.timing import expires_of

RETAIN_TOPIC: Final = "$retained"
RETAIN_KEY: Final = f"{RETAIN_TOPIC}#last"
"""A key that every retained publication names."""
KV_PREFIX: Final = "$kv/"
EXPECTED: Final = "kv.expected"
"""Attribute: the revision that the key must have; 0: it must not exist."""
DELETES: Final = "kv.delete"
"""Attribute: the publication deletes the key."""

VALUE_BYTES: Final = 600
"""Memory of a value besides its text and payload: a bundle of one small value takes about this."""


def value_cost(topic: str, keys: Iterable[str], size: int) -> int:
    """Return the memory that a value takes whose attributes and payload have these bytes, about."""
    return VALUE_BYTES + 4 * (len(topic) + sum(map(len, keys))) + size


def largest_cost(bundle: Bundle) -> int:
    """Return what the largest value of a bundle takes. Raises WireError if it cannot be read."""
    payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
    sizes = [len(pack_attributes([row])) + len(payload) for payload, row in zip(payloads, rows, strict=True)]
    return value_cost(bundle.topic, bundle.keys, max(sizes))


class KnownValue(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=13):
    """The value of one topic: the retained publication that was applied last."""

    topic: str
    revision: TotalSequence
    publisher: str
    incarnation: BoundedNumber
    seq: BoundedNumber
    stamp: Stamp
    keys: tuple[str, ...]
    attributes: bytes
    """As a column of one row, like that of a bundle; empty for none."""
    payload: bytes

    @property
    def expires_us(self) -> int:
        """When it expires; 0: never."""
        return expires_of(self.read_attributes()) if self.attributes else 0

    @property
    def cost(self) -> int:
        return value_cost(self.topic, self.keys, len(self.attributes) + len(self.payload))

    def bundle(self) -> Bundle:
        """Return it as a bundle of one message. Raises nothing: the attributes are read by whoever reads the bundle."""
        return Bundle(
            self.publisher, self.incarnation, self.seq, 1, self.stamp, self.topic, self.keys, Guarantee.TOTAL,
            self.attributes, pack_payloads([self.payload]),
        )  # fmt: skip

    def read_attributes(self) -> dict[str, AttributeValue]:
        """Return the attributes. Raises WireError if they cannot be read."""
        return unpack_attributes(self.bundle())[0] if self.attributes else {}

    def is_over(self, wall_us: int) -> bool:
        return 0 < self.expires_us <= wall_us

    def message(self) -> Message:
        """Return the value as the message that a new subscriber is given."""
        return Message(
            self.publisher, self.incarnation, self.seq, self.topic, self.keys, Guarantee.TOTAL, self.read_attributes(),
            self.payload, -1, tseq=self.revision, retained=True,
        )  # fmt: skip


class KnownOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=14):
    """What came of one write to a bucket."""

    publisher: str
    incarnation: BoundedNumber
    seq: BoundedNumber
    place: TotalSequence
    is_applied: bool
    current: TotalSequence
    """The revision of the key behind the write; 0 when the key does not exist."""


class ValuesReached(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=15):
    """The place of the last retained publication that these values include."""

    place: TotalSequence


ValueRow = KnownValue | KnownOutcome | ValuesReached


def is_retained(bundle: Bundle) -> bool:
    return RETAIN_KEY in bundle.keys and bundle.guarantee is Guarantee.TOTAL


def removes(topic: str, attributes: Attributes, payload: bytes) -> bool:
    """Whether a retained publication removes the value of its topic. A key may have an empty value."""
    return attributes.get(DELETES) is True if topic.startswith(KV_PREFIX) else not payload


def expected_of(topic: str, attributes: Attributes) -> int | None:
    """Return the revision at which a write expects its key: 0 for none, None when any will do."""
    expected = attributes.get(EXPECTED) if topic.startswith(KV_PREFIX) else None
    return expected if type(expected) is int and expected >= 0 else None


def check_row(row: ValueRow, payload_max: int) -> None:
    """Raise UsageError for a row that no honest broker sends."""
    if isinstance(row, KnownValue):
        check_name(row.publisher)
        check_topic(row.topic)
        if check_keys(row.keys) != row.keys or row.revision < 0:
            raise UsageError(f"the value of {row.topic} names other keys, or has no place")
        try:
            check_attributes(row.read_attributes())
        except WireError as error:
            raise UsageError(str(error)) from None
        if len(row.payload) > payload_max:
            raise UsageError(f"the value of {row.topic} has {len(row.payload)} bytes; at most {payload_max}")
    elif isinstance(row, KnownOutcome):
        check_name(row.publisher)
