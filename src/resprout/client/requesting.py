"""Requests and replies over publications.

    reply = await client.request("price/bread", b"2 loaves", timeout=5)

    async for request in client.serve("price/+"):
        await request.reply(b"4.20")

A request is a publication with two attributes: where to reply (`$reply/NAME`, a topic of the client that asks) and a
number that cannot be guessed. A reply is a publication with that number. So both survive the crash of a broker as any
publication does, and neither is promised more: a request may be served twice when its client gave up and asked again,
and of several replies the first counts.

Before a request is published the broker is asked whether any client listens. Where it knows that none does, nothing is
published, and the caller is told at once.
"""

import asyncio
import builtins
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from resprout.client.arguments import check_filter_and_where, check_seconds, time_limit, wrong
from resprout.client.errors import ClosedError, NoReplyError, NoRespondersError, RequestFailedError, SubscribeError
from resprout.client.inbox import Inbox, Payload, TypedMessage, decoder_of
from resprout.core.bundle import topics_of
from resprout.core.contract import Request
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.limits import AttributeValue, check_attributes, check_keys, check_name
from resprout.core.message import DurableMessage, Message
from resprout.edge.requests import AudienceRequest
from resprout.edge.rights import REPLIES, reply_topic

if TYPE_CHECKING:
    from resprout.client.client import Client

T = TypeVar("T")

REQUEST_SECONDS: Final = 10.0
"""Default time to wait for a reply."""
REPLY_TO: Final = "reply_to"
REQUEST_ID: Final = "request_id"
FAILED: Final = "request_failed"
"""Attributes of requests and replies."""
_OWN: Final = (REPLY_TO, REQUEST_ID, FAILED)


