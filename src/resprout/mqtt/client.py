"""`ClientSession`: the client's half of an MQTT 5 session, for the simulator and for tests.

It outlives connections. `connect` begins a connection and `connected` handles its CONNACK: if the server has the
session, everything in flight is sent again, with DUP and the same packet identifiers. Publications with QoS 1 and 2
wait while the receive maximum of the server is used up. Messages are acknowledged as soon as they are received, and one
with QoS 2 is passed on once, however often the server sends it.

It has no will, no topic aliases and no retransmission within a connection.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from resprout.mqtt.packets import (
    NO_PROPERTIES,
    PACKET_ID_MAX,
    V5,
    Connack,
    Connect,
    FilterRequest,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from resprout.mqtt.reasons import Reason

RECEIVE_MAXIMUM: Final = 65_535
"""Receive maximum of a server that does not say one."""


class PublicationAcknowledged(msgspec.Struct, frozen=True):
    """The server has taken a publication over, with PUBACK or PUBREC, or refused it."""

    token: int
    reason: int


class MessageReceived(msgspec.Struct, frozen=True):
    packet: Publish


class SubscriptionAnswered(msgspec.Struct, frozen=True):
    """The server has answered a SUBSCRIBE or an UNSUBSCRIBE."""

    filters: tuple[str, ...]
    reasons: tuple[int, ...]
    is_subscribe: bool


ClientEvent: TypeAlias = PublicationAcknowledged | MessageReceived | SubscriptionAnswered
Outcome: TypeAlias = tuple[list[Packet], list[ClientEvent]]
"""Packets to send, and what has happened."""


class _InFlight(msgspec.Struct):
    packet: Publish
    token: int
    is_received: bool = False
    """Whether PUBREC came, so PUBREL is sent instead."""


class ClientSession:
    def __init__(self, client_id: str, keep_alive: int, session_expiry: int) -> None:
        """`keep_alive` and `session_expiry` are in seconds."""
        self._client_id = client_id
        self._keep_alive = keep_alive
        self._expiry = session_expiry
        self.is_connected = False
        self._receive_maximum = RECEIVE_MAXIMUM
        self._in_flight: dict[int, _InFlight] = {}
        """Publications without PUBACK or PUBCOMP, by packet identifier, in order."""
        self._waiting: deque[tuple[Publish, int]] = deque()
        """Publications that were not sent yet, each with its token."""
        self._received: set[int] = set()
        """Packet identifiers of messages with QoS 2 that the server has not released."""
        self._asked: dict[int, Subscribe | Unsubscribe] = {}
        """Requests without an answer on this connection."""
        self._last_id = 0

    @property
    def is_settled(self) -> bool:
        """Whether no publication is unfinished."""
        return not self._in_flight and not self._waiting

    def connect(self, clean_start: bool) -> Connect:
        """Return the first packet of a connection."""
        properties = Properties(session_expiry=self._expiry)
        return Connect(self._client_id, V5, clean_start, self._keep_alive, properties=properties)

    def disconnected(self) -> None:
        """Handle the end of the connection."""
        self.is_connected = False
        self._asked.clear()

    def connected(self, packet: Connack) -> list[Packet]:
        """Handle a CONNACK without an error, and return the packets to send. If the server does not have the session,
        publications that it may not have are sent again as new ones."""
        self.is_connected = True
        self._receive_maximum = packet.properties.receive_maximum or RECEIVE_MAXIMUM
        if not packet.session_present:
            self._received.clear()
            for one in self._in_flight.values():
                one.is_received = False
        return [
            Pubrel(number) if one.is_received else replace(one.packet, dup=packet.session_present)
            for number, one in self._in_flight.items()
        ] + self._send_waiting()

    def publish(self, topic: str, payload: bytes, qos: int, token: int, properties: Properties) -> list[Packet]:
        """Publish a message, and return the packets to send. `token` comes back with the acknowledgement, which QoS 0
        does not have; a message with QoS 0 is dropped without a connection."""
        packet = Publish(topic, payload, qos, properties=properties)
        if not qos:
            return [packet] if self.is_connected else []
        self._waiting.append((packet, token))
        return self._send_waiting()

    def subscribe(self, requests: Sequence[FilterRequest], properties: Properties = NO_PROPERTIES) -> Subscribe:
        """Return the packet to send on an open connection. A request without an answer ends with the connection."""
        packet = Subscribe(self._next_id(), tuple(requests), properties)
        self._asked[packet.packet_id] = packet
        return packet

    def unsubscribe(self, filters: Sequence[str]) -> Unsubscribe:
        packet = Unsubscribe(self._next_id(), tuple(filters))
        self._asked[packet.packet_id] = packet
        return packet

    def receive(self, packet: Packet) -> Outcome:
        """Handle a packet other than CONNACK, DISCONNECT and PINGRESP, which concern the connection."""
        match packet:
            case Publish():
                return self._message(packet)
            case Pubrel():
                self._received.discard(packet.packet_id)
                return [Pubcomp(packet.packet_id)], []
            case Puback() | Pubrec():
                return self._acknowledged(packet)
            case Pubcomp():
                one = self._in_flight.get(packet.packet_id)
                if one is not None and one.is_received:
                    del self._in_flight[packet.packet_id]
                return self._send_waiting(), []
            case Suback() | Unsuback():
                asked = self._asked.pop(packet.packet_id, None)
                if isinstance(asked, Subscribe):
                    filters = tuple([request.filter for request in asked.requests])
                    return [], [SubscriptionAnswered(filters, packet.reasons, True)]
                if asked is not None:
                    return [], [SubscriptionAnswered(asked.filters, packet.reasons, False)]
        return [], []

    def _message(self, packet: Publish) -> Outcome:
        if packet.qos == 0:
            return [], [MessageReceived(packet)]
        if packet.qos == 1:
            return [Puback(packet.packet_id)], [MessageReceived(packet)]
        is_known = packet.packet_id in self._received
        self._received.add(packet.packet_id)
        return [Pubrec(packet.packet_id)], [] if is_known else [MessageReceived(packet)]

    def _acknowledged(self, packet: Puback | Pubrec) -> Outcome:
        number = packet.packet_id
        one = self._in_flight.get(number)
        if one is None:
            unknown: list[Packet] = [Pubrel(number, Reason.PACKET_IDENTIFIER_NOT_FOUND)]
            return (unknown if isinstance(packet, Pubrec) and packet.reason < 0x80 else []), []
        told = [] if one.is_received else [PublicationAcknowledged(one.token, packet.reason)]
        if isinstance(packet, Pubrec) and packet.reason < 0x80:
            one.is_received = True
            return [Pubrel(number)], [*told]
        del self._in_flight[number]
        return self._send_waiting(), [*told]

    def _send_waiting(self) -> list[Packet]:
        packets: list[Packet] = []
        while self._waiting and self.is_connected and len(self._in_flight) < self._receive_maximum:
            packet, token = self._waiting.popleft()
            packet = replace(packet, packet_id=self._next_id())
            self._in_flight[packet.packet_id] = _InFlight(packet, token)
            packets.append(packet)
        return packets

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % PACKET_ID_MAX + 1
            if self._last_id not in self._in_flight and self._last_id not in self._asked:
                return self._last_id
