"""The records of a journal of events: bundles with what a subscriber is told beside each, coverage marks, and gaps.

A coverage mark says from where on the journal holds everything, or from where on it does not. Each life of a broker
writes one when its subscriptions are confirmed, before its first event. So a mark anywhere but at the very beginning of
a journal stands for a gap: nobody knows what was published between the last event before it and the mark. A broker
whose disk was full writes another one before the first event that it keeps again; that is a gap at any position.

`GapFinder` finds what a journal does not hold, while its records are read in order. There are four kinds of gaps: the
broker was down between two of its lives, left events out, or stopped keeping them (coverage marks say so); positions
are missing because a damaged journal was mended; a record cannot be read; and retention has dropped what was kept at
the time from which somebody wants to read.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle, from_record, to_record
from resprout.edge.messages import EventGap, ReadEvents
from resprout.journal.interface import Kept


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


class GapFinder:
    """Reads one page. `first` is the first position that the journal holds."""

    def __init__(self, broker: str, first: int, asked: ReadEvents) -> None:
        self._broker = broker
        self._first = first
        self._since_us = asked.time_us if asked.position == -1 else 0
        self._expected = asked.position if asked.position >= 0 else None
        """The position of the next record; None when any may be the first."""
        self._last_us = 0
        """When the record before was written, if that is known."""

    def look(self, kept: Kept, found: KeptEvent | CoverageMark | None) -> EventGap | None:
        """Return the gap that begins before this record, or at it."""
        start = kept.position if self._expected is None else self._expected
        is_dropped = self._expected is None and self._first == kept.position > 0 and 0 < self._since_us < kept.time_us
        from_us, until_us, following = self._last_us, kept.time_us, kept.position
        self._expected, self._last_us = kept.position + 1, kept.time_us
        cause = ""
        if is_dropped:
            from_us = self._since_us
            cause = f"broker {self._broker} does not keep them any longer"
        elif kept.position > start:
            cause = f"the journal of broker {self._broker} was damaged and mended"
        if found is None:
            following = kept.position + 1
            cause = f"broker {self._broker} cannot read this record"
        elif isinstance(found, CoverageMark) and (kept.position > 0 or found.ended or found.left_out):
            following = kept.position + 1
            from_us = found.earlier_us or from_us
            cause = self._cause_of(found, kept.position)
            until_us = 0 if found.ended else until_us
        if not cause:
            return None
        return EventGap(start, following, from_us, until_us, as_reason(cause))

    def _cause_of(self, mark: CoverageMark, position: int) -> str:
        causes: list[str] = []
        if position > 0 and mark.earlier_life != mark.life and not mark.ended:
            lives = f"between its lives {mark.earlier_life} and" if mark.earlier_life else "before its life"
            causes.append(f"was down {lives} {mark.life}")
        if mark.left_out:
            causes.append(mark.left_out)
        if mark.ended:
            causes.append(f"stopped keeping events in its life {mark.life}: {mark.ended}")
        return f"broker {self._broker} {', and '.join(causes)}"


def as_reason(text: str) -> str:
    """Cut a text to what a message may hold."""
    return text.encode()[: limits.REASON_BYTES].decode(errors="ignore")
