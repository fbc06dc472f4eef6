"""`TreeSession`: connects an MQTT session to the tree, with its embedded client, its subscriptions and pending
receipts.

It outlives connections. Messages that arrive while the client is away or slow stay unacknowledged. The broker queues
them up to the limit per subscriber (`subscriber_bytes`) and ends the session if the limit is exceeded.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resprout.core.contract import Answer, Deliver, EndCode
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.edge.durable_messages import Standing
from resprout.edge.requests import (
    ReceiptTurned,
    Refused,
    RoomAgain,
    SessionBegan,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)
from resprout.mqtt.actions import BeginSubscriptions, EndSubscriptions, PublishMessage
from resprout.mqtt.mapping import RETAIN, attributes_of, guarantee_of, is_retained
from resprout.mqtt.packets import Will
from resprout.mqtt.reasons import MqttError, Reason
from resprout.mqtt.subscriptions import SHARE
from resprout.mqtt_sessions.delivery_queue import DeliveryQueue
from resprout.mqtt_sessions.embedded import EmbeddedClient, OpenError, reason_of_end
from resprout.mqtt_sessions.notes import NoteWriter
from resprout.mqtt_sessions.pending_subscriptions import PendingPacket, PendingSubscriptions
from resprout.mqtt_sessions.ports import OpenerCredentials, OutwardDoor, Upward
from resprout.mqtt_sessions.receipts import Awaited, AwaitedReceipts
from resprout.mqtt_sessions.records import KEPT, PACKET, SESSION_KEYS, SessionNote
from resprout.mqtt_sessions.request_queue import RequestQueue
from resprout.mqtt_sessions.retained_walks import RetainedWalks
from resprout.mqtt_sessions.sources import DurableSource, end_durable
from resprout.mqtt_sessions.wills import unpacked_will

if TYPE_CHECKING:
    from resprout.mqtt_sessions.driver import ConnectionDriver
    from resprout.mqtt_sessions.server import SessionServer

MARKS_MAX: Final = 1_024
"""Maximum number of acknowledged positions in one note, for all subscriptions of the session."""
MISSING: Final = "messages may be missing: subscribe again"


class TreeSession:
    def __init__(
        self,
        server: "SessionServer",
        name: str,
        client_id: str,
        who: OpenerCredentials,
        door: OutwardDoor | None,
        version: int,
        is_persistent: bool = False,
    ) -> None:
        """`is_persistent` is whether the session outlives its connections, so its subscriptions are durable."""
        self._server = server
        self.name = name
        self.client_id = client_id
        self.who = who
        self.version = version
        self.is_persistent = is_persistent
        self._door = door
        self.driver: ConnectionDriver | None = None
        """Driver of the current connection, or of the last one."""
        self.began: asyncio.Future[None] = server.loop.create_future()
        """Future that is done when the tree serves this client. Its exception is `OpenError` if the tree refuses."""
        self.client = EmbeddedClient(server, name, who, self._hear, door)
        self.is_over = False
        self._left = False
        self._is_lost = False
        """Whether the tree has stopped serving this client."""
        self._awaited = AwaitedReceipts()
        self._is_passing = False
        """Whether `pass_messages` is scheduled."""
        self._deliveries = DeliveryQueue()
        self._sources: dict[str, DurableSource] = {}
        """Durable subscriptions by filter, as the client sent it."""
        self.retained: Final[RetainedWalks] = RetainedWalks(server)
        self._pending: PendingSubscriptions = PendingSubscriptions(
            self._ask, self._end, self._answer_asked, server.line.join, self._is_durable, self._requests_go_on
        )
        self._requests: RequestQueue = RequestQueue(
            server.loop, self._publish_now, self.client.flush, self._pending, self._awaited
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes = NoteWriter(
            self.client, server.wall_us, name, client_id, who.identity or "", self._retain, server.shared.records
        )

    def start(self) -> None:
        self.client.start()

    @property
    def is_connected(self) -> bool:
        return self.driver is not None and self.driver.connection.is_open

    @property
    def is_crowded(self) -> bool:
        """Whether so many publications of the client are not safe, or so many requests wait, that the server must stop
        reading from it."""
        return not self.is_over and (self.client.crowded or self._requests.is_long)

    async def close(self, ends: bool = True) -> None:
        """Leave the tree; call nothing else afterwards. With `ends`, also end the durable subscriptions; otherwise the
        session continues later or at another broker."""
        if self._left:
            return
        self._left = True
        sources = list(self._sources.values())
        if not self._is_lost:
            self._requests.publish_all()
        if ends and not self._is_lost:
            if self._notes.has_any:
                self._notes.write_end(self.is_persistent)
                self.client.flush()
            await asyncio.gather(*[
                self._leave_share(source) if source.is_shared else source.end() for source in sources
            ])  # fmt: skip
        await self.client.close()
        await asyncio.gather(*[source.close() for source in sources])
        self._sources.clear()
        self._pending.close()
        self._notes.close()
        self._requests.close()

    # -- what the machine wants ----------------------------------------------------------------------------------------

    def publish(self, action: PublishMessage) -> None:
        self._requests.publish(action)

    def _publish_now(self, action: PublishMessage) -> None:
        try:
            guarantee, attributes = self._server.guarantee_of(action.topic, action.guarantee), action.attributes
            keys: tuple[str, ...] = ()
            if action.packet_id:
                keys, attributes = SESSION_KEYS, {**attributes, PACKET: action.packet_id}
                guarantee = max(guarantee, Guarantee.FIFO)  # keep it in one stream with the session's notes
            is_unheard = action.waits and not self._has_audience(action.topic)
            stream, seq = self._publish(action.topic, action.payload, guarantee, attributes, keys)
        except UsageError as error:
            self._answer_publication(action.token, str(error), Reason.IMPLEMENTATION_SPECIFIC_ERROR)
            return
        if (retains := is_retained(attributes)) or action.waits:
            self._awaited.add(stream, seq, action.token, retains, is_unheard)

    def _has_audience(self, topic: str) -> bool:
        """Return whether a subscription may match: one in the network, or one of this client that is on its way."""
        if self._server.has_audience(topic):
            return True
        state = self.driver.machine.state if self.driver is not None else None
        return state is not None and state.subscriptions.has_match(topic)

    def _publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: Guarantee,
        attributes: dict[str, AttributeValue],
        keys: tuple[str, ...] = (),
    ) -> tuple[str, int]:
        """Publish in the tree and return stream and number. Raises UsageError if the publication is invalid."""
        guarantee, more = self._server.retaining(self.client.name, topic, payload, attributes, guarantee)
        placed = self.client.publish(topic, payload, guarantee, attributes, keys + more)
        self._server.session_figures.published += 1
        return placed

    # -- what survives this broker -------------------------------------------------------------------------------------

    @property
    def next_note(self) -> int:
        """Number of the next note to publish."""
        return self._notes.count + 1

    @property
    def unsafe_note(self) -> int:
        """Number of the last note if it is not safe yet; 0 if all notes are safe."""
        return self._notes.count if self._notes.count > self._notes.last_safe else 0

    @property
    def has_new_will(self) -> bool:
        """Whether the will differs from the one in the last note."""
        driver = self._live_driver
        return driver is not None and driver.machine.will is not self._notes.will and not self.is_over

    def save(self) -> None:
        """Publish a note with the state of the session. When it is safe, `saved` of the driver is called."""
        driver = self._live_driver
        if driver is None or (state := driver.machine.state) is None:
            return
        machine = driver.machine
        data = state.dump(self._requests.unpublished) if self.is_persistent else b""
        sources = [source for source in self._sources.values() if not source.is_shared]
        share = MARKS_MAX // max(1, len(sources))
        done = {source.filter: source.marks(share) for source in sources}
        try:
            stream, seq = self._notes.write(self._server.shared.home, data, done, machine.will, machine.expiry)
        except UsageError as error:
            self._over(f"the session state cannot be saved: {error}", EndCode.SLOW)
            return
        self._awaited.add(stream, seq, -self._notes.count)
        if self.is_persistent and self._server.keeps_sessions:
            self._notes.keep(self._server.shared.home, state.dump_subscriptions(), done, machine.expiry)

    def _retain(self, note: bytes) -> None:
        """Retain a note, or remove the retained one, if last values are on disk."""
        if self._server.keeps_sessions:
            try:
                self._publish(KEPT + self.name, note, Guarantee.TOTAL, {RETAIN: True})
            except UsageError as error:
                self._server.notify(f"the session of MQTT client {self.name} is not kept on disk: {error}")

    def adopt(self, note: SessionNote, shared: Sequence[str]) -> None:
        """Resume a session of another broker from its note. `shared` has the filters of its shared subscriptions."""
        self._notes.follow(note)
        for topic_filter in (*note.done, *shared):
            self._pending.adopt(topic_filter)
            if (source := self._sources.get(topic_filter)) is not None:
                source.done.update({mark.origin: mark.seq for mark in note.done.get(topic_filter, ())})

    def forget(self, note: SessionNote, has_will: bool = False) -> None:
        """End a session of another broker that has the same name. With `has_will`, publish its will if that is delayed.
        The other broker has published a will without a delay when the client moved."""
        self._notes.follow(note)
        if has_will and note.will_delay and (will := unpacked_will(note.will)) is not None:
            self.publish_will(will)
        self._notes.write_end(bool(note.data))
        self.client.flush()

    def settle_orphan(self, note: SessionNote, ends: bool) -> None:
        """Publish the will of a session whose process is gone, and record it; with `ends`, end the session."""
        self._notes.follow(note)
        if (will := unpacked_will(note.will)) is not None:
            self.publish_will(will)
        if ends:
            self._notes.write_end(bool(note.data))
        else:
            self._notes.write_settled(note)
        self.client.flush()

    async def end_elsewhere(self, topic_filter: str) -> None:
        """End a durable subscription of an earlier session."""
        await end_durable(self._server, self.name, topic_filter, self.who, self._door)

    def publish_will(self, will: Will) -> None:
        """Publish the will; log the reason if that fails, because the client is gone."""
        self._requests.publish_all()
        try:
            attributes = attributes_of(will.qos, will.retain, will.properties, self._server.wall_us())
            guarantee = self._server.guarantee_of(will.topic, guarantee_of(will.properties))
            guarantee = max(guarantee, Guarantee.FIFO)  # keep it in one stream with the session's notes
            if self._is_lost:
                self._server.publish_for(self, will.topic, will.payload, guarantee, attributes)
            else:
                self._publish(will.topic, will.payload, guarantee, attributes)
        except (UsageError, MqttError) as error:
            self._server.notify(f"the will of MQTT client {self.name} cannot be published: {error}")

    def subscribe(self, action: BeginSubscriptions) -> None:
        filters = [request.filter for _, _, request, _ in action.requests]
        self._requests.request(partial(self._pending.subscribe, action.token, filters), True)

    def unsubscribe(self, action: EndSubscriptions) -> None:
        self._requests.request(partial(self._pending.unsubscribe, action.token, action.filters), False)

    def _requests_go_on(self) -> None:
        if not self.is_over:
            self._requests.go_on()
            self._room()

    def acknowledge(self, count: int) -> None:
        """Acknowledge the next `count` messages in the tree, in the order in which they were passed to the machine."""
        self.client.take(self._deliveries.acknowledge(count))

    # -- between them --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Flush publications and pass messages on, after the machine has handled an event."""
        if not self.is_over:
            self.client.flush()
            self.pass_messages()

    def pass_messages(self) -> None:
        """Pass messages to the machine while it has room and the connection is writable."""
        driver = self.driver
        if driver is None or not driver.connection.is_writable or driver.session is not self:
            return
        machine = driver.machine
        given = False
        while self._deliveries and machine.room > 0 and driver.connection.is_writable:
            source, message = self._deliveries.take()
            self._server.session_figures.delivered += 1
            driver.deliver(message, source.filter if source is not None else "")
            given = True
        if given:
            driver.finish()
            driver.connection.flush()
            self.client.flush()
        self.retained.go_on(self)

    def _pass_soon(self) -> None:
        """Pass messages to the machine. While publications of the client wait for their receipts, do so in the next
        turn, so that a client that receives its own publication gets the acknowledgement first."""
        if not self._awaited:
            self.pass_messages()
        elif not self._is_passing:
            self._is_passing = True
            self._server.loop.call_soon(self._pass_now)

    def _pass_now(self) -> None:
        self._is_passing = False
        if not self.is_over:
            self.pass_messages()

    # -- what the tree says --------------------------------------------------------------------------------------------

    def _hear(self, effect: Upward) -> None:
        if self.is_over:
            return
        if isinstance(effect, Deliver):
            self._deliveries.put(None, effect.messages)
            self._pass_soon()
            return
        if (end := reason_of_end(effect)) is not None:
            self._over(*end)
        elif isinstance(effect, Answer):
            handler = _NEWS.get(type(effect.body))
            if handler is not None:
                handler(self, effect.body)

    def _begin(self, news: SessionBegan) -> None:
        if not self.began.done():
            self.began.set_result(None)

    def _turned(self, news: ReceiptTurned) -> None:
        if news.receipt is ReceiptLevel.SAFE:
            self._answer_safe(self._awaited.take_safe(news.stream, news.last))

    def applied(self, stream: str, seq: int) -> None:
        """A retained publication of this session is a last value of this broker, or none."""
        self._answer_safe(self._awaited.take_applied(stream, seq))
        self._requests_go_on()

    def _answer_safe(self, awaited: Sequence[Awaited]) -> None:
        if not awaited:
            return
        noted = -min(one.token for one in awaited)
        self._notes.last_safe = max(self._notes.last_safe, noted)
        if (driver := self._live_driver) is not None:
            now = self._server.now_us()
            driver.run([
                action for one in awaited if one.token > 0
                for action in driver.machine.safe(one.token, now, not one.is_unheard)
            ])  # fmt: skip
            if noted > 0:
                driver.saved(noted)

    def _refused(self, news: Refused) -> None:
        request = news.request
        if isinstance(request, SubscribeRequest):
            self._pending.refused(request.filter, Reason.UNSPECIFIED_ERROR)
        elif isinstance(request, UnsubscribeRequest):
            self._pending.ended(request.filter)
        elif news.stream:
            self._publication_refused(news)

    def _publication_refused(self, news: Refused) -> None:
        tokens = [one.token for one in self._awaited.take_refused(news.stream, news.first, news.last) if one.token]
        if any(token < 0 for token in tokens):
            self._over(f"the session state cannot be saved: {news.reason}", EndCode.NONE)
            return
        if self._live_driver is None:
            self._server.notify(f"a publication of MQTT client {self.name}, which is gone, was refused: {news.reason}")
        for token in tokens:
            self._answer_publication(token, news.reason, Reason.NOT_AUTHORIZED)
        self._requests_go_on()
        if len(tokens) < news.last - news.first + 1:  # QoS 0 has no acknowledgement, so the connection ends
            self._answer_publication(0, news.reason, Reason.NOT_AUTHORIZED)

    def _answer_publication(self, token: int, reason: str, code: Reason) -> None:
        if (driver := self._live_driver) is not None:
            driver.run(driver.machine.publish_refused(token, code, reason, self._server.now_us()))

    def _room(self) -> None:
        if self.driver is not None and not self.driver.is_crowded:
            self.driver.connection.release()

    def _lost(self, news: SessionLost) -> None:
        """End the session, because messages may be missing and the client must subscribe again."""
        self._over(f"{news.reason}; {MISSING}", EndCode.NONE)

    def _over(self, reason: str, code: EndCode) -> None:
        self._is_lost = True
        if not self.began.done():
            self.began.set_exception(OpenError(reason, code))
            self.began.exception()  # mark as retrieved: the waiter may be gone
        self._server.lost(self, reason, code)

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def _ask(self, topic_filter: str) -> None:
        if self.is_over:
            return
        if not self._is_durable(topic_filter):
            self.client.subscribe(topic_filter)
            return
        source = self._sources[topic_filter] = DurableSource(
            self._server, self.name, topic_filter, self.who, self._door,
            self._delivered, lambda source: self._pending.confirmed(source.filter), self._source_over, self._dropped,
        )  # fmt: skip
        source.start()

    def _is_durable(self, topic_filter: str) -> bool:
        return self.is_persistent or topic_filter.startswith(SHARE)

    def _end(self, topic_filter: str) -> None:
        if self.is_over:
            return
        source = self._sources.get(topic_filter)
        if source is None:
            self.client.unsubscribe(topic_filter)
        elif source.is_shared:
            self._run(self._leave(source))
        else:
            self._run(source.end())

    async def _leave(self, source: DurableSource) -> None:
        """Leave a shared subscription. Its unacknowledged messages go to other sessions."""
        self._sources.pop(source.filter, None)  # the session may have ended meanwhile
        await self._leave_share(source)
        self._pending.ended(source.filter)

    async def _leave_share(self, source: DurableSource) -> None:
        if self.driver is not None and (state := self.driver.machine.state) is not None:
            source.acknowledge(state.outgoing.settled(source.filter))
        await self._server.leave_share(source)

    def _delivered(self, source: DurableSource, messages: Sequence[Message]) -> None:
        if not self.is_over:
            self._deliveries.put(source, messages)
            self._pass_soon()

    def _source_over(self, source: DurableSource, standing: Standing, reason: str) -> None:
        if self.is_over or self._sources.get(source.filter) is not source:
            return
        del self._sources[source.filter]
        self._run(source.close())
        if standing is Standing.ENDED:
            self._pending.ended(source.filter)
        elif not self._pending.is_confirmed(source.filter):
            self._pending.refused(source.filter, Reason.UNSPECIFIED_ERROR)
        elif standing is not Standing.FENCED:
            self._over(f"{source.filter}: {reason}; {MISSING}", EndCode.NONE)

    def _dropped(self, source: DurableSource, count: int) -> None:
        self._server.session_figures.dropped += count

    def _answer_asked(self, asked: PendingPacket, reasons: Sequence[int]) -> None:
        """Answer SUBSCRIBE or UNSUBSCRIBE."""
        driver, now = self._live_driver, self._server.now_us()
        if driver is None:
            return
        if asked.is_subscribe:
            driver.run(driver.machine.subscribed(asked.token, reasons, now))
        else:
            driver.run(driver.machine.unsubscribed(asked.token, reasons, now))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._server.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _live_driver(self) -> "ConnectionDriver | None":
        """Driver whose machine has this session; None if there is none, so answers are dropped."""
        return self.driver if self.driver is not None and self.driver.session is self else None


_NEWS: Final[Mapping[type, Callable[[TreeSession, Any], None]]] = {
    SessionBegan: TreeSession._begin,
    ReceiptTurned: TreeSession._turned,
    Refused: TreeSession._refused,
    SubscriptionConfirmed: lambda session, news: session._pending.confirmed(news.filter),
    SubscriptionEnded: lambda session, news: session._pending.ended(news.filter),
    RoomAgain: lambda session, news: session._room(),
    SessionLost: TreeSession._lost,
}
"""Handlers of answers from the tree, shared by all sessions."""
