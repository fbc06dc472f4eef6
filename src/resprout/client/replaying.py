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

from resprout.client.errors import ClosedError, ReadError
from resprout.client.inbox import Batch, Inbox
from resprout.client.past import EventsPage, Offset, Start, read_offset
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


class ReplayingInbox(Inbox):
    """As an inbox. Raises ReadError when the past cannot be read to its end: its broker was lost, or does not keep it
    any more. `replaying` is true until everything of the past was handed out."""

    def __init__(
        self, taken: Callable[[Batch], None], loop: asyncio.AbstractEventLoop, start: Start, read: ReadPage
    ) -> None:
        super().__init__(taken, loop)
        self.replaying = True
        self._start = start
        self._read = read
        self._past: deque[Message] = deque()
        self._reached: dict[Origin, int] = {}
        """Of each origin: the last number that was read."""
        self._look_s = LOOK_SECONDS_MIN
        self._came = asyncio.Event()
        self._reading = asyncio.Lock()

    async def open(self) -> None:
        """The first page. ReadError when nothing of the kind is kept."""
        await self._read_page()

    # -- for the user --------------------------------------------------------------------------------------------------

    async def _each(self) -> AsyncIterator[Message]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    async def __anext__(self) -> Message:
        while self.replaying:
            async with self._reading:
                if (message := await self._next_past()) is not None:
                    return message
        while True:
            message = await super().__anext__()
            if self._is_new(message):
                return message

    def next_now(self) -> Message | None:
        if self._past:
            return self._past.popleft()
        if self.replaying:
            return None
        while (message := super().next_now()) is not None:
            if self._is_new(message):
                return message
        return None

    async def batches(self) -> AsyncIterator[Sequence[Message]]:
        while self.replaying:
            async with self._reading:
                message = await self._next_past()
                if message is not None:
                    past = [message, *self._past]
                    self._past.clear()
                    yield past
        async for batch in super().batches():
            if new := [message for message in batch if self._is_new(message)]:
                yield new

    def __len__(self) -> int:
        return len(self._past) + (0 if self.replaying else super().__len__())

    # -- for the client ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch, messages: Sequence[Message]) -> None:
        super().put(batch, messages)
        self._came.set()

    def end(self, failure: str | None = None) -> None:
        super().end(failure)
        self._came.set()

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _next_past(self) -> Message | None:
        """None when what comes is enough from now on."""
        while not self._past:
            has_come = bool(self._batches)
            if self._over and not has_come:
                self.replaying = False  # what is left to be said says it
                return None
            at_end = await self._read_page()
            if self._past:
                break
            if at_end and has_come:
                self.replaying = False
                return None
            if at_end:
                await self._look_again()
        return self._past.popleft()

    async def _read_page(self) -> bool:
        try:
            page = await self._read(self._start)
        except ClosedError as error:
            raise ReadError(str(error)) from None
        self._start = page.next
        for stored in page.messages:
            message = stored.message
            origin = (message.publisher, message.stream, message.incarnation)
            if message.seq > self._reached.get(origin, 0):
                self._reached[origin] = message.seq
                self._past.append(message)
                self._look_s = LOOK_SECONDS_MIN
        return page.at_end

    async def _look_again(self) -> None:
        self._came.clear()
        if self._batches or self._over:
            return
        try:
            async with asyncio.timeout(self._look_s):
                await self._came.wait()
        except TimeoutError:
            self._look_s = min(2 * self._look_s, LOOK_SECONDS_MAX)

    def _is_new(self, message: Message) -> bool:
        return message.seq > self._reached.get((message.publisher, message.stream, message.incarnation), 0)
