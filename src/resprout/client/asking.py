"""What a client asks of its broker: pages of past events with offsets to go on from, and that brokers are forgotten."""

import asyncio
import itertools
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from resprout.client.errors import ClosedError, ForgetError, GapError, ReadError
from resprout.client.publisher import Publisher
from resprout.client.requesting import Requester
from resprout.core.contract import Request
from resprout.core.errors import UsageError, WireError
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.questions import check_names, messages_of
from resprout.edge.messages import EventGap
from resprout.edge.requests import (
    AudienceAnswered,
    EventsAnswered,
    ForgetAnswered,
    ForgetRequest,
    ReadRequest,
    Refused,
    StoredMessage,
)
from resprout.filters.predicate import parse_predicate
from resprout.net.host import Host

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


class AskingClient(Publisher):
    _requester: Requester

    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        super().__init__(machine, host, copies)
        self._forgetting: dict[int, asyncio.Future[str]] = {}
        """Requests that are not answered yet, by token; the answer is a reason why not, or empty."""
        self._reading: dict[int, asyncio.Future[EventsAnswered]] = {}
        """The same of what is read."""
        self._tokens = itertools.count(1)

    # -- the past ------------------------------------------------------------------------------------------------------

    async def read(
        self,
        filter: str,
        where: str | None = None,
        *,
        start: Start = "earliest",
        size: int = PAGE_BYTES,
        allow_gaps: bool = False,
    ) -> EventsPage:
        """A page of what the broker that serves this client keeps of the past, where it keeps any (`keep`).

        `start` is an offset, of a message or of the page before (`page.next`), or a time. An offset belongs to the
        journal of one broker: it stays valid for as long as that keeps it, and means nothing to another one. A page
        holds about `size` bytes of what is kept, and perhaps no message of it matches: go on until `page.at_end`.

        Raises GapError when events are missing at `start`, because the broker was down or its disk full: a page ends
        before a gap. With `allow_gaps` pages go on behind it, and `page.gaps` names what is missing. Raises ReadError
        when the broker keeps no events, or not that position; UsageError for a filter or condition that is none.
        """
        return page_of(await self.read_events(read_request(filter, where, start, size, allow_gaps)))

    async def read_events(self, request: ReadRequest) -> EventsAnswered:
        """The same as the broker gives it: bundles, and a reason where `read` raises ReadError. For those who make
        columns of many messages."""
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[EventsAnswered] = self._loop.create_future()
        self._reading[token] = answered
        self._host.handle(Request(request, token))
        try:
            return await answered
        finally:
            self._reading.pop(token, None)

    # -- operating -----------------------------------------------------------------------------------------------------

    async def forget(self, *names: str, force: bool = False) -> None:
        """Tell the network that brokers it waits for will never return: a part that is cut off for good, or a silent
        host in a tree too small for a majority. Returns when that was passed on; the repair follows.

        Every client may do this, unless rules say who is an operator. Nor does anybody check it: where brokers are
        forgotten that still work, together and with clients of their own, there are two networks until they hear each
        other again. The forgotten ones then join as new brokers, and what only they knew is lost.

        Raises ForgetError, and nothing was done, when the broker refuses: it does not know a name, hears that broker
        itself (unless `force`, for one that hangs), or is named itself. Raises UsageError for what no broker can be
        called.
        """
        request = ForgetRequest(check_names(names), force)
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[str] = self._loop.create_future()
        self._forgetting[token] = answered
        self._host.handle(Request(request, token))
        try:
            if reason := await answered:
                raise ForgetError(reason)
        finally:
            self._forgetting.pop(token, None)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(self._closed)

    def _answered(self, token: int, news: ForgetAnswered | EventsAnswered | AudienceAnswered | Refused) -> None:
        if isinstance(news, AudienceAnswered):
            self._requester.answered(token, news.anybody)
            return
        read = self._reading.get(token)
        if read is not None and not read.done():
            read.set_result(news if isinstance(news, EventsAnswered) else EventsAnswered(reason=news.reason))
        answered = self._forgetting.get(token)
        if answered is not None and not answered.done():
            answered.set_result(news.reason)

    def _answer_nothing(self, reason: str) -> None:
        """The client is closed, or its session is over."""
        waits: list[asyncio.Future[Any]] = [*self._forgetting.values(), *self._reading.values()]
        for answered in waits:
            if not answered.done():
                answered.set_exception(ClosedError(reason))
