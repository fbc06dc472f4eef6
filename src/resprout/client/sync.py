"""The client for code that blocks: the same calls without `await`, usable from any number of threads.

    with resprout.sync.connect("localhost:7450", name="teller-1") as client:
        inbox = client.subscribe("bank/+")
        client.publish("bank/pt", b"...").safe(timeout=5)
        for message in inbox:
            ...

Every client has an event loop in a thread of its own; each call goes there and back, so whoever needs speed uses the
asynchronous client. A `timeout` is in seconds; when it is over, TimeoutError is raised and nothing is lost: what was
waited for can be waited for again.
"""

import asyncio
import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from resprout.client.background import Background
from resprout.client.client import Client
from resprout.client.connect import CONNECT_SECONDS
from resprout.client.connect import connect as connect_async
from resprout.client.durable import WhenFullWord
from resprout.client.durable_inbox import DurableInbox
from resprout.client.errors import ClosedError
from resprout.client.events import OnEvent
from resprout.client.inbox import Inbox
from resprout.client.past import PAGE_BYTES, EventsPage, Start
from resprout.client.receipts import Receipt
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.message import Message
from resprout.core.names import AttributeValue
from resprout.edge.client.machine import ClientOptions
from resprout.net.tls.files import Tls

P = ParamSpec("P")
T = TypeVar("T")


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    timeout: float = CONNECT_SECONDS,
    on_event: OnEvent | None = None,
    options: ClientOptions | None = None,
    tls: Tls | str | os.PathLike[str] | None = None,
    login: str | None = None,
) -> "BlockingClient":
    """A client of the broker at `HOST:PORT`; use it with `with`, or close it yourself. See `resprout.connect`. Events
    are told in the client's own thread: `on_event` must not call the client there, and must not block."""
    connecting = connect_async(
        address, name=name, timeout=timeout, on_event=on_event, options=options, tls=tls, login=login
    )
    background = Background(f"resprout {address}")

    async def begin() -> Client:
        return await connecting

    try:
        return BlockingClient(background, background.call(begin()))
    except BaseException:
        background.stop()
        raise


class BlockingReceipt:
    """Of one publication. Each method blocks, and raises PublishError when that will not come."""

    __slots__ = ("_background", "_receipt")

    def __init__(self, background: Background, receipt: Receipt) -> None:
        self._background = background
        self._receipt = receipt

    def accepted(self, timeout: float | None = None) -> None:
        """Returns when the edge broker has it."""
        self._background.call(_within(timeout, self._receipt.accepted))

    def safe(self, timeout: float | None = None) -> None:
        """Returns when it survives the crash of any f brokers."""
        self._background.call(_within(timeout, self._receipt.safe))

    def delivered(self, timeout: float | None = None) -> None:
        """Returns when every correct subscriber that is owed it has it."""
        self._background.call(_within(timeout, self._receipt.delivered))

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


