"""Requests, served by code that blocks."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from resprout.client.background import Background, within
from resprout.client.requesting import ServedRequest, Service
from resprout.client.sync_inbox import BlockingInbox
from resprout.client.typed import Payload
from resprout.core.message import Message

T = TypeVar("T")


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
