"""What a program reads of the past: pages, and offsets to go on from."""

from datetime import datetime
from typing import Final, Literal

import msgspec

from resprout.client.errors import GapError, ReadError
from resprout.core.errors import UsageError, WireError
from resprout.edge.client.reading import messages_of
from resprout.edge.messages import EventGap
from resprout.edge.requests import EventsAnswered, ReadRequest, StoredMessage
from resprout.filters.predicate import parse_predicate

PAGE_BYTES: Final = 256 << 10
_BY_TIME: Final = -1
_LATEST: Final = -2


class Offset(msgspec.Struct, frozen=True, order=True):
    """A place in the journal of one broker."""

    journal: str
    position: int
    life: int = 0
    """Of the broker, for those who tell its lives apart; a position is unique without it."""

    def __str__(self) -> str:
        return f"{self.journal}@{self.position}"


Start = Offset | datetime | Literal["earliest", "latest"]


class EventsPage(msgspec.Struct, frozen=True):
    journal: str
    messages: tuple[StoredMessage, ...]
    next: Offset
    """Where the next page begins."""
    first: int
    """The first position that is kept."""
    end: int
    """The position behind the last."""
    gaps: tuple[EventGap, ...] = ()
    """Those that this page passes over (`allow_gaps`)."""

    @property
    def at_end(self) -> bool:
        """Nothing more was kept when this was read."""
        return self.next.position >= self.end

    def offset_of(self, message: StoredMessage) -> Offset:
        return Offset(self.journal, message.position, message.life)


def read_offset(text: str) -> Offset:
    """As `str` writes it. UsageError for anything else."""
    journal, at, position = text.rpartition("@")
    if not at or not journal or not position.isdecimal():
        raise UsageError(f"{text!r} is no offset: JOURNAL@POSITION, as it is shown beside what was read")
    return Offset(journal, int(position))


def read_request(filter: str, where: str | None, start: Start, size: int, allow_gaps: bool = False) -> ReadRequest:
    parse_predicate(filter, where)
    if size < 1:
        raise UsageError(f"a page of {size} bytes holds nothing")
    if isinstance(start, Offset):
        return ReadRequest(filter, where, start.journal, start.position, 0, size, allow_gaps=allow_gaps)
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise UsageError("a time to read from needs a time zone, such as datetime.UTC")
        return ReadRequest(
            filter, where, "", _BY_TIME, max(0, round(start.timestamp() * 1_000_000)), size, allow_gaps=allow_gaps
        )
    if start == "latest":
        return ReadRequest(filter, where, "", _LATEST, 0, size, allow_gaps=allow_gaps)
    if start == "earliest":
        return ReadRequest(filter, where, "", _BY_TIME, 0, size, allow_gaps=allow_gaps)
    raise UsageError(f"{start!r} is nothing to read from: an Offset, a datetime, 'earliest' or 'latest'")


def page_of(answer: EventsAnswered) -> EventsPage:
    if answer.reason:
        raise GapError(answer.journal, answer.gaps[0]) if answer.gaps else ReadError(answer.reason)
    try:
        messages = tuple(stored for event in answer.events for stored in messages_of(event))
    except WireError as error:
        raise ReadError(f"what the broker gave cannot be read: {error}") from None
    following = Offset(answer.journal, answer.following, answer.life)
    return EventsPage(answer.journal, messages, following, answer.first, answer.end, answer.gaps)
