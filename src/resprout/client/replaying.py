"""A subscription that begins in the past: first what the broker keeps of it, then what comes.

The subscription is confirmed before anything is read, so nothing is missed in between. What is read is handed out in
the order in which the broker's own subscribers were given it, and what comes is given in that order by the same broker.
So when the first that came is here, and the journal was read to its end after that, the journal has everything before
it; from there on what comes is enough, without what was read already. Until something comes, the journal is looked at
now and then: the last of what was under way when the subscription was confirmed may be kept a little later.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from resprout.client.asking import EventsPage, Offset, Start, read_offset
from resprout.client.errors import ClosedError, ReadError
from resprout.client.events import TellGap
from resprout.client.inbox import Batch, Inbox
from resprout.core.bundle import Origin
from resprout.core.errors import UsageError
from resprout.core.message import Message

LOOK_SECONDS_MIN: Final = 0.05
LOOK_SECONDS_MAX: Final = 2.0
"""Between two looks at a journal to whose end everything was read; doubled each time."""

ReadPage = Callable[[Start], Awaitable[EventsPage]]


def read_start(replay_from: Start | str) -> Start:
    """Where to begin: "beginning", an offset, as it is or as text, or a time. UsageError for anything else."""
    if isinstance(replay_from, Offset | datetime):
        if isinstance(replay_from, datetime) and replay_from.tzinfo is None:
            raise UsageError("a time to replay from needs a time zone, such as datetime.UTC")
        return replay_from
    if replay_from in ("beginning", "earliest"):
        return "earliest"
    if "@" in replay_from:
        return read_offset(replay_from)
    try:
        time = datetime.fromisoformat(replay_from)
    except ValueError:
        reason = "'beginning', an offset such as tap.4e3c6f88@41, or a time"
        raise UsageError(f"{replay_from!r} is nothing to replay from: {reason}") from None
    return read_start(time)


def replay_text(start: Start) -> str:
    """As `read_start` reads it."""
    return start.isoformat() if isinstance(start, datetime) else str(start)


class ReplayedPast:
    """What is read, until what comes is enough. `has_come`: something waits; `is_over`: nothing more will come;
    `missing` is told of gaps that are passed over."""

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
        """Of each origin: the last number that was read."""
        self._look_s = LOOK_SECONDS_MIN
        self._reading = asyncio.Lock()

    def is_new(self, message: Message) -> bool:
        """Whether it was not read."""
        return message.seq > self._reached.get((message.publisher, message.stream, message.incarnation), 0)

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
                self._reached[message.publisher, message.stream, message.incarnation] = message.seq
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
    """As an inbox. Raises GapError where events are missing, and ReadError when the past cannot be read to its end: its
    broker was lost, or does not keep it any more. `replaying` is true until everything of the past was handed out."""

    def __init__(
        self,
        taken: Callable[[Batch], None],
        loop: asyncio.AbstractEventLoop,
        start: Start,
        read: ReadPage,
        missing: TellGap,
    ) -> None:
        super().__init__(taken, loop)
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

    def next_now(self) -> Message | None:
        if self._past.messages:
            return self._past.messages.popleft()
        if self.replaying:
            return None
        while (message := super().next_now()) is not None:
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
