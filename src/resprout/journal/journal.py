"""Records that survive the process: appended in batches, each with a position, in segments that are dropped as a whole.

`append` returns when the batch is as safe as the flush policy says. A crash in the middle of it leaves a tail that is
not whole: the next `open_journal` cuts it off and says so. What was whole once and is not any more is never cut off,
but refused, with the place (`files.damaged`).

After a write error the journal goes on from its last whole record: the next call cuts off what the failed write left,
and tries again. After a failed sync the system may have dropped what it had not written, so the next `sync` writes
everything since the last good one again (as PostgreSQL learnt in 2018: a second fsync alone proves nothing).

A segment is dropped when nothing in it is needed, and it is too much or too old to be retained. Needed records are kept
in any case: everything from `floor` on, and what `hold` was told of.

`Records` keeps what a machine persists and forgets in a journal: the records from its floor on are those that it would
be given after a crash.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from resprout.core.contract import Forget, Persist
from resprout.journal.format import HEAD_BYTES, SegmentHead, batch_bytes, head_bytes, read_head, survey
from resprout.journal.interface import (
    DiskError,
    Files,
    Flush,
    JournalOptions,
    bases_of,
    damaged,
    index_name,
    leftovers,
    segment_name,
)
from resprout.journal.reading import Index, JournalReader, index_of, write_index


class Journal:
    """Made by `open_journal`. Used by one thread at a time, but for `reader`."""

    def __init__(
        self, files: Files, options: JournalOptions, draw: Callable[[], int], sealed: Sequence[Index], warning: str = ""
    ) -> None:
        self.options = options
        self.warning = warning
        """One line for people when a torn write was cut off, otherwise nothing."""
        self.floor = 0
        """The first position that its owner needs."""
        self._files = files
        self._draw = draw
        self._sealed = deque(sealed)
        self._active = Index(0, 0, 0)
        self._seed = 0
        self._synced = 0
        """Of the active segment, so many bytes are on the disk."""
        self._holds: dict[str, int] = {}
        self._is_torn = False
        """A write failed, and what it left stands behind the last whole record."""
        self._unsynced: bytes | None = None
        """What a failed sync may have lost, to be written again behind `_synced`."""

    @property
    def first(self) -> int:
        """The first position that is kept."""
        return self._sealed[0].base if self._sealed else self._active.base

    @property
    def next(self) -> int:
        """The position that the next record will have."""
        return self._active.end

    @property
    def last_us(self) -> int:
        """When the last record was written; 0 when there is none."""
        return next((each.last_us for each in (self._active, *reversed(self._sealed)) if each.end > each.base), 0)

    @property
    def size(self) -> int:
        """Of all segments, in bytes."""
        return sum(index.size for index in self._sealed) + self._active.size

    @property
    def is_synced(self) -> bool:
        return self._synced == self._active.size

    def append(self, records: Sequence[bytes], time_us: int, floor: int = 0) -> int:
        """Together; the position of the first. From `floor` on everything is needed: a lower one than before is none.
        DiskError when they cannot be kept; see there whether they have their positions all the same."""
        try:
            self._mend()
            if not records:  # forgetting may make the room that the note of it needs
                self.floor = max(self.floor, floor)
                self._drop(time_us)
            if self._active.size >= self.options.segment_bytes:
                self._roll(time_us)
            first = self.next
            self.floor = max(self.floor, floor)
            self._write(records, time_us)
        except OSError as error:
            raise self._failed(error) from None
        if self.options.flush is Flush.ALWAYS and records:  # what is only forgotten may come back
            self.sync()
        self._drop(time_us)
        return first

    def sync(self) -> None:
        """Everything appended so far is on the disk when it returns. DiskError when it cannot be."""
        try:
            self._mend()
            self._sync()
        except OSError as error:
            raise self._failed(error, is_written=True) from None

    def hold(self, who: str, position: int | None) -> None:
        """Somebody else needs everything from this position on; None: nothing any more."""
        if position is None:
            self._holds.pop(who, None)
        else:
            self._holds[who] = position

    def drop(self, time_us: int) -> None:
        """What need not be retained at this time. It happens with every `append`, too."""
        self._drop(time_us)

    def trim(self, position: int) -> None:
        """Remove the segments that end before this position, whatever is to be retained."""
        while self._sealed and self._sealed[0].end <= position and self._remove_first():
            pass

    def reader(self) -> JournalReader:
        """Of what is here now; it goes on when more is appended, and may be used by another thread."""
        active = self._active.copy()
        return JournalReader(self._files, (*self._sealed, active), active.size)

    # -- files ---------------------------------------------------------------------------------------------------------

    def _failed(self, error: OSError, is_written: bool = False) -> DiskError:
        place = self._files.place_of(segment_name(self._active.base))
        return DiskError(f"{place}: {error.strerror or error}", error.errno or 0, is_written)

    def _mend(self) -> None:
        """Bring the active segment back to its last whole record, if an error has left more, or less, of it."""
        name = segment_name(self._active.base)
        if self._unsynced is not None:
            self._files.truncate(name, self._synced)
            self._files.append(name, self._unsynced)
            self._unsynced = None
        elif self._is_torn:
            self._files.truncate(name, self._active.size)
        self._is_torn = False

    def _write(self, records: Sequence[bytes], time_us: int) -> None:
        active = self._active
        time_us = max(time_us, active.last_us)  # clocks of machines go back; times of a journal do not
        content = batch_bytes(self._seed, active.end, records, time_us, self.floor, self._synced)
        self._is_torn = True
        self._files.append(segment_name(active.base), content)
        self._is_torn = False
        active.add(active.end, active.end + len(records), time_us, len(content))

    def _sync(self) -> None:
        if self.is_synced:
            return
        name = segment_name(self._active.base)
        try:
            self._files.sync(name)
        except OSError:
            self._unsynced = self._files.read(name, self._synced, self._active.size - self._synced)
            raise
        self._synced = self._active.size

    def _roll(self, time_us: int) -> None:
        """A sealed segment is on the disk whatever the policy: only the last one can be torn."""
        self._sync()
        write_index(self._files, self._active)
        sealed = self._active
        self.begin_segment(sealed.end, max(time_us, sealed.last_us))
        self._sealed.append(sealed)

    def begin_segment(self, base: int, time_us: int) -> None:
        head = SegmentHead(self._draw(), base, self.floor, time_us)
        name = segment_name(base)
        self._files.create(name)
        self._files.append(name, head_bytes(head))
        self._files.sync(name)
        self._files.sync_names()
        self._take(head, Index(base, HEAD_BYTES, time_us))

    def go_on_with(self, base: int, is_sealed: bool) -> None:
        """The last segment, as it is found. DamagedError when it was spoiled."""
        files, name = self._files, segment_name(base)
        content = files.read(name, 0, files.size(name))
        head, _ = read_head(content)
        found = survey(content, head, is_sealed) if head is not None else None
        if head is None or found is None or found.holes or not read_head(content)[1]:
            raise damaged(files, base, content, is_sealed)
        torn = len(content) - found.end
        if torn:
            files.truncate(name, found.end)
            self.warning = (
                f"{files.place_of(name)}: a write was torn by a crash; its {torn} bytes, from {found.end} on, at"
                f" position {found.next_position}, were cut off"
            )
        files.sync(name)
        index = Index(base, HEAD_BYTES, head.time_us)
        for stretch in found.stretches:
            index.add(stretch.first, stretch.behind, stretch.time_us, stretch.end - stretch.at)
        self._take(head, index)
        self.floor = max(found.floor, self.first)  # what was forgotten last need not be on the disk, but is gone

    def _take(self, head: SegmentHead, index: Index) -> None:
        self._seed = head.seed
        self._active = index
        self._synced = index.size

    def _drop(self, time_us: int) -> None:
        """The oldest first: whatever a crash leaves has no gaps."""
        needed = min((self.floor, *self._holds.values()))
        size = self.size
        while self._sealed and self._sealed[0].end <= needed and self._is_too_much(self._sealed[0], size, time_us):
            size -= self._sealed[0].size
            if not self._remove_first():
                return

    def _remove_first(self) -> bool:
        """Remove the oldest segment. Returns whether that was possible."""
        gone = self._sealed[0]
        try:
            self._files.remove(segment_name(gone.base))
            self._files.remove(index_name(gone.base))
        except OSError:  # it takes room until the next attempt
            return False
        self._sealed.popleft()
        return True

    def _is_too_much(self, segment: Index, size: int, time_us: int) -> bool:
        options = self.options
        is_old = options.retain_us > 0 and segment.last_us < time_us - options.retain_us
        return size > options.retain_bytes or is_old


def open_journal(files: Files, options: JournalOptions, draw: Callable[[], int], time_us: int) -> Journal:
    """The journal in these files, begun when there is none. `draw` gives 32 random bits.

    DamagedError when something was spoiled in what is needed or in the last segment; DiskError when it cannot be read
    or written.
    """
    try:
        names = files.names()
        for name in leftovers(names):
            files.remove(name)
        bases = bases_of(names)
        is_sealed = False
        if bases and _is_stillborn(files, bases[-1]) and len(bases) > 1:
            files.remove(segment_name(bases.pop()))
            is_sealed = True
        sealed = [index_of(files, base, set(names), follower) for base, follower in pairwise(bases)]
        journal = Journal(files, options, draw, sealed)
        if not bases or _is_stillborn(files, bases[-1]):
            journal.begin_segment(bases[-1] if bases else 0, time_us)
        else:
            journal.go_on_with(bases[-1], is_sealed)
    except OSError as error:
        raise DiskError(f"{files.place_of('')}: {error.strerror or error}", error.errno or 0) from None
    return journal


def begin_journal(
    files: Files, options: JournalOptions, draw: Callable[[], int], position: int, time_us: int
) -> Journal:
    """An empty journal whose first record gets this position. Whatever these files hold is removed. DiskError when they
    cannot be written."""
    try:
        for name in sorted(files.names()):
            files.remove(name)
        journal = Journal(files, options, draw, ())
        journal.floor = position
        journal.begin_segment(position, time_us)
    except OSError as error:
        raise DiskError(f"{files.place_of('')}: {error.strerror or error}", error.errno or 0) from None
    return journal


def _is_stillborn(files: Files, base: int) -> bool:
    """A segment without batches whose head is not whole: its maker did not come far."""
    name = segment_name(base)
    return files.size(name) <= HEAD_BYTES and not read_head(files.read(name, 0, HEAD_BYTES))[1]


class Records:
    """DamagedError when what is needed was spoiled, DiskError when it cannot be read."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._needed = deque(kept.position for kept in journal.reader().all_from(journal.floor))
        """Positions of the records that are not forgotten. There may be gaps where a damaged journal was mended."""

    def __len__(self) -> int:
        return len(self._needed)

    def read(self) -> list[bytes]:
        """The records that are not forgotten, oldest first."""
        journal = self.journal
        return [kept.record for kept in journal.reader().all_from(journal.floor)]

    def apply(self, changes: Sequence[Persist | Forget], time_us: int) -> None:
        """In this order, and together: all of it is kept, or DiskError is raised and nothing has changed (unless it is
        written, see there)."""
        position = self.journal.next
        records = [change.record for change in changes if isinstance(change, Persist)]
        floor = self._floor_after(changes, position)
        try:
            self.journal.append(records, time_us, floor)
        except DiskError as error:
            if error.is_written:
                self._take(position, len(records), floor)
            raise
        self._take(position, len(records), floor)

    def _floor_after(self, changes: Sequence[Persist | Forget], position: int) -> int:
        """The first position that is needed when these are done; `position` is the one of the first record."""
        last = position
        left = len(self._needed)
        """Records that are not forgotten, of those before and those among the changes."""
        for change in changes:
            if isinstance(change, Persist):
                last += 1
                left += 1
            else:
                left = min(left, max(0, change.count))
        behind = last - position
        return last - left if left <= behind else self._needed[len(self._needed) - (left - behind)]

    def _take(self, position: int, count: int, floor: int) -> None:
        self._needed.extend(range(position, position + count))
        while self._needed and self._needed[0] < floor:
            self._needed.popleft()