class BlockingInbox:
    """An iterator over messages that blocks. One thread, or several that share the work.

    Ends after `BlockingClient.unsubscribe` or when the client is closed; raises ClosedError when the session was lost.
    """

    def __init__(self, background: Background, inbox: Inbox) -> None:
        self._background = background
        self._inbox = inbox
        self._fetched: deque[Message] = deque()
        """On their way between the threads: a caller that is interrupted leaves its message here for the next."""

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        message = self._take(None)
        if message is None:
            raise StopIteration
        return message

    def next(self, timeout: float | None = None) -> Message:
        """The next message; TimeoutError when none comes in time, ClosedError when there will be none."""
        message = self._take(timeout)
        if message is None:
            raise ClosedError("the subscription is over")
        return message

    def __len__(self) -> int:
        """Messages that are here already."""
        return len(self._inbox) + len(self._fetched)

    def __bool__(self) -> bool:
        """An inbox is something even while it is empty."""
        return True

    def _take(self, timeout: float | None) -> Message | None:
        """None when the inbox is over."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._fetched.popleft()
            except IndexError:
                rest = None if until is None else max(0.0, until - time.monotonic())
                if not self._call(_within(rest, self._fetch)):
                    return None

    def _call(self, work: Coroutine[Any, Any, bool]) -> bool:
        try:
            return self._background.call(work)
        except ClosedError:
            # The thread is gone together with a client that was closed; what had come is still handed out.
            if self._inbox.failure is not None:
                raise
            return self._fetch_last()

    async def _fetch(self) -> bool:
        message = await anext(self._inbox, None)
        if message is not None:
            self._fetched.append(message)
        return message is not None

    def _fetch_last(self) -> bool:
        message = self._inbox.next_now()
        if message is not None:
            self._fetched.append(message)
        return message is not None


class BlockingDurableInbox(BlockingInbox):
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


class BlockingClient:
    """A connected client. Made by `resprout.sync.connect`."""

    def __init__(self, background: Background, client: Client) -> None:
        self._background = background
        self._client = client
        self.name = client.name
        self.stack = client.stack
        self.guarantees = client.guarantees
        self.faults_tolerated = client.faults_tolerated
        atexit.register(self.close)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> BlockingReceipt:
        """Publish a message; blocks only while the network does not keep up.

        Raises UsageError (and nothing was published) for what cannot be published.
        """
        work = self._client.publish(topic, payload, guarantee=guarantee, keys=keys, attributes=attributes)
        return BlockingReceipt(self._background, self._background.call(work))

    def publish_bundle(
        self,
        topic: str,
        payloads: Sequence[bytes],
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Sequence[Mapping[str, AttributeValue]] | None = None,
    ) -> BlockingReceipt:
        """Publish many messages as one bundle, which nothing else joins; the receipt is that of the last."""
        work = self._client.publish_bundle(topic, payloads, guarantee=guarantee, keys=keys, attributes=attributes)
        return BlockingReceipt(self._background, self._background.call(work))

    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        replay_from: Start | str | None = None,
        timeout: float | None = None,
    ) -> BlockingInbox:
        """Subscribe and return when it is confirmed: from then on nothing that matches is missed."""

        async def subscribe() -> Inbox:
            return await self._client.subscribe(filter, where, replay_from=replay_from)

        return BlockingInbox(self._background, self._background.call(_within(timeout, subscribe)))

    def consume(
        self,
        filter: str,
        where: str | None = None,
        *,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord = "push back",
        most: int | None = None,
        window: int | None = None,
        by_hand: bool = False,
        timeout: float | None = None,
    ) -> BlockingDurableInbox:
        """Consume a durable subscription, alone or in a group: `Client.subscribe` with a name."""

        async def consume() -> DurableInbox:
            return await self._client.subscribe(
                filter, where, durable=durable or group, group=group, when_full=when_full, most=most, window=window,
                by_hand=by_hand,
            )  # fmt: skip

        return BlockingDurableInbox(self._background, self._background.call(_within(timeout, consume)))

    def unsubscribe(self, inbox: BlockingInbox, *, timeout: float | None = None) -> None:
        """End the subscription; returns when nothing of it can come any more. What came before is still handed out."""
        self._background.call(_within(timeout, self._client.unsubscribe, inbox._inbox))

    def read(
        self,
        filter: str,
        where: str | None = None,
        *,
        start: Start = "earliest",
        size: int = PAGE_BYTES,
        timeout: float | None = None,
    ) -> EventsPage:
        """A page of what the broker keeps of the past; see the asynchronous client."""
        return self._background.call(_within(timeout, self._client.read, filter, where, start=start, size=size))

    def forget(self, *names: str, force: bool = False, timeout: float | None = None) -> None:
        """Tell the network that these brokers never return. Everybody who can connect may do this: read what the
        asynchronous client says about it. Raises ForgetError when it is refused."""
        self._background.call(_within(timeout, self._client.forget, *names, force=force))

    def close(self) -> None:
        """Wait a moment until the broker has accepted what was published, then end the session and the thread. May be
        called twice, and from any thread."""
        atexit.unregister(self.close)
        try:
            self._background.call(self._client.close())
        except ClosedError:
            return  # somebody else has closed it
        finally:
            self._background.stop()

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _within(timeout: float | None, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kw: P.kwargs) -> T:
    """Measured where the work is done: what has happened by then is never thrown away."""
    async with asyncio.timeout(timeout):
        return await work(*args, **kw)
