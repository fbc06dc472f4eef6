"""An inbox for code that blocks."""

import time
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, Generic, TypeVar

from resprout.client.background import Background, within
from resprout.client.durable_inbox import DurableInbox
from resprout.client.errors import ClosedError
from resprout.client.inbox import Inbox
from resprout.client.typed import TypedInbox
from resprout.core.message import Message

M = TypeVar("M")


class BlockingInbox(Generic[M]):
    """An iterator over messages that blocks. One thread, or several that share the work.

    Ends after `BlockingClient.unsubscribe` or when the client is closed; raises ClosedError when the session was lost.
    """

    def __init__(self, background: Background, inbox: Inbox | TypedInbox[Any]) -> None:
        self._background = background
        self.inbox = inbox
        """The one of the asynchronous client that it reads from, in the thread of that."""
        self._fetched: deque[M] = deque()
        """On their way between the threads: a caller that is interrupted leaves its message here for the next."""

    def __iter__(self) -> Iterator[M]:
        return self

    def __next__(self) -> M:
        message = self._take(None)
        if message is None:
            raise StopIteration
        return message

    def next(self, timeout: float | None = None) -> M:
        """The next message; TimeoutError when none comes in time, ClosedError when there will be none."""
        message = self._take(timeout)
        if message is None:
            raise ClosedError("the subscription is over")
        return message

    def next_now(self) -> M | None:
        """The next message if one is here already."""
        if not self._fetched:
            self._call(self._fetch_now(1))
        return self._taken()

    def batches(self) -> Iterator[list[M]]:
        """Everything that is here already, again and again: the fastest way."""
        while self._fetched or self._call(self._fetch_all()):
            batch: list[M] = []
            while (message := self._taken()) is not None:
                batch.append(message)
            if batch:
                yield batch

    @property
    def failure(self) -> str | None:
        """Why the session was lost; None as long as it is not."""
        return self.inbox.failure

    def __len__(self) -> int:
        """Messages that are here already."""
        return len(self.inbox) + len(self._fetched)

    def __bool__(self) -> bool:
        """An inbox is something even while it is empty."""
        return True

    # -- inside --------------------------------------------------------------------------------------------------------

    def _taken(self) -> M | None:
        try:
            return self._fetched.popleft()
        except IndexError:  # another thread was faster
            return None

    def _take(self, timeout: float | None) -> M | None:
        """None when the inbox is over."""
        until = None if timeout is None else time.monotonic() + timeout
        while (message := self._taken()) is None:
            rest = None if until is None else max(0.0, until - time.monotonic())
            if not self._call(within(rest, self._fetch)):
                return None
        return message

    def _call(self, work: Coroutine[Any, Any, bool]) -> bool:
        try:
            return self._background.call(work)
        except ClosedError:
            # The thread is gone together with a client that was closed; what had come is still handed out.
            if self.inbox.failure is not None:
                raise
            return self._fetch_last(1)

    async def _fetch(self) -> bool:
        message: Any = await anext(self.inbox, None)
        if message is not None:
            self._fetched.append(message)
        return message is not None

    async def _fetch_all(self) -> bool:
        return await self._fetch() and (self._fetch_last(len(self.inbox)) or True)

    async def _fetch_now(self, count: int) -> bool:
        return self._fetch_last(count)

    def _fetch_last(self, count: int) -> bool:
        """So many of those that have come."""
        for _ in range(count):
            message: Any = self.inbox.next_now()
            if message is None:
                return False
            self._fetched.append(message)
        return True


class BlockingDurableInbox(BlockingInbox[Message]):
    """Of a durable subscription: a message is acknowledged when the next one is asked for, or by hand."""

    def __init__(self, background: Background, inbox: DurableInbox) -> None:
        super().__init__(background, inbox)
        self._durable = inbox

    def acknowledge(self, *messages: Message) -> None:
        """These are processed."""

        async def acknowledge() -> None:
            self._durable.acknowledge(*messages)

        self._background.call(acknowledge())

    def close(self) -> None:
        """Let go of the subscription, which stays."""
        self._background.call(self._durable.close())