class Requester:
    """The side that asks, of one client: its subscription to replies begins with the first request."""

    def __init__(self, client: "Client", ask: Callable[[Request], None]) -> None:
        self._client = client
        self._ask = ask
        self._asked: dict[int, asyncio.Future[bool]] = {}
        """By token: whether a subscriber exists."""
        self._awaited: dict[str, asyncio.Future[Message]] = {}
        """By number of a request."""
        self._inbox: Inbox | None = None
        self._opening = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def request(
        self,
        topic: str,
        payload: Payload,
        timeout: float | None,
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None,
        token: int,
    ) -> Message:
        timeout = check_seconds(timeout)
        if attributes is not None:
            check_attributes(attributes)
            if any(name in attributes for name in _OWN):
                raise UsageError(f"attributes: {', '.join(_OWN)} are set by the request itself")
        check_keys(keys)
        payload = self._client.check_publication(topic, payload, guarantee, keys)
        number = secrets.token_hex(8)
        try:
            async with asyncio.timeout(timeout) as limit:
                await self._open()
                if not await self._anybody(topics_of(topic, tuple(keys)), token):
                    raise NoRespondersError(topic)
                reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
                self._awaited[number] = reply
                own = {REPLY_TO: reply_topic(self._client.name), REQUEST_ID: number}
                receipt = await self._client.publish(
                    topic, payload, guarantee=guarantee, keys=keys, attributes={**(attributes or {}), **own}
                )
                refusal = asyncio.ensure_future(receipt.accepted())
                try:
                    message = await self._first(reply, refusal)
                finally:
                    refusal.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await refusal
        except TimeoutError:
            if not limit.expired():
                raise
            raise NoReplyError(f"no reply to a request on {topic} within {timeout:g} s") from None
        finally:
            self._awaited.pop(number, None)
        failed = message.attributes.get(FAILED)
        if failed is not None:
            raise RequestFailedError(str(failed))
        return message

    async def _first(self, reply: "asyncio.Future[Message]", refusal: "asyncio.Future[None]") -> Message:
        """Return the reply, or raise the error of a publication that was refused."""
        await asyncio.wait((reply, refusal), return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            await refusal
        return await reply

    def serve(self, topic: str, where: str | None, kind: type[T] | None, group: str | None) -> "Service[T]":
        return Service(self._client, topic, where, kind, group)

    def answered(self, token: int, anybody: bool) -> bool:
        """Take the broker's answer. Return False if the token belongs to another question."""
        asked = self._asked.get(token)
        if asked is not None and not asked.done():
            asked.set_result(anybody)
        return asked is not None

    def close(self, reason: str) -> None:
        """The client is closed, or its session is over for good."""
        waits: list[asyncio.Future[Any]] = [*self._asked.values(), *self._awaited.values()]
        for waiting in waits:
            if not waiting.done():
                waiting.set_exception(ClosedError(reason))
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _anybody(self, topics: tuple[str, ...], token: int) -> bool:
        asked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked[token] = asked
        try:
            self._ask(Request(AudienceRequest(topics), token))
            return await asked
        finally:
            del self._asked[token]

    async def _open(self) -> None:
        """Subscribe to replies; once, and again after the network could not make good what was missed."""
        async with self._opening:
            if self._inbox is None:
                self._inbox = await self._client.subscribe(reply_topic(self._client.name))
                self._reading = asyncio.create_task(self._read(self._inbox))

    async def _read(self, inbox: Inbox) -> None:
        reason = "the subscription to replies is over"
        try:
            async for message in inbox:
                waiting = self._awaited.get(str(message.attributes.get(REQUEST_ID)))
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except ClosedError as error:
            reason = str(error)
        self._inbox = None
        for waiting in self._awaited.values():
            if not waiting.done():
                waiting.set_exception(ClosedError(f"the reply may be lost: {reason}"))


class ServedRequest(Generic[T]):
    """A request to serve. Call `reply` or `fail`; otherwise the requester waits until its timeout."""

    __slots__ = ("_client", "_typed", "message")

    def __init__(self, client: "Client", message: Message, typed: TypedMessage[T] | None) -> None:
        self._client = client
        self._typed = typed
        self.message = message

    @property
    def payload(self) -> bytes:
        return self.message.payload

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def value(self) -> T:
        """The decoded payload, if the service has a type. Raises MistypedPayloadError if it does not fit."""
        if self._typed is None:
            raise UsageError("a value has a type: client.serve(topic, type=...)")
        return self._typed.value

    @property
    def wants_reply(self) -> bool:
        """Whether a client waits for the reply: false for a plain publication on the topic, and for one that names
        something else than the replies of a client."""
        attributes = self.message.attributes
        return isinstance(attributes.get(REQUEST_ID), str) and _is_reply_topic(attributes.get(REPLY_TO))

    async def reply(self, payload: Payload) -> None:
        """Publish the reply; return once the broker of this client has it. PublishError when the broker refuses it.
        Does nothing if nobody waits for a reply (`wants_reply`): anybody who may publish on the topic could end the
        loop of a service otherwise."""
        await self._answer(payload, {})

    async def fail(self, reason: str) -> None:
        """Answer that the request failed: the requester gets a RequestFailedError with this reason. Like `reply`, it
        does nothing if nobody waits."""
        if not isinstance(reason, str):
            raise wrong("reason", reason, "a text")
        await self._answer(b"", {FAILED: reason})

    async def _answer(self, payload: Payload, attributes: dict[str, AttributeValue]) -> None:
        if self.wants_reply:
            asked = self.message.attributes
            receipt = await self._client.publish(
                str(asked[REPLY_TO]), payload, attributes={**attributes, REQUEST_ID: asked[REQUEST_ID]}
            )
            await receipt.accepted()
        if isinstance(self.message, DurableMessage):
            with contextlib.suppress(ClosedError):  # another service of the group has it now, and replies as well
                self.message.ack()


def _is_reply_topic(value: AttributeValue | None) -> bool:
    """Return whether this is where a client hears its replies (`reply_topic`)."""
    if not isinstance(value, str) or not value.startswith(f"{REPLIES}/"):
        return False
    try:
        check_name(value.removeprefix(f"{REPLIES}/"))
    except UsageError:
        return False
    return True


class Service(Generic[T]):
    """The side that answers: requests on a topic, one after the other.

    It subscribes when it is first asked for a request, or by `await service.ready()`, which returns when the
    subscription is confirmed; it ends with its loop, and with `close`. With a `group`, each request goes to one of the
    services of that group. A request counts as served when it has its reply, or when the next one is asked for; if the
    service dies before that, another one gets it. The group stays when its services end.
    """

    def __init__(
        self, client: "Client", topic: str, where: str | None, kind: type[T] | None, group: str | None = None
    ) -> None:
        self._client = client
        self._topic = topic
        self._where = where
        self._group = group
        self._decode = decoder_of(kind) if kind is not None else None
        self._inbox: Inbox | None = None

    async def ready(self) -> "Service[T]":
        if self._inbox is None:
            if self._group is None:
                self._inbox = await self._client.subscribe(self._topic, self._where)
            else:
                self._inbox = await self._client.subscribe(self._topic, self._where, group=self._group, window=1)
        return self

    def __aiter__(self) -> AsyncIterator[ServedRequest[T]]:
        return self._each()

    async def _each(self) -> AsyncIterator[ServedRequest[T]]:
        await self.ready()
        try:
            async for message in self.inbox:
                yield self.request_of(message)
        finally:
            await self.close()

    async def next(self, timeout: float | None = None) -> ServedRequest[T]:
        """Return the next request. TimedOutError when none comes within `timeout` seconds, ClosedError when the service
        is closed."""
        timeout = check_seconds(timeout)
        async with time_limit(timeout, "no request came"):
            await self.ready()
            return self.request_of(await self.inbox.next())

    async def __aenter__(self) -> "Service[T]":
        return await self.ready()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe, or leave the group; return once no more requests can come."""
        inbox, self._inbox = self._inbox, None
        if inbox is not None and self._group is not None:
            await inbox.close()
        elif inbox is not None:
            with contextlib.suppress(ClosedError, SubscribeError):
                await self._client.unsubscribe(inbox)

    @property
    def inbox(self) -> Inbox:
        """The inbox of the service, once it is ready."""
        assert self._inbox is not None, "it is ready first"
        return self._inbox

    def request_of(self, message: Message) -> ServedRequest[T]:
        typed = TypedMessage(message, self._decode) if self._decode is not None else None
        return ServedRequest(self._client, message, typed)


class Conversing:
    """A part of `Client`, which has what is said here."""

    _requester: Requester
    _tokens: "itertools.count[int]"

    def _check_open(self) -> None:
        raise NotImplementedError

    @overload
    async def request(
        self,
        topic: str,
        payload: Payload,
        *,
        timeout: float | None = REQUEST_SECONDS,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Message: ...
    @overload
    async def request(
        self,
        topic: str,
        payload: Payload,
        *,
        type: builtins.type[T],
        timeout: float | None = REQUEST_SECONDS,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> TypedMessage[T]: ...
    async def request(
        self,
        topic: str,
        payload: Payload,
        *,
        timeout: float | None = REQUEST_SECONDS,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        type: builtins.type[Any] | None = None,
    ) -> Message | TypedMessage[Any]:
        """Publish a request and return the first reply; with a `type`, one that has a `value`.

        NoRespondersError at once, and nothing was published, when no client in the network subscribes to the topic;
        NoReplyError when no reply comes within `timeout` seconds, RequestFailedError when the service says that the
        request failed.
        """
        self._check_open()
        decode = decoder_of(type) if type is not None else None
        reply = await self._requester.request(
            topic, payload, timeout, guarantee, keys, attributes, next(self._tokens)
        )  # fmt: skip
        return reply if decode is None else TypedMessage(reply, decode)

    @overload
    def serve(self, topic: str, where: str | None = None, *, group: str | None = None) -> Service[Any]: ...
    @overload
    def serve(
        self, topic: str, where: str | None = None, *, type: builtins.type[T], group: str | None = None
    ) -> Service[T]: ...
    def serve(
        self,
        topic: str,
        where: str | None = None,
        *,
        type: builtins.type[Any] | None = None,
        group: str | None = None,
    ) -> Service[Any]:
        """Serve requests on a topic, or on all that a filter matches: `async for request in client.serve("a/+")`. With
        `group`, the services that name the same one share the requests."""
        check_filter_and_where(topic, where, "topic")
        if group is not None:
            check_name(group, "group: name of a durable subscription")
        self._check_open()
        return self._requester.serve(topic, where, type, group)
