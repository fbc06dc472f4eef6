"""A bundle as a record on disk. One that cannot be read is None: whoever finds it says so, and goes on without it."""

from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee

_Fields = tuple[str, int, int, int, int, str, tuple[str, ...], int, bytes, bytes]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Fields).decode


def to_record(bundle: Bundle) -> bytes:
    return _encode(to_fields(bundle))


def from_record(record: bytes) -> Bundle | None:
    try:
        bundle: Bundle = from_fields(Bundle, _decode(record))
        return bundle
    except (msgspec.MsgspecError, ValueError):
        return None


def to_fields(value: Any) -> Any:
    """Of a bundle inside something else: for whoever has msgspec write that (`enc_hook`)."""
    assert isinstance(value, Bundle), "nothing else needs help"
    return (
        value.publisher, value.incarnation, value.first, value.count, value.stamp, value.topic, value.keys,
        int(value.guarantee), value.attributes, value.payloads,
    )  # fmt: skip


def from_fields(kind: type, fields: Any) -> Any:
    """The same, to read it (`dec_hook`). ValueError when they are no bundle's."""
    publisher, incarnation, first, count, stamp, topic, keys, guarantee, attributes, payloads = fields
    return Bundle(
        publisher, incarnation, first, count, stamp, topic, tuple(keys), Guarantee(guarantee), attributes, payloads
    )  # fmt: skip
