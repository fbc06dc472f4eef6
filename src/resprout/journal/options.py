"""What can be set about a journal."""

import enum
from typing import Annotated

import msgspec


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
