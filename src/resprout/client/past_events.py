"""Past events: pages of them with offsets to resume from, and subscriptions that begin in the past.

`AskingClient` is the half of the client that asks its broker for pages of events, and to forget brokers.

A subscription that begins in the past (`ReplayingInbox`) hands out first what the broker keeps of it, then what comes.
The subscription is confirmed before anything is read, so nothing is missed in between. Events are read in the order in
which the broker's own subscribers were given them, and the same broker delivers in that order too. So once the first
delivery is here, and the journal was read to its end after that, the journal has everything before it; from there on
deliveries are enough, without what was read already. Until something is delivered, the journal is read again now and
then: events that were in flight when the subscription was confirmed may be kept later.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from resprout.client.arguments import check_count, check_filter_and_where, check_flag, shown, wrong
from resprout.client.errors import ClosedError, ForgetError, GapError, ReadError, TellGap
from resprout.client.inbox import Batch, Inbox
from resprout.client.publisher import Publisher
from resprout.client.requesting import Requester
from resprout.core.bundle import Origin
from resprout.core.contract import Request
from resprout.core.errors import UsageError, WireError
from resprout.core.limits import PARTITIONS
from resprout.core.message import Message
from resprout.core.message_fields import NUMBER_MAX
from resprout.core.partitions import check_log_name, partition_name, split_name
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
from resprout.logs.declaration import LOG_PREFIX
from resprout.net.host import Host

PAGE_BYTES: Final = 256 << 10
_BY_TIME: Final = -1
_LATEST: Final = -2

LOOK_SECONDS_MIN: Final = 0.05
LOOK_SECONDS_MAX: Final = 2.0
"""Between two looks at a journal to whose end everything was read; doubled each time."""


class Offset(msgspec.Struct, frozen=True, order=True):
    """A place in a log, or in the journal of one broker."""

    journal: str
    position: int
    life: int = 0
    """Incarnation of the broker; a position is unique without it."""
    positions: tuple[int, ...] = ()
    """Of a log with several partitions: the offset in each of them. `position` is their sum."""

    def __str__(self) -> str:
        return f"{self.journal}@{','.join(map(str, self.positions or (self.position,)))}"


Start = Offset | datetime | Literal["earliest", "latest"]


class EventsPage(msgspec.Struct, frozen=True):
    """A page of stored events, as `Client.read` returns it."""

    journal: str
    messages: tuple[StoredMessage, ...]
    next: Offset
    """Start of the next page."""
    first: int
    """The first stored position."""
    end: int
    """The position after the last stored one."""
    gaps: tuple[EventGap, ...] = ()
    """Gaps that this page skips (`allow_gaps`)."""

    @property
    def at_end(self) -> bool:
        """Whether the page reaches the last stored event."""
        return self.next.position >= self.end

    def offset_of(self, message: StoredMessage) -> Offset:
        journal = self.journal if not self.next.positions else partition_name(self.journal, message.partition)
        return Offset(journal, message.position, message.life)


def read_offset(text: str, argument: str = "offset") -> Offset:
    """Parse an offset as `str` writes it. UsageError for anything else."""
    journal, at, position = text.rpartition("@")
    numbers = position.split(",")
    if not at or not journal or not all(number.isdecimal() for number in numbers) or len(numbers) > PARTITIONS:
        raise wrong(argument, text, "no offset, which is JOURNAL@POSITION as it is shown beside what was read")
    positions = tuple(map(int, numbers))
    return Offset(journal, sum(positions), positions=positions if len(positions) > 1 else ())


def read_start(start: Start | str, argument: str = "start") -> Start:
    """Return where to begin: "earliest", "latest", an `Offset` or its text, a `datetime` with a time zone, or a time in
    ISO 8601 (UTC when it names no zone). UsageError for anything else, which names the argument.

    `Client.read`, `Client.subscribe`, the command line and the options of Spark all accept these words.
    """
    if start == "earliest":
        return "earliest"
    if start == "latest":
        return "latest"
    if isinstance(start, Offset):
        return start
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise UsageError(f"{argument}={start!r} needs a time zone, such as datetime.UTC")
        return start
    if isinstance(start, str):
        text = start.strip()
        if "@" in text:
            return read_offset(text, argument)
        with contextlib.suppress(ValueError):
            time = datetime.fromisoformat(text)
            return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    raise UsageError(
        f"{argument}={shown(start)} is no position: 'earliest', 'latest', an offset such as 'tap.4e3c6f88@41',"
        " or a time such as '2026-03-01T12:00:00Z'"
    )


def read_request(
    filter: str, where: str | None, start: Start | str, size: int, allow_gaps: bool = False, log: str | None = None
) -> ReadRequest:
    """`log`: the name of a log; None: the journal of the broker, or the one that the offset names."""
    check_filter_and_where(filter, where)
    start = read_start(start)
    journal = f"{LOG_PREFIX}{check_log_name(log)}" if log is not None else ""
    if journal and isinstance(start, Offset) and start.journal != journal:
        raise UsageError(f"start={start} is no offset of the log {log}")
    check_count(size, "size", 1, NUMBER_MAX)
    check_flag(allow_gaps, "allow_gaps")
    if isinstance(start, Offset) and start.positions:  # the answer says how many partitions there are
        return ReadRequest(filter, where, start.journal, _LATEST, 0, size, allow_gaps=allow_gaps)
    if isinstance(start, Offset):
        return ReadRequest(filter, where, start.journal, start.position, 0, size, allow_gaps=allow_gaps)
    if isinstance(start, datetime):
        return ReadRequest(
            filter, where, journal, _BY_TIME, max(0, round(start.timestamp() * 1_000_000)), size, allow_gaps=allow_gaps
        )
    if start == "latest":
        return ReadRequest(filter, where, journal, _LATEST, 0, size, allow_gaps=allow_gaps)
    return ReadRequest(filter, where, journal, _BY_TIME, 0, size, allow_gaps=allow_gaps)


class SeveralPartitionsError(ReadError):
    """The log has several partitions, and each is read by itself."""

    def __init__(self, journal: str, partitions: int, reason: str) -> None:
        super().__init__(reason)
        self.log: Final = journal.removeprefix(LOG_PREFIX)
        self.partitions: Final = partitions


def page_of(answer: EventsAnswered) -> EventsPage:
    if answer.partitions > 1:
        raise SeveralPartitionsError(answer.journal, answer.partitions, answer.reason)
    if answer.reason:
        raise GapError(answer.journal, answer.gaps[0]) if answer.gaps else ReadError(answer.reason)
    try:
        in_log = answer.journal.startswith(LOG_PREFIX)
        partition = split_name(answer.journal)[1] or 0
        messages = tuple(stored for event in answer.events for stored in messages_of(event, in_log, partition))
    except WireError as error:
        raise ReadError(f"what the broker gave cannot be read: {error}") from None
    following = Offset(answer.journal, answer.following, answer.life)
    return EventsPage(answer.journal, messages, following, answer.first, answer.end, answer.gaps)


Answered = ForgetAnswered | EventsAnswered | AudienceAnswered | Refused


class AskingClient(Publisher):
    _requester: Requester

    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        super().__init__(machine, host, copies)
        self._forgetting: dict[int, asyncio.Future[str]] = {}
        """Requests that are not answered yet, by token; the answer is a reason why not, or empty."""
        self._reading: dict[int, asyncio.Future[EventsAnswered]] = {}
        """Unanswered requests to read events, by token."""
        self._tokens = itertools.count(1)

    # -- the past ------------------------------------------------------------------------------------------------------

    async def read_events(self, request: ReadRequest) -> EventsAnswered:
        """Return a page as the broker sends it: bundles, and a reason where `read` raises ReadError. For programs that
        make columns of many messages."""
        if not isinstance(request, ReadRequest):
            raise wrong("request", request, "a ReadRequest; client.read() makes one from its arguments")
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[EventsAnswered] = self._loop.create_future()
        self._reading[token] = answered
        self._host.handle(Request(request, token))
        try:
            return await answered
        finally:
            self._reading.pop(token, None)

    async def _read_whole(self, filter: str, where: str | None, start: Start, allow_gaps: bool) -> EventsPage:
        """A page of the past; ReadError unless everything that matches is kept."""
        request = read_request(filter, where, start, PAGE_BYTES, allow_gaps)
        return page_of(await self.read_events(msgspec.structs.replace(request, whole=True)))

    # -- operating -----------------------------------------------------------------------------------------------------

    async def forget(self, *names: str, force: bool = False) -> None:
        """Tell the network that brokers it waits for will never return: a part that is cut off for good, or a silent
        host in a tree too small for a majority. Returns when that was passed on; the repair follows.

        Every client may do this, unless rules name the operators. The network does not check it: if the forgotten
        brokers still work, there are two networks until they hear each other again. The forgotten brokers then join as
        new ones, and messages that only they had are lost.

        Raises ForgetError, and nothing was done, when the broker refuses: it does not know a name, hears that broker
        itself (unless `force`, for one that hangs), or is named itself. Raises UsageError for what no broker can be
        called.
        """
        request = ForgetRequest(check_names(names), check_flag(force, "force"))
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

    def _answered(self, token: int, news: Answered) -> None:
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


ReadPage = Callable[[Start], Awaitable[EventsPage]]


def replay_text(start: Start) -> str:
    """Return the text that `read_start` parses."""
    return start.isoformat() if isinstance(start, datetime) else str(start)


class ReplayedPast:
    """Past events, which are read until the deliveries continue them. `has_come` returns whether a delivery waits,
    `is_over` whether none will come any more; `missing` is told of skipped gaps."""

    def __init__(
        self,
        start: Start,
        read: ReadPage,
        missing: TellGap,
        has_come: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        self.messages: deque[Message] = deque()
        self.came = asyncio.Event()
        """Set when something comes, or nothing more will."""
        self._start = start
        self._read = read
        self._missing = missing
        self._has_come = has_come
        self._is_over = is_over
        self._reached: dict[Origin, int] = {}
        """By origin: the last number that was read."""
        self._look_s = LOOK_SECONDS_MIN
        self._reading = asyncio.Lock()

    def is_new(self, message: Message) -> bool:
        """Whether it was not read."""
        return message.seq > self._reached.get((message.publisher, message.stream, message.epoch), 0)

    async def next(self) -> Message | None:
        """None when what comes is enough from now on."""
        async with self._reading:
            while not self.messages:
                has_come = self._has_come()
                if self._is_over() and not has_come:
                    return None  # what is left to be said says it
                at_end = await self.read_page()
                if self.messages:
                    break
                if at_end and has_come:
                    return None
                if at_end:
                    await self._look_again()
            return self.messages.popleft()

    async def read_page(self) -> bool:
        """Whether it was the last. ReadError when it cannot be read."""
        try:
            page = await self._read(self._start)
        except ClosedError as error:
            raise ReadError(str(error)) from None
        self._start = page.next
        for gap in page.gaps:
            self._missing(page.journal, gap)
        if page.gaps:
            await asyncio.sleep(0)  # the program is told before it is handed what follows
        for stored in page.messages:
            message = stored.message
            if self.is_new(message):
                self._reached[message.publisher, message.stream, message.epoch] = message.seq
                self.messages.append(message)
                self._look_s = LOOK_SECONDS_MIN
        return page.at_end

    async def _look_again(self) -> None:
        self.came.clear()
        if self._has_come() or self._is_over():
            return
        try:
            async with asyncio.timeout(self._look_s):
                await self.came.wait()
        except TimeoutError:
            self._look_s = min(2 * self._look_s, LOOK_SECONDS_MAX)


class ReplayingInbox(Inbox):
    """An inbox that begins with past events. Raises GapError where events are missing, and ReadError when past events
    cannot be read to their end: the broker was lost, or has deleted them. `replaying` is true until all past events
    were handed out."""

    def __init__(
        self,
        taken: Callable[[Batch], None],
        loop: asyncio.AbstractEventLoop,
        unsubscribe: Callable[[Inbox], Awaitable[None]],
        start: Start,
        read: ReadPage,
        missing: TellGap,
    ) -> None:
        super().__init__(taken, loop, unsubscribe)
        self.replaying = True
        self._past = ReplayedPast(start, read, missing, lambda: bool(self._batches), lambda: self._over)

    async def open(self) -> None:
        """The first page. ReadError when nothing of the kind is kept."""
        await self._past.read_page()

    # -- for the user --------------------------------------------------------------------------------------------------

    async def _each(self) -> AsyncIterator[Message]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    async def __anext__(self) -> Message:
        while self.replaying:
            if (message := await self._past.next()) is not None:
                return message
            self.replaying = False
        while True:
            message = await super().__anext__()
            if self._past.is_new(message):
                return message

    def next_nowait(self) -> Message | None:
        if self._past.messages:
            return self._past.messages.popleft()
        if self.replaying:
            return None
        while (message := super().next_nowait()) is not None:
            if self._past.is_new(message):
                return message
        return None

    async def batches(self) -> AsyncIterator[Sequence[Message]]:
        while self.replaying:
            if (message := await self._past.next()) is None:
                self.replaying = False
            else:
                past = [message, *self._past.messages]
                self._past.messages.clear()
                yield past
        async for batch in super().batches():
            if new := [message for message in batch if self._past.is_new(message)]:
                yield new

    def __len__(self) -> int:
        return len(self._past.messages) + (0 if self.replaying else super().__len__())

    # -- for the client ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch, messages: Sequence[Message]) -> None:
        super().put(batch, messages)
        self._past.came.set()

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        super().end(failure, error)
        self._past.came.set()
