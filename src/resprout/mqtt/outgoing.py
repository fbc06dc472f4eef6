"""Messages to the client: packet identifiers, flow control, retransmission, acknowledgements.

Messages are sent in order of arrival, whatever their QoS: a message that exceeds the flow control window blocks all
later ones. `AckMessages` reports messages from the tree as done: sent with QoS 0, acknowledged with PUBACK or PUBREC,
expired, too large for the client, or no longer matched by a subscription.
"""

from collections import deque
from functools import lru_cache
from typing import Final

from resprout.core.message import Message, MessageId
from resprout.mqtt.actions import AckMessages, Action, SendPacket
from resprout.mqtt.encoder import encode
from resprout.mqtt.mapping import expires_us, properties_of, qos_of
from resprout.mqtt.packets import NO_PROPERTIES, PACKET_ID_MAX, V5, Properties, Publish, Pubrel
from resprout.mqtt.reasons import FAILURE, Reason, protocol_error
from resprout.mqtt.records import Flight, Match, Outbound
from resprout.values.rows import RETAIN_KEY

FINISHED_KEPT: Final = 128
"""Number of completed QoS 2 messages that are remembered, because the tree may redeliver them: more than the number of
acknowledgements that the tree may not have processed."""

_Key = tuple[str, MessageId]
"""Filter of the subscription that delivered a message, and message id."""
_SECOND_US: Final = 1_000_000


_NOTHING: Final[deque[Outbound]] = deque()
"""Shared placeholder for an empty queue. A deque takes 600 bytes, and most of thousands of clients have nothing
queued."""


def _appended(queue: deque[Outbound], item: Outbound) -> deque[Outbound]:
    if queue is _NOTHING:
        return deque((item,))
    queue.append(item)
    return queue


class Counts:
    """Metrics for messages that were not sent to clients."""

    __slots__ = ("expired", "too_large", "unwanted")

    def __init__(self) -> None:
        self.expired = 0
        """Messages dropped because they expired."""
        self.too_large = 0
        """Messages dropped because they exceed the client's maximum packet size."""
        self.unwanted = 0
        """Messages dropped because no subscription of the session matches them any more."""


