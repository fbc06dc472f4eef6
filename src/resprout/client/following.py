"""Subscriptions that read a log from some offset on and follow what is appended to it.

    inbox = await client.subscribe("bank/#", log="bank", replay_from="earliest")

The log is the only source. An inbox reads it page by page; at the end of the log each request waits at the broker until
there is more. So replay and live messages need not be joined: order, offsets and gaps are those of the log. When the
client changes brokers, it asks the next one for the next offset.

`LogFollower` reads the pages; `LogInbox` gives their messages to the program.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from resprout.client.errors import ClosedError, ReadError, TellGap
from resprout.client.inbox import Batch, Inbox
from resprout.client.past_events import EventsPage, Offset, page_of
from resprout.edge.requests import EventsAnswered, ReadRequest, StoredMessage

OPEN_SECONDS: Final = 10.0
"""Seconds to wait for the first page while no replica can answer."""
RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
"""Most seconds between two attempts while no replica can answer. The pause doubles from `RETRY_SECONDS_MIN` on."""
PAGES_AHEAD: Final = 4
"""Pages that the program has not read, beyond which the next one is not requested."""


class LogFollower:
    def __init__(
        self, ask: Callable[[ReadRequest], Awaitable[EventsAnswered]], request: ReadRequest, missing: TellGap
    ) -> None:
        """`request`: the request for the first page. `missing`: called for each gap that is skipped."""
        self._ask = ask
        self._request = request
        self._missing = missing
        self._origin = 0
        """Number that differs for an earlier log of the same name, whose offsets mean other messages."""
        self._unread = 0
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.first = EventsPage("", (), Offset("", 0), 0, 0)
        """The first page."""

    @property
    def position(self) -> int:
        """Offset behind the last page that was handed on."""
        return self._request.position

    async def open(self) -> None:
        """Read the first page. Raises ReadError if no replica can answer within `OPEN_SECONDS`."""
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
        """Hand on the first page and all following ones until `stop` is called or reading fails."""
        self._put(put, self.first)
        self._task = asyncio.get_running_loop().create_task(self._follow(put, fail))

    def stop(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def taken(self) -> None:
        """Note that the program has read a page, and request the next one if reading was paused."""
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
            await asyncio.sleep(0)  # the program hears of the gap before it gets the messages behind it
        self._request = msgspec.structs.replace(
            self._request, journal=page.journal, position=page.next.position, time_us=0, waits=True
        )
        return page


class PageBatch(Batch):
    """The messages of a page, with the follower that has read it."""

    __slots__ = ("follower",)

    def __init__(self, follower: LogFollower) -> None:
        super().__init__(1)
        self.follower = follower


def page_taken(batch: Batch) -> None:
    """Tell the follower that the program has read a page."""
    if isinstance(batch, PageBatch):
        batch.follower.taken()


class LogInbox(Inbox):
    """An inbox that reads a log, or several partitions of one side by side. Raises GapError at a gap of the log, and
    ReadError if the log does not keep the next message any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, followers: Sequence[LogFollower]) -> None:
        super().__init__(page_taken, loop, _end)
        self._followers = tuple(followers)
        self._trouble: Exception | None = None

    def begin(self) -> None:
        for follower in self._followers:
            follower.start(partial(self._put_stored, follower), self.fail)

    def _put_stored(self, follower: LogFollower, stored: Sequence[StoredMessage]) -> None:
        self.put(PageBatch(follower), [each.message for each in stored])

    def fail(self, error: Exception) -> None:
        if not self._over:
            self._trouble = error
            self.end(str(error))

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        super().end(failure, error)
        for follower in self._followers:
            follower.stop()

    async def _wait(self) -> None:
        if self._over and self._trouble is not None:
            raise self._trouble
        await super()._wait()


async def _end(inbox: Inbox) -> None:
    inbox.end()
