"""How other packages use a journal: options, records, files, and what a machine asks of its journals.

A broker with a journal of events keeps the events that it was given, for readers. Its machine writes with
`RecordEvent` and reads with `FetchEvents`; the driver answers with `EventsFetched`.

A *store* is a journal with a name of its own, for the replica of a log. The machine opens it with `OpenStore`, and is
given what it holds with `StoreOpened`. Then it appends (`StoreRecord`), forgets the oldest (`StoreForget`), begins at
another position (`ResetStore`), gives up what is retained (`StoreTrim`) and reads (`FetchStore`, answered by
`StoreFetched`).

A journal is a folder of files that are only appended to. A segment is named by its first position; its index stands
beside it once the segment is sealed. Each driver has its own `Files`: `net.disk` real files, `sim.disk` virtual ones,
which lose at a crash what was not synced. Every method may raise OSError. Appended bytes are durable after `sync`,
created, removed and renamed files after `sync_names`.

The errors say what is wrong with a journal. `damaged` and `gap` describe for people where it is damaged: the file, the
byte, the position, and how much around it is intact.
"""

import enum
import errno
from collections.abc import Sequence
from typing import Annotated, Final, Protocol

import msgspec

from resprout.core.contract import Effect, Event
from resprout.core.errors import ResproutError, UsageError
from resprout.journal.format import HEAD_BYTES, MAGIC, Hole, SegmentHead, read_head, survey


class Flush(enum.StrEnum):
    """When what was written is brought to the disk. Whatever is chosen, nothing leaves the node before the system has
    it: the end of the process alone takes nothing back."""

    ALWAYS = "always"
    """Before anything that relies on it leaves the node. It survives the loss of power."""
    INTERVAL = "interval"
    """Within `flush_interval_us`. The loss of power takes back so much at most."""
    NEVER = "never"
    """When the system thinks fit, and when a segment is full."""


class WhenDiskFull(enum.StrEnum):
    """What a broker does when there is no room for what it writes."""

    HOLD = "hold"
    """It takes no more publications until there is room. Nothing is missing."""
    GAP = "gap"
    """It goes on without writing. The gap is told, and everything from its end on is kept again."""


class JournalOptions(msgspec.Struct, frozen=True):
    flush: Flush = Flush.ALWAYS
    flush_interval_us: Annotated[int, msgspec.Meta(ge=1_000, le=60_000_000)] = 100_000
    """How long what was written may be in memory only, with `flush = "interval"`."""
    segment_bytes: Annotated[int, msgspec.Meta(ge=4_096, le=1 << 31)] = 16 << 20
    """A segment that has so many is sealed, and the next one begins. What is not needed any more goes segment by
    segment."""
    retain_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Segments that nobody needs are kept while the journal is no larger than this."""
    retain_us: Annotated[int, msgspec.Meta(ge=0)] = 0
    """And while their last record is no older than this; 0: whatever its age."""
    min_free_bytes: Annotated[int, msgspec.Meta(ge=0)] = 64 << 20
    """With less room than this on the disk it counts as full. The rest is for what a broker must write while it holds
    publishers: what they had sent by then (a window each), and a repair. 0: full is what the system calls full."""
    warn_free_bytes: Annotated[int, msgspec.Meta(ge=0)] = 512 << 20
    """With less room than this the operator is told. 0: never."""
    when_disk_full: WhenDiskFull = WhenDiskFull.HOLD
    """Records of the broker itself are always held for."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A record, as a journal keeps it."""

    position: int
    time_us: int
    """When it was written, in microseconds since 1970."""
    record: bytes


class RecordEvent(Effect):
    """An event for the journal of events. A barrier like `Persist`; the driver gives it a position, and keeps it for as
    long as it is told to."""

    event: bytes
    is_mark: bool = False
    """It says what the journal covers, and is no event."""


class FetchEvents(Effect):
    """Read the journal of events, about so many bytes; `EventsFetched` answers."""

    token: int
    position: int
    """From here on; -1: from a time on."""
    time_us: int
    size: int


class EventsFetched(Event):
    """What a `FetchEvents` has found."""

    token: int
    events: Sequence[Kept]
    """While events are being left out, the last one may be a mark that is not written yet; its time is 0."""
    first: int
    """The first position that is kept, and the one behind the last."""
    end: int
    reason: str = ""
    """Why nothing could be read."""


class OpenStore(Effect):
    """Open a store, or begin it; `StoreOpened` answers."""

    store: str
    options: JournalOptions
    is_read: bool
    """Whether the answer brings the records that are not forgotten."""


class StoreOpened(Event):
    """A store can be used."""

    store: str
    records: Sequence[bytes]
    """Those that are not forgotten, oldest first, if they were asked for."""
    first: int
    """The first position that is kept, and the one behind the last."""
    end: int
    reason: str = ""
    """Why it cannot be used."""
    warning: str = ""
    """One line for people when a torn write was cut off."""


class StoreRecord(Effect):
    """Append a record to a store. A barrier like `Persist`."""

    store: str
    record: bytes


class StoreForget(Effect):
    """Records of this store before the latest `count` are no longer needed. All other stores are on the disk before
    that."""

    store: str
    count: int


class StoreTrim(Effect):
    """Remove the segments of a store that end before this position, whatever is to be retained. All stores are on the
    disk before that."""

    store: str
    position: int


