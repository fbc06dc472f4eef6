"""What a durable subscription hands to this program, which says what it has processed.

    inbox = await client.subscribe("orders/#", durable="billing")
    async for message in inbox:
        bill(message)              # done when the next one is asked for

A message is acknowledged when the program asks for the next one, or by hand. Whatever is not acknowledged when the
program ends, or another one takes over, is handed out again, marked as `redelivered`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from resprout.client.errors import (
    ClosedError,
    DifferentSubscriptionError,
    FencedError,
    MessagesMissingError,
    SubscribeError,
)
from resprout.client.events import MessagesDropped, OnEvent, TellGap
from resprout.client.inbox import Batch, Inbox
from resprout.client.replaying import ReadPage, ReplayedPast, read_start
from resprout.core.contract import Answer, Deliver, Request
from resprout.core.errors import ResproutError, UnsupportedSubscriptionError
from resprout.core.message import Message
from resprout.edge.durable_messages import Standing
from resprout.edge.requests import (
    AcknowledgeRequest,
    ConsumerBegan,
    ConsumerOver,
    DroppedBefore,
    EndRequest,
    LeaveRequest,
    ReplayedRequest,
)

if TYPE_CHECKING:
    from resprout.net.host import Host, Upward

_ERRORS: dict[Standing, type[ResproutError]] = {
    Standing.DIFFERENT: DifferentSubscriptionError,
    Standing.INCOMPLETE: MessagesMissingError,
    Standing.UNSUPPORTED: UnsupportedSubscriptionError,
}


class DurableInbox(Inbox):
    """As an inbox, but messages are to be acknowledged. Made by `Client.subscribe`.

    Raises FencedError when another consumer has taken over the subscription, ClosedError when it was ended elsewhere or
    messages may be missing. `close` lets go of the subscription, which stays; `Client.unsubscribe` ends it.
    """

    def __init__(
        self,
        name: str,
        by_hand: bool,
        on_event: OnEvent | None,
        loop: asyncio.AbstractEventLoop,
        read: ReadPage | None = None,
        missing: TellGap = lambda journal, gap: None,
    ) -> None:
        """`read`: of the past, for a subscription that begins there; `missing` is told of gaps in it."""
        super().__init__(_nothing, loop)
        self.name = name
        """Of the subscription."""
        self.dropped = 0
        """Messages that were dropped because too many waited, as far as this consumer was told."""
        self.began: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._by_hand = by_hand
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

    # -- for the user --------------------------------------------------------------------------------------------------

    async def _each(self) -> AsyncIterator[Message]:
        while True:
            try:
                yield await self.__anext__()
            except StopAsyncIteration:
                return

    @property
    def replaying(self) -> bool:
        """Whether there is something of the past that was not handed out."""
        return self._is_replaying

    async def __anext__(self) -> Message:
        self._next_is_asked()
        if self._is_replaying and (past := await self._next_past()) is not None:
            return past
        while True:
            message = await super().__anext__()
            if self._is_new(message):
                self._out.append(message)
                return message

    def next_now(self) -> Message | None:
        """The next message if one is here already. What was handed out before is acknowledged all the same."""
        self._next_is_asked()
        if self._is_replaying:
            return self._marked(self._past.messages.popleft()) if self._past and self._past.messages else None
        while (message := super().next_now()) is not None:
            if self._is_new(message):
                self._out.append(message)
                return message
        return None

    async def batches(self) -> AsyncIterator[Sequence[Message]]:
        """Whole batches; each is acknowledged when the next one is asked for."""
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
                yield new

    def acknowledge(self, *messages: Message) -> None:
        """These are processed: they are not handed out again. The broker hears of it with the end of this turn."""
        if not self._unsaid:
            self._loop.call_soon(self._say)
        self._unsaid.extend(messages)

    async def close(self) -> None:
        """Let go of the subscription. It stays, and keeps everything for whoever consumes it next; what was not
        acknowledged is handed out again."""
        self._say()
        self._host.handle(Request(LeaveRequest()))
        self.end()
        if not self.ended.done():
            self.ended.set_result(None)
        await self._host.close()

    # -- the past ------------------------------------------------------------------------------------------------------

    def _begin_past(self, began: ConsumerBegan) -> None:
        """Somebody has to read it first: this one."""
        if began.replay and self._read is not None:
            start = read_start(began.replay)
            self._past = ReplayedPast(start, self._read, self._missing, lambda: bool(self._batches), lambda: self._over)
            self._is_replaying, self._is_replayed_again = True, began.again

    async def _next_past(self) -> Message | None:
        assert self._past is not None
        message = await self._past.next()
        if message is not None:
            return self._marked(message)
        self._is_replaying = False
        if not self._over:
            self._host.handle(Request(ReplayedRequest()))
        return None

    def _marked(self, message: Message) -> Message:
        return msgspec.structs.replace(message, redelivered=True) if self._is_replayed_again else message

    def _is_new(self, message: Message) -> bool:
        """What was read is not handed out again, and counts as processed."""
        if self._past is None or self._past.is_new(message):
            return True
        self.acknowledge(message)
        return False

    # -- for the client ------------------------------------------------------------------------------------------------

    def put(self, batch: Batch, messages: Sequence[Message]) -> None:
        super().put(batch, messages)
        if self._past is not None:
            self._past.came.set()

    def end(self, failure: str | None = None, error: type[ClosedError] = ClosedError) -> None:
        super().end(failure, error)
        if self._past is not None:
            self._past.came.set()

    @property
    def is_over(self) -> bool:
        return self._over

    def run_on(self, host: "Host") -> None:
        self._host = host

    async def end_subscription(self) -> None:
        """For everybody. Returns when the network has heard; ClosedError when it is not this consumer's to end."""
        self._raise_if_over()
        self._is_ending = True
        self._host.handle(Request(EndRequest()))
        await asyncio.shield(self.ended)
        self._raise_if_over()

    async def over_for_all(self) -> None:
        """Of one that has come to say so."""
        await self.ended
        if self._standing is not Standing.ENDED:
            self.began.result()
        self.began.exception()  # it never began, and nobody will ask

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
                if self._on_event is not None:
                    self._loop.call_soon(self._on_event, MessagesDropped(self.name, news.count))
            elif isinstance(news, ConsumerOver):
                self._is_over(news)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _next_is_asked(self) -> None:
        if not self._by_hand and self._out:
            self.acknowledge(*self._out)
        self._out.clear()

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
        self._discard()
        if self._is_ending and news.standing is Standing.ENDED:
            self.end()
        else:
            self.end(f"the durable subscription {self.name!r} is over here: {news.reason}")

    def _discard(self) -> None:
        """What was not handed to the program is for others: it must not be processed here, too."""
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


def _nothing(batch: Batch) -> None:
    """That a message was handed out says nothing yet."""
