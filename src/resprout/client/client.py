"""The asynchronous client.

    async with resprout.connect("localhost:7450", name="teller-1") as client:
        inbox = await client.subscribe("bank/+", where="amount > 100")
        receipt = await client.publish("bank/pt", b"...", guarantee="causal", attributes={"amount": 120})
        await receipt.safe()
        async for message in inbox:
            ...

When its broker dies another one takes over, and the program notices nothing: what was published keeps its receipts, and
inboxes go on. Only where the network had to lose something, inboxes end with an error that says so.

All of it runs in one event loop. Publishing costs no task switch: what is published before the loop next runs leaves as
one bundle, and every `BURST` publications the publisher gives way so that the loop does run.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from resprout.client.errors import ClosedError, ForgetError, PublishError, SubscribeError
from resprout.client.events import ClientEvent, DeliveriesMissing, OnEvent, PublicationDelayed
from resprout.client.inbox import Batch, Inbox
from resprout.client.receipts import Receipt, Stream
from resprout.client.subscriptions import Subscription, Subscriptions
from resprout.core.contract import Answer, Deliver, Request
from resprout.core.errors import UnsupportedGuaranteeError, UsageError
from resprout.core.guarantee import STREAMS, Guarantee, GuaranteeName
from resprout.core.guarantee import Receipt as Kind
from resprout.core.message import Message
from resprout.core.names import AttributeValue, check_attributes, check_keys, check_payload, check_topic
from resprout.edge.client import ClientMachine
from resprout.edge.forgetting import check_names
from resprout.edge.outgoing import PAYLOAD_OVERHEAD
from resprout.edge.requests import (
    AdvertiseRequest,
    BrokerChanged,
    CopiesCounted,
    FlushRequest,
    ForgetAnswered,
    ForgetRequest,
    LeaveRequest,
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

IDLE_SECONDS = 0.0005
"""The first publication after such a pause leaves at once; those that follow in the same turn of the loop, together."""

BURST = 256
"""Publications after which the publisher gives way to the event loop; large ones count for more."""

BURST_BYTES_SHIFT = 12
"""Every 4 KiB of a payload count as one more publication."""

SMALL_BYTES = 1 << BURST_BYTES_SHIFT

CLOSE_SECONDS_MAX = 5.0

PLACES_MAX = 10_000
"""Checked combinations of topic, guarantee and keys that are remembered."""

_NOTHING: dict[str, AttributeValue] = {}


class Place:
    """Where publications go: a topic, a guarantee and keys that have been checked."""

    __slots__ = ("guarantee", "keys", "stream", "topic")

    def __init__(self, topic: str, guarantee: Guarantee, keys: tuple[str, ...], stream: Stream) -> None:
        self.topic = topic
        self.guarantee = guarantee
        self.keys = keys
        self.stream = stream


class Client:
    """A connected client. Made by `resprout.connect`."""

    def __init__(
        self, machine: ClientMachine, host: Host, began: SessionBegan, on_event: OnEvent | None = None
    ) -> None:
        self.name = machine.name
        self.stack = began.stack
        self.guarantees = began.guarantees
        self.faults_tolerated = began.faults_tolerated
        self.receipts = began.receipts
        self._machine = machine
        self._host = host
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._streams = {
            name: Stream(machine.name, machine.incarnation, name, self._loop, began.faults_tolerated + 1)
            for name in STREAMS
        }
        for stream in self._streams.values():
            stream.offer(began.stack, began.receipts)
        self._places: dict[tuple[str, Any, Any], Place] = {}
        self._builder = machine.outgoing.open
        self._topic: object = None
        self._guarantee: object = None
        self._keys: object = None
        self._stream = self._streams["ordered"]
        """The bundle that the last publication went to, and what was asked for then."""
        self._counted = self._builder.next
        """Up to here, publications in that bundle are counted in the burst."""
        self._flushing = False
        self._flushed_at = 0.0
        self._burst = 0
        self._room: asyncio.Future[None] | None = None
        self._subscriptions = Subscriptions()
        self._batches: deque[Batch] = deque()
        self._forgetting: dict[int, asyncio.Future[str]] = {}
        """Requests that are not answered yet, by token; the answer is a reason why not, or empty."""
        self._tokens = itertools.count(1)
        self._closed: str | None = None
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

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Receipt:
        """Publish a message; returns at once, or after a pause when the network does not keep up.

        Its order among this client's publications is that of the calls. Raises UsageError (and nothing was published)
        for what cannot be published. A call that is cancelled while it pauses has published already.
        """
        if topic is self._topic and guarantee is self._guarantee and keys is self._keys:
            # More of the same into a bundle that is open anyway: nothing to check, nothing to schedule, no pause due.
            builder = self._builder
            seq = builder.next
            if seq < builder.pause and not attributes and type(payload) is bytes:
                size = len(payload) + PAYLOAD_OVERHEAD
                left = builder.bytes_left - size
                if left >= 0 and size < SMALL_BYTES:
                    builder.bytes_left = left
                    builder.next = seq + 1
                    builder.payloads.append(payload)
                    return Receipt(self._stream, seq)
        return await self._publish(topic, payload, guarantee, keys, attributes)

    async def advertise(self, topic: str) -> None:
        """Announce that this client will publish on the topic. The first publication does it, too."""
        self._ask(AdvertiseRequest(check_topic(topic)))

    # -- subscribing ---------------------------------------------------------------------------------------------------

    async def subscribe(self, filter: str, where: str | None = None, *, into: Inbox | None = None) -> Inbox:
        """Subscribe and return when it is confirmed: from then on nothing that matches is missed.

        Every subscription has an inbox of its own, unless one is given. A message that matches several subscriptions
        is put once into each inbox concerned. Read them all: messages are acknowledged in the order in which they came,
        so an inbox that nobody reads holds the others back once it is full. Cancelled, it has subscribed to nothing.
        """
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

    async def unsubscribe(self, inbox: Inbox) -> None:
        """End every subscription that feeds the inbox; returns when nothing of them can come any more.

        What came before is still handed out, then the inbox ends. Cancelled, it ends all the same.
        """
        self._check_open()
        waits = [self._end(subscription) for subscription in self._subscriptions.of(inbox)]
        if waits:
            await asyncio.gather(*(asyncio.shield(ended) for ended in waits))

    # -- operating -----------------------------------------------------------------------------------------------------

    async def forget(self, *names: str, force: bool = False) -> None:
        """Tell the network that brokers it waits for will never return: a part that is cut off for good, or a silent
        host in a tree too small for a majority. Returns when that was passed on; the repair follows.

        Everybody who can connect may do this: there is no authentication. Nor does anybody check it: where brokers are
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
                self._flush()
                with contextlib.suppress(TimeoutError):  # whoever needs to know has waited for the receipt
                    async with asyncio.timeout(CLOSE_SECONDS_MAX):
                        for stream in self._streams.values():
                            with contextlib.suppress(PublishError):
                                await stream.reach(Kind.ACCEPTED, self._machine.outgoing.last(stream.name))
        finally:
            if self._closed is None:
                self._leave()
                self._shut("the client is closed", None)
            await self._host.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- inside: publishing --------------------------------------------------------------------------------------------

    async def _publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee,
        keys: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None,
    ) -> Receipt:
        """The whole way: check, add, see to it that it is sent, and give way when it is time to."""
        place = self._find_place(topic, guarantee, keys)
        payload = check_payload(payload)
        checked = check_attributes(attributes) if attributes else _NOTHING
        if self._closed is not None:
            raise ClosedError(self._closed)
        stream = place.stream
        outgoing = self._machine.outgoing
        self._burst += self._builder.next - self._counted  # what was added without coming here
        seq = outgoing.add(place.topic, place.keys, place.guarantee, payload, checked)
        self._burst += 1 + (len(payload) >> BURST_BYTES_SHIFT)
        builder = self._builder = outgoing.open
        self._counted = builder.next
        self._topic, self._guarantee, self._stream = topic, guarantee, stream
        self._keys = keys if type(keys) is tuple else None  # a list may be another one next time
        if not self._flushing:
            if monotonic() - self._flushed_at > IDLE_SECONDS:
                self._flush()
            else:
                self._flushing = True
                self._loop.call_soon(self._flush)
        if self._burst >= BURST:
            await self._give_way()
        # A bundle with attributes has a row for every message: no short cut past that.
        builder.pause = min(builder.end, builder.next + BURST - self._burst) if builder.attributes is None else 0
        return Receipt(stream, seq)

    def _find_place(self, topic: str, guarantee: GuaranteeName | Guarantee, keys: Sequence[str]) -> Place:
        key = (topic, guarantee, tuple(keys))
        place = self._places.get(key)
        if place is None:
            wanted = guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)
            if wanted not in self.guarantees:
                offered = ", ".join(g.label for g in self.guarantees)
                raise UnsupportedGuaranteeError(
                    f"the stack {self.stack!r} does not offer {wanted.label!r}; it offers {offered}"
                )
            place = Place(check_topic(topic), wanted, check_keys(keys), self._streams[wanted.stream])
            if len(self._places) >= PLACES_MAX:
                self._places.clear()
            self._places[key] = place
        return place

    def _flush(self) -> None:
        """While there is no room the burst stays complete: whoever publishes next waits, however rarely it does."""
        self._flushing = False
        self._flushed_at = monotonic()
        self._builder.pause = 0
        if self._closed is None:
            awaited = [stream.take_awaited() for stream in self._streams.values()]
            self._machine.prompt = any(awaited)
            self._ask(FlushRequest())
        self._begin_burst(BURST if self._machine.crowded else 0)

    def _begin_burst(self, burst: int) -> None:
        self._burst = burst
        self._counted = self._builder.next

    async def _give_way(self) -> None:
        if self._machine.crowded:
            self._flush()
            if self._machine.crowded and self._closed is None:
                self._room = self._room or self._loop.create_future()
                await asyncio.shield(self._room)
                return
        self._begin_burst(0)
        await asyncio.sleep(0)

    def _room_again(self, news: RoomAgain) -> None:
        self._begin_burst(0)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

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
        if not parts:  # its subscription was given up; not in the middle of what the machine wants done
            self._loop.call_soon(self._take)

    def _taken(self, batch: Batch) -> None:
        batch.parts -= 1
        if batch.parts == 0:
            self._take()

    def _take(self) -> None:
        """Deliveries are acknowledged in order, so one that an idle inbox holds keeps those behind it waiting."""
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

    def _answered(self, token: int, news: ForgetAnswered | Refused) -> None:
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
            self._subscriptions.remove(SubscribeRequest(request.filter, request.where), news.reason)
        elif news.stream:
            self._streams[news.stream].refused(news.first, news.last, news.reason)

    def _lost(self, news: SessionLost) -> None:
        replaced = news.reason == f"{self.name} restarted"
        why = f"another client took the name {self.name!r}" if replaced else news.reason
        reason = f"the session with the broker was lost: {why}"
        if self._closed is not None:
            return
        if news.over:
            self._shut(reason, reason)
        else:
            self._raise_event(DeliveriesMissing(news.reason))
            for subscription in self._subscriptions.lose(reason):
                # Only the program knows what to do about what was missed, so it has to subscribe again itself.
                if subscription.ended is None:
                    subscription.ended = self._loop.create_future()
                    self._loop.call_soon(self._ask_end, subscription)  # the machine is in the middle of something

    # -- inside: the rest ----------------------------------------------------------------------------------------------

    def _ask(self, request: Any) -> None:
        self._host.handle(Request(request))

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
        for answered in self._forgetting.values():
            if not answered.done():
                answered.set_exception(ClosedError(reason))
        self._room_again(RoomAgain())
