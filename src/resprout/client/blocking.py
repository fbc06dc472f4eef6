"""Parts of the client for code that blocks: inboxes, receipts and services."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import msgspec

from resprout.client.arguments import check_seconds, wrong
from resprout.client.background import Background, within
from resprout.client.durable import DurableInbox
from resprout.client.errors import ClosedError, ForkedError
from resprout.client.follow_ups import follow_up
from resprout.client.inbox import Inbox, Payload, TypedInbox, TypedMessage, plain
from resprout.client.receipts import Receipt
from resprout.client.redelivery import check_delay, check_reason, check_redelivers
from resprout.client.requesting import ServedRequest, Service
from resprout.core.limits import AttributeValue
from resprout.core.message import DurableMessage, Message, MessageId

M = TypeVar("M")

T = TypeVar("T")


class BlockingInbox(Generic[M]):
    """The messages of one or more subscriptions: an iterator that blocks, and a context manager that unsubscribes.

    Several threads may read one inbox; they share the work. Iteration ends after `unsubscribe`, or when the client is
    closed; it raises ClosedError when the session was lost.
    """

    def __init__(self, background: Background, inbox: Inbox | TypedInbox[Any]) -> None:
        self._background = background
        self.inbox = inbox
        """The inbox of the asynchronous client, which lives in the thread of the loop."""
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
        """Return the next message. TimedOutError when none comes within `timeout` seconds, ClosedError when the
        subscription is over."""
        message = self._take(check_seconds(timeout))
        if message is None:
            raise ClosedError("the subscription is over")
        return message

    def next_nowait(self) -> M | None:
        """Return the next message if one has arrived already, otherwise None."""
        self._background.check_process()
        self._asked()
        if not self._fetched:
            self._call(self._fetch_now(1))
        return self._taken()

    def batches(self, *, timeout: float | None = None) -> Iterator[list[M]]:
        """Iterate over batches, which is faster: each holds all messages that are here already. TimedOutError when none
        comes within `timeout` seconds."""
        return self._batches(check_seconds(timeout))

    def unsubscribe(self, *, timeout: float | None = None) -> None:
        """End every subscription that feeds this inbox; return once no message of them can come any more. Messages that
        came before are still handed out, then the inbox ends."""
        self._background.call(within(check_seconds(timeout), "the subscription did not end", self.inbox.unsubscribe))

    def close(self, *, timeout: float | None = None) -> None:
        """Release the inbox; it may be called twice. It unsubscribes; the inbox of a durable subscription leaves the
        subscription as it is, for the next consumer."""
        timeout = check_seconds(timeout)
        if not self._background.is_forked:
            try:
                self._background.call(within(timeout, "the inbox was not closed", self.inbox.close))
            except ClosedError:
                return  # with its client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def failure(self) -> str | None:
        """Why the session was lost; None as long as it is not."""
        return self.inbox.failure

    @property
    def is_over(self) -> bool:
        """Whether no more messages arrive; some that arrived may still wait here."""
        return self.inbox.is_over

    @property
    def dropped(self) -> int:
        """Messages that were dropped because too much waited; see `Inbox.dropped`."""
        return self.inbox.dropped

    def __len__(self) -> int:
        """Messages that are here already."""
        return len(self.inbox) + len(self._fetched)

    def __bool__(self) -> bool:
        """An inbox is true even while it is empty."""
        return True

    # -- inside --------------------------------------------------------------------------------------------------------

    def _batches(self, timeout: float | None) -> Iterator[list[M]]:
        self._asked()
        while self._fetched or self._call(within(timeout, "no message came", self._fetch_all)):
            batch: list[M] = []
            while (message := self._taken()) is not None:
                batch.append(message)
            if batch:
                yield batch
            self._asked()

    def _asked(self) -> None:
        """The program asks for more."""

    def _own(self, message: Any) -> M:
        """The message as this inbox hands it out."""
        return message  # type: ignore[no-any-return]

    def _taken(self) -> M | None:
        try:
            return self._fetched.popleft()
        except IndexError:  # another thread was faster
            return None

    def _take(self, timeout: float | None) -> M | None:
        """None when the inbox is over."""
        self._background.check_process()
        self._asked()
        until = None if timeout is None else time.monotonic() + timeout
        while (message := self._taken()) is None:
            rest = None if until is None else max(0.0, until - time.monotonic())
            if not self._call(within(rest, "no message came", self._fetch)):
                return None
        return message

    def _call(self, work: Coroutine[Any, Any, bool]) -> bool:
        try:
            return self._background.call(work)
        except ForkedError:
            raise
        except ClosedError:
            # The thread is gone together with a client that was closed; what had come is still handed out.
            if self.inbox.failure is not None:
                raise
            return self._fetch_last(1)

    async def _fetch(self) -> bool:
        message: Any = await anext(self.inbox, None)
        if message is not None:
            self._fetched.append(self._own(message))
        return message is not None

    async def _fetch_all(self) -> bool:
        return await self._fetch() and (self._fetch_last(len(self.inbox)) or True)

    async def _fetch_now(self, count: int) -> bool:
        return self._fetch_last(count)

    def _fetch_last(self, count: int) -> bool:
        """Fetch so many of the messages that have arrived."""
        for _ in range(count):
            message: Any = self.inbox.next_nowait()
            if message is None:
                return False
            self._fetched.append(self._own(message))
        return True


class BlockingDurableInbox(BlockingInbox[M]):
    """The inbox of a durable subscription: a message is acknowledged when the next one is asked for, or with `ack`.

    It acknowledges itself, so the inbox that it reads from must not: messages between the threads are not processed.
    """

    def __init__(self, background: Background, inbox: Inbox | TypedInbox[Any], manual_ack: bool) -> None:
        super().__init__(background, inbox)
        self._manual_ack = manual_ack
        self._out: deque[M] = deque()
        """Handed to the program, and acknowledged when it asks for more."""
        durable = plain(inbox)
        assert isinstance(durable, DurableInbox), "a subscription with a name has one"
        self._durable = durable
        self.name = durable.name
        """The name of the subscription."""

    def ack(self, *messages: Any) -> None:
        """Acknowledge messages: no consumer receives them again. It does not wait for the broker. UsageError for a
        message of another inbox; FencedError, or ClosedError, when this consumer does not have the subscription any
        more."""
        own = self._durable_messages(messages)
        self._background.post(lambda: self._acknowledge(own))

    def nack(self, *messages: Any, delay: float = 0.0) -> None:
        """Have messages delivered again, after `delay` seconds or more; see `resprout.DurableInbox.nack`."""
        check_delay(delay)
        self._settle(messages, lambda own: self._durable.nack(*own, delay=delay))

    def in_progress(self, *messages: Any) -> None:
        """Let `ack_wait` begin anew for messages; see `resprout.DurableInbox.in_progress`."""
        self._settle(messages, lambda own: self._durable.in_progress(*own), is_over=False)

    def term(self, *messages: Any, reason: str = "") -> None:
        """Give messages up: they become dead letters; see `resprout.DurableInbox.term`."""
        check_reason(reason)
        self._settle(messages, lambda own: self._durable.term(*own, reason=reason))

    def publish_and_ack(
        self,
        message: Any,
        topic: str,
        payload: Payload,
        *,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Publish a message that follows from one of this inbox, and acknowledge that one, in one step; see
        `resprout.DurableInbox.publish_and_ack`. TimedOutError when that takes longer than `timeout` seconds: it may
        still be done."""
        limit = check_seconds(timeout)
        follow_up(message, topic, payload, keys, attributes)
        (own,) = self._durable_messages((message,))
        self._settled([own])
        say = self._durable.publish_and_ack
        failure = "the follow-up is not known to be safe"
        self._background.call(within(limit, failure, say, own, topic, payload, keys=keys, attributes=attributes))

    def _settle(self, messages: Any, say: Callable[[list[DurableMessage]], None], is_over: bool = True) -> None:
        own = self._durable_messages(messages)
        check_redelivers(self._durable)
        if is_over:
            self._settled(own)
        self._background.post(lambda: say(own) if not self._durable.is_over else None)

    def _settled(self, messages: list[DurableMessage]) -> None:
        """Do not acknowledge these when the program asks for more."""
        settled = {message.id for message in messages}
        kept = [one for one in self._out if getattr(one, "id", None) not in settled]
        self._out.clear()
        self._out.extend(kept)

    def _durable_messages(self, messages: Any) -> list[DurableMessage]:
        self._background.check_process()
        own: list[DurableMessage] = []
        for one in messages:
            message = one.message if isinstance(one, TypedMessage) else one
            if not isinstance(message, DurableMessage) or message.inbox is not self:
                raise wrong("messages", one, f"messages that the inbox of {self.name!r} has delivered")
            own.append(msgspec.structs.replace(message, inbox=self._durable))
        self._durable.check_ack()
        return own

    def _asked(self) -> None:
        out: list[M] = []
        while self._out:
            out.append(self._out.popleft())
        if out:
            with contextlib.suppress(ClosedError):  # the next call says so
                self.ack(*out)

    def _taken(self) -> M | None:
        message = super()._taken()
        if message is not None and not self._manual_ack:
            self._out.append(message)
        return message

    def _acknowledge(self, messages: list[DurableMessage]) -> None:
        if not self._durable.is_over:  # otherwise they come again, marked as redelivered
            self._durable.ack(*messages)

    def _own(self, message: Any) -> M:
        own: Any
        if isinstance(message, TypedMessage):
            own = message.of(msgspec.structs.replace(message.message, inbox=self))
        else:
            own = msgspec.structs.replace(message, inbox=self)
        return own  # type: ignore[no-any-return]


