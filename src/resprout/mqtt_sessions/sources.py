"""Durable subscriptions of MQTT sessions: one per filter of a session that outlives its connections, and one per shared
subscription, which all its sessions consume.

Up to `PENDING_MAX` messages wait in each; beyond that the oldest are dropped and counted, so a client that stays away
never blocks publishers.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from resprout.core.bundle import Origin
from resprout.core.contract import Answer, Deliver
from resprout.core.message import Message
from resprout.core.message_fields import Mark
from resprout.edge.durable_messages import Standing, Terms, WhenFull
from resprout.edge.requests import ConsumerBegan, ConsumerOver, DroppedBefore
from resprout.mqtt.subscriptions import read_filter
from resprout.mqtt_sessions.embedded import EmbeddedConsumer, consumer_name
from resprout.mqtt_sessions.ports import OpenerCredentials, OutwardDoor, Upward

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer

PENDING_MAX: Final = 100_000
END_SECONDS: Final = 5.0
ORIGINS_MAX: Final = 256
"""Maximum number of origins whose acknowledged position a session keeps. Messages from other origins may be
duplicated."""
SHARED_WINDOW: Final = 64
SESSION_WINDOW: Final = 1_024
"""Maximum number of unacknowledged messages of one subscription of a session."""


def durable_name(client: str, topic_filter: str) -> str:
    """Return the name of the durable subscription for a filter, as the client sent it. All clients of a shared
    subscription get the same name."""
    plain, group = read_filter(topic_filter)
    if group:
        return f"mqtt.share.{_digest(f'{group}/{plain}')}"
    return f"mqtt.{_digest(client)}.{_digest(topic_filter)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


async def end_durable(
    server: "SessionServer", client: str, topic_filter: str, who: OpenerCredentials, door: OutwardDoor | None
) -> None:
    """End the durable subscription of a session that this process does not have. Returns when it has ended, or after
    `END_SECONDS`."""
    plain, _ = read_filter(topic_filter)
    over = asyncio.Event()

    def hear(effect: Upward) -> None:
        if isinstance(effect, Answer) and isinstance(effect.body, ConsumerOver):
            over.set()

    terms = Terms(plain, None, False, WhenFull.DROP_OLDEST, PENDING_MAX)
    name = durable_name(client, topic_filter)
    consumer = EmbeddedConsumer(server, client, name, terms, who, hear, door, ends=True)
    consumer.start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await over.wait()
    await consumer.close()


class DurableSource:
    """Durable subscription of one session. Callbacks: `delivered` receives messages, `began` is called when the
    subscription is confirmed, `over` when it is refused or ends, and `dropped` with the number of dropped messages."""

    def __init__(
        self,
        server: "SessionServer",
        client: str,
        topic_filter: str,
        who: OpenerCredentials,
        door: OutwardDoor | None,
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
        """Acknowledged position by origin, as far as this session knows."""
        self._is_over = False
        self._gone = asyncio.Event()
        self._answered = asyncio.Event()
        terms = Terms(plain, None, self.is_shared, WhenFull.DROP_OLDEST, PENDING_MAX)
        window = SHARED_WINDOW if self.is_shared else SESSION_WINDOW
        self.name = durable_name(client, topic_filter)
        self.consumer_name = consumer_name(client, self.name)
        self._consumer = EmbeddedConsumer(server, client, self.name, terms, who, self._hear, door, window=window)

    def start(self) -> None:
        self._consumer.start()

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages, in delivery order per origin."""
        if not self.is_shared:
            for message in messages:
                origin = (message.publisher, message.stream, message.epoch)
                seq = max(message.seq, self.done.pop(origin, 0))  # keep the most recently used last
                self.done[origin] = seq
            while len(self.done) > ORIGINS_MAX:
                del self.done[next(iter(self.done))]
        if not self._is_over:
            self._consumer.acknowledge(messages)

    async def until_answered(self) -> None:
        """Wait until the subscription is confirmed or refused, for at most `END_SECONDS`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._answered.wait()

    async def end(self) -> None:
        """End the subscription and drop its pending messages. Returns when it has ended, or after `END_SECONDS`."""
        self._consumer.end_subscription()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._gone.wait()

    async def close(self) -> None:
        """Stop consuming. The subscription stays and redelivers unacknowledged messages later."""
        self._is_over = True
        self._gone.set()
        await self._consumer.close()

    def _is_done(self, message: Message) -> bool:
        """Return whether the client has acknowledged the message and the tree has lost that acknowledgement."""
        return message.seq <= self.done.get((message.publisher, message.stream, message.epoch), 0)

    def marks(self, most: int) -> tuple[Mark, ...]:
        """Return the acknowledged positions of the origins that acknowledged last."""
        latest = list(self.done.items())[max(0, len(self.done) - most) :]
        return tuple([Mark(*origin, seq) for origin, seq in latest])

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
                self._answered.set()
                self._began(self)
            elif isinstance(news, DroppedBefore):
                self._dropped(self, news.count)
            elif isinstance(news, ConsumerOver):
                self._is_over = True
                self._answered.set()
                self._gone.set()
                self._over(self, news.standing, news.reason)
