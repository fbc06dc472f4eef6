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
"""

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
