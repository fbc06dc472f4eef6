"""How other packages use a journal: its options, its records, and what a machine asks of its journals.

A broker with a journal of events keeps the events that it was given, for readers. Its machine writes with
`RecordEvent` and reads with `FetchEvents`; the driver answers with `EventsFetched`.

A *store* is a journal with a name of its own, for the replica of a log. The machine opens it with `OpenStore`, and is
given what it holds with `StoreOpened`. Then it appends (`StoreRecord`), forgets the oldest (`StoreForget`), begins at
another position (`ResetStore`) and reads (`FetchStore`, answered by `StoreFetched`).
"""

import enum
from collections.abc import Sequence
from typing import Annotated

import msgspec

from resprout.core.contract import Effect, Event


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


class StoreRecord(Effect):
    """Append a record to a store. A barrier like `Persist`."""

    store: str
    record: bytes


class StoreForget(Effect):
    """Records of this store before the latest `count` are no longer needed. All other stores are on the disk before
    that."""

    store: str
    count: int


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
