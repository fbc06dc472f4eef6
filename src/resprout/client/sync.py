"""The client for code that blocks: the same calls without `await`, usable from any number of threads.

    with resprout.sync.connect("localhost:7450", name="teller-1") as client:
        inbox = client.subscribe("bank/+")
        client.publish("bank/pt", b"...").safe(timeout=5)
        for message in inbox:
            ...

Every client has an event loop in a thread of its own; each call goes there and back, so programs that need speed use
the asynchronous client. Every call that blocks has a `timeout` in seconds, None for no limit. When it is over the call
raises TimedOutError, a TimeoutError, and nothing is lost: the call can be repeated.
"""

import atexit
import builtins
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, ParamSpec, TypeVar, overload

from resprout.client.arguments import check_flag, check_kind, check_seconds, time_limit, wrong
from resprout.client.background import Background, within
from resprout.client.blocking import BlockingDurableInbox, BlockingInbox, BlockingReceipt, BlockingService
from resprout.client.blocking_kv import BlockingBucket
from resprout.client.client import CLOSE_SECONDS_MAX, Client
from resprout.client.connect import CONNECT_SECONDS
from resprout.client.connect import connect as connect_async
from resprout.client.errors import ClosedError, ConnectionState, OnEvent
from resprout.client.inbox import Payload, TypedMessage
from resprout.client.log_changes import CREATE_SECONDS
from resprout.client.past_events import PAGE_BYTES, EventsPage, Offset, Start
from resprout.client.queues import PEEKED, SubscriptionsFound
from resprout.client.receipts import Receipt
from resprout.client.redelivery import Redelivery
from resprout.client.requesting import REQUEST_SECONDS
from resprout.client.retaining import Handling
from resprout.client.terms import WhenFullWord
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.limits import COMPACT_BYTES, COMPACT_GRACE_US, AttributeValue
from resprout.core.message import DurableMessage, Message
from resprout.edge.client.machine import ClientOptions
from resprout.edge.requests import EventsAnswered, ReadRequest
from resprout.links.options import LinkOptions
from resprout.net.tls import Tls

T = TypeVar("T")
P = ParamSpec("P")

