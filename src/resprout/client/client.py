"""The asynchronous client.

    async with resprout.connect("localhost:7450", name="teller-1") as client:
        inbox = await client.subscribe("bank/+", where="amount > 100")
        receipt = await client.publish("bank/pt", b"...", guarantee="causal", attributes={"amount": 120})
        await receipt.safe()
        async for message in inbox:
            ...

When its broker dies another one takes over, and the program notices nothing: what was published keeps its receipts, and
inboxes go on. Only where the network had to lose something, inboxes end with an error that says so.

All of it runs in one event loop.
"""

import asyncio
import builtins
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from resprout.client.conversing import Conversing
from resprout.client.errors import ClosedError, ForgetError, PublishError, SubscribeError
from resprout.client.events import ClientEvent, DeliveriesMissing, OnEvent, PublicationDelayed
from resprout.client.inbox import Batch, Inbox
from resprout.client.past import PAGE_BYTES, EventsPage, Start, page_of, read_request
from resprout.client.publisher import Publisher
from resprout.client.requesting import Requester
from resprout.client.subscriptions import ClientSubscriptions, Subscription
from resprout.client.turns import Turns
from resprout.client.typed import TypedInbox, inbox_of_type, plain
from resprout.core.contract import Answer, Deliver, EndCode, Request
from resprout.core.errors import UsageError
from resprout.core.guarantee import ReceiptLevel
from resprout.core.message import Message
from resprout.core.names import check_topic
from resprout.edge.client.forgetting import check_names
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import (
    AdvertiseRequest,
    AudienceAnswered,
    BrokerChanged,
    CopiesCounted,
    EventsAnswered,
    ForgetAnswered,
    ForgetRequest,
    LeaveRequest,
    ReadRequest,
    ReceiptTurned,
    ReceiptWaits,
    Refused,
    RoomAgain,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    TakeRequest,
    UnsubscribeRequest,
)  # fmt: skip
from resprout.net.host import Host, Upward

T = TypeVar("T")

CLOSE_SECONDS_MAX = 5.0