class BlockingReceipt:
    """The receipt of one publication. Each method blocks, and raises PublishError when the publication will not get so
    far."""

    __slots__ = ("_background", "_receipt")

    def __init__(self, background: Background, receipt: Receipt) -> None:
        self._background = background
        self._receipt = receipt

    def accepted(self, timeout: float | None = None) -> None:
        """Return once the client's broker has it."""
        self._background.call(within(check_seconds(timeout), "it was not accepted", self._receipt.accepted))

    def safe(self, timeout: float | None = None) -> None:
        """Return once it survives the crash of any f brokers."""
        self._background.call(within(check_seconds(timeout), "it was not safe", self._receipt.safe))

    def delivered(self, timeout: float | None = None) -> None:
        """Return once every correct subscriber that is owed it has it."""
        self._background.call(within(check_seconds(timeout), "it was not delivered", self._receipt.delivered))

    @property
    def seq(self) -> int:
        """The number of the publication in its stream."""
        return self._receipt.seq

    @property
    def id(self) -> MessageId:
        """Equal to `Message.id` of the same publication, wherever it is delivered."""
        return self._receipt.id

    @property
    def state(self) -> str:
        """How far it has come: published, accepted, safe or delivered; or refused."""
        return self._receipt.state

    @property
    def copies(self) -> int:
        """How many brokers have it; 0 as long as it is not safe. See `resprout.Receipt`."""
        return self._receipt.copies

    @property
    def waiting_for(self) -> str:
        """Why it takes so long, when the broker has said so; otherwise empty."""
        return self._receipt.waiting_for

    def __repr__(self) -> str:
        return repr(self._receipt)


