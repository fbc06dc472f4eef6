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

import atexit
import builtins
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from resprout.client.asking import PAGE_BYTES, EventsPage, Start
from resprout.client.blocking import (
    Background,
    BlockingDurableInbox,
    BlockingInbox,
    BlockingReceipt,
    BlockingService,
    within,
)
from resprout.client.client import Client
from resprout.client.connect import CONNECT_SECONDS
from resprout.client.connect import connect as connect_async
from resprout.client.durable import WhenFullWord
from resprout.client.durable_inbox import DurableInbox
from resprout.client.errors import ClosedError
from resprout.client.events import OnEvent
from resprout.client.requesting import REQUEST_SECONDS
from resprout.client.typed import Payload, TypedMessage
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.message import Message
from resprout.core.names import AttributeValue
from resprout.edge.client.machine import ClientOptions
from resprout.net.keyring import Tls

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
    life: int | None = None,
) -> "BlockingClient":
    """A client of the broker at `HOST:PORT`; use it with `with`, or close it yourself. See `resprout.connect`. Events
    are told in the client's own thread: `on_event` must not call the client there, and must not block."""
    connecting = connect_async(
        address, name=name, timeout=timeout, on_event=on_event, options=options, tls=tls, login=login, life=life
    )
    background = Background(f"resprout {address}")

    async def begin() -> Client:
        return await connecting

    try:
        return BlockingClient(background, background.call(begin()))
    except BaseException:
        background.stop()
        raise


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
        payload: Payload,
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
        """Publish many messages as one bundle; the receipt is that of the last. See the asynchronous client."""
        work = self._client.publish_bundle(topic, payloads, guarantee=guarantee, keys=keys, attributes=attributes)
        return BlockingReceipt(self._background, self._background.call(work))

    @overload
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: BlockingInbox[Message] | None = None,
        when_full: WhenFullWord | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        timeout: float | None = None,
    ) -> BlockingInbox[Message]: ...
    @overload
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: BlockingInbox[TypedMessage[T]] | None = None,
        when_full: WhenFullWord | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        type: builtins.type[T],
        timeout: float | None = None,
    ) -> BlockingInbox[TypedMessage[T]]: ...
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: BlockingInbox[Any] | None = None,
        when_full: WhenFullWord | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        type: builtins.type[Any] | None = None,
        timeout: float | None = None,
    ) -> BlockingInbox[Any]:
        """Subscribe and return when it is confirmed: from then on nothing that matches is missed. See the asynchronous
        client; `into`: an inbox of this client that is fed by this subscription as well."""
        more: dict[str, Any] = {} if type is None else {"type": type}
        if when_full is not None:
            more["when_full"] = when_full
        if into is not None:
            more["into"] = into.inbox
        if replay_from is not None:
            more["replay_from"] = replay_from
        if allow_gaps:
            more["allow_gaps"] = True

        async def subscribe() -> Any:
            return await self._client.subscribe(filter, where, **more)

        inbox = self._background.call(within(timeout, subscribe))
        return into or BlockingInbox(self._background, inbox)

    def consume(
        self,
        filter: str,
        where: str | None = None,
        *,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        most: int | None = None,
        window: int | None = None,
        by_hand: bool = False,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        timeout: float | None = None,
    ) -> BlockingDurableInbox:
        """Consume a durable subscription, alone or in a group: `Client.subscribe` with a name."""

        async def consume() -> DurableInbox:
            return await self._client.subscribe(
                filter, where, durable=durable or group, group=group, when_full=when_full, most=most, window=window,
                by_hand=by_hand, replay_from=replay_from, allow_gaps=allow_gaps,
            )  # fmt: skip

        return BlockingDurableInbox(self._background, self._background.call(within(timeout, consume)))

    def end_subscription(self, name: str, *, timeout: float | None = None) -> None:
        """End a durable subscription for everybody, without consuming it; SubscribeError when there is none."""
        self._background.call(within(timeout, self._client.end_subscription, name))

    def unsubscribe(self, inbox: BlockingInbox[Any], *, timeout: float | None = None) -> None:
        """End the subscription; returns when nothing of it can come any more. What came before is still handed out."""
        self._background.call(within(timeout, self._client.unsubscribe, inbox.inbox))

    @overload
    def request(
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
    def request(
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
    def request(
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
        """Publish a request and return the first reply. Raises NobodyListensError at once when nobody listens,
        NoReplyError when no reply comes in time, RequestFailedError when whoever serves it says so."""
        more: dict[str, Any] = {} if type is None else {"type": type}
        return self._background.call(
            self._client.request(
                topic, payload, timeout=timeout, guarantee=guarantee, keys=keys, attributes=attributes, **more
            )
        )

    @overload
    def serve(self, topic: str, where: str | None = None, *, timeout: float | None = None) -> BlockingService[Any]: ...
    @overload
    def serve(
        self, topic: str, where: str | None = None, *, type: builtins.type[T], timeout: float | None = None
    ) -> BlockingService[T]: ...
    def serve(
        self,
        topic: str,
        where: str | None = None,
        *,
        type: builtins.type[Any] | None = None,
        timeout: float | None = None,
    ) -> BlockingService[Any]:
        """Requests on a topic, or on all that a filter matches; returns when the subscription is confirmed."""
        more: dict[str, Any] = {} if type is None else {"type": type}

        async def ready() -> Any:
            return await self._client.serve(topic, where, **more).ready()

        return BlockingService(self._background, self._background.call(within(timeout, ready)))

    def read(
        self,
        filter: str,
        where: str | None = None,
        *,
        start: Start = "earliest",
        size: int = PAGE_BYTES,
        allow_gaps: bool = False,
        timeout: float | None = None,
    ) -> EventsPage:
        """A page of what the broker keeps of the past; see the asynchronous client."""
        return self._background.call(
            within(timeout, self._client.read, filter, where, start=start, size=size, allow_gaps=allow_gaps)
        )

    def forget(self, *names: str, force: bool = False, timeout: float | None = None) -> None:
        """Tell the network that these brokers never return. Everybody who can connect may do this: read what the
        asynchronous client says about it. Raises ForgetError when it is refused."""
        self._background.call(within(timeout, self._client.forget, *names, force=force))

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
