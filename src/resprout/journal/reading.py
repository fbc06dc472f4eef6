"""Reads a journal from a position or a time on, in portions, while it may be written."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from resprout.core.event_journal import Kept
from resprout.journal.damage import damaged
from resprout.journal.errors import DiskError, NotKeptError
from resprout.journal.files import Files
from resprout.journal.format import BATCH_BYTES, HEAD_BYTES, WrittenBatch, batch_at, spans_at
from resprout.journal.index import Index, index_of, surveyed_index
from resprout.journal.segments import bases_of, head_of, segment_name

CHUNK_BYTES: Final = 256 << 10
"""Read at once, unless a batch is larger."""
PORTION_BYTES: Final = 1 << 20


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
