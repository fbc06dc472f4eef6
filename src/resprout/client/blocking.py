"""Parts of the client for code that blocks: inboxes, receipts and services, and their event loop in a thread."""

import asyncio
import concurrent.futures
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

from resprout.client.durable_inbox import DurableInbox
from resprout.client.errors import ClosedError
from resprout.client.inbox import Inbox
from resprout.client.receipts import Receipt
from resprout.client.requesting import ServedRequest, Service
from resprout.client.typed import Payload, TypedInbox
from resprout.core.errors import UsageError
from resprout.core.message import Message

M = TypeVar("M")

T = TypeVar("T")

P = ParamSpec("P")


class Background:
    """Runs coroutines for any number of threads. Its thread does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._stopped = False
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine; ClosedError when the loop ends before it does. When the waiting is interrupted
        (Ctrl-C), the coroutine is cancelled."""
        future = self.submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClosedError("closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancels what still runs and ends the thread. May be called twice."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # -- inside --------------------------------------------------------------------------------------------------------

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        with self._lock:
            if not self._stopped and threading.current_thread() is not self._thread:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        if self._stopped:
            raise ClosedError("the client is closed")
        raise UsageError("a blocking call inside the event loop that it would wait for")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def within(timeout: float | None, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kw: P.kwargs) -> T:
    """Measured where the work is done: what has happened by then is never thrown away."""
    async with asyncio.timeout(timeout):
        return await work(*args, **kw)


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


class BlockingReceipt:
    """Of one publication. Each method blocks, and raises PublishError when that will not come."""

    __slots__ = ("_background", "_receipt")

    def __init__(self, background: Background, receipt: Receipt) -> None:
        self._background = background
        self._receipt = receipt

    def accepted(self, timeout: float | None = None) -> None:
        """Returns when the edge broker has it."""
        self._background.call(within(timeout, self._receipt.accepted))

    def safe(self, timeout: float | None = None) -> None:
        """Returns when it survives the crash of any f brokers."""
        self._background.call(within(timeout, self._receipt.safe))

    def delivered(self, timeout: float | None = None) -> None:
        """Returns when every correct subscriber that is owed it has it."""
        self._background.call(within(timeout, self._receipt.delivered))

    @property
    def seq(self) -> int:
        return self._receipt.seq

    @property
    def id(self) -> tuple[Any, ...]:
        """Equal to `Message.id` of the same publication, wherever it is delivered."""
        return self._receipt.id

    @property
    def state(self) -> str:
        """How far it has come so far: published, accepted, safe or delivered; or refused."""
        return self._receipt.state

    @property
    def copies(self) -> int:
        """On how many brokers `safe` rests; 0 as long as it is not safe. See `resprout.client.receipts.Receipt`."""
        return self._receipt.copies

    @property
    def waiting_for(self) -> str:
        """Why it takes so long, when the broker has said so; empty when nothing is known, or when it goes on."""
        return self._receipt.waiting_for

    def __repr__(self) -> str:
        return repr(self._receipt)


class BlockingRequest(Generic[T]):
    """What somebody asks; see `resprout.client.requesting.ServedRequest`."""

    __slots__ = ("_background", "_request")

    def __init__(self, background: Background, request: ServedRequest[T]) -> None:
        self._background = background
        self._request = request

    @property
    def message(self) -> Message:
        return self._request.message

    @property
    def payload(self) -> bytes:
        return self._request.payload

    @property
    def topic(self) -> str:
        return self._request.topic

    @property
    def value(self) -> T:
        """With a type: what the payload holds. MistypedPayloadError when it does not fit."""
        return self._request.value

    @property
    def wants_reply(self) -> bool:
        """False of a plain publication on the topic."""
        return self._request.wants_reply

    def reply(self, payload: Payload, timeout: float | None = None) -> None:
        """Returns when the broker of this client has the reply; PublishError when it refuses."""
        self._background.call(within(timeout, self._request.reply, payload))

    def fail(self, reason: str, timeout: float | None = None) -> None:
        """Whoever asks is told so by RequestFailedError."""
        self._background.call(within(timeout, self._request.fail, reason))


class BlockingService(Generic[T]):
    """Requests on a topic, one after the other. One thread, or several that share the work."""

    def __init__(self, background: Background, service: Service[T]) -> None:
        self._background = background
        self._service = service
        self._inbox: BlockingInbox[Message] = BlockingInbox(background, service.inbox)

    def __iter__(self) -> Iterator[BlockingRequest[T]]:
        return map(self._served, self._inbox)

    def next(self, timeout: float | None = None) -> BlockingRequest[T]:
        """The next request; TimeoutError when none comes in time, ClosedError when there will be none."""
        return self._served(self._inbox.next(timeout))

    def close(self) -> None:
        """Nothing more is asked of it; returns when that is certain."""
        self._background.call(self._service.close())

    def __enter__(self) -> "BlockingService[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _served(self, message: Message) -> BlockingRequest[T]:
        return BlockingRequest(self._background, self._service.request_of(message))
