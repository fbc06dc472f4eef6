"""Reads a journal from a position or a time on, in portions, while it may be written.

An index tells where to begin in a segment: a sparse list of positions, times and bytes. The index of a sealed segment
stands in a file of its own. It is only a short cut: one that is missing, damaged or of another size is made anew from
its segment.
"""

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from resprout.journal.format import BATCH_BYTES, HEAD_BYTES, WrittenBatch, batch_at, read_head, spans_at, survey
from resprout.journal.interface import (
    DiskError,
    Files,
    Kept,
    NotKeptError,
    bases_of,
    damaged,
    draft_name,
    gap,
    head_of,
    index_name,
    segment_name,
)

CHUNK_BYTES: Final = 256 << 10
"""Read at once, unless a batch is larger."""
PORTION_BYTES: Final = 1 << 20

POINT_BYTES: Final = 64 << 10
"""At least so far apart are two points of an index."""
_MAGIC: Final = b"resprout index 1\n"
_FRONT: Final = struct.Struct(">QQQQI")
_POINT: Final = struct.Struct(">QQQ")
_CRC: Final = struct.Struct(">I")


class Index:
    """Of one segment; grows with it."""

    __slots__ = ("base", "end", "first_us", "last_us", "points", "size")

    def __init__(self, base: int, size: int, time_us: int) -> None:
        self.base = base
        self.end = base
        """The position behind its last record."""
        self.size = size
        """Of the segment, in bytes."""
        self.first_us = time_us
        self.last_us = time_us
        """When its last batch was written."""
        self.points: list[tuple[int, int, int]] = []
        """Position, time, byte: of some batches, the first among them."""

    def add(self, first: int, end: int, time_us: int, size: int) -> None:
        """A batch that is appended; `size`: its bytes."""
        if not self.points or self.size - self.points[-1][2] >= POINT_BYTES:
            self.points.append((first, time_us, self.size))
        if end > self.base and self.end == self.base:
            self.first_us = time_us
        self.end = max(self.end, end)
        self.last_us = time_us
        self.size += size

    def copy(self) -> "Index":
        """As it is now, for whoever reads while it grows."""
        index = Index(self.base, self.size, self.first_us)
        index.end, index.last_us, index.points = self.end, self.last_us, self.points.copy()
        return index

    def byte_before(self, position: int, start: int) -> int:
        """Of a batch at or before the one that this record is in; `start`: where the first one begins."""
        place = bisect_right(self.points, position, key=lambda point: point[0])
        return self.points[place - 1][2] if place else start

    def byte_at_time(self, time_us: int, start: int) -> int:
        """Of a batch before which nothing was written at this time or later."""
        place = bisect_right(self.points, time_us - 1, key=lambda point: point[1])
        return self.points[place - 1][2] if place else start


def index_bytes(index: Index) -> bytes:
    points = b"".join(_POINT.pack(*point) for point in index.points)
    content = _FRONT.pack(index.size, index.end, index.first_us, index.last_us, len(index.points)) + points
    return _MAGIC + content + _CRC.pack(zlib.crc32(content))


def read_index(base: int, content: bytes) -> Index | None:
    if not content.startswith(_MAGIC) or len(content) < len(_MAGIC) + _FRONT.size + _CRC.size:
        return None  # looked at first: compiled, a slice that ends before it begins is an error
    body = content[len(_MAGIC) : -_CRC.size]
    if content[-_CRC.size :] != _CRC.pack(zlib.crc32(body)):
        return None
    size, end, first_us, last_us, count = _FRONT.unpack_from(body)
    if len(body) != _FRONT.size + count * _POINT.size:
        return None
    index = Index(base, size, first_us)
    index.end, index.last_us = end, last_us
    index.points = [_POINT.unpack_from(body, _FRONT.size + n * _POINT.size) for n in range(count)]
    return index


def write_index(files: Files, index: Index) -> None:
    name = index_name(index.base)
    files.create(draft_name(name))
    files.append(draft_name(name), index_bytes(index))
    files.rename(draft_name(name), name)


def index_of(files: Files, base: int, names: set[str], follower: int) -> Index:
    """Of a sealed segment, from its file, or made anew; `follower` is the base of the next one. DamagedError when the
    segment is damaged, or ends too early."""
    name = index_name(base)
    size = files.size(segment_name(base))
    index = read_index(base, files.read(name, 0, files.size(name))) if name in names else None
    if index is None or index.size != size:
        index = surveyed_index(files, base, is_sealed=True)
    if index.end != follower:
        raise gap(files, base, size, index.end, follower)
    return index


