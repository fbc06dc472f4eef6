"""How records stand in a segment.

    segment = magic, summary, summary, batch ...
    summary = seed, base, floor, time, CRC-32 of these
    batch   = entry of kind B, then its records, entries of kind R
    entry   = header, content
    header  = length of content, kind, position, CRC-32 of content, CRC-32 of these begun with the seed
    B       = how many records, their bytes, time, floor, synced, CRC-32 of the records' headers; position: of the first

Positions count records, without end and across segments. `floor` is the first position that its owner needs. `synced`
says up to which byte this segment was on the disk when the batch was written: what is not whole before such a byte was
spoiled later, what is not whole behind all of them may be a write that a crash has torn. The seed is drawn for each
segment, and nobody outside knows it: entries behind a spoiled one are found again, and none is found in what clients
have published. Numbers are big-endian; times are microseconds since 1970.

`survey` tells what of a segment is whole, what a crash has torn, and what was spoiled. A segment is a row of whole
batches and of stretches that are none. In such a stretch whole records are found one by one, by their headers. It is a
*torn* write when nothing says that it was ever on the disk: then nobody has relied on it, and it ends the segment, with
all that may follow. Otherwise it was spoiled, and what is whole in it counts.
"""

import re
import struct
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

MAGIC: Final = b"resprout journal 1\n"
_NUMBER: Final = struct.Struct(">I")
_SUMMARY: Final = struct.Struct(">IQQQ")
_SUMMARY_BYTES: Final = _SUMMARY.size + _NUMBER.size
HEAD_BYTES: Final = len(MAGIC) + 2 * _SUMMARY_BYTES
_FRONT: Final = struct.Struct(">IBQI")
HEADER_BYTES: Final = _FRONT.size + _NUMBER.size
_BATCH: Final = struct.Struct(">IQQQQI")
BATCH_BYTES: Final = HEADER_BYTES + _BATCH.size
RECORD: Final = ord("R")
BATCH: Final = ord("B")

_KIND: Final = re.compile(b"[RB]")
_KIND_AT: Final = 4
"""Where its kind stands in a header."""


class SegmentHead(msgspec.Struct, frozen=True):
    """What a segment begins with."""

    seed: int
    base: int
    floor: int
    time_us: int


class WrittenBatch(msgspec.Struct, frozen=True):
    """Records that were written together."""

    first: int
    count: int
    size: int
    """Bytes of its records, with their headers."""
    time_us: int
    floor: int
    synced: int
    headers_crc: int

    @property
    def end(self) -> int:
        """The position behind its last record."""
        return self.first + self.count


def head_bytes(head: SegmentHead) -> bytes:
    summary = _SUMMARY.pack(head.seed, head.base, head.floor, head.time_us)
    return MAGIC + 2 * (summary + _NUMBER.pack(zlib.crc32(summary)))


def read_head(content: bytes) -> tuple[SegmentHead | None, bool]:
    """The head, unless no copy of its summary is whole; and whether all of it is whole."""
    found: list[SegmentHead] = []
    for at in (len(MAGIC), len(MAGIC) + _SUMMARY_BYTES):
        copy = content[at : at + _SUMMARY_BYTES]
        if len(copy) == _SUMMARY_BYTES and zlib.crc32(copy[:-4]) == _NUMBER.unpack_from(copy, _SUMMARY.size)[0]:
            found.append(SegmentHead(*_SUMMARY.unpack_from(copy)))
    if not found:
        return None, False
    return found[0], len(found) == 2 and found[0] == found[1] and content.startswith(MAGIC)


def batch_bytes(seed: int, first: int, records: Sequence[bytes], time_us: int, floor: int, synced: int) -> bytes:
    pieces: list[bytes] = []
    headers_crc = size = 0
    for position, record in enumerate(records, first):
        header = _header(seed, RECORD, position, record)
        headers_crc = zlib.crc32(header, headers_crc)
        size += len(header) + len(record)
        pieces += (header, record)
    content = _BATCH.pack(len(records), size, time_us, floor, synced, headers_crc)
    return b"".join((_header(seed, BATCH, first, content), content, *pieces))


def header_at(content: bytes, at: int, seed: int) -> tuple[int, int, int, int]:
    """Kind, position, length of content and its checksum; kind 0 when there is no whole header."""
    if at + HEADER_BYTES > len(content):
        return 0, 0, 0, 0
    length, kind, position, checksum = _FRONT.unpack_from(content, at)
    if kind not in (RECORD, BATCH):
        return 0, 0, 0, 0
    if _NUMBER.unpack_from(content, at + _FRONT.size)[0] != zlib.crc32(content[at : at + _FRONT.size], seed):
        return 0, 0, 0, 0
    return kind, position, length, checksum


def batch_at(content: bytes, at: int, seed: int) -> WrittenBatch | None:
    """The batch that begins here, if what is said of it is whole; of its records nothing is known yet."""
    kind, position, length, checksum = header_at(content, at, seed)
    said = content[at + HEADER_BYTES : at + BATCH_BYTES]
    if kind != BATCH or length != _BATCH.size or len(said) != _BATCH.size or zlib.crc32(said) != checksum:
        return None
    return WrittenBatch(position, *_BATCH.unpack(said))


def spans_at(content: bytes, at: int, seed: int, batch: WrittenBatch) -> list[tuple[int, int]] | None:
    """Where the content of each record of a batch begins and ends; the first one's header is here. None unless all of
    them are whole, and the ones that were written."""
    spans: list[tuple[int, int]] = []
    headers_crc = 0
    begin = at
    for expected in range(batch.first, batch.end):
        kind, position, length, checksum = header_at(content, at, seed)
        end = at + HEADER_BYTES + length
        if kind != RECORD or position != expected or end > len(content):
            return None
        headers_crc = zlib.crc32(content[at : at + HEADER_BYTES], headers_crc)
        if zlib.crc32(content[at + HEADER_BYTES : end]) != checksum:
            return None
        spans.append((at + HEADER_BYTES, end))
        at = end
    return spans if headers_crc == batch.headers_crc and at - begin == batch.size else None


def _header(seed: int, kind: int, position: int, content: bytes) -> bytes:
    front = _FRONT.pack(len(content), kind, position, zlib.crc32(content))
    return front + _NUMBER.pack(zlib.crc32(front, seed))


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
