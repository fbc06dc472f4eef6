"""What of a segment is whole, what a crash has torn, and what was spoiled.

A segment is a row of whole batches and of stretches that are none. In such a stretch whole records are found one by
one, by their headers. It is a *torn* write when nothing says that it was ever on the disk: then nobody has relied on
it, and it ends the segment, with all that may follow. Otherwise it was spoiled, and what is whole in it counts.
"""

import re
import zlib
from typing import Final

import msgspec

from resprout.journal.format import (
    BATCH_BYTES,
    HEAD_BYTES,
    HEADER_BYTES,
    RECORD,
    SegmentHead,
    batch_at,
    header_at,
    spans_at,
)

_KIND: Final = re.compile(b"[RB]")
_KIND_AT: Final = 4
"""Where its kind stands in a header."""


class Hole(msgspec.Struct, frozen=True):
    """Bytes that are not what was written, though they were on the disk once."""

    at: int
    end: int
    position: int
    """Of the first record that is missing there, or would come next."""


class FoundRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that is whole."""

    position: int
    begin: int
    end: int
    """Of its content."""


class Stretch(msgspec.Struct, frozen=True):
    """A batch, or what is left of something."""

    at: int
    end: int
    is_whole: bool
    first: int
    """Its first position, if that can be read; otherwise where the stretch before it ended."""
    behind: int
    """The position behind its records, as far as can be read."""
    time_us: int
    floor: int
    synced: int
    records: list[FoundRecord]


class Survey(msgspec.Struct, frozen=True):
    stretches: list[Stretch]
    end: int
    """Behind the last stretch to believe. What follows, if anything, is a torn write."""
    next_position: int
    floor: int
    holes: list[Hole]

    @property
    def records(self) -> list[FoundRecord]:
        return [record for stretch in self.stretches for record in stretch.records]


def survey(content: bytes, head: SegmentHead, is_sealed: bool) -> Survey:
    """`is_sealed`: a segment follows, so all of this one was on the disk."""
    stretches = _stretches(content, head)
    sure = max((stretch.synced for stretch in stretches), default=HEAD_BYTES)
    torn = len(content)
    if not is_sealed:
        torn = next((each.at for each in stretches if not each.is_whole and each.at >= sure), torn)
    believed = [stretch for stretch in stretches if stretch.at < torn]
    next_position = believed[-1].behind if believed else head.base
    floor = max((stretch.floor for stretch in believed), default=head.floor)
    holes = [hole for stretch in believed if not stretch.is_whole for hole in _holes(content, stretch, head.seed)]
    return Survey(believed, torn, next_position, floor, holes)


def _stretches(content: bytes, head: SegmentHead) -> list[Stretch]:
    found: list[Stretch] = []
    at, position, time_us, floor = HEAD_BYTES, head.base, head.time_us, head.floor
    while at < len(content):
        batch = batch_at(content, at, head.seed)
        first, said, synced = position, position, HEAD_BYTES
        begin = at
        spans = None
        if batch is not None:
            first, said, synced = batch.first, batch.end, batch.synced
            time_us, floor = max(time_us, batch.time_us), max(floor, batch.floor)
            begin = at + BATCH_BYTES
            spans = spans_at(content, begin, head.seed, batch)
        if spans is not None:
            records = [FoundRecord(first + n, span[0], span[1]) for n, span in enumerate(spans)]
            end = spans[-1][1] if spans else begin
        else:
            records, end = _search(content, begin, begin if batch is not None else at + 1, head.seed)
        position = max(position, said, records[-1].position + 1 if records else 0)
        found.append(Stretch(at, end, spans is not None, first, position, time_us, floor, synced, records))
        at = end
    return found


def _search(content: bytes, at: int, batches_from: int, seed: int) -> tuple[list[FoundRecord], int]:
    """Whole records from here to the next batch that can be read, and where that is."""
    records: list[FoundRecord] = []
    while at < len(content):
        if at >= batches_from and batch_at(content, at, seed) is not None:
            break
        kind, position, length, checksum = header_at(content, at, seed)
        begin, end = at + HEADER_BYTES, at + HEADER_BYTES + length
        if kind == RECORD and end <= len(content):
            if zlib.crc32(content[begin:end]) == checksum:
                records.append(FoundRecord(position, begin, end))
            at = end
        else:
            kind_at = _KIND.search(content, at + _KIND_AT + 1)
            at = kind_at.start() - _KIND_AT if kind_at is not None else len(content)
    return records, at


def _holes(content: bytes, stretch: Stretch, seed: int) -> list[Hole]:
    """What lies between the whole parts of a stretch."""
    holes: list[Hole] = []
    at, position = stretch.at, stretch.first
    if batch_at(content, at, seed) is not None:
        at += BATCH_BYTES
    for record in stretch.records:
        if record.begin - HEADER_BYTES > at:
            holes.append(Hole(at, record.begin - HEADER_BYTES, position))
        at, position = record.end, record.position + 1
    if stretch.end > at:
        holes.append(Hole(at, stretch.end, position))
    return holes or [Hole(stretch.at, stretch.end, stretch.first)]
