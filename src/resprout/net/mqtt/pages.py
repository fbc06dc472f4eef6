"""Retained messages in pages, as brokers tell them to each other: decoded like anything else from the network."""

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
"""A page has at least one entry, and no more entries when it is longer than this."""


class RetainedEntry(msgspec.Struct, frozen=True, array_like=True):
    """What is retained of a topic, or that it was removed."""

    stamp: BoundedNumber
    publisher: str
    epoch: BoundedNumber
    seq: BoundedNumber
    topic: str
    payload: bytes | None
    """None: it was removed."""
    attributes: dict[str, AttributeValue] = {}
    guarantee: int = Guarantee.CAUSAL


_decoder: Final = msgspec.msgpack.Decoder(tuple[RetainedEntry, ...])


def pages_of(store: RetainedStore) -> Iterator[bytes]:
    """Everything that the store has; at least one page."""
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
    """Take over what another broker has. What cannot be read, or published by nobody, is left out."""
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
