"""Load for MQTT servers, with publishers and subscribers in this process: the same clients for every server."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from typing import Final

from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import (
    V3_1_1,
    Connack,
    Connect,
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

PAYLOAD_BYTES: Final = 100
FLIGHT_MAX: Final = 20
"""Unacknowledged publications of a publisher with QoS 1 or 2, as in paho-mqtt."""
QUEUED_MAX: Final = 1_000
"""Messages of QoS 0 that are published and not received, so that no server has to drop any."""
_names: Final = itertools.count()


class LoadClient(asyncio.Protocol):
    def __init__(self) -> None:
        self._decoder = PacketDecoder(version=V3_1_1)
        self.transport: asyncio.Transport | None = None
        self.received = 0
        self.acknowledged = 0
        self.sent_at: dict[bytes, float] = {}
        self.latencies: list[float] = []
        self.on_change = asyncio.Event()
        self._answer: asyncio.Future[Packet] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            self._take(packet)
        self.on_change.set()

    def _take(self, packet: Packet | MqttError) -> None:
        match packet:
            case Publish():
                self.received += 1
                if packet.qos:
                    self.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
                if sent := self.sent_at.pop(packet.payload, 0.0):
                    self.latencies.append(time.perf_counter() - sent)
            case Puback() | Pubcomp():
                self.acknowledged += 1
            case Pubrec():
                self.send(Pubrel(packet.packet_id))
            case Pubrel():
                self.send(Pubcomp(packet.packet_id))
            case Connack() | Suback():
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(packet)
            case MqttError():
                raise packet

    def send(self, packet: Packet) -> None:
        assert self.transport is not None
        self.transport.write(encode(packet, V3_1_1))

    async def ask(self, packet: Packet) -> Packet:
        self._answer = asyncio.get_running_loop().create_future()
        self.send(packet)
        return await self._answer

    async def wait(self) -> None:
        self.on_change.clear()
        await self.on_change.wait()


@contextlib.asynccontextmanager
async def connected(port: int, count: int, topic: str = "", qos: int = 0) -> AsyncIterator[list[LoadClient]]:
    """Connect so many clients, and subscribe them to the topic if one is given."""
    clients: list[LoadClient] = []
    loop = asyncio.get_running_loop()
    try:
        for _ in range(count):
            _, client = await loop.create_connection(LoadClient, "127.0.0.1", port)
            clients.append(client)
            await client.ask(Connect(f"load{next(_names)}", V3_1_1))
            if topic:
                await client.ask(Subscribe(1, (FilterRequest(topic, qos),)))
        yield clients
    finally:
        for client in clients:
            if client.transport is not None:
                client.transport.abort()


async def flood(port: int, publishers: int, subscribers: int, qos: int, count: int) -> float:
    """Publish `count` messages in all; return deliveries per second once all have arrived."""
    topic = f"load/{next(_names)}"
    async with connected(port, subscribers, topic, qos) as subs, connected(port, publishers) as pubs:
        each = max(1, count // publishers)
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for pub in pubs:
                group.create_task(_publish(pub, subs, topic, qos, each, publishers))
        for sub in subs:
            while sub.received < each * publishers:
                await sub.wait()
        return each * publishers * subscribers / (time.perf_counter() - begin)


async def _publish(pub: LoadClient, subs: list[LoadClient], topic: str, qos: int, count: int, crowd: int) -> None:
    assert pub.transport is not None
    payload = b"x" * PAYLOAD_BYTES
    plain = encode(Publish(topic, payload), V3_1_1)
    slowest = subs[0]
    for number in range(count):
        if qos:
            pub.transport.write(encode(Publish(topic, payload, qos, number % 65_535 + 1), V3_1_1))
            while number + 1 - pub.acknowledged >= FLIGHT_MAX:
                await pub.wait()
        else:
            pub.transport.write(plain)
            if number % 50 == 49:
                slowest = min(subs, key=lambda sub: sub.received)
                while (number + 1) * crowd - slowest.received > max(QUEUED_MAX, 100 * crowd):
                    await slowest.wait()
                    slowest = min(subs, key=lambda sub: sub.received)
                await asyncio.sleep(0)


async def pace(port: int, rate: int, seconds: float) -> list[float]:
    """Return the latencies in seconds of messages with QoS 0 at so many messages per second."""
    topic = f"load/{next(_names)}"
    async with connected(port, 1, topic) as (sub,), connected(port, 1) as (pub,):
        begin = time.perf_counter()
        for number in range(round(rate * seconds)):
            due = begin + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            payload = str(number).encode().ljust(PAYLOAD_BYTES)
            sub.sent_at[payload] = time.perf_counter()
            pub.send(Publish(topic, payload))
        while sub.sent_at:
            await sub.wait()
        return sub.latencies
