"""Durable subscriptions of a program: from `Client.subscribe(..., durable=...)` to the inbox of a consumer.

    inbox = await client.subscribe("orders/#", durable="billing")
    async for message in inbox:
        bill(message)              # acknowledged when the next one is asked for

A consumer has a session of its own (`consume`). A message is acknowledged when the program asks for the next one, or
explicitly. Messages that are not acknowledged when the program ends, or another one takes over, are handed out again,
marked as `redelivered`.
"""

import asyncio
import random
import secrets
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from resprout.client.arguments import wrong
from resprout.client.errors import (
    ClosedError,
    DifferentSubscriptionError,
    FencedError,
    MessagesDropped,
    MessagesMissingError,
    OnEvent,
    PublishError,
    SubscribeError,
    TellGap,
    log_event,
)
from resprout.client.follow_ups import follow_up
from resprout.client.inbox import Batch, Inbox, Payload
from resprout.client.past_events import EventsPage, ReadPage, ReplayedPast, Start, read_start
from resprout.client.redelivery import Settling
from resprout.core import limits
from resprout.core.contract import Answer, Deliver, Request
from resprout.core.errors import ResproutError, UnsupportedSubscriptionError, UsageError
from resprout.core.limits import AttributeValue
from resprout.core.message import DurableMessage, Message, MessageId, durable_message
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.options import ClientOptions
from resprout.edge.durable_messages import DurableAction, Settlement, Standing, Terms
from resprout.edge.requests import (
    AcknowledgeRequest,
    ConsumerBegan,
    ConsumerOver,
    DroppedBefore,
    EndRequest,
    FollowUpAnswered,
    LeaveRequest,
    ReplayedRequest,
    SettleRequest,
)
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.discover import UnreachableError, who_is
from resprout.net.event_loop import epoch_us
from resprout.net.host import Host
from resprout.net.sessions import CODEC, EncodedBodies, Here, incarnation_max, next_incarnation, random_epoch

if TYPE_CHECKING:
    from resprout.net.host import Upward

_ERRORS: dict[Standing, type[ResproutError]] = {
    Standing.DIFFERENT: DifferentSubscriptionError,
    Standing.INCOMPLETE: MessagesMissingError,
    Standing.UNSUPPORTED: UnsupportedSubscriptionError,
}

ANSWER_SECONDS: Final = 5.0
"""How long a broker may take to say who it is, before another one is asked."""


