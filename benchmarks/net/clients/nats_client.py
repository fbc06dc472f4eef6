"""NATS: `python -m benchmarks.net.clients.nats_client publisher|subscriber PORT`.

What must be safe goes through JetStream, into a stream in memory or, after `settle file`, on disk.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import nats  # type: ignore[import-not-found]

from resprout.cli.load.stream import Take
from resprout.cli.load.worker import Inlet, run_worker

SUBJECT = "load.1"
STREAM = "settled"


class NatsSender:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._stream: Any = None

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        publish = self._connection.publish
        for block in blocks:
            for payload in block:
                await publish(SUBJECT, payload)
            await asyncio.sleep(0)
        await self._connection.flush()

    async def send(self, payload: bytes) -> None:
        await self._connection.publish(SUBJECT, payload)

    async def prepare(self) -> None:
        self._stream = self._connection.jetstream()
        await self._stream.add_stream(name=STREAM, subjects=[STREAM], storage=sys.argv[-1], max_bytes=256 << 20)

    async def settle(self, payload: bytes) -> None:
        await self._stream.publish(STREAM, payload)

    async def close(self) -> None:
        await self._connection.close()


class NatsReceiver:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._inlet = Inlet()

    async def subscribe(self) -> None:
        await self._connection.subscribe(SUBJECT, cb=self._hear, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await self._connection.flush()

    async def _hear(self, message: Any) -> None:
        self._inlet.put(message.data)

    async def receive(self, take: Take, batches: bool) -> None:
        await self._inlet.receive(take)

    async def close(self) -> None:
        await self._connection.close()


async def _sender(port: str) -> NatsSender:
    sender = NatsSender(await nats.connect(f"nats://127.0.0.1:{port}"))
    if "settle" in sys.argv:
        await sender.prepare()
    return sender


async def _receiver(port: str) -> NatsReceiver:
    receiver = NatsReceiver(await nats.connect(f"nats://127.0.0.1:{port}"))
    await receiver.subscribe()
    return receiver


if __name__ == "__main__":
    run_worker(sys.argv[1], sys.argv[2], _sender, _receiver)
