"""Durable subscriptions of MQTT sessions: one for each filter of a session that outlives its connections, and one for
each shared subscription, which all its sessions consume.

What a session does not take waits, up to `PENDING_MAX` messages; beyond that the oldest are dropped and counted, so a
client that stays away holds back no publisher.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Final

from resprout.core.bundle import Origin
from resprout.core.contract import Answer, Deliver
from resprout.core.message import Message
from resprout.core.message_fields import Mark
from resprout.edge.durable_messages import Standing, Terms, WhenFull
from resprout.edge.requests import ConsumerBegan, ConsumerOver, DroppedBefore
from resprout.mqtt.subscriptions import read_filter
from resprout.net.door import Door
from resprout.net.host import Host, Upward
from resprout.net.mqtt.embedded import EmbeddedConsumer, consumer_name
from resprout.net.near import NearOpener

PENDING_MAX: Final = 100_000
END_SECONDS: Final = 5.0
ORIGINS_MAX: Final = 256
"""Origins of which a session remembers how far they have come; of others, messages may come twice."""
SHARED_WINDOW: Final = 64
SESSION_WINDOW: Final = 1_024
"""Messages that one subscription may have handed out and not acknowledged."""


def durable_name(client: str, topic_filter: str) -> str:
    """Of the durable subscription for a filter, as a client wrote it. The name of a shared one is the same for all
    clients."""
    plain, group = read_filter(topic_filter)
    if group:
        return f"mqtt.share.{_digest(f'{group}/{plain}')}"
    return f"mqtt.{_digest(client)}.{_digest(topic_filter)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


async def end_durable(
    client: str, topic_filter: str, listener: Callable[[], Host], who: NearOpener, door: Door | None
) -> None:
    """End the durable subscription of a session that this process does not have. Returns when it has ended, or when
    that takes too long."""
    plain, _ = read_filter(topic_filter)
    over = asyncio.Event()

    def hear(effect: Upward) -> None:
        if isinstance(effect, Answer) and isinstance(effect.body, ConsumerOver):
            over.set()

    terms = Terms(plain, None, False, WhenFull.DROP_OLDEST, PENDING_MAX)
    name = durable_name(client, topic_filter)
    consumer = EmbeddedConsumer(client, name, terms, listener, who, hear, door, ends=True)
    consumer.start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await over.wait()
    await consumer.close()


class DurableSource:
    """`delivered` is given messages, `began` is told that the subscription is confirmed, `over` why it is not, or not
    any more, and `dropped` how many messages are missing."""

    def __init__(
        self,
        client: str,
        topic_filter: str,
        listener: Callable[[], Host],
        who: NearOpener,
        door: Door | None,
        delivered: Callable[["DurableSource", Sequence[Message]], None],
        began: Callable[["DurableSource"], None],
        over: Callable[["DurableSource", Standing, str], None],
        dropped: Callable[["DurableSource", int], None],
    ) -> None:
        self.filter = topic_filter
        plain, group = read_filter(topic_filter)
        self.is_shared = bool(group)
        self._delivered = delivered
        self._began = began
        self._over = over
        self._dropped = dropped
        self.done: dict[Origin, int] = {}
        """By origin: up to where the client has everything, as far as this session knows."""
        self._is_over = False
        self._gone = asyncio.Event()
        terms = Terms(plain, None, self.is_shared, WhenFull.DROP_OLDEST, PENDING_MAX)
        window = SHARED_WINDOW if self.is_shared else SESSION_WINDOW
        self.name = durable_name(client, topic_filter)
        self.consumer_name = consumer_name(client, self.name)
        self._consumer = EmbeddedConsumer(client, self.name, terms, listener, who, self._hear, door, window=window)

    def start(self) -> None:
        self._consumer.start()

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """In the order in which they were delivered, the ones of each origin."""
        if not self.is_shared:
            for message in messages:
                origin = (message.publisher, message.stream, message.epoch)
                seq = max(message.seq, self.done.pop(origin, 0))  # the latest one last
                self.done[origin] = seq
            while len(self.done) > ORIGINS_MAX:
                del self.done[next(iter(self.done))]
        if not self._is_over:
            self._consumer.acknowledge(messages)

    async def end(self) -> None:
        """The subscription ends, with what waits for it. Returns when it has, or when that takes too long."""
        self._consumer.end_subscription()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._gone.wait()

    async def close(self) -> None:
        """The subscription stays, and what was not acknowledged comes again."""
        self._is_over = True
        self._gone.set()
        await self._consumer.close()

    def _is_done(self, message: Message) -> bool:
        """Whether the client has it from this subscription, and the tree has forgotten that."""
        return message.seq <= self.done.get((message.publisher, message.stream, message.epoch), 0)

    def marks(self) -> tuple[Mark, ...]:
        return tuple([Mark(*origin, seq) for origin, seq in self.done.items()])

    def _hear(self, effect: Upward) -> None:
        if self._is_over:
            return
        if isinstance(effect, Deliver):
            known = [one for one in effect.messages if self._is_done(one)] if self.done else []
            if known:
                self._consumer.acknowledge(known)
            if len(known) < len(effect.messages):
                self._delivered(self, [one for one in effect.messages if not known or not self._is_done(one)])
        elif isinstance(effect, Answer):
            news = effect.body
            if isinstance(news, ConsumerBegan):
                self._began(self)
            elif isinstance(news, DroppedBefore):
                self._dropped(self, news.count)
            elif isinstance(news, ConsumerOver):
                self._is_over = True
                self._gone.set()
                self._over(self, news.standing, news.reason)
