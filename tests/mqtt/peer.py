"""Minimal MQTT client for tests: sends any packet and returns the packets it receives, without protocol rules of its
own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import (
    V3_1_1,
    V5,
    Connack,
    Connect,
    Disconnect,
    FilterRequest,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
)
from resprout.mqtt.reasons import MqttError
from resprout.net.address import Address

P = TypeVar("P")


class MqttPeer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.reader = reader
        self.writer = writer
        self.version = version
        self._decoder = PacketDecoder(version=version)
        self._heard: list[Packet] = []
        self._ids = 0

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def say(self, *packets: Packet) -> None:
        self.writer.write(b"".join(encode(packet, self.version) for packet in packets))

    async def hear(self) -> Packet:
        """Return the next packet. Raises EOFError if the broker closed the connection."""
        while not self._heard:
            data = await self.reader.read(65_536)
            if not data:
                raise EOFError
            for one in self._decoder.feed(data):
                assert not isinstance(one, MqttError), one
                self._heard.append(one)
        return self._heard.pop(0)

    async def hear_a(self, kind: type[P], accept: Callable[[P], bool] = lambda packet: True) -> P:
        """Return the next packet of this type; earlier packets of other types stay queued."""
        passed: list[Packet] = []
        try:
            while True:
                packet = await self.hear()
                if isinstance(packet, kind) and accept(packet):
                    return packet
                passed.append(packet)
        finally:
            self._heard = passed + self._heard

    async def ended(self) -> list[Packet]:
        """Return all packets until the broker closes the connection."""
        heard = []
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                heard.append(await self.hear())
        return heard

    async def connect(self, client_id: str, **fields: Any) -> Connack:
        self.say(Connect(client_id, self.version, **fields))
        answer = await self.hear()
        assert isinstance(answer, Connack), answer
        return answer

    async def subscribe(self, *filters: str, qos: int = 2, **fields: Any) -> Suback:
        self.say(Subscribe(self.next_id(), tuple([FilterRequest(one, qos, **fields) for one in filters])))
        return await self.hear_a(Suback)

    async def publish(self, topic: str, payload: bytes, qos: int = 1, **fields: Any) -> int:
        """Publish and complete the handshake of the QoS. Return the reason code of the last acknowledgement."""
        if not qos:
            self.say(Publish(topic, payload, **fields))
            return 0
        number = self.next_id()
        self.say(Publish(topic, payload, qos, number, **fields))
        if qos == 1:
            return (await self.hear_a(Puback, lambda ack: ack.packet_id == number)).reason
        received = await self.hear_a(Pubrec, lambda ack: ack.packet_id == number)
        if received.reason < 0x80:
            self.say(Pubrel(number))
            await self.hear_a(Pubcomp, lambda ack: ack.packet_id == number)
        return received.reason

    async def receive(self) -> Publish:
        """Return the next message, acknowledged according to its QoS."""
        message = await self.hear_a(Publish)
        if message.qos == 1:
            self.say(Puback(message.packet_id))
        elif message.qos == 2:
            self.say(Pubrec(message.packet_id))
            await self.hear_a(Pubrel, lambda release: release.packet_id == message.packet_id)
            self.say(Pubcomp(message.packet_id))
        return message

    def leave(self) -> None:
        self.say(Disconnect())
        self.writer.close()

    def vanish(self) -> None:
        """Abort the connection without DISCONNECT, like a client that crashes."""
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def mqtt_peer(address: Address, version: int = V5) -> AsyncIterator[MqttPeer]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield MqttPeer(reader, writer, version)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError, EOFError):
            await writer.wait_closed()


VERSIONS = (V3_1_1, V5)
