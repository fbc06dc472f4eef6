"""State shared by all MQTT brokers: session notes. Retained messages are last values, which every broker holds.

Each MQTT broker has a client that subscribes to the notes. A broker that starts subscribes, then requests the state of
another broker (`$mqtt/sync`), and only then accepts MQTT clients. Subscribing first means that it misses nothing, and
merging is idempotent.

The state is in memory. If all MQTT brokers are down at the same time, sessions continue from their retained notes if
last values are on disk (`records`); otherwise they are lost.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from resprout.core.contract import Answer, Deliver, Note
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.edge.requests import AudienceAnswered, RoomAgain, SessionBegan, SubscriptionConfirmed
from resprout.mqtt_sessions.embedded import EmbeddedClient, reason_of_end
from resprout.mqtt_sessions.ports import OpenerCredentials, Upward
from resprout.mqtt_sessions.records import CHECK, OWN_KEYS, SESSIONS, SessionNote, SessionRecords

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer

SYNC: Final = "$mqtt/sync"
HOMES: Final = "$mqtt/homes/"
"""Prefix of the topics to which MQTT brokers subscribe to show that they run: one for each process."""
OWN_TOPICS: Final = "$mqtt/"
"""Prefix of the topics that brokers use among themselves."""

ANSWER_SECONDS: Final = 5.0
"""Timeout for the next part of an answer, after which another broker is asked."""
CHECK_SECONDS: Final = 15.0
"""Timeout for a `total`, which is delayed while a repair runs."""
TRIES_MAX: Final = 6
PAUSE_SECONDS: Final = 0.5
"""Delay before creating a new client after its session ended."""


class WhoHasState(msgspec.Struct, frozen=True, tag="who", array_like=True):
    """Request for offers from brokers that have state, on `$mqtt/sync`."""

    asker: str
    question: int


class SendState(msgspec.Struct, frozen=True, tag="send", array_like=True):
    """Request to one broker to send its state, on `$mqtt/sync`."""

    asker: str
    question: int
    to: str


class HasState(msgspec.Struct, frozen=True, tag="has", array_like=True):
    """Offer to send state, on the topic of the requesting broker."""

    question: int
    name: str


class StatePage(msgspec.Struct, frozen=True, tag="page", array_like=True):
    """Page of state, on the topic of the requesting broker."""

    question: int
    name: str
    number: int
    is_last: bool
    data: bytes


_Said = WhoHasState | SendState | HasState | StatePage
_decoder: Final = msgspec.msgpack.Decoder(_Said)


class SharedState:
    """Shared state of one broker."""

    def __init__(self, server: "SessionServer") -> None:
        self._server = server
        self.records = SessionRecords()
        self._checks: dict[str, asyncio.Future[None]] = {}
        self._loop = server.loop
        self.ready = asyncio.Event()
        """Event that is set once the state of the other brokers has been merged."""
        self._client: EmbeddedClient | None = None
        self._task = self._loop.create_task(self._live())
        self._over = asyncio.Event()
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self._confirmed: set[str] = set()
        self.name = ""
        """Name of this broker's client in the tree."""
        self.home = f"{server.broker_name}.{server.token_hex(6)}"
        """Name of this process in session notes."""
        self.ended: Callable[[SessionNote], None] = _nothing
        """Callback for the last note of each session that ends."""
        self._question = 0

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        if self._client is not None:
            await self._client.close()

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: Guarantee,
        attributes: dict[str, AttributeValue],
        keys: tuple[str, ...] = (),
    ) -> None:
        """Publish in the name of this broker. Raises UsageError if the publication is invalid."""
        if self._client is not None:
            self._client.publish(topic, payload, guarantee, attributes, keys)
            self._client.flush()

    async def check_sessions(self) -> None:
        """Wait until all session notes that are safe now have arrived. Raises TimeoutError after `CHECK_SECONDS`."""
        nonce = self._server.token_hex(8)
        check = self._checks[nonce] = self._loop.create_future()
        try:
            self.publish(SESSIONS, b"", Guarantee.TOTAL, {CHECK: nonce}, OWN_KEYS)
            async with asyncio.timeout(CHECK_SECONDS):
                await check
        finally:
            self._checks.pop(nonce, None)

    # -- lives of the client -------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Run one client after the other: each membership of the broker in the tree has its own, which synchronises
        first."""
        while True:
            self._over.clear()
            self._confirmed.clear()
            self._news = asyncio.Queue()
            self.name = f"{self._server.broker_name[:40]}.mqtt-{self._server.token_hex(6)}"
            client = self._client = EmbeddedClient(
                self._server, self.name, OpenerCredentials("", internal=True), self._hear
            )
            client.start()
            synced = self._loop.create_task(self._sync(client))
            over = self._loop.create_task(self._over.wait())
            try:
                await asyncio.wait((synced, over), return_when=asyncio.FIRST_COMPLETED)
                if synced.done():
                    synced.result()
                    self.ready.set()
                    await over
            finally:
                synced.cancel()
                over.cancel()
                await client.close()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _sync(self, client: EmbeddedClient) -> None:
        """Subscribe, then merge the state of another broker."""
        await self._next(SessionBegan, None)
        client.subscribe(SESSIONS)
        client.subscribe(self._topic_of(self.name))
        client.subscribe(HOMES + self.home)
        while len(self._confirmed) < 3:
            await self._next(SubscriptionConfirmed, None)
        for _ in range(TRIES_MAX):
            client.ask_audience(SYNC)
            answer = await self._next(AudienceAnswered, ANSWER_SECONDS)
            if answer is not None and not answer.anybody:
                break
            if await self._merge_from_another(client):
                break
        else:
            detail = "no broker sent its MQTT sessions: some may be missing at this broker"
            self._server.note(Note("note", {"detail": detail}))
        client.subscribe(SYNC)
        await self._next(SubscriptionConfirmed, None)

    async def _merge_from_another(self, client: EmbeddedClient) -> bool:
        self._question += 1
        self._send_sync(client, SYNC, WhoHasState(self.name, self._question))
        offer = await self._next(HasState, ANSWER_SECONDS)
        if offer is None:
            return False
        self._send_sync(client, SYNC, SendState(self.name, self._question, offer.name))
        number = 0
        while True:
            page = await self._next(StatePage, ANSWER_SECONDS)
            if page is None:
                return False
            if page.name != offer.name or page.number != number:
                continue
            self.records.merge(page.data)
            if page.is_last:
                return True
            number += 1

    async def _next(self, kind: type, seconds: float | None) -> Any:
        """Return the next news of this type; None on timeout. Drops news of other types and of earlier questions."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    news = await self._news.get()
                    if isinstance(news, kind) and getattr(news, "question", self._question) == self._question:
                        return news
        except TimeoutError:
            return None

    # -- what is heard -------------------------------------------------------------------------------------------------

    def _hear(self, effect: Upward) -> None:
        client = self._client
        if client is None:
            return
        if isinstance(effect, Deliver):
            for message in effect.messages:
                self._handle_message(client, message)
            client.take(1)
            client.flush()
        elif reason_of_end(effect) is not None:
            self._over.set()
        elif isinstance(effect, Answer) and not isinstance(effect.body, RoomAgain):
            body = effect.body
            if isinstance(body, SubscriptionConfirmed):
                self._confirmed.add(body.filter)
            if isinstance(body, SessionBegan | SubscriptionConfirmed | AudienceAnswered):
                self._news.put_nowait(body)

    def _handle_message(self, client: EmbeddedClient, message: Message) -> None:
        if message.topic == SYNC or message.topic == self._topic_of(self.name):
            self._handle_sync(client, message)
        elif CHECK in message.attributes:
            check = self._checks.pop(str(message.attributes[CHECK]), None)
            if check is not None and not check.done():
                check.set_result(None)
        else:
            if (note := self.records.apply(message)) is not None:
                self.ended(note)

    def _handle_sync(self, client: EmbeddedClient, message: Message) -> None:
        """Handle a message of the synchronisation protocol. Any client with the right to publish there can send one, so
        it is untrusted."""
        try:
            said = _decoder.decode(message.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(said, HasState | StatePage):
            self._news.put_nowait(said)
        elif said.asker == self.name or len(said.asker) > 128 or "/" in said.asker:
            return
        elif isinstance(said, WhoHasState):
            if SYNC in self._confirmed:
                self._send_sync(client, self._topic_of(said.asker), HasState(said.question, self.name))
        elif said.to == self.name:
            pages = list(self.records.pages())
            for number, data in enumerate(pages):
                page = StatePage(said.question, self.name, number, number == len(pages) - 1, data)
                self._send_sync(client, self._topic_of(said.asker), page)

    def _send_sync(self, client: EmbeddedClient, topic: str, said: Any) -> None:
        try:
            client.publish(topic, msgspec.msgpack.encode(said), Guarantee.CAUSAL, {})
            client.flush()
        except UsageError as error:
            self._server.note(Note("note", {"detail": f"cannot send MQTT state to another broker: {error}"}))

    @staticmethod
    def _topic_of(name: str) -> str:
        return f"{SYNC}/{name}"


def _nothing(note: SessionNote) -> None:
    """Ignore a session that ended."""
