"""The records of a journal of events: bundles, with what a subscriber is told beside each, and coverage marks.

A coverage mark says from where on the journal holds everything, or from where on it does not. Each life of a broker
writes one when its subscriptions are confirmed, before its first event. So a mark anywhere but at the very beginning of
a journal stands for a gap: nobody knows what was published between the last event before it and the mark. A broker
whose disk was full writes another one before the first event that it keeps again; that is a gap at any position.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, from_record, to_record


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    earlier_life: int
    earlier_us: int
    ended: str
    left_out: str = ""


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
    """The life that wrote the record before it, perhaps the same one; 0 when there is none, or it is not known."""
    earlier_us: int = 0
    """When that was written."""
    ended: str = ""
    """Why the journal holds nothing from here on; empty when it holds everything from here on."""
    left_out: str = ""
    """How many events before it the broker left out, when, and why; empty when it left out none."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Fields).decode


def event_record(life: int, tseq: int, bundle: Bundle) -> bytes:
    return _encode(_Fields(life, tseq, to_record(bundle)))


def mark_record(mark: CoverageMark) -> bytes:
    fields = _Mark(mark.earlier_life, mark.earlier_us, mark.ended, mark.left_out)
    return _encode(_Fields(mark.life, -1, b"", fields))


def left_out_record(life: int, earlier_us: int, left_out: str, marks: Iterable[bytes]) -> bytes:
    """Make one mark for events that were left out, and for the `marks` of this life that were left out with them."""
    mark = CoverageMark(life, life, earlier_us, left_out=left_out)
    for record in marks:
        found = read_event(record)
        if isinstance(found, CoverageMark) and found.ended:
            mark = msgspec.structs.replace(mark, ended=found.ended)
        elif isinstance(found, CoverageMark):
            mark = msgspec.structs.replace(found, left_out=left_out)
    return mark_record(mark)


def read_event(record: bytes) -> KeptEvent | CoverageMark | None:
    """None for what cannot be read."""
    try:
        fields = _decode(record)
    except msgspec.MsgspecError:
        return None
    if (mark := fields.mark) is not None:
        return CoverageMark(fields.life, mark.earlier_life, mark.earlier_us, mark.ended, mark.left_out)
    bundle = from_record(fields.record)
    return KeptEvent(fields.life, fields.tseq, bundle) if bundle is not None else None