class DurableInbox(Settling, Inbox):
    """An inbox whose messages must be acknowledged. Made by `Client.subscribe`.

    Raises FencedError when another consumer has taken over the subscription, ClosedError when it was ended elsewhere or
    messages may be missing. `close` lets go of the subscription, which stays; `Client.unsubscribe` ends it.
    """

    def __init__(
        self,
        name: str,
        manual_ack: bool,
        on_event: OnEvent | None,
        loop: asyncio.AbstractEventLoop,
        read: ReadPage | None = None,
        missing: TellGap = lambda journal, gap: None,
    ) -> None:
        """`read`: of the past, for a subscription that begins there; `missing` is told of gaps in it."""
        super().__init__(_nothing, loop, _unsubscribe)
        self.name = name
        """Name of the subscription."""
        self.dropped = 0
        """Messages that were dropped because too many waited, as far as this consumer was told."""
        self.redelivers = False
        self.shown: list[Message] = []
        """Messages that the program had not had when the inbox was over."""
        self.began: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._manual_ack = manual_ack
        self._on_event = on_event
        self._host: Host
        self._is_fenced = False
        self._standing: Standing | None = None
        self._is_ending = False
        self._read = read
        self._missing = missing
        self._past: ReplayedPast | None = None
        self._is_replaying = self._is_replayed_again = False
        self._out: list[Message] = []
        """Handed to the program, and acknowledged when it asks for more."""
        self._unsaid: list[Message] = []
        self._following: dict[MessageId, list[asyncio.Future[str]]] = {}
        """Calls of `publish_and_ack` that wait, by message."""

    # -- for the user --------------------------------------------------------------------------------------------------

    async def _each(self) -> AsyncIterator[Message]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    @property
    def replaying(self) -> bool:
        """Whether stored events are still to come."""
        return self._is_replaying

    async def __anext__(self) -> DurableMessage:
        self._next_is_asked()
        if self._is_replaying and (past := await self._next_past()) is not None:
            return past
        while True:
            message = await super().__anext__()
            if self._is_new(message):
                self._out.append(message)
                return durable_message(message, self)

    async def next(self, timeout: float | None = None) -> DurableMessage:
        """Return the next message. TimedOutError when none comes within `timeout` seconds, FencedError when another
        consumer has taken over, ClosedError when the subscription is over."""
        message = await super().next(timeout)
        assert isinstance(message, DurableMessage), "it makes them"
        return message

    def next_nowait(self) -> DurableMessage | None:
        """Return the next message if one has arrived already, otherwise None. Either way the messages that were handed
        out before are acknowledged, unless the program does it (`manual_ack`)."""
        self._next_is_asked()
        if self._is_replaying:
            return self._marked(self._past.messages.popleft()) if self._past and self._past.messages else None
        while (message := super().next_nowait()) is not None:
            if self._is_new(message):
                self._out.append(message)
                return durable_message(message, self)
        return None

    async def batches(self) -> AsyncIterator[Sequence[DurableMessage]]:
        """Iterate over batches; each is acknowledged when the next one is asked for, unless the program does it."""
        while self._is_replaying and (past := await self._next_past()) is not None:
            yield [past]
        batches = super().batches()
        while True:
            self._next_is_asked()
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                return
            new = [message for message in batch if self._is_new(message)]
            self._out.extend(new)
            if new:
                yield [durable_message(message, self) for message in new]

    def ack(self, *messages: DurableMessage) -> None:
        """Acknowledge messages: no consumer receives them again. The broker is told at the end of this turn of the
        event loop. UsageError for a message of another inbox; FencedError or ClosedError when another has them."""
        self._check_own(messages)
        self._acknowledge(messages)

    async def publish_and_ack(
        self,
        message: DurableMessage,
        topic: str,
        payload: Payload,
        *,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> None:
        """Publish a message that follows from one of this inbox, and acknowledge that one, in one step.

        Returns when the new message is safe and the old one is acknowledged for good. Whatever crashes meanwhile, every
        subscriber gets exactly one follow-up of each message: if a message is delivered again, its next follow-up is
        dropped, unless the first was lost together with the acknowledgement. It is published with `eventual`. A message
        has one follow-up.

        UsageError for a wrong argument; PublishError (and neither was done) if this client may not publish there, or
        the message was given up; FencedError or ClosedError when this consumer does not have the subscription any more:
        then the next consumer may be given the message.
        """
        request = follow_up(message, topic, payload, keys, attributes)
        self._check_own((message,))
        if self._is_replaying:
            raise UsageError(f"{self.name!r} begins in the past: what it reads there cannot be acknowledged one by one")
        self._out = [each for each in self._out if each.id != message.id]
        answer: asyncio.Future[str] = self._loop.create_future()
        self._following.setdefault(message.id, []).append(answer)
        self._say()
        self._host.handle(Request(request))
        if reason := await answer:
            raise PublishError(reason, definite=True)

    def _check_own(self, messages: Sequence[DurableMessage]) -> None:
        for message in messages:
            if not isinstance(message, DurableMessage) or message.inbox is not self:
                raise wrong("messages", message, f"messages that the inbox of {self.name!r} has delivered")
        self.check_ack()

    def _settle(self, settlement: Settlement, messages: Sequence[DurableMessage], delay_us: int, reason: str) -> None:
        self._check_own(messages)
        if self._is_replaying:
            raise UsageError(f"{self.name!r} begins in the past: what it reads there is not delivered again")
        if settlement is not Settlement.IN_PROGRESS:
            settled = {message.id for message in messages}
            self._out = [message for message in self._out if message.id not in settled]
        self._say()
        self._host.handle(Request(SettleRequest(settlement, tuple(messages), delay_us, reason)))

    def check_ack(self) -> None:
        """ClosedError, or FencedError, when acks have no effect any more."""
        self._raise_if_over()
        if self._over:
            raise ClosedError(f"the inbox of {self.name!r} is closed: messages that were not acknowledged come again")

    async def unsubscribe(self) -> None:
        """End the subscription for all its consumers, with everything that waits for it. ClosedError when this consumer
        may not, or has closed the inbox: then use `Client.end_subscription`."""
        self.check_ack()
        self._is_ending = True
        self._host.handle(Request(EndRequest()))
        await asyncio.shield(self.ended)
        self._raise_if_over()
        await self.close()

    async def close(self) -> None:
        """Release the subscription, which stays: the next consumer gets everything that was not acknowledged.
        It may be called twice."""
        self._say()
        self._host.handle(Request(LeaveRequest()))
        self.end()
        if not self.ended.done():
            self.ended.set_result(None)
        await self._host.close()

    # -- the past ------------------------------------------------------------------------------------------------------

    def _begin_past(self, began: ConsumerBegan) -> None:
        """Read past events first if the broker says that this consumer has to."""
        if began.replay and self._read is not None:
            start = read_start(began.replay)
            self._past = ReplayedPast(start, self._read, self._missing, lambda: bool(self._batches), lambda: self._over)
            self._is_replaying, self._is_replayed_again = True, began.again

    async def _next_past(self) -> DurableMessage | None:
        assert self._past is not None
        message = await self._past.next()
        if message is not None:
            return self._marked(message)
        self._is_replaying = False
        if not self._over:
            self._host.handle(Request(ReplayedRequest()))
        return None

    def _marked(self, message: Message) -> DurableMessage:
        """An ack of it has no effect: the past counts as processed once all of it was read."""
        if self._is_replayed_again:
            message = msgspec.structs.replace(message, redelivered=True)
        return durable_message(message, self)

    def _is_new(self, message: Message) -> bool:
        """Return whether the program has not had a message yet. A message that it read among past events is
        acknowledged."""
        if self._past is None or self._past.is_new(message):
            return True
        self._acknowledge((message,))
        return False

    # -- for the client ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch, messages: Sequence[Message]) -> None:
        super().put(batch, messages)
        if self._past is not None:
            self._past.came.set()

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        super().end(failure, error)
        for answer in [answer for each in self._following.values() for answer in each if not answer.done()]:
            text = failure or f"the inbox of {self.name!r} is closed"
            answer.set_exception((FencedError if self._is_fenced else ClosedError)(text))
        self._following.clear()
        if self._past is not None:
            self._past.came.set()

    def run_on(self, host: "Host") -> None:
        self._host = host

    async def over_for_all(self) -> None:
        """Wait until the subscription has ended for all consumers. For an inbox that was made to end it."""
        await self.ended
        if self._standing is not Standing.ENDED:
            self.began.result()
        self.began.exception()  # it never began: retrieved, so that asyncio does not log it

    def hear(self, effect: "Upward") -> None:
        if isinstance(effect, Deliver):
            self.put(Batch(1), effect.messages)
        elif isinstance(effect, Answer):
            news = effect.body
            if isinstance(news, ConsumerBegan):
                if not self.began.done():
                    self._begin_past(news)
                    self.began.set_result(None)
            elif isinstance(news, DroppedBefore):
                self.dropped += news.count
                dropped = MessagesDropped(self.name, news.count)
                log_event(self.name, dropped, self._on_event is not None)
                if self._on_event is not None:
                    self._loop.call_soon(self._on_event, dropped)
            elif isinstance(news, FollowUpAnswered):
                for answer in self._following.pop(news.message.id, ()):
                    if not answer.done():
                        answer.set_result(news.reason)
            elif isinstance(news, ConsumerOver):
                self._is_over(news)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next_is_asked(self) -> None:
        if not self._manual_ack and self._out:
            self._acknowledge(self._out)
        self._out.clear()

    def _acknowledge(self, messages: Sequence[Message]) -> None:
        if not self._unsaid:
            self._loop.call_soon(self._say)
        self._unsaid.extend(messages)

    def _say(self) -> None:
        if self._unsaid:
            said, self._unsaid = tuple(self._unsaid), []
            self._host.handle(Request(AcknowledgeRequest(said)))

    def _is_over(self, news: ConsumerOver) -> None:
        self._standing = news.standing
        self._is_fenced = news.standing is Standing.FENCED
        if not self.began.done():
            error = _ERRORS.get(news.standing, SubscribeError)
            self.began.set_exception(FencedError(news.reason) if self._is_fenced else error(news.reason))
        if not self.ended.done():
            self.ended.set_result(None)
        self.shown = [message for batch, messages in self._batches for message in messages]
        self._discard()
        if self._is_ending and news.standing is Standing.ENDED:
            self.end()
        else:
            self.end(f"the durable subscription {self.name!r} is over here: {news.reason}")

    def _discard(self) -> None:
        """Drop messages that the program has not had: another consumer gets them."""
        self._batches.clear()
        self._next = self._size

    async def _wait(self) -> None:
        try:
            await super()._wait()
        except ClosedError:
            self._raise_if_over()

    def _raise_if_over(self) -> None:
        if self.failure is not None:
            raise FencedError(self.failure) if self._is_fenced else ClosedError(self.failure)


async def _unsubscribe(inbox: Inbox) -> None:
    assert isinstance(inbox, DurableInbox), "it is given to those only"
    await inbox.unsubscribe()


def _nothing(batch: Batch) -> None:
    """That a message was handed out says nothing yet."""


def consumer_name(client: str, subscription: str) -> str:
    """Return the name of the session: one that the rules for this client's name allow."""
    name = f"{client}.{subscription}"
    if len(name) <= limits.NAME_BYTES:
        return name
    digits = f".{zlib.crc32(name.encode()):08x}"
    return name[: limits.NAME_BYTES - len(digits)] + digits


async def consume(
    host: Host,
    client: str,
    brokers: Sequence[str],
    links: LinkOptions,
    name: str,
    terms: Terms,
    *,
    window: int | None = None,
    manual_ack: bool = False,
    on_event: OnEvent | None = None,
    ends: bool = False,
    action: DurableAction = DurableAction.CONSUME,
    replay: str = "",
    read: Callable[[str, Start], Awaitable[EventsPage]] | None = None,
    missing: TellGap = lambda journal, gap: None,
) -> DurableInbox:
    """`host`: that of the client, which knows where `brokers` are. Returns when the subscription is confirmed; with
    `ends`, when it is over."""
    session = consumer_name(client, name)
    here = await _first_that_answers(host, session, brokers)
    incarnation = next_incarnation(here.met)
    others = [other for other in brokers if other != here.name]
    machine = ConsumerMachine(
        session,
        incarnation,
        here.name,
        name,
        terms,
        window=window,
        others=others,
        ends=ends,
        replay=replay,
        action=action,
        options=ClientOptions(epoch_us=epoch_us()),
    )
    read_there = _reading_at(lambda: machine.broker, read) if read is not None else None
    inbox = DurableInbox(name, manual_ack, on_event, asyncio.get_running_loop(), read_there, missing)
    inbox.redelivers = terms.retry is not None
    carried = Links(
        machine,
        name=session,
        role="client",
        incarnation=incarnation,
        rng=random.Random(secrets.randbits(64)),
        options=links,
        first_epoch=random_epoch(),
        bodies=EncodedBodies(CODEC, limits.PAYLOAD_BYTES_MAX),
        incarnation_max=incarnation_max,
    )
    own = Host(carried, CODEC, Here(session, "client", incarnation), host.where, inbox.hear, door=host.door)
    inbox.run_on(own)
    own.start()
    try:
        await (inbox.over_for_all() if ends or action is not DurableAction.CONSUME else inbox.began)
    except BaseException:
        await inbox.close()
        raise
    return inbox


def _reading_at(home: Callable[[], str], read: Callable[[str, Start], Awaitable[EventsPage]]) -> ReadPage:
    """Return a function that reads past events at the consumer's own broker: only there do past events and deliveries
    have the same order."""

    async def read_there(start: Start) -> EventsPage:
        return await read(home(), start)

    return read_there


async def _first_that_answers(host: Host, session: str, brokers: Sequence[str]) -> Here:
    reasons: list[str] = []
    for broker in brokers:
        address = host.where(broker)
        if address is not None:
            try:
                return await who_is(address, ANSWER_SECONDS, session, keyring=host.door.keyring)
            except UnreachableError as error:
                reasons.append(str(error))
    raise SubscribeError("; ".join(reasons) or "no broker is known")
