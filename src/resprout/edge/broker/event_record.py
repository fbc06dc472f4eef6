"""The records of a journal of events: bundles, with what a subscriber is told beside each, and coverage marks.

A coverage mark says from where on the journal holds everything, or from where on it does not. Each life of a broker
writes one when its subscriptions are confirmed, before its first event. So a mark anywhere but at the very beginning of
a journal stands for a gap: nobody knows what was published between the last event before it and the mark.
"""

from typing import Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.bundle_record import from_record, to_record


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    earlier_life: int
    earlier_us: int
    ended: str


class _Fields(msgspec.Struct, frozen=True, array_like=True):
    life: int
    tseq: int
    record: bytes
    mark: _Mark | None = None


class KeptEvent(msgspec.Struct, frozen=True):
    life: int
    """Of the broker that kept it."""
    tseq: int
    bundle: Bundle


class CoverageMark(msgspec.Struct, frozen=True):
    life: int
    """Of the broker that wrote it."""
    earlier_life: int = 0
    """The life that wrote the record before it; 0 when there is none, or it is not known."""
    earlier_us: int = 0
    """When that was written."""
    ended: str = ""
    """Why the journal holds nothing from here on; empty when it holds everything from here on."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Fields).decode


def event_record(life: int, tseq: int, bundle: Bundle) -> bytes:
    return _encode(_Fields(life, tseq, to_record(bundle)))


def mark_record(mark: CoverageMark) -> bytes:
    return _encode(_Fields(mark.life, -1, b"", _Mark(mark.earlier_life, mark.earlier_us, mark.ended)))


def read_event(record: bytes) -> KeptEvent | CoverageMark | None:
    """None for what cannot be read."""
    try:
        fields = _decode(record)
    except msgspec.MsgspecError:
        return None
    if (mark := fields.mark) is not None:
        return CoverageMark(fields.life, mark.earlier_life, mark.earlier_us, mark.ended)
    bundle = from_record(fields.record)
    return KeptEvent(fields.life, fields.tseq, bundle) if bundle is not None else None
