"""Subscriptions that read a log: from a place in its past on, and whatever is appended later.

    inbox = await client.subscribe("bank/#", log="bank", replay_from="earliest")

The log is the only source: an inbox reads it page by page, and at its end each request waits at the broker until there
is more. So nothing is joined, and the order, the offsets and the gaps are those of the log, through every change of
broker: the next one is asked for the next offset.

`LogFollower` reads; `LogInbox` is what a program sees of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from resprout.client.errors import ClosedError, ReadError, TellGap
from resprout.client.inbox import Batch, Inbox
from resprout.client.past_events import EventsPage, Offset, page_of
from resprout.core.message import Message
from resprout.edge.requests import EventsAnswered, ReadRequest, StoredMessage

OPEN_SECONDS: Final = 10.0
"""How long the first page is waited for while no replica can answer."""
RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
"""Between two requests that no replica could answer; doubled each time."""
PAGES_AHEAD: Final = 4
"""Pages that the program has not read: then the next one is not asked for."""


class LogFollower:
    def __init__(
        self, ask: Callable[[ReadRequest], Awaitable[EventsAnswered]], request: ReadRequest, missing: TellGap
    ) -> None:
        """`request`: of the first page. `missing` is told of gaps that are passed over."""
        self._ask = ask
        self._request = request
        self._missing = missing
        self._origin = 0
        """Of the log; another one has other messages at the same offsets."""
        self._unread = 0
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.first = EventsPage("", (), Offset("", 0), 0, 0)
        """The first page."""

    @property
    def position(self) -> int:
        """The offset behind all that was handed on."""
        return self._request.position

    async def open(self) -> None:
        """Read the first page. ReadError when there is none."""
        until = asyncio.get_running_loop().time() + OPEN_SECONDS
        pause = RETRY_SECONDS_MIN
        while True:
            answer = await self._ask(self._request)
            if not answer.retryable or asyncio.get_running_loop().time() + pause > until:
                self.first = await self._take(answer)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)

    def start(self, put: Callable[[Sequence[StoredMessage]], None], fail: Callable[[Exception], None]) -> None:
        """Hand on the first page, and all that follows until `stop`, or until it fails."""
        self._put(put, self.first)
        self._task = asyncio.get_running_loop().create_task(self._follow(put, fail))

    def stop(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def taken(self) -> None:
        """The program has read a page."""
        self._unread -= 1
        self._room.set()

    def _put(self, put: Callable[[Sequence[StoredMessage]], None], page: EventsPage) -> None:
        if page.messages:
            self._unread += 1
            put(page.messages)

    async def _follow(self, put: Callable[[Sequence[StoredMessage]], None], fail: Callable[[Exception], None]) -> None:
        pause = RETRY_SECONDS_MIN
        try:
            while True:
                while self._unread >= PAGES_AHEAD:
                    self._room.clear()
                    await self._room.wait()
                answer = await self._ask(self._request)
                if answer.retryable:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, RETRY_SECONDS_MAX)
                    continue
                pause = RETRY_SECONDS_MIN
                self._put(put, await self._take(answer))
        except (ReadError, ClosedError) as error:
            fail(error)

    async def _take(self, answer: EventsAnswered) -> EventsPage:
        page = page_of(answer)
        if answer.life and answer.life != (self._origin or answer.life):
            raise ReadError(f"{page.journal} was begun again: its offsets are those of other messages now")
        self._origin = answer.life
        for gap in page.gaps:
            self._missing(page.journal, gap)
        if page.gaps:
            await asyncio.sleep(0)  # the program is told before it is handed what follows
        self._request = msgspec.structs.replace(
            self._request, journal=page.journal, position=page.next.position, time_us=0, waits=True
        )
        return page


class LogInbox(Inbox):
    """As an inbox. Raises GapError where messages are missing in the log, and ReadError when what comes next is not
    kept any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, follower: LogFollower) -> None:
        super().__init__(lambda batch: follower.taken(), loop, _end)
        self._follower = follower
        self._trouble: Exception | None = None

    def begin(self) -> None:
        self._follower.start(lambda stored: self.put(Batch(1), messages_in(stored)), self.fail)

    def fail(self, error: Exception) -> None:
        if not self._over:
            self._trouble = error
            self.end(str(error))

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        super().end(failure, error)
        self._follower.stop()

    async def _wait(self) -> None:
        if self._over and self._trouble is not None:
            raise self._trouble
        await super()._wait()


async def _end(inbox: Inbox) -> None:
    inbox.end()


def messages_in(stored: Sequence[StoredMessage]) -> list[Message]:
    return [each.message for each in stored]