class Client(Publisher, Conversing):
    """A connected client. Made by `resprout.connect`."""

    def __init__(
        self, machine: ClientMachine, host: Host, began: SessionBegan, on_event: OnEvent | None = None
    ) -> None:
        super().__init__(machine, host, began.faults_tolerated + 1)
        self.name = machine.name
        self.stack = began.stack
        self.guarantees = began.guarantees
        self.faults_tolerated = began.faults_tolerated
        self.receipts = began.receipts
        self._on_event = on_event
        for stream in self._streams.values():
            stream.offer(began.stack, began.receipts)
        self._subscriptions = ClientSubscriptions()
        self._batches: deque[Batch] = deque()
        self._taken_batches = 0
        self._taking = Turns(self._loop, lambda: self._taken_batches, self._take)
        self._forgetting: dict[int, asyncio.Future[str]] = {}
        """Requests that are not answered yet, by token; the answer is a reason why not, or empty."""
        self._reading: dict[int, asyncio.Future[EventsAnswered]] = {}
        """The same of what is read."""
        self._tokens = itertools.count(1)
        self._requester = Requester(self, host.handle)
        self._tell: dict[type, Callable[[Any], None]] = {
            ReceiptTurned: self._turned,
            ReceiptWaits: self._waits,
            BrokerChanged: self._raise_event,
            CopiesCounted: lambda news: self._streams[news.stream].count(news.first, news.copies),
            SubscriptionConfirmed: self._confirmed,
            SubscriptionEnded: self._ended,
            Refused: self._refused,
            RoomAgain: self._room_again,
            SessionLost: self._lost,
        }

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def advertise(self, topic: str) -> None:
        """Announce that this client will publish on the topic. The first publication does it, too."""
        self._ask(AdvertiseRequest(check_topic(topic)))

    # -- subscribing ---------------------------------------------------------------------------------------------------

    @overload
    async def subscribe(self, filter: str, where: str | None = None, *, into: Inbox | None = None) -> Inbox: ...
    @overload
    async def subscribe(
        self, filter: str, where: str | None = None, *, into: TypedInbox[T] | None = None, type: builtins.type[T]
    ) -> TypedInbox[T]: ...
    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        into: Inbox | TypedInbox[Any] | None = None,
        type: builtins.type[Any] | None = None,
    ) -> Inbox | TypedInbox[Any]:
        """Subscribe and return when it is confirmed: from then on nothing that matches is missed.

        Every subscription has an inbox of its own, unless one is given. A message that matches several subscriptions
        is put once into each inbox concerned. Read them all: messages are acknowledged in the order in which they came,
        so an inbox that nobody reads holds the others back once it is full. Cancelled, it has subscribed to nothing.

        With a `type`, each message has a `value` of that type, which is decoded from its payload when it is asked for.
        """
        if type is not None:
            inbox = await self.subscribe(filter, where, into=inbox_of_type(into, type))
            return into if isinstance(into, TypedInbox) else TypedInbox(inbox, type)
        if isinstance(into, TypedInbox):
            raise UsageError("this inbox has messages of a type: say which")
        self._check_open()
        request = SubscribeRequest(filter, where)
        while (earlier := self._subscriptions.find(request)) is not None:
            if earlier.ended is None:
                raise SubscribeError(f"already subscribed to {earlier}")
            await asyncio.shield(earlier.ended)
            self._check_open()
        if into is not None and not into.belongs_to(self._taken):
            raise UsageError("this inbox is over, or belongs to another client")
        inbox = into or Inbox(self._taken, self._loop)
        subscription = self._subscriptions.add(request, inbox)
        self._ask(request)
        try:
            await subscription.confirmed
        except asyncio.CancelledError:
            if not subscription.confirmed.cancelled():
                subscription.confirmed.exception()  # seen: nobody else will ask for it
            if self._subscriptions.find(request) is subscription:
                self._subscriptions.give_up(subscription)
                self._end(subscription)
            raise
        return inbox

    async def unsubscribe(self, inbox: Inbox | TypedInbox[Any]) -> None:
        """End every subscription that feeds the inbox; returns when nothing of them can come any more.

        What came before is still handed out, then the inbox ends. Cancelled, it ends all the same.
        """
        self._check_open()
        waits = [self._end(subscription) for subscription in self._subscriptions.of(plain(inbox))]
        if waits:
            await asyncio.gather(*(asyncio.shield(ended) for ended in waits))

    # -- the past ------------------------------------------------------------------------------------------------------

    async def read(
        self,
        filter: str,
        where: str | None = None,
        *,
        start: Start = "earliest",
        size: int = PAGE_BYTES,
    ) -> EventsPage:
        """A page of what the broker that serves this client keeps of the past, where it keeps any (`keep`).

        `start` is an offset, of a message or of the page before (`page.next`), or a time. An offset belongs to the
        journal of one broker: it stays valid for as long as that keeps it, and means nothing to another one. A page
        holds about `size` bytes of what is kept, and perhaps no message of it matches: go on until `page.at_end`.

        Raises ReadError when the broker keeps no events, or not that position; UsageError for a filter or condition
        that is none.
        """
        return page_of(await self.read_events(read_request(filter, where, start, size)))

    async def read_events(self, request: ReadRequest) -> EventsAnswered:
        """The same as the broker gives it: bundles, and a reason where `read` raises ReadError. For those who make
        columns of many messages."""
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[EventsAnswered] = self._loop.create_future()
        self._reading[token] = answered
        self._host.handle(Request(request, token))
        try:
            return await answered
        finally:
            self._reading.pop(token, None)

    # -- operating -----------------------------------------------------------------------------------------------------

    async def forget(self, *names: str, force: bool = False) -> None:
        """Tell the network that brokers it waits for will never return: a part that is cut off for good, or a silent
        host in a tree too small for a majority. Returns when that was passed on; the repair follows.

        Every client may do this, unless rules say who is an operator. Nor does anybody check it: where brokers are
        forgotten that still work, together and with clients of their own, there are two networks until they hear each
        other again. The forgotten ones then join as new brokers, and what only they knew is lost.

        Raises ForgetError, and nothing was done, when the broker refuses: it does not know a name, hears that broker
        itself (unless `force`, for one that hangs), or is named itself. Raises UsageError for what no broker can be
        called.
        """
        request = ForgetRequest(check_names(names), force)
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[str] = self._loop.create_future()
        self._forgetting[token] = answered
        self._host.handle(Request(request, token))
        try:
            if reason := await answered:
                raise ForgetError(reason)
        finally:
            self._forgetting.pop(token, None)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Wait (at most `CLOSE_SECONDS_MAX`) until the broker has accepted what was published, then end the session."""
        try:
            if self._closed is None:
                if self._taking.waiting:
                    self._take()
                self._flush()
                with contextlib.suppress(TimeoutError):  # whoever needs to know has waited for the receipt
                    async with asyncio.timeout(CLOSE_SECONDS_MAX):
                        for stream in self._streams.values():
                            with contextlib.suppress(PublishError):
                                await stream.reach(ReceiptLevel.ACCEPTED, self._machine.outgoing.last(stream.name))
        finally:
            if self._closed is None:
                self._leave()
                self._shut("the client is closed", None)
            await self._host.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- inside: what the machine says ---------------------------------------------------------------------------------

    def hear(self, effect: Upward) -> None:
        """For the host: deliveries and news."""
        if type(effect) is Deliver:
            self._deliver(effect.messages)
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
        self._raise_event(PublicationDelayed((*stream.origin, news.seq), news.reason))

    def _raise_event(self, event: ClientEvent) -> None:
        """Later: the machine is in the middle of something, and what the program does there is its own affair."""
        if self._on_event is not None:
            self._loop.call_soon(self._on_event, event)

    def _answered(self, token: int, news: ForgetAnswered | EventsAnswered | AudienceAnswered | Refused) -> None:
        if isinstance(news, AudienceAnswered):
            self._requester.answered(token, news.anybody)
            return
        read = self._reading.get(token)
        if read is not None and not read.done():
            read.set_result(news if isinstance(news, EventsAnswered) else EventsAnswered(reason=news.reason))
        answered = self._forgetting.get(token)
        if answered is not None and not answered.done():
            answered.set_result(news.reason)

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

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(self._closed)

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

    def _shut(self, reason: str, failure: str | None) -> None:
        self._builder.pause = 0
        self._closed = reason
        for stream in self._streams.values():
            stream.close(reason)
        self._subscriptions.shut(reason, failure)
        self._requester.close(reason)
        waits: list[asyncio.Future[Any]] = [*self._forgetting.values(), *self._reading.values()]
        for answered in waits:
            if not answered.done():
                answered.set_exception(ClosedError(reason))
        self._room_again(RoomAgain())