NO_ROOM: Final = "the network did not take more publications, and this one was not published,"
NO_ANSWER: Final = "the broker did not answer"


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    timeout: float | None = CONNECT_SECONDS,
    on_event: OnEvent | None = None,
    options: ClientOptions | None = None,
    links: LinkOptions | None = None,
    tls: Tls | str | os.PathLike[str] | None = None,
    login: str | None = None,
    epoch: int | None = None,
) -> "BlockingClient":
    """Connect to the broker at `HOST:PORT`; use the client with `with`, or close it. See `resprout.connect`.

    `on_event` is called in the client's own thread: it must not call the client there, and must not block. A client
    does not survive a fork: in the child each call raises ForkedError."""
    connecting = connect_async(
        address, name=name, timeout=timeout, on_event=on_event, options=options, links=links, tls=tls, login=login,
        epoch=epoch,
    )  # fmt: skip
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
        self.receipts = client.receipts
        atexit.register(self.close)

    @property
    def state(self) -> ConnectionState:
        """Whether the client is connected now. It connects again by itself until it is closed."""
        return ConnectionState.CLOSED if self._background.is_forked else self._client.state

    @property
    def broker(self) -> str:
        """The name of the broker that serves this client, or served it last."""
        return self._client.broker

    @property
    def max_payload(self) -> int:
        """Bytes that one payload may have, as the broker announced at connect."""
        return self._client.max_payload

    def publish(
        self,
        topic: str,
        payload: Payload,
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        retain: bool = False,
        ttl: float | None = None,
        delay: float | None = None,
        deliver_at: float | datetime | None = None,
        priority: int | None = None,
        message_id: str | None = None,
        timeout: float | None = None,
    ) -> BlockingReceipt:
        """Publish a message and return its receipt; it blocks only while the network does not keep up. `retain`, `ttl`,
        `delay`, `deliver_at`, `priority` and `message_id`: see `resprout.Client.publish`.

        UsageError (and nothing was published) for a wrong argument. TimedOutError (and nothing was published) when the
        network does not take more within `timeout` seconds.
        """
        limit = check_seconds(timeout)
        handling = Handling(retain, ttl, delay, deliver_at, priority, message_id)

        async def publish() -> Receipt:
            async with time_limit(limit, NO_ROOM):
                await self._client.wait_for_room()
            if handling.is_special:
                return self._client.add_handled(topic, payload, guarantee, keys, attributes, handling)
            return self._client.add_publication(topic, payload, guarantee, keys, attributes)

        return BlockingReceipt(self._background, self._background.call(publish()))

    def publish_bundle(
        self,
        topic: str,
        payloads: Sequence[Payload],
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Sequence[Mapping[str, AttributeValue]] | None = None,
        timeout: float | None = None,
    ) -> BlockingReceipt:
        """Publish up to 1,024 messages as one bundle; return one receipt for all of them. See `publish`."""
        limit = check_seconds(timeout)

        async def publish() -> Receipt:
            async with time_limit(limit, NO_ROOM):
                await self._client.wait_for_room()
            return self._client.add_bundle(topic, payloads, guarantee, keys, attributes)

        return BlockingReceipt(self._background, self._background.call(publish()))

    @overload
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: BlockingInbox[Message] | None = None,
        when_full: WhenFullWord | None = None,
        retained: bool = False,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
        timeout: float | None = None,
    ) -> BlockingInbox[Message]: ...
    @overload
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        manual_ack: bool = False,
        redelivery: Redelivery | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
        timeout: float | None = None,
    ) -> BlockingDurableInbox[DurableMessage]: ...
    @overload
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: BlockingInbox[TypedMessage[T]] | None = None,
        retained: bool = False,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        manual_ack: bool = False,
        redelivery: Redelivery | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
        type: builtins.type[T],
        timeout: float | None = None,
    ) -> BlockingInbox[TypedMessage[T]]: ...
    def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: BlockingInbox[Any] | None = None,
        retained: bool = False,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        manual_ack: bool = False,
        redelivery: Redelivery | None = None,
        replay_from: Start | str | None = None,
        allow_gaps: bool = False,
        log: str | None = None,
        type: builtins.type[Any] | None = None,
        timeout: float | None = None,
    ) -> BlockingInbox[Any]:
        """Subscribe and return an inbox once the subscription is confirmed: every later match is delivered. See
        `resprout.Client.subscribe`."""
        check_kind(into, "into", BlockingInbox, "an inbox that subscribe() returned, or None")
        check_flag(manual_ack, "manual_ack")
        limit = check_seconds(timeout)
        is_durable = durable is not None or group is not None
        arguments: dict[str, Any] = {
            "into": into.inbox if into is not None else None, "durable": durable, "group": group,
            "when_full": when_full, "max_pending": max_pending, "window": window,
            "manual_ack": True if is_durable else manual_ack, "redelivery": redelivery, "replay_from": replay_from,
            "allow_gaps": allow_gaps, "log": log, "type": type, "retained": retained,
        }  # fmt: skip

        async def subscribe() -> Any:
            return await self._client.subscribe(filter, where, **arguments)

        inbox = self._background.call(within(limit, "the subscription was not confirmed", subscribe))
        if into is not None:
            return into
        if is_durable:
            return BlockingDurableInbox(self._background, inbox, manual_ack)
        return BlockingInbox(self._background, inbox)

    def kv(self, bucket: str) -> BlockingBucket:
        """Return a key-value bucket (docs/kv.md)."""
        return BlockingBucket(self._background, self._client.kv(bucket))

    def end_subscription(self, name: str, *, timeout: float | None = None) -> None:
        """End a durable subscription for all its consumers, without consuming it; SubscribeError when there is none."""
        self._call(timeout, "the subscription did not end", self._client.end_subscription, name)

    def subscriptions(self, *, timeout: float | None = None) -> SubscriptionsFound:
        """Return every durable subscription and group; see `resprout.Client.subscriptions`."""
        return self._call(timeout, "brokers did not tell of subscriptions", self._client.subscriptions)

    def peek(self, name: str, count: int = PEEKED, *, timeout: float | None = None) -> Sequence[Message]:
        """Return the next messages that wait for a durable subscription; see `resprout.Client.peek`."""
        return self._call(timeout, "the messages were not shown", self._client.peek, name, count)

    def purge(self, name: str, *, timeout: float | None = None) -> None:
        """Drop all messages that wait for a durable subscription; see `resprout.Client.purge`."""
        self._call(timeout, "the subscription was not purged", self._client.purge, name)

    def replay_dead_letters(self, name: str, *, timeout: float | None = None) -> int:
        """Publish the dead letters of a durable subscription again; see `resprout.Client.replay_dead_letters`."""
        return self._call(timeout, "not all dead letters were replayed", self._client.replay_dead_letters, name)

    def unsubscribe(self, inbox: BlockingInbox[Any], *, timeout: float | None = None) -> None:
        """End every subscription that feeds the inbox; see `resprout.Client.unsubscribe`."""
        if not isinstance(inbox, BlockingInbox):
            raise wrong("inbox", inbox, "an inbox that subscribe() returned, not a filter")
        self._call(timeout, "the subscription did not end", self._client.unsubscribe, inbox.inbox)

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
        """Publish a request and return the first reply; see `resprout.Client.request`. NoRespondersError at once when
        no client subscribes to the topic, NoReplyError when no reply comes within `timeout` seconds,
        RequestFailedError when the service says that the request failed."""
        more: dict[str, Any] = {} if type is None else {"type": type}
        return self._background.call(
            self._client.request(
                topic, payload, timeout=timeout, guarantee=guarantee, keys=keys, attributes=attributes, **more
            )
        )

    @overload
    def serve(
        self, topic: str, where: str | None = None, *, group: str | None = None, timeout: float | None = None
    ) -> BlockingService[Any]: ...
    @overload
    def serve(
        self,
        topic: str,
        where: str | None = None,
        *,
        type: builtins.type[T],
        group: str | None = None,
        timeout: float | None = None,
    ) -> BlockingService[T]: ...
    def serve(
        self,
        topic: str,
        where: str | None = None,
        *,
        type: builtins.type[Any] | None = None,
        group: str | None = None,
        timeout: float | None = None,
    ) -> BlockingService[Any]:
        """Serve requests on a topic, or on all that a filter matches; return once the subscription is confirmed. With
        `group`, the services that name the same one share the requests."""
        more: dict[str, Any] = {} if type is None else {"type": type}

        async def ready() -> Any:
            return await self._client.serve(topic, where, group=group, **more).ready()

        limit = check_seconds(timeout)
        service = self._background.call(within(limit, "the subscription was not confirmed", ready))
        return BlockingService(self._background, service)

    def read(
        self,
        filter: str,
        where: str | None = None,
        *,
        start: Start | str = "earliest",
        size: int = PAGE_BYTES,
        allow_gaps: bool = False,
        log: str | None = None,
        timeout: float | None = None,
    ) -> EventsPage:
        """Return a page of the events that the broker keeps, or of a log; see `resprout.Client.read`."""
        limit, read = check_seconds(timeout), self._client.read
        return self._background.call(
            within(limit, NO_ANSWER, read, filter, where, start=start, size=size, allow_gaps=allow_gaps, log=log)
        )

    def read_events(self, request: ReadRequest, *, timeout: float | None = None) -> EventsAnswered:
        """Return past events as the broker sends them: in bundles. See `resprout.Client.read_events`."""
        return self._call(timeout, NO_ANSWER, self._client.read_events, request)

    def commit(
        self, log: str, name: str, offset: Offset | str | int, *, force: bool = False, timeout: float | None = None
    ) -> Offset:
        """Store how far a reader of a log has come; see `resprout.Client.commit`."""
        limit, commit = check_seconds(timeout), self._client.commit
        return self._background.call(within(limit, NO_ANSWER, commit, log, name, offset, force=force))

    def committed(self, log: str, name: str, *, timeout: float | None = None) -> Offset | None:
        """Return the position that is stored under a name, None if there is none. See `resprout.Client.committed`."""
        return self._call(timeout, NO_ANSWER, self._client.committed, log, name)

    def forget_position(self, log: str, name: str, *, timeout: float | None = None) -> None:
        """Delete the position that is stored under a name."""
        self._call(timeout, NO_ANSWER, self._client.forget_position, log, name)

    def create_log(
        self,
        name: str,
        filter: str,
        *,
        replicas: Sequence[str],
        retain_bytes: int = 1 << 30,
        retain_us: int = 0,
        flush: str = "always",
        partitions: int = 1,
        compact: bool = False,
        compact_grace_us: int = COMPACT_GRACE_US,
        compact_bytes: int = COMPACT_BYTES,
        timeout: float = CREATE_SECONDS,
    ) -> None:
        """Create a log; see `resprout.Client.create_log`."""
        self._background.call(
            self._client.create_log(
                name, filter, replicas=replicas, retain_bytes=retain_bytes, retain_us=retain_us, flush=flush,
                partitions=partitions, compact=compact, compact_grace_us=compact_grace_us, compact_bytes=compact_bytes,
                timeout=timeout,
            )
        )  # fmt: skip

    def move_log(self, name: str, replicas: Sequence[str], *, timeout: float | None = None) -> None:
        """Give a log other replicas; see `resprout.Client.move_log`."""
        self._call(timeout, NO_ANSWER, self._client.move_log, name, replicas)

    def delete_log(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a log with its messages and positions; see `resprout.Client.delete_log`."""
        self._call(timeout, NO_ANSWER, self._client.delete_log, name)

    def forget(self, *names: str, force: bool = False, timeout: float | None = None) -> None:
        """Tell the network that these brokers never return; see `resprout.Client.forget` before you use it. ForgetError
        when the broker refuses."""
        limit = check_seconds(timeout)
        self._background.call(within(limit, NO_ANSWER, self._client.forget, *names, force=force))

    def close(self, timeout: float | None = CLOSE_SECONDS_MAX) -> None:
        """Wait up to `timeout` seconds until the broker has accepted everything that was published, then end the
        session and the thread. It may be called twice, and from any thread. In a forked child it does nothing: the
        session belongs to the parent."""
        timeout = check_seconds(timeout)
        atexit.unregister(self.close)
        if self._background.is_forked:
            return
        try:
            self._background.call(self._client.close(timeout))
        except ClosedError:
            return  # another thread has closed it
        finally:
            self._background.stop()

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self, timeout: float | None, failure: str, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args,
        **kw: P.kwargs,
    ) -> T:  # fmt: skip
        return self._background.call(within(check_seconds(timeout), failure, work, *args, **kw))
