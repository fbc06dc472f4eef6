"""Redis: `python -m benchmarks.net.clients.redis_client publisher|subscriber PORT`.

Publications of one block travel as one pipeline, each a command of its own. What must be safe is added to a stream.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from redis.asyncio import Redis  # type: ignore[import-not-found]

from resprout.cli.load.stream import Take
from resprout.cli.load.worker import run_worker

CHANNEL = "load/1"
STREAM = "settled"
STREAM_LENGTH_MAX = 100_000
CONNECTIONS_MAX = 1_024
"""One for each call that is under way."""


class RedisSender:
    def __init__(self, port: str) -> None:
        self._redis = Redis(host="127.0.0.1", port=int(port), max_connections=CONNECTIONS_MAX)

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        for block in blocks:
            pipeline = self._redis.pipeline(transaction=False)
            for payload in block:
                pipeline.publish(CHANNEL, payload)
            await pipeline.execute()
            await asyncio.sleep(0)

    async def send(self, payload: bytes) -> None:
        await self._redis.publish(CHANNEL, payload)

    async def settle(self, payload: bytes) -> None:
        await self._redis.xadd(STREAM, {"payload": payload}, maxlen=STREAM_LENGTH_MAX)

    async def close(self) -> None:
        await self._redis.aclose()


class RedisReceiver:
    def __init__(self, redis: Any, subscription: Any) -> None:
        self._redis = redis
        self._subscription = subscription

    async def receive(self, take: Take, batches: bool) -> None:
        async for message in self._subscription.listen():
            if message["type"] == "message" and take(message["data"]):
                return

    async def close(self) -> None:
        await self._subscription.aclose()
        await self._redis.aclose()


async def _sender(port: str) -> RedisSender:
    return RedisSender(port)


async def _receiver(port: str) -> RedisReceiver:
    redis = Redis(host="127.0.0.1", port=int(port))
    subscription = redis.pubsub()
    await subscription.subscribe(CHANNEL)
    return RedisReceiver(redis, subscription)


if __name__ == "__main__":
    run_worker(sys.argv[1], sys.argv[2], _sender, _receiver)
