"""Encodes the retained store in parts of limited size, and decodes them: for synchronisation and persistence.

Parts can be loaded in any order, repeatedly, and into a store that is not empty, because the order of messages decides.
A damaged part raises WireError and changes nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_attributes, check_keys, check_name, check_payload, check_topic
from resprout.core.message import Message
from resprout.mqtt.retained import Order, RetainedStore

PART_BYTES: Final = 1 << 20
"""Size in bytes after which a part ends; the message that exceeds it is still included."""
NUMBER_MAX: Final = 1 << 62

_Row = tuple[int, str, int, int, str, tuple[str, ...], int, dict[str, str | int | float | bool], bytes]
"""Stamp, publisher, epoch, number, topic, keys, guarantee, attributes, payload; an empty payload is a removal."""

_encoder: Final = msgspec.msgpack.Encoder()
_decode: Final = msgspec.msgpack.Decoder(list[_Row]).decode


def dump(store: RetainedStore, part_bytes: int = PART_BYTES) -> Iterator[bytes]:
    """Return the parts of a snapshot. The store must not change until the iterator is exhausted."""
    rows: list[msgspec.Raw] = []
    size = 0
    for row in _rows(store):
        encoded = _encoder.encode(row)
        rows.append(msgspec.Raw(encoded))
        size += len(encoded)
        if size >= part_bytes:
            yield _encoder.encode(rows)
            rows, size = [], 0
    if rows:
        yield _encoder.encode(rows)


def _rows(store: RetainedStore) -> Iterator[tuple[Any, ...]]:
    for order, message in store.messages():
        yield (*order, message.topic, message.keys, int(message.guarantee), message.attributes, message.payload)
    for order, topic in store.removals():
        yield (*order, topic, (), 0, {}, b"")


def load(store: RetainedStore, part: bytes, wall_us: int) -> int:
    """Merge one part into the store; return the number of changed topics."""
    try:
        rows = [_read(row) for row in _decode(part)]
    except (msgspec.DecodeError, UsageError, ValueError) as error:
        raise WireError(f"invalid snapshot of retained messages: {error}") from None
    return sum(store.merge(order, topic, message, wall_us) for order, topic, message in rows)


def _read(row: _Row) -> tuple[Order, str, Message | None]:
    stamp, publisher, epoch, seq, topic, keys, guarantee, attributes, payload = row
    for number in (stamp, epoch, seq):
        if not 0 <= number <= NUMBER_MAX:
            raise UsageError(f"{number} is out of range")
    order = Order(stamp, check_name(publisher), epoch, seq)
    check_topic(topic)
    if not payload:
        return order, topic, None
    message = Message(
        publisher, epoch, seq, topic, check_keys(keys), Guarantee(guarantee), check_attributes(attributes),
        check_payload(payload), 0,
    )  # fmt: skip
    return order, topic, message