class BlockingRequest(Generic[T]):
    """A request to answer; see `resprout.ServedRequest`."""

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
        """The decoded payload, for a service with a `type`. MistypedPayloadError when it does not fit."""
        return self._request.value

    @property
    def wants_reply(self) -> bool:
        """False for a plain publication on the topic."""
        return self._request.wants_reply

    def reply(self, payload: Payload, *, timeout: float | None = None) -> None:
        """Publish the reply; return once the broker of this client has it. PublishError when the broker refuses it."""
        self._background.call(within(check_seconds(timeout), "no reply was sent", self._request.reply, payload))

    def fail(self, reason: str, *, timeout: float | None = None) -> None:
        """Answer that the request failed: the requester gets a RequestFailedError with this reason."""
        self._background.call(within(check_seconds(timeout), "no reply was sent", self._request.fail, reason))


class BlockingService(Generic[T]):
    """Requests on a topic, one after the other. Several threads may share the work."""

    def __init__(self, background: Background, service: Service[T]) -> None:
        self._background = background
        self._service = service
        self._inbox: BlockingInbox[Message] = BlockingInbox(background, service.inbox)

    def __iter__(self) -> Iterator[BlockingRequest[T]]:
        return map(self._served, self._inbox)

    def next(self, timeout: float | None = None) -> BlockingRequest[T]:
        """Return the next request. TimedOutError when none comes within `timeout` seconds, ClosedError when the service
        is closed."""
        return self._served(self._inbox.next(timeout))

    def close(self, *, timeout: float | None = None) -> None:
        """Unsubscribe; return once no more requests can come."""
        self._background.call(within(check_seconds(timeout), "the service was not closed", self._service.close))

    def __enter__(self) -> "BlockingService[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _served(self, message: Message) -> BlockingRequest[T]:
        return BlockingRequest(self._background, self._service.request_of(message))