def surveyed_index(files: Files, base: int, is_sealed: bool) -> Index:
    """From the segment. DamagedError when it was spoiled; what may be torn is left out."""
    name = segment_name(base)
    content = files.read(name, 0, files.size(name))
    head, is_whole = read_head(content)
    found = survey(content, head, is_sealed) if head is not None else None
    if head is None or found is None or found.holes or not is_whole:
        raise damaged(files, base, content, is_sealed)
    index = Index(base, HEAD_BYTES, head.time_us)
    for stretch in found.stretches:
        index.add(stretch.first, stretch.behind, stretch.time_us, stretch.end - stretch.at)
    return index


class JournalReader:
    """Made by `Journal.reader` or `open_reader`. DamagedError when what it comes to was spoiled, DiskError when it
    cannot be read."""

    def __init__(self, files: Files, indexes: Sequence[Index], whole_bytes: int) -> None:
        self._files = files
        self._indexes = tuple(indexes)
        self._whole_bytes = whole_bytes
        """Of the last segment; what lies behind it may be in the middle of being written."""

    @property
    def first(self) -> int:
        return self._indexes[0].base

    @property
    def end(self) -> int:
        """The position behind the last record."""
        return self._indexes[-1].end

    @property
    def indexes(self) -> tuple[Index, ...]:
        return self._indexes

    def read(self, position: int, size: int = PORTION_BYTES) -> list[Kept]:
        """Records from this position on: about so many bytes of them, one at least; none at the end. NotKeptError when
        the position lies before the first."""
        if not self.first <= position <= self.end:
            raise NotKeptError(
                f"{self._files.place_of('')}: position {position} is not kept; there are {self.first} to {self.end}"
            )
        portion: list[Kept] = []
        for batch, records in self._batches(position):
            for place, record in enumerate(records, batch.first):
                if place >= position:
                    portion.append(Kept(place, batch.time_us, record))
                    size -= len(record)
                    if size <= 0:
                        return portion
        return portion

    def all_from(self, position: int) -> Iterator[Kept]:
        while portion := self.read(position):
            yield from portion
            position = portion[-1].position + 1

    def position_at(self, time_us: int) -> int:
        """The first position that was written then or later; the end when there is none."""
        for index in self._indexes:
            if index.last_us >= time_us:
                at = index.byte_at_time(time_us, HEAD_BYTES)
                for batch, _ in self._scan(index, at):
                    if batch.time_us >= time_us and batch.count:
                        return batch.first
        return self.end

    def _batches(self, position: int) -> Iterator[tuple[WrittenBatch, list[bytes]]]:
        for index in self._indexes:
            if index.end > position:
                for batch, records in self._scan(index, index.byte_before(position, HEAD_BYTES)):
                    if batch.end > position:
                        yield batch, records

    def _scan(self, index: Index, at: int) -> Iterator[tuple[WrittenBatch, list[bytes]]]:
        files, name = self._files, segment_name(index.base)
        is_last = index is self._indexes[-1]
        end = self._whole_bytes if is_last else index.size
        try:
            seed = head_of(files, index.base).seed
            while at < end:
                chunk = files.read(name, at, min(CHUNK_BYTES, end - at))
                used = 0
                while (batch := batch_at(chunk, used, seed)) is not None:
                    whole = BATCH_BYTES + batch.size
                    if used + whole > len(chunk):
                        if used:
                            break  # the next chunk begins with it
                        chunk = files.read(name, at, min(whole, end - at))
                    spans = spans_at(chunk, used + BATCH_BYTES, seed, batch)
                    if spans is None:
                        raise damaged(files, index.base, files.read(name, 0, end), is_sealed=True)
                    yield batch, [chunk[begin:stop] for begin, stop in spans]
                    used += whole
                if not used:
                    raise damaged(files, index.base, files.read(name, 0, end), is_sealed=True)
                at += used
        except FileNotFoundError:
            raise NotKeptError(f"{files.place_of(name)} is not kept any more") from None
        except OSError as error:
            raise DiskError(f"{files.place_of(name)}: {error.strerror or error}") from None


def open_reader(files: Files) -> JournalReader:
    """Of a journal that somebody else may be writing to, as it is now. NotKeptError when there is none."""
    try:
        names = files.names()
        bases = bases_of(names)
        if bases and files.size(segment_name(bases[-1])) < HEAD_BYTES:
            bases.pop()  # about to begin
        if not bases:
            raise NotKeptError(f"{files.place_of('')}: no journal is there")
        sealed = [index_of(files, base, set(names), follower) for base, follower in pairwise(bases)]
        last = surveyed_index(files, bases[-1], is_sealed=False)
    except OSError as error:
        raise DiskError(f"{files.place_of('')}: {error.strerror or error}") from None
    return JournalReader(files, (*sealed, last), last.size)
