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
