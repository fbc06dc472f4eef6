"""gmqtt: `python -m benchmarks.net.clients.mqtt_client publisher|subscriber PORT`.

Quality of service 0: on a connection that lives, and with brokers that are told to drop nothing, everything arrives.
"""

import asyncio
import sys
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from gmqtt import Client  # type: ignore[import-not-found]
from gmqtt.mqtt.constants import MQTTv311  # type: ignore[import-not-found]

from resprout.cli.load.stream import Take
from resprout.cli.load.worker import Inlet, run_worker

TOPIC = "load/1"


async def _connect(port: str) -> Any:
    client = Client(uuid.uuid4().hex)
    await client.connect("127.0.0.1", int(port), version=MQTTv311)
    return client


class MqttSender:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        publish = self._client.publish
        for block in blocks:
            for payload in block:
                publish(TOPIC, payload)
            await asyncio.sleep(0)

    async def send(self, payload: bytes) -> None:
        self._client.publish(TOPIC, payload)

    async def settle(self, payload: bytes) -> None:
        raise NotImplementedError("a broker that holds a message in memory alone does not make it safe")

    async def close(self) -> None:
        await self._client.disconnect()


class MqttReceiver:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._inlet = Inlet()
        client.on_message = self._hear

    def _hear(self, client: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
        self._inlet.put(payload)
        return 0

    async def receive(self, take: Take, batches: bool) -> None:
        await self._inlet.receive(take)

    async def close(self) -> None:
        await self._client.disconnect()


async def _sender(port: str) -> MqttSender:
    return MqttSender(await _connect(port))


async def _receiver(port: str) -> MqttReceiver:
    client = await _connect(port)
    receiver = MqttReceiver(client)
    client.subscribe(TOPIC, qos=0)
    return receiver


if __name__ == "__main__":
    run_worker(sys.argv[1], sys.argv[2], _sender, _receiver)
