"""An event as a record of a journal: a bundle, and what a subscriber is told beside it."""

from typing import Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.bundle_record import from_record, to_record


class _Fields(msgspec.Struct, frozen=True, array_like=True):
    life: int
    tseq: int
    record: bytes


class KeptEvent(msgspec.Struct, frozen=True):
    life: int
    """Of the broker that kept it."""
    tseq: int
    bundle: Bundle


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Fields).decode


def event_record(life: int, tseq: int, bundle: Bundle) -> bytes:
    return _encode(_Fields(life, tseq, to_record(bundle)))


def read_event(record: bytes) -> KeptEvent | None:
    """None for what cannot be read."""
    try:
        fields = _decode(record)
    except msgspec.MsgspecError:
        return None
    bundle = from_record(fields.record)
    return KeptEvent(fields.life, fields.tseq, bundle) if bundle is not None else None
