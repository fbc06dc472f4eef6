"""A bundle as a record on disk. One that cannot be read is None: whoever finds it says so, and goes on without it."""

from typing import Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee

_Fields = tuple[str, int, int, int, int, str, tuple[str, ...], int, bytes, bytes]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Fields).decode


def to_record(bundle: Bundle) -> bytes:
    return _encode(
        (
            bundle.publisher, bundle.incarnation, bundle.first, bundle.count, bundle.stamp, bundle.topic, bundle.keys,
            int(bundle.guarantee), bundle.attributes, bundle.payloads,
        )
    )  # fmt: skip


def from_record(record: bytes) -> Bundle | None:
    try:
        publisher, incarnation, first, count, stamp, topic, keys, guarantee, attributes, payloads = _decode(record)
        return Bundle(
            publisher, incarnation, first, count, stamp, topic, keys, Guarantee(guarantee), attributes, payloads
        )  # fmt: skip
    except (msgspec.MsgspecError, ValueError):
        return None
