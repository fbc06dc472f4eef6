"""Inboxes: what a subscription receives, as messages or as typed values.

Messages wait in the batches in which they came. A message leaves in the same step that returns it, so a cancelled wait
loses nothing. The broker is told how far the program has come; when too much waits here it stops sending, so a slow
consumer costs a bounded amount of memory. `when_full` of `Client.subscribe` says what the broker does then.

A program can publish and receive values instead of bytes. Structures of msgspec, dataclasses and models of pydantic
travel as JSON, so that readers need not be Python. Every message is handed out; its `value` is decoded when it is read,
and only then a payload that does not fit raises an error. So one bad publisher does not end an inbox. pydantic is not
needed, nor imported: a model is known by its methods.
"""

import asyncio
import contextlib
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec
import msgspec.inspect

from resprout.client.arguments import check_seconds, shown, time_limit, wrong
from resprout.client.errors import ClosedError, MistypedPayloadError
from resprout.core.errors import PayloadRefusedError, UsageError
from resprout.core.limits import AttributeValue
from resprout.core.message import DurableMessage, Message
from resprout.filters.predicate import Predicate

T = TypeVar("T")
Decode = Callable[[bytes], T]

_UNREAD: Any = object()


class Batch:
    """One delivery from the broker: taken when every inbox that got a part of it has handed its part out."""

    __slots__ = ("parts",)

    def __init__(self, parts: int) -> None:
        self.parts = parts


class Inbox:
    """The messages of one or more subscriptions: an asynchronous iterator, and a context manager that unsubscribes.

        async with await client.subscribe("orders/#") as inbox:
            async for message in inbox:
                ...

    Several tasks may read one inbox; they share the work. Iteration ends after `unsubscribe`, or when the client is
    closed; it raises ClosedError when the session was lost, and SlowConsumerError when it was because this program did
    not read. Messages that had arrived before are handed out first. Once the inbox is over, they count as taken even if
    the program does not ask for them, so that they hold nothing back.
    """

    def __init__(
        self,
        taken: Callable[[Batch], None],
        loop: asyncio.AbstractEventLoop,
        unsubscribe: Callable[["Inbox"], Awaitable[None]],
    ) -> None:
        """`taken` is told of each batch that was handed out completely, `unsubscribe` ends the subscriptions."""
        self._taken = taken
        self._loop = loop
        self._end_subscriptions = unsubscribe
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
        """Yield messages as `__anext__` does, without a call for every message. `async for` runs this."""
        while True:
            while self._next == self._size and not self._open_batch():
                try:
                    await self._wait()
                except StopAsyncIteration:
                    return
            current, last = self._current, self._size - 1
            # Another task may take from the same batch, or open the next one, while this one is out with a message.
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

    async def next(self, timeout: float | None = None) -> Message:
        """Return the next message. TimedOutError when none comes within `timeout` seconds, ClosedError when the
        subscription is over."""
        if timeout is not None:
            timeout = check_seconds(timeout)
        try:
            if timeout is None:
                return await self.__anext__()
            async with time_limit(timeout, "no message came"):
                return await self.__anext__()
        except StopAsyncIteration:
            raise ClosedError("the subscription is over") from None

    def next_nowait(self) -> Message | None:
        """Return the next message if one has arrived already, otherwise None."""
        if self._next == self._size and not self._open_batch():
            return None
        return self._hand_out()

    async def batches(self) -> AsyncIterator[Sequence[Message]]:
        """Iterate over batches, which is faster: each holds all messages that came together and are still here."""
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

    async def unsubscribe(self) -> None:
        """End every subscription that feeds this inbox; return once no message of them can come any more. Messages that
        came before are still handed out, then the inbox ends."""
        await self._end_subscriptions(self)

    async def close(self) -> None:
        """Release the inbox; it may be called twice. It unsubscribes; the inbox of a durable subscription leaves the
        subscription as it is, for the next consumer."""
        if not self._over:
            with contextlib.suppress(ClosedError):
                await self.unsubscribe()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def failure(self) -> str | None:
        """Why the session was lost; None as long as it is not."""
        return self._failure

    @property
    def is_over(self) -> bool:
        """Whether no more messages arrive; some that arrived may still wait here."""
        return self._over

    # -- for the client ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch, messages: Sequence[Message]) -> None:
        self._batches.append((batch, messages))
        if self._waiters:
            self._wake_one()

    def drop_retained(self, predicate: Predicate) -> None:
        """Drop the last values of a subscription that waits here, because all of them come again."""
        kept: list[tuple[Batch, Sequence[Message]]] = []
        for batch, messages in self._batches:
            if messages and all(one.retained and predicate.matches(one.topic, one.attributes) for one in messages):
                self._taken(batch)
            else:
                kept.append((batch, messages))
        self._batches = deque(kept)

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
                self._wake_one()  # this wake-up was for a message that another task can take
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


class AnyDataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class PydanticModel(Protocol):
    def model_dump_json(self) -> str: ...


Payload = bytes | bytearray | memoryview | dict[Any, Any] | list[Any] | msgspec.Struct | AnyDataclass | PydanticModel
"""Types that can be published: bytes, or a structure that travels as JSON."""


def payload_of(value: Payload, argument: str = "payload") -> bytes:
    """Return the bytes of a payload; a structure is encoded as JSON. PayloadRefusedError for anything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        if isinstance(value, dict | list | msgspec.Struct) or _is_instance_of_dataclass(value):
            return msgspec.json.encode(value)
        if callable(to_json := getattr(value, "model_dump_json", None)) and not isinstance(value, type):
            text: str = to_json()
            return text.encode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadRefusedError(f"{argument}={shown(value)} cannot be written as JSON: {error}") from None
    raise PayloadRefusedError(
        f"{argument}={shown(value)}: bytes, or a structure that travels as JSON (a dict, a list, a dataclass,"
        " a msgspec.Struct or a pydantic model)"
    )


def _is_instance_of_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def decoder_of(kind: type[T]) -> Decode[T]:
    """Checks while it decodes. UsageError for what cannot be decoded to."""
    if callable(validate := getattr(kind, "model_validate_json", None)):
        return validate  # type: ignore[no-any-return]
    if isinstance(kind, str | bytes | int | float | list | dict | set | tuple):
        raise UsageError(f"type={shown(kind)}: a type to decode payloads to, such as a msgspec.Struct or a dataclass")
    try:
        if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
            raise TypeError("JSON has nothing that could become one")
        return msgspec.json.Decoder(kind).decode
    except TypeError as error:
        raise UsageError(f"type={shown(kind)}: messages cannot be decoded to it: {error}") from None


class TypedMessage(Generic[T]):
    """A message with a decoded `value`. It has every attribute of a `resprout.Message`."""

    __slots__ = ("_decode", "_value", "message")

    def __init__(self, message: Message, decode: Decode[T]) -> None:
        self.message = message
        self._decode = decode
        self._value: T = _UNREAD

    @property
    def value(self) -> T:
        """The decoded payload. Raises MistypedPayloadError if it does not have the type."""
        if self._value is _UNREAD:
            try:
                self._value = self._decode(self.message.payload)
            except (ValueError, RecursionError) as error:  # of these kinds is all that msgspec and pydantic raise
                raise MistypedPayloadError(self.message, str(error)) from None
        return self._value

    def ack(self) -> None:
        """Acknowledge a message of a durable subscription; see `Message.ack`."""
        self.message.ack()

    def of(self, message: Message) -> "TypedMessage[T]":
        """Return another message of the same type."""
        return TypedMessage(message, self._decode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)

    def __repr__(self) -> str:
        return f"<typed {self.message!r}>"


class TypedInbox(Generic[T]):
    """An inbox whose messages have values. Used like the one that it reads from."""

    def __init__(self, inbox: Inbox, kind: type[T]) -> None:
        self.inbox = inbox
        self.kind = kind
        self._decode = decoder_of(kind)

    def __aiter__(self) -> AsyncIterator[TypedMessage[T]]:
        return self._each()

    async def _each(self) -> AsyncIterator[TypedMessage[T]]:
        decode = self._decode
        async for message in self.inbox:
            yield TypedMessage(message, decode)

    async def __anext__(self) -> TypedMessage[T]:
        return TypedMessage(await self.inbox.__anext__(), self._decode)

    async def next(self, timeout: float | None = None) -> TypedMessage[T]:
        """Return the next message. TimedOutError when none comes within `timeout` seconds, ClosedError when the
        subscription is over."""
        return TypedMessage(await self.inbox.next(timeout), self._decode)

    def next_nowait(self) -> TypedMessage[T] | None:
        """Return the next message if one has arrived already, otherwise None."""
        message = self.inbox.next_nowait()
        return None if message is None else TypedMessage(message, self._decode)

    async def batches(self) -> AsyncIterator[Sequence[TypedMessage[T]]]:
        """Iterate over batches, which is faster: each holds all messages that came together and are still here."""
        decode = self._decode
        async for messages in self.inbox.batches():
            yield [TypedMessage(message, decode) for message in messages]

    def __len__(self) -> int:
        """Messages that are here already."""
        return len(self.inbox)

    def __bool__(self) -> bool:
        """An inbox is something even while it is empty."""
        return True

    def ack(self, *messages: TypedMessage[T]) -> None:
        """Acknowledge messages of a durable subscription; see `DurableInbox.ack`. UsageError for other inboxes."""
        settle_all(self.inbox, "ack", messages)

    def nack(self, *messages: TypedMessage[T], delay: float = 0.0) -> None:
        """Have messages of a durable subscription delivered again; see `DurableInbox.nack`."""
        settle_all(self.inbox, "nack", messages, delay=delay)

    def in_progress(self, *messages: TypedMessage[T]) -> None:
        """Let `ack_wait` begin anew for messages of a durable subscription; see `DurableInbox.in_progress`."""
        settle_all(self.inbox, "in_progress", messages)

    def term(self, *messages: TypedMessage[T], reason: str = "") -> None:
        """Give messages of a durable subscription up; see `DurableInbox.term`."""
        settle_all(self.inbox, "term", messages, reason=reason)

    async def publish_and_ack(
        self,
        message: TypedMessage[T],
        topic: str,
        payload: Payload,
        *,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> None:
        """Publish what follows from a message of a durable subscription, and acknowledge that message, in one step; see
        `DurableInbox.publish_and_ack`."""
        if not isinstance(message, TypedMessage) or not isinstance(message.message, DurableMessage):
            raise wrong("message", message, "a message that the inbox of a durable subscription has delivered")
        inbox = message.message.inbox
        await inbox.publish_and_ack(message.message, topic, payload, keys=keys, attributes=attributes)

    async def unsubscribe(self) -> None:
        """End every subscription that feeds this inbox; see `Inbox.unsubscribe`."""
        await self.inbox.unsubscribe()

    async def close(self) -> None:
        """Release the inbox; see `Inbox.close`."""
        await self.inbox.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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


def settle_all(inbox: Inbox, call: str, messages: Sequence[Any], **more: Any) -> None:
    """Acknowledge or reject messages at their inbox. UsageError where there is nothing to acknowledge."""
    settle = getattr(inbox, call, None)
    if settle is None:
        raise UsageError(f"{call}(): the subscription is not durable, so its messages need no ack")
    settle(*[message.message if isinstance(message, TypedMessage) else message for message in messages], **more)


def inbox_of_type(typed: Inbox | TypedInbox[Any] | None, kind: type[Any]) -> Inbox | None:
    """Return the inbox that feeds a typed inbox. Raises UsageError if it has another type, or the type is
    unsupported."""
    decoder_of(kind)
    if typed is not None and not (isinstance(typed, TypedInbox) and typed.kind is kind):
        raise wrong("into", typed, f"an inbox of the same type, {kind!r}")
    return None if typed is None else plain(typed)


def plain(inbox: Inbox | TypedInbox[Any]) -> Inbox:
    return inbox.inbox if isinstance(inbox, TypedInbox) else inbox
