"""The asynchronous client.

    async with resprout.connect("localhost:7450", name="teller-1") as client:
        inbox = await client.subscribe("bank/+", where="amount > 100")
        receipt = await client.publish("bank/pt", b"...", guarantee="causal", attributes={"amount": 120})
        await receipt.safe()
        async for message in inbox:
            ...

When its broker dies another one takes over, and the program notices nothing: receipts stay valid, and inboxes go on. If
the network had to lose messages, the inboxes concerned end with an error that says so.

`Client` publishes through `client.publisher`, subscribes through `client.subscriptions`, reads the past through
`client.past_events`, follows logs through `client.logs`, and makes requests through `client.requesting`. All of it runs
in one event loop.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

from resprout.client.arguments import check_seconds, wrong
from resprout.client.durable import DurableInbox, consume
from resprout.client.errors import (
    ClientEvent,
    ClosedError,
    Connected,
    ConnectionState,
    DeliveriesMissing,
    Disconnected,
    EventsMissing,
    MessagesDropped,
    OnEvent,
    PublicationDelayed,
    PublishError,
    ReadError,
    Reconnected,
    SlowConsumer,
    SlowConsumerError,
    TellGap,
    gap_text,
    log_event,
)
from resprout.client.following import LogInbox
from resprout.client.inbox import Batch, Inbox, TypedInbox, plain
from resprout.client.kv import Bucket
from resprout.client.logs import LogClient
from resprout.client.past_events import EventsPage, ReplayingInbox, Start, replay_text
from resprout.client.publisher import Turns
from resprout.client.queues import QueueCalls
from resprout.client.redelivery import Redelivery
from resprout.client.requesting import Conversing, Requester
from resprout.client.subscriptions import ClientSubscriptions, Subscribing, Subscription
from resprout.client.terms import WhenFullWord, check_offered_here, read_policy, read_terms
from resprout.core.contract import Answer, Deliver, EndCode
from resprout.core.errors import UnsupportedSubscriptionError, UsageError
from resprout.core.guarantee import ReceiptLevel
from resprout.core.message import Message, MessageId
from resprout.edge.client.machine import ClientMachine
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.requests import (
    BrokerChanged,
    ConnectionTurned,
    CopiesCounted,
    DeliveriesSkipped,
    LeaveRequest,
    PublishingHeld,
    ReceiptTurned,
    ReceiptWaits,
    Refused,
    RoomAgain,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    SubscriptionRestarted,
    TakeRequest,
    UnsubscribeRequest,
)  # fmt: skip
from resprout.links.options import LinkOptions
from resprout.net.host import Host, Upward
from resprout.stacks.status import DurableSeen

CLOSE_SECONDS_MAX = 5.0

_CLIENTS: "WeakSet[Client]" = WeakSet()
"""The clients of this process."""


class Client(LogClient, QueueCalls, Conversing, Subscribing):
    """A connected client. Made by `resprout.connect`."""

    def __init__(
        self,
        machine: ClientMachine,
        host: Host,
        began: SessionBegan,
        on_event: OnEvent | None = None,
        links: LinkOptions | None = None,
    ) -> None:
        super().__init__(machine, host, began.faults_tolerated + 1)
        self.name = machine.name
        self.stack = began.stack
        self.guarantees = began.guarantees
        self.faults_tolerated = began.faults_tolerated
        self.receipts = began.receipts
        self._on_event = on_event
        self._is_connected = True
        self._links = links or LinkOptions()
        self._when_full: WhenFull | None = None
        """The policy that the program chose for all its subscriptions."""
        self._durables: set[DurableInbox] = set()
        """Durable subscriptions that this program consumes."""
        for stream in self._streams.values():
            stream.offer(began.stack, began.receipts)
        self._subscriptions = ClientSubscriptions()
        self._requester = Requester(self, host.handle)
        self._batches: deque[Batch] = deque()
        self._taken_batches = 0
        self._taking = Turns(self._loop, lambda: self._taken_batches, self._take)
        self._tell: dict[type, Callable[[Any], None]] = {
            ReceiptTurned: self._turned,
            ReceiptWaits: self._waits,
            BrokerChanged: self._raise_event,
            ConnectionTurned: self._connection_turned,
            PublishingHeld: self._raise_event,
            DeliveriesSkipped: self._skipped,
            CopiesCounted: lambda news: self._streams[news.stream].count(news.first, news.copies),
            SubscriptionConfirmed: self._confirmed,
            SubscriptionEnded: self._ended,
            SubscriptionRestarted: self._subscriptions.restart,
            Refused: self._refused,
            RoomAgain: self._room_again,
            SessionLost: self._lost,
        }
        _CLIENTS.add(self)
        self._raise_event(Connected(self.broker))

    # -- the connection ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConnectionState:
        """Whether the client is connected now. It connects again by itself until it is closed."""
        if self._closed is not None:
            return ConnectionState.CLOSED
        return ConnectionState.CONNECTED if self._is_connected else ConnectionState.RECONNECTING

    @property
    def broker(self) -> str:
        """The name of the broker that serves this client, or served it last."""
        return self._machine.broker

    @property
    def max_payload(self) -> int:
        """Bytes that one payload may have, as the broker announced at connect."""
        return self._machine.publishing.payload_max

    def _connection_turned(self, news: ConnectionTurned) -> None:
        self._is_connected = news.is_up
        self._raise_event(Reconnected(news.broker) if news.is_up else Disconnected(news.broker, news.reason))

    # -- subscribing ---------------------------------------------------------------------------------------------------

    async def _consume(
        self,
        name: str,
        terms: Terms,
        window: int | None,
        manual_ack: bool,
        replay_from: Start | None,
        read: Callable[[Start], Awaitable[EventsPage]],
    ) -> Inbox:
        """Begin to consume a durable subscription, or the share of a group."""
        check_offered_here(self._machine.serving)
        if any(other.name == name and not other.is_over for other in self._durables):
            argument = "group" if terms.group else "durable"
            raise UsageError(f"{argument}={name!r}: this client consumes it already")
        replay = ""
        if replay_from is not None:
            if terms.group:
                raise UnsupportedSubscriptionError("replay_from: a group does not begin in the past")
            replay = replay_text(replay_from)
            await read(replay_from)  # raises before the subscription exists

        async def read_at(home: str, start: Start) -> EventsPage:
            if home != self._machine.broker:
                raise ReadError(f"{name!r} is held by {home}, and its past is read there: connect to that broker")
            return await read(start)

        consumed = await consume(
            self._host, self.name, self._machine.brokers, self._links, name, terms,
            window=window, manual_ack=manual_ack, on_event=self._on_event, replay=replay, read=read_at,
            missing=self._missing(terms.filter),
        )  # fmt: skip
        self._durables.add(consumed)
        return consumed

    async def _subscribe(
        self,
        filter: str,
        where: str | None,
        into: Inbox | None,
        durable: str | None,
        group: str | None,
        when_full: WhenFullWord | None,
        max_pending: int | None,
        window: int | None,
        manual_ack: bool,
        redelivery: Redelivery | None,
        replay_from: Start | None,
        allow_gaps: bool,
        retained: bool,
    ) -> Inbox:
        self._check_open()
        read = partial(self._read_whole, filter, where, allow_gaps=allow_gaps)
        if durable is not None or group is not None:
            if into is not None:
                raise UsageError("into: a durable subscription has an inbox of its own")
            name, terms = read_terms(filter, where, durable, group, when_full, max_pending, redelivery)
            return await self._consume(name, terms, window, manual_ack, replay_from, read)
        if when_full is not None:
            policy = read_policy(when_full)
            if self._when_full not in (None, policy) and self._subscriptions:
                raise UsageError(
                    f"when_full={when_full!r}: all plain subscriptions of a client have the same; use another client"
                )
            self._when_full = self._machine.when_full = policy
        request = SubscribeRequest(filter, where)
        while (earlier := self._subscriptions.find(request)) is not None:
            if earlier.ended is None:
                raise UsageError(f"filter={filter!r}: this client has subscribed to {earlier} already")
            await asyncio.shield(earlier.ended)
            self._check_open()
        if into is not None and not into.belongs_to(self._taken):
            raise UsageError("into: this inbox is over, or belongs to another client")
        if replay_from is not None and into is not None:
            raise UsageError("into: a subscription that begins in the past (replay_from) has an inbox of its own")
        replaying = None
        if replay_from is not None:
            replaying = ReplayingInbox(
                self._taken, self._loop, self.unsubscribe, replay_from, read, self._missing(filter)
            )
        inbox = replaying or into or Inbox(self._taken, self._loop, self.unsubscribe)
        subscription = self._subscriptions.add(request, inbox)
        self._ask(SubscribeRequest(filter, where, retained))
        try:
            await subscription.confirmed
        except asyncio.CancelledError:
            if not subscription.confirmed.cancelled():
                subscription.confirmed.exception()  # retrieved, so that asyncio does not log it
            if self._subscriptions.find(request) is subscription:
                self._subscriptions.give_up(subscription)
                self._end(subscription)
            raise
        if replaying is not None:
            try:
                await replaying.open()
            except BaseException:
                self._end(subscription)
                raise
        return inbox

    def _missing(self, filter: str) -> TellGap:
        """Tell the program what a subscription that begins in the past has passed over."""
        return lambda journal, gap: self._raise_event(EventsMissing(filter, gap, gap_text(journal, gap)))

    def kv(self, bucket: str) -> Bucket:
        """Return a key-value bucket (docs/kv.md)."""
        return Bucket(self, bucket)

    async def unsubscribe(self, inbox: Inbox | TypedInbox[Any]) -> None:
        """End every subscription that feeds the inbox; return once no message of them can come any more.

        Messages that came before are still handed out, then the inbox ends. Cancelling the call still ends the
        subscriptions. A durable subscription ends for all its consumers, with everything that waits for it; to release
        it without ending it, close its inbox.
        """
        if not isinstance(inbox, Inbox | TypedInbox):
            raise wrong("inbox", inbox, "an inbox that subscribe() returned, not a filter")
        self._check_open()
        inbox = plain(inbox)
        if isinstance(inbox, LogInbox):
            await inbox.unsubscribe()
            return
        if isinstance(inbox, DurableInbox):
            if inbox not in self._durables:
                raise UsageError(f"inbox: {inbox.name!r} is closed, or belongs to another client")
            await inbox.unsubscribe()
            self._durables.discard(inbox)
            return
        if not inbox.is_over and not inbox.belongs_to(self._taken):
            raise UsageError("inbox: it belongs to another client")
        waits = [self._end(subscription) for subscription in self._subscriptions.of(inbox)]
        if waits:
            await asyncio.gather(*(asyncio.shield(ended) for ended in waits))

    async def _consume_letters(self, store: DurableSeen) -> DurableInbox:
        when_full: WhenFullWord = "spill" if store.when_full == "spill" else "block"
        inbox = await self.subscribe(store.filter, group=store.name, when_full=when_full, window=1, manual_ack=True)
        assert isinstance(inbox, DurableInbox), "a group has one"
        return inbox

    # -- the end -------------------------------------------------------------------------------------------------------

    async def close(self, timeout: float | None = CLOSE_SECONDS_MAX) -> None:
        """Wait up to `timeout` seconds until the broker has accepted everything that was published, then end the
        session. It may be called twice."""
        timeout = check_seconds(timeout)
        try:
            while self._durables:
                await self._durables.pop().close()
            if self._closed is None:
                if self._taking.waiting:
                    self._take()
                self._flush()
                with contextlib.suppress(TimeoutError):  # a program that needs to know has waited for the receipt
                    async with asyncio.timeout(timeout):
                        for stream in self._streams.values():
                            with contextlib.suppress(PublishError):
                                await stream.reach(ReceiptLevel.ACCEPTED, self._machine.outgoing.last(stream.name))
        finally:
            if self._closed is None:
                self._leave()
                self._shut("the client is closed", None)
            await self._host.close()

    def close_after_fork(self, reason: str) -> None:
        """Refuse every further call; nothing else is touched, because the parent uses the same sockets."""
        self._builder.unchecked_end = 0
        if self._closed is None:
            self._closed = reason

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- what the machine says -----------------------------------------------------------------------------------------

    def hear(self, effect: Upward) -> None:
        """Take deliveries and news from the host."""
        if type(effect) is Deliver:
            if effect.wanted_by is None:
                self._deliver(effect.messages)
            else:
                self._deliver_values(effect)
        elif type(effect) is Answer:
            if effect.token:
                self._answered(effect.token, effect.body)
            elif (tell := self._tell.get(type(effect.body))) is not None:
                tell(effect.body)

    def _deliver(self, messages: Sequence[Message]) -> None:
        if (sole := self._subscriptions.sole) is not None:
            batch = Batch(1)
            self._batches.append(batch)
            sole.put(batch, messages)
            return
        parts: dict[Inbox, list[Message]] = {}
        for message in messages:
            for inbox in self._subscriptions.inboxes(message):
                parts.setdefault(inbox, []).append(message)
        batch = Batch(len(parts))
        self._batches.append(batch)
        for inbox, part in parts.items():
            inbox.put(batch, part)
        if not parts:  # its subscription was given up
            self._take_soon()

    def _deliver_values(self, effect: Deliver) -> None:
        """Hand last values to the subscription that begins with them, and to no other."""
        inbox = self._subscriptions.inbox_of(effect.wanted_by)
        self._batches.append(batch := Batch(0 if inbox is None else 1))
        if inbox is None:  # its subscription was given up
            self._take_soon()
        else:
            inbox.put(batch, effect.messages)

    def _taken(self, batch: Batch) -> None:
        batch.parts -= 1
        if batch.parts == 0:
            self._take_soon()

    def _take_soon(self) -> None:
        """Not now: the message goes out first, and this may be in the middle of what the machine wants done."""
        self._taken_batches += 1
        if not self._taking.waiting:
            self._taking.wait(self._taking.idle or self._machine.incoming.awaited)

    def _take(self) -> None:
        """Deliveries are acknowledged in order, so one that an idle inbox holds keeps those behind it waiting."""
        self._taking.over()
        count = 0
        while self._batches and self._batches[0].parts == 0:
            self._batches.popleft()
            count += 1
        if count and self._closed is None:
            self._ask(TakeRequest(count))

    def _turned(self, news: ReceiptTurned) -> None:
        self._streams[news.stream].turned(news.receipt, news.first, news.last)

    def _waits(self, news: ReceiptWaits) -> None:
        stream = self._streams[news.stream]
        stream.waits(news.seq, news.reason)
        self._raise_event(PublicationDelayed(MessageId(*stream.origin, news.seq), news.reason))

    def _raise_event(self, event: ClientEvent) -> None:
        """Log it, and tell the program in the next turn of the loop: the machine is in the middle of a step."""
        log_event(self.name, event, self._on_event is not None)
        if self._on_event is not None:
            self._loop.call_soon(self._on_event, event)

    def _skipped(self, news: DeliveriesSkipped) -> None:
        if self._subscriptions.sole is not None:
            self._subscriptions.sole.dropped += news.count
        self._raise_event(MessagesDropped("", news.count, news.reason))

    def _confirmed(self, news: SubscriptionConfirmed) -> None:
        self._subscriptions.confirm(SubscribeRequest(news.filter, news.where))

    def _ended(self, news: SubscriptionEnded) -> None:
        self._subscriptions.remove(SubscribeRequest(news.filter, news.where), "it was ended before it was confirmed")

    def _refused(self, news: Refused) -> None:
        request = news.request
        if isinstance(request, SubscribeRequest | UnsubscribeRequest):
            self._give_up(self._subscriptions.refuse(SubscribeRequest(request.filter, request.where), news.reason))
        elif news.stream:
            self._streams[news.stream].refused(news.first, news.last, news.reason)

    def _lost(self, news: SessionLost) -> None:
        replaced = news.code is EndCode.REPLACED
        why = f"another client took the name {self.name!r}" if replaced else news.reason
        reason = f"the session with the broker was lost: {why}"
        if self._closed is not None:
            return
        if news.over:
            self._is_connected = False
            self._raise_event(Disconnected(self.broker, why, is_final=True))
        if news.code is EndCode.SLOW:
            self._raise_event(SlowConsumer(news.reason))
            self._shut(reason, reason, SlowConsumerError)
        elif news.over:
            self._shut(reason, reason)
        else:
            self._raise_event(DeliveriesMissing(news.reason))
            # Only the program knows what to do about what was missed, so it has to subscribe again itself.
            self._give_up(self._subscriptions.lose(reason))

    def _give_up(self, subscriptions: Iterable[Subscription]) -> None:
        for subscription in subscriptions:
            if subscription.ended is None:
                subscription.ended = self._loop.create_future()
                self._loop.call_soon(self._ask_end, subscription)  # the machine is in the middle of something

    # -- inside: the rest ----------------------------------------------------------------------------------------------

    def _end(self, subscription: Subscription) -> "asyncio.Future[None]":
        """Ask for its end, once."""
        if subscription.ended is None:
            subscription.ended = self._loop.create_future()
            self._ask_end(subscription)
        return subscription.ended

    def _ask_end(self, subscription: Subscription) -> None:
        if self._closed is None:
            self._ask(UnsubscribeRequest(subscription.request.filter, subscription.request.where))

    def _leave(self) -> None:
        self._ask(LeaveRequest())

    def _shut(self, reason: str, failure: str | None, error: type[ClosedError] = ClosedError) -> None:
        self._builder.unchecked_end = 0
        self._closed = reason
        for stream in self._streams.values():
            stream.close(reason)
        self._subscriptions.shut(reason, failure, error)
        self._end_followed(failure, error)
        self._answer_nothing(reason)
        self._requester.close(reason)
        self._room_again(RoomAgain())


def _close_in_child() -> None:
    """In a forked child: refuse further calls of every client. The sessions belong to the parent; nothing is sent."""
    reason = "the client was connected before a fork and is used in the child: connect again in the child"
    for client in list(_CLIENTS):
        client.close_after_fork(reason)


os.register_at_fork(after_in_child=_close_in_child)