class Outgoing:
    """Outgoing messages of one session. `wall_us` is microseconds since 1970, for message expiry."""

    def __init__(self) -> None:
        self._flight: dict[int, Outbound] = {}
        """Messages that wait for PUBACK, PUBREC or PUBCOMP, by packet identifier in send order."""
        self._again: deque[Outbound] = _NOTHING
        """Messages sent on an earlier connection and not yet retransmitted on this one."""
        self._queue: deque[Outbound] = _NOTHING
        """Messages that were never sent."""
        self._given: deque[Outbound] = _NOTHING
        """Messages from the tree, in order, from the first one that is not done."""
        self._last_id = 0
        self._expected: dict[_Key, int] = {}
        """Packet identifiers of messages that an earlier broker sent and the tree will redeliver, by message."""
        self._reserved: dict[int, _Key] = {}
        """Messages that an earlier broker sent and the tree will redeliver, by packet identifier."""
        self._finished: dict[_Key, None] = {}
        """QoS 2 messages that the client has received. The tree may redeliver them until it processes the
        acknowledgement."""
        self.is_persistent = False
        """Whether the session survives its broker and must detect redelivered messages."""
        self.counts = Counts()
        self.retained_waiting = 0
        self._is_live = False
        self._version = V5
        self._quota = 0
        self._bytes_max = 0
        self._aliases: dict[str, int] = {}
        """Topic aliases by topic, least recently used first."""
        self._aliases_max = 0

    # -- connections ---------------------------------------------------------------------------------------------------

    def begin(
        self, version: int, quota: int, bytes_max: int, aliases_max: int, wall_us: int, out: list[Action]
    ) -> None:
        """Start a new connection: retransmit the messages in flight. `bytes_max` is the client's maximum packet size, 0
        for no limit."""
        self._is_live = True
        self._version = version
        self._quota = quota
        self._bytes_max = bytes_max
        self._aliases = {}
        self._aliases_max = aliases_max
        self._again.clear()
        for item in self._flight.values():
            item.is_counted = False
            if item.is_released:
                out.append(SendPacket(Pubrel(item.packet_id)))
            else:
                self._again = _appended(self._again, item)
        self._advance(wall_us, out)

    def end(self) -> None:
        """End the connection. Unsent messages stay queued, also with QoS 0."""
        self._is_live = False

    @property
    def unreported(self) -> int:
        """Number of messages from the tree that are not reported as done."""
        return len(self._given)

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Packet identifiers in use."""
        return tuple(self._flight)

    def settled(self, source: str) -> list[Message]:
        """Return the messages of a shared subscription that no other client may get if this one leaves: those that are
        done, and those with QoS 2 that were sent."""
        return [
            item.message
            for item in self._given
            if item.source == source and item.message is not None and (item.is_done or (item.qos == 2 and item.is_sent))
        ]

    # -- messages ------------------------------------------------------------------------------------------------------

    def deliver(self, message: Message, match: Match | None, wall_us: int, out: list[Action], source: str = "") -> None:
        """Queue a message from the tree and send it as soon as flow control permits."""
        if (self._expected or self._finished) and self._known(message, match, source, wall_us, out):
            return
        if match is None:
            self.counts.unwanted += 1
            self._skip(message, out)
            return
        attributes = message.attributes
        qos = min(match.qos, qos_of(attributes)) if match.qos else 0
        if qos == 0 and message.redelivered:  # the client may have received it, and QoS 0 is at most once
            self._skip(message, out)
            return
        retain = match.retain_as_published and RETAIN_KEY in message.keys
        if qos == 0 and not self._queue and not self._again and not self._given and self._is_live:
            item = Outbound(message, 0, retain, match.identifiers, expires_us(attributes), False)
            self._send(item, wall_us, out)
            out.append(AckMessages(1))
            return
        item = Outbound(message, qos, retain, match.identifiers, expires_us(attributes), True, source)
        self._given = _appended(self._given, item)
        self._queue = _appended(self._queue, item)
        if self._is_live:
            self._advance(wall_us, out)

    def deliver_retained(self, message: Message, match: Match, wall_us: int, out: list[Action]) -> None:
        """Queue a retained message for a new subscription."""
        qos = min(match.qos, qos_of(message.attributes))
        self._queue = _appended(
            self._queue, Outbound(message, qos, True, match.identifiers, expires_us(message.attributes), False)
        )
        self.retained_waiting += 1
        if self._is_live:
            self._advance(wall_us, out)

    def _known(self, message: Message, match: Match | None, source: str, wall_us: int, out: list[Action]) -> bool:
        """Handle a redelivered message that an earlier broker sent: retransmit it with the same packet identifier, or
        drop it if the client has received it. Return False for any other message."""
        key = (source, message.id)
        if key in self._finished:
            self._skip(message, out)
            return True
        packet_id = self._expected.pop(key, 0)
        if not packet_id:
            return False
        del self._reserved[packet_id]
        identifiers = () if match is None else match.identifiers
        retain = match is not None and match.retain_as_published and RETAIN_KEY in message.keys
        item = Outbound(message, 2, retain, identifiers, expires_us(message.attributes), True, source, packet_id, True)
        self._given = _appended(self._given, item)
        self._flight[packet_id] = item
        self._again = _appended(self._again, item)
        if self._is_live:
            self._advance(wall_us, out)
        return True

    def _skip(self, message: Message, out: list[Action]) -> None:
        item = Outbound(message, 0, False, (), 0, True, is_done=True)
        self._given = _appended(self._given, item)
        self._report_done(out)

    def _advance(self, wall_us: int, out: list[Action]) -> None:
        """Send queued messages as far as flow control permits."""
        again = self._again
        while again:
            if self._quota <= 0:
                return
            self._send(again.popleft(), wall_us, out)
        queue = self._queue
        while queue:
            item = queue[0]
            if item.qos and (self._quota <= 0 or len(self._flight) + len(self._reserved) >= PACKET_ID_MAX):
                return
            queue.popleft()
            if not item.is_from_tree:
                self.retained_waiting -= 1
            self._send(item, wall_us, out)

    def _send(self, item: Outbound, wall_us: int, out: list[Action]) -> None:
        """Send one message, or drop it if it is expired or too large."""
        if item.expires_us and item.expires_us <= wall_us and not item.is_sent:
            self.counts.expired += 1
            self._finish(item, out)
            return
        packet_id = item.packet_id
        if item.qos and not packet_id:
            packet_id = self._free_id()
        publish = self._publish(item, packet_id, wall_us)
        if publish is None:
            self.counts.too_large += 1
            self._flight.pop(packet_id, None)
            self._finish(item, out)
            return
        out.append(SendPacket(publish))
        if item.qos:
            item.packet_id = packet_id
            item.is_sent = item.is_counted = True
            self._flight[packet_id] = item
            self._quota -= 1
        else:
            self._finish(item, out)

    def _publish(self, item: Outbound, packet_id: int, wall_us: int) -> Publish | None:
        """Return the PUBLISH packet; None if it exceeds the client's maximum packet size."""
        message = item.message
        assert message is not None, "one without a message is never sent again"
        topic = message.topic
        # Another broker may have sent a redelivered message. QoS 2 has its own record of that (`_known`).
        dup = item.is_sent or (item.qos == 1 and message.redelivered)
        if self._version != V5:
            return Publish(topic, message.payload, item.qos, packet_id, item.retain, dup)
        values = properties_of(message.attributes)
        if item.identifiers or item.expires_us:
            values = _with(values, item.identifiers, item.expires_us, wall_us)
        publish = Publish(topic, message.payload, item.qos, packet_id, item.retain, dup, values)
        if self._bytes_max and len(encode(publish, V5)) > self._bytes_max:
            return None
        if self._aliases_max:
            publish = self._aliased(publish)
        return publish

    def _aliased(self, publish: Publish) -> Publish:
        """Return the packet with a topic alias. The first use of an alias also carries the topic name, if both fit."""
        alias = self._aliases.pop(publish.topic, 0)
        topic = "" if alias else publish.topic
        if not alias:
            is_full = len(self._aliases) >= self._aliases_max
            alias = self._aliases[next(iter(self._aliases))] if is_full else len(self._aliases) + 1
        if publish.properties is NO_PROPERTIES:
            values = _only_alias(alias)
        else:
            values = _changed(publish.properties, topic_alias=alias)
        changed = Publish(
            topic, publish.payload, publish.qos, publish.packet_id, publish.retain, publish.dup, values
        )  # fmt: skip
        if topic and self._bytes_max and len(encode(changed, V5)) > self._bytes_max:
            return publish
        if topic and len(self._aliases) >= self._aliases_max:
            del self._aliases[next(iter(self._aliases))]
        self._aliases[publish.topic] = alias
        return changed

    def _free_id(self) -> int:
        packet_id = self._last_id
        while True:
            packet_id = packet_id % PACKET_ID_MAX + 1
            if packet_id not in self._flight and packet_id not in self._reserved:
                self._last_id = packet_id
                return packet_id

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def acknowledged(self, packet_id: int, wall_us: int, out: list[Action]) -> None:
        """Handle PUBACK."""
        item = self._flight.get(packet_id)
        if item is None:
            return
        if item.qos != 1:
            raise protocol_error("PUBACK for a message with QoS 2")
        self._remove(item)
        self._finish(item, out)
        self._advance(wall_us, out)

    def received(self, packet_id: int, reason: int, wall_us: int, out: list[Action]) -> None:
        """Handle PUBREC: with success the client has received the message, with a failure it rejects it."""
        if packet_id in self._reserved:
            self._adopt(packet_id)
        item = self._flight.get(packet_id)
        if item is None:
            if reason < FAILURE:
                code = Reason.PACKET_IDENTIFIER_NOT_FOUND if self._version == V5 else Reason.SUCCESS
                out.append(SendPacket(Pubrel(packet_id, code)))
            return
        if item.qos != 2:
            raise protocol_error("PUBREC for a message with QoS 1")
        if reason >= FAILURE:
            self._remove(item)
            self._finish(item, out)
            self._advance(wall_us, out)
            return
        if not item.is_released:
            item.is_released = True
            if item in self._again:
                self._again.remove(item)
            if self.is_persistent and item.message is not None:
                self._keep_finished((item.source, item.message.id))
            self._finish(item, out)
        out.append(SendPacket(Pubrel(packet_id)))

    def completed(self, packet_id: int, wall_us: int, out: list[Action]) -> None:
        """Handle PUBCOMP."""
        item = self._flight.get(packet_id)
        if item is None:
            return
        if not item.is_released:
            raise protocol_error("PUBCOMP without PUBREC")
        self._remove(item)
        self._advance(wall_us, out)

    def _adopt(self, packet_id: int) -> None:
        """Record that the client has received a message that the tree has not redelivered yet."""
        key = self._reserved.pop(packet_id)
        del self._expected[key]
        self._keep_finished(key)
        self._flight[packet_id] = Outbound(None, 2, False, (), 0, False, key[0], packet_id, True, is_released=True)

    def _keep_finished(self, key: _Key) -> None:
        self._finished[key] = None
        if len(self._finished) > FINISHED_KEPT:
            del self._finished[next(iter(self._finished))]

    def _remove(self, item: Outbound) -> None:
        del self._flight[item.packet_id]
        if item.is_counted:
            self._quota += 1
        elif item in self._again:  # the client received it on an earlier connection
            self._again.remove(item)

    def _finish(self, item: Outbound, out: list[Action]) -> None:
        """Mark the message as done and report it to the tree in order."""
        if item.is_from_tree and not item.is_done:
            item.is_done = True
            self._report_done(out)

    def _report_done(self, out: list[Action]) -> None:
        given = self._given
        count = 0
        while given and given[0].is_done:
            given.popleft()
            count += 1
        if count:
            out.append(AckMessages(count))

    # -- what survives a broker ----------------------------------------------------------------------------------------

    def dump(self) -> list[Flight]:
        """Return the state of QoS 2 messages to include in a session dump."""
        found = [Flight(packet_id, key[0], *key[1], False) for packet_id, key in self._reserved.items()]
        done = dict(self._finished)
        for packet_id, item in self._flight.items():
            if item.qos == 2 and item.message is not None:
                done.pop((item.source, item.message.id), None)
                found.append(Flight(packet_id, item.source, *item.message.id, item.is_released))
            elif item.is_released:
                found.append(Flight(packet_id, item.source, "", 0, "", 0, True))
        return found + [Flight(0, key[0], *key[1], True) for key in done]

    def restore(self, flights: list[Flight]) -> None:
        """Restore the state of QoS 2 messages that an earlier broker sent."""
        for flight in flights:
            key = (flight.source, MessageId(flight.publisher, flight.epoch, flight.stream, flight.seq))
            if flight.is_released:
                if flight.publisher:
                    self._keep_finished(key)
                if flight.packet_id:
                    self._flight[flight.packet_id] = Outbound(
                        None, 2, False, (), 0, False, flight.source, flight.packet_id, True, is_released=True
                    )
            elif key not in self._expected:
                self._expected[key] = flight.packet_id
                self._reserved[flight.packet_id] = key


@lru_cache(maxsize=1_024)
def _only_alias(alias: int) -> Properties:
    return Properties(topic_alias=alias)


def _changed(values: Properties, **fields: int | tuple[int, ...]) -> Properties:
    known = {name: value for name in values.__struct_fields__ if (value := getattr(values, name)) not in (None, ())}
    return Properties(**{**known, **fields})


def _with(values: Properties, identifiers: tuple[int, ...], expires_us: int, wall_us: int) -> Properties:
    fields: dict[str, int | tuple[int, ...]] = {}
    if identifiers:
        fields["subscription_identifiers"] = identifiers
    if expires_us:
        fields["message_expiry"] = max(1, -(-(expires_us - wall_us) // _SECOND_US))
    return Properties(**fields) if values is NO_PROPERTIES else _changed(values, **fields)  # type: ignore[arg-type]
