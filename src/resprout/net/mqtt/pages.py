"""Encodes retained messages in pages for synchronisation between brokers. Decoding treats pages as untrusted input."""

from collections.abc import Iterator
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue, check_attributes, check_payload, check_topic
from resprout.core.message import Message
from resprout.core.message_fields import BoundedNumber
from resprout.mqtt.retained import Order, RetainedStore

PAGE_BYTES: Final = 256 << 10
"""Size in bytes after which a page ends; the entry that exceeds it is still included."""


class RetainedEntry(msgspec.Struct, frozen=True, array_like=True):
    """Retained message of a topic, or its removal."""

    stamp: BoundedNumber
    publisher: str
    epoch: BoundedNumber
    seq: BoundedNumber
    topic: str
    payload: bytes | None
    """Payload; None for a removal."""
    attributes: dict[str, AttributeValue] = {}
    guarantee: int = Guarantee.CAUSAL


_decoder: Final = msgspec.msgpack.Decoder(tuple[RetainedEntry, ...])


def pages_of(store: RetainedStore) -> Iterator[bytes]:
    """Encode all messages and removals of the store; yields at least one page."""
    page: list[RetainedEntry] = []
    size = 0
    for entry in _entries(store):
        if size > PAGE_BYTES:
            yield msgspec.msgpack.encode(page)
            page, size = [], 0
        page.append(entry)
        size += len(entry.payload or b"") + len(entry.topic) + 64 * (1 + len(entry.attributes))
    yield msgspec.msgpack.encode(page)


def merge_page(store: RetainedStore, data: bytes, wall_us: int) -> None:
    """Merge a page from another broker. Ignores pages that cannot be decoded and entries without a publisher."""
    try:
        page = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    for entry in page:
        order = Order(entry.stamp, entry.publisher, entry.epoch, entry.seq)
        try:
            topic = check_topic(entry.topic)
            message = None
            if entry.payload is not None:
                message = Message(
                    entry.publisher, entry.epoch, entry.seq, topic, (), Guarantee(entry.guarantee),
                    check_attributes(entry.attributes), check_payload(entry.payload), 0,
                )  # fmt: skip
        except (UsageError, ValueError):
            continue
        store.merge(order, topic, message, wall_us)


def _entries(store: RetainedStore) -> Iterator[RetainedEntry]:
    for order, message in store.messages():
        yield RetainedEntry(*order, message.topic, message.payload, message.attributes, int(message.guarantee))
    for order, topic in store.removals():
        yield RetainedEntry(*order, topic, None)
