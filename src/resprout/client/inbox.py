"""What a subscription receives, for the user's code to take.

Messages wait here in the batches in which they came. A message leaves in the same step that returns it, so a cancelled
wait loses nothing. The broker hears how far the user has come; when too much waits here it stops sending, so a slow
consumer costs a bounded amount of memory here. What its broker does then is `when_full` of `Client.subscribe`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from resprout.client.errors import ClosedError
from resprout.core.message import Message


class Batch:
    """One delivery from the broker: taken when every inbox that got a part of it has handed its part out."""

    __slots__ = ("parts",)

    def __init__(self, parts: int) -> None:
        self.parts = parts


class Inbox:
    """An asynchronous iterator over messages. One consumer, or several that share the work.

    Ends (StopAsyncIteration) after `Client.unsubscribe` or when the client is closed; raises ClosedError when the
    session was lost, and SlowConsumerError when it was because this program did not read. What had arrived before is
    handed out first; once the inbox is over, it counts as taken even if nobody asks for it, so that it holds nothing
    back.
    """

    def __init__(self, taken: Callable[[Batch], None], loop: asyncio.AbstractEventLoop) -> None:
        self._taken = taken
        self._loop = loop
        self._batches: deque[tuple[Batch, Sequence[Message]]] = deque()
        self._batch = Batch(0)
        self._current: Sequence[Message] = ()
        self._size = self._next = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._over = False
        self._failure: str | None = None
        self._error: type[ClosedError] = ClosedError
        self.dropped = 0
        """Messages that were dropped because too much waited. Of a client with one inbox; with several it is not known
        whose they were, and only the event `MessagesDropped` tells."""

    # -- for the user --------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._each()

    async def _each(self) -> AsyncIterator[Message]:
        """What `async for` runs: the same as `__anext__` again and again, without a call for every message."""
        while True:
            while self._next == self._size and not self._open_batch():
                try:
                    await self._wait()
                except StopAsyncIteration:
                    return
            current, last = self._current, self._size - 1
            # Somebody else may take from the same batch, or open the next one, while this one is out with a message.
            while self._next < last and self._current is current:
                message = current[self._next]
                self._next += 1
                if self._waiters:
                    self._wake_one()
                yield message
            if self._next < self._size and self._current is current:
                message = self._hand_out()
                if self._waiters and self._batches:
                    self._wake_one()
                yield message

    async def __anext__(self) -> Message:
        while self._next == self._size and not self._open_batch():
            await self._wait()
        message = self._hand_out()
        if self._waiters and (self._next < self._size or self._batches):
            self._wake_one()
        return message

    async def next(self) -> Message:
        """The next message; raises ClosedError when there will be none."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise ClosedError("the subscription is over") from None

    def next_now(self) -> Message | None:
        """The next message if one is here already."""
        if self._next == self._size and not self._open_batch():
            return None
        return self._hand_out()

    async def batches(self) -> AsyncIterator[Sequence[Message]]:
        """Whole batches, for those who want speed: each is everything that came together and is still here."""
        while True:
            while self._next == self._size and not self._open_batch():
                try:
                    await self._wait()
                except StopAsyncIteration:
                    return
            rest = self._current[self._next :] if self._next else self._current
            self._next = self._size
            self._taken(self._batch)
            if self._waiters and self._batches:
                self._wake_one()
            yield rest

    def __len__(self) -> int:
        """Messages that are here already."""
        return self._size - self._next + sum(len(messages) for _, messages in self._batches)

    def __bool__(self) -> bool:
        """An inbox is something even while it is empty."""
        return True

    @property
    def failure(self) -> str | None:
        """Why the session was lost; None as long as it is not."""
        return self._failure

    # -- for the client ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch, messages: Sequence[Message]) -> None:
        self._batches.append((batch, messages))
        if self._waiters:
            self._wake_one()

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        if self._over:
            return
        self._over = True
        self._failure = failure
        self._error = error
        rest = [batch for batch, _ in self._batches]
        if self._next < self._size:
            rest.append(self._batch)
        taken, self._taken = self._taken, _ignore
        for batch in rest:
            taken(batch)
        while self._waiters:
            self._wake_one()

    def belongs_to(self, taken: Callable[[Batch], None]) -> bool:
        """Whether it is fed by the client that this is a part of, and not over."""
        return self._taken == taken

    # -- inside --------------------------------------------------------------------------------------------------------

    def _hand_out(self) -> Message:
        """The batch counts as taken with its last message: a `delivered` receipt never comes before that. The message
        goes out first, and the news of it in a later turn of the loop."""
        message = self._current[self._next]
        self._next += 1
        if self._next == self._size and not self._over:  # once it is over, everything counts as taken
            self._taken(self._batch)
        return message

    def _open_batch(self) -> bool:
        if not self._batches:
            return False
        self._batch, self._current = self._batches.popleft()
        self._size = len(self._current)
        self._next = 0
        return True

    async def _wait(self) -> None:
        if self._over:
            if self._failure is not None:
                raise self._error(self._failure)
            raise StopAsyncIteration
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():
                self._wake_one()  # this wake-up was for a message that somebody else can take
            else:
                with contextlib.suppress(ValueError):
                    self._waiters.remove(future)
            raise

    def _wake_one(self) -> None:
        while self._waiters:
            future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)
                return


def _ignore(batch: Batch) -> None:
    """An inbox that is over has told everything."""