class ResetStore(Effect):
    """Drop everything in a store; its next record gets this position."""

    store: str
    position: int


class FetchStore(Effect):
    """Read a store, about so many bytes; `StoreFetched` answers."""

    token: int
    store: str
    position: int
    """From here on."""
    size: int


class StoreFetched(Event):
    """What a `FetchStore` has found."""

    token: int
    records: Sequence[Kept]
    first: int
    """The first position that is kept, and the one behind the last."""
    end: int
    reason: str = ""
    """Why nothing could be read."""


FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, a quota, or the largest file that a process may write: what an operator can give more of."""

SUFFIX: Final = ".journal"
_INDEX: Final = ".index"
_DRAFT: Final = ".new"
_DIGITS: Final = 20


class DiskError(ResproutError):
    """What had to be kept could not be written, or not be read.

    `number` is the errno of the system, 0 if there is none. `is_written`: the records are in the file and have their
    positions, but could not be synced: call `Journal.sync` until it succeeds, and do not append them again.
    """

    def __init__(self, reason: str, number: int = 0, is_written: bool = False) -> None:
        super().__init__(reason)
        self.number = number
        self.is_written = is_written

    @property
    def is_full(self) -> bool:
        """There is no room. Trying again helps as soon as there is."""
        return self.number in FULL

    @property
    def is_passing(self) -> bool:
        """Trying again may help."""
        return self.is_full or self.number == errno.EIO


class DamagedError(UsageError):
    """A journal is not what was written, and not because a write was torn."""


class NotKeptError(UsageError):
    """The position lies before everything that the journal keeps, or behind its end."""


class Files(Protocol):
    def names(self) -> list[str]:
        """In any order."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, at: int, count: int) -> bytes:
        """Fewer bytes only where the file ends."""
        ...

    def create(self, name: str) -> None:
        """Empty, whatever was there before."""
        ...

    def append(self, name: str, content: bytes) -> None: ...

    def truncate(self, name: str, size: int) -> None:
        """Durable with the next `sync`."""
        ...

    def sync(self, name: str) -> None: ...

    def sync_names(self) -> None: ...

    def rename(self, name: str, to: str) -> None:
        """Replaces what is there under the other name."""
        ...

    def link(self, name: str, to: str) -> None:
        """A second name for a file. FileExistsError when there is a file of that name."""
        ...

    def remove(self, name: str) -> None:
        """Nothing where there is none."""
        ...

    def place_of(self, name: str) -> str:
        """What people call it."""
        ...


def segment_name(base: int) -> str:
    return f"{base:0{_DIGITS}}{SUFFIX}"


def index_name(base: int) -> str:
    return f"{base:0{_DIGITS}}{_INDEX}"


def draft_name(name: str) -> str:
    """Not a part of the journal until it is renamed."""
    return name + _DRAFT


def bases_of(names: list[str]) -> list[int]:
    """Of the segments among these files, oldest first."""
    return sorted(int(name[:_DIGITS]) for name in names if _is_of(name, SUFFIX))


def leftovers(names: list[str]) -> list[str]:
    """Drafts, and indexes without a segment: what a crash may leave."""
    bases = set(bases_of(names))
    return [
        name
        for name in names
        if name.endswith((SUFFIX + _DRAFT, _INDEX + _DRAFT))
        or (_is_of(name, _INDEX) and int(name[:_DIGITS]) not in bases)
    ]


def _is_of(name: str, suffix: str) -> bool:
    return len(name) == _DIGITS + len(suffix) and name.endswith(suffix) and name[:_DIGITS].isdecimal()


def head_of(files: Files, base: int) -> SegmentHead:
    """DamagedError when the head of this segment is not whole: what stands in a copy of it may be a hole, too."""
    name = segment_name(base)
    head, is_whole = read_head(files.read(name, 0, HEAD_BYTES))
    if head is None or not is_whole or head.base != base:
        raise DamagedError(f"{files.place_of(name)}: damaged at byte 0, its head, before position {base}")
    return head


def damaged(files: Files, base: int, content: bytes, is_sealed: bool) -> DamagedError:
    """What to say of a segment that was spoiled, or is none."""
    place = files.place_of(segment_name(base))
    head, is_whole = read_head(content)
    if head is None:
        if content.startswith(MAGIC[:-2]):
            return DamagedError(f"{place}: damaged at byte {len(MAGIC)}, its head; nothing of it can be read")
        return DamagedError(f"{place} is no segment of a journal of this version")
    found = survey(content, head, is_sealed)
    holes = found.holes if is_whole else [Hole(0, HEAD_BYTES, head.base), *found.holes]
    before = sum(record.begin < holes[0].at for record in found.records)
    size = sum(hole.end - hole.at for hole in holes)
    many = "" if len(holes) == 1 else f", the first of {len(holes)} places"
    return DamagedError(
        f"{place}: damaged at byte {holes[0].at}, position {holes[0].position}{many} ({size} bytes); of its records,"
        f" {before} before and {len(found.records) - before} behind are intact"
    )


def gap(files: Files, base: int, size: int, end: int, follower: int) -> DamagedError:
    """A sealed segment ends before the next one begins."""
    place = files.place_of(segment_name(base))
    return DamagedError(
        f"{place}: ends at byte {size}, position {end}, and the next segment begins at position {follower}: what lies"
        " between them is missing"
    )
