"""What a machine asks of the journal of events, in which a broker keeps what it was given, for readers."""

from collections.abc import Sequence

import msgspec

from resprout.core.contract import Effect, Event


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
