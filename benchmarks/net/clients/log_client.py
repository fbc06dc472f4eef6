"""Logs of others: `python -m benchmarks.net.clients.log_client redis|jetstream PORT ORDER`, where ORDER is JSON.

Appends messages with so many in flight, and then reads the log from its beginning. The rates are printed as JSON.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

TOPIC = "bench"
PIPELINE = 1_000
WINDOW = 1_024
Append = Callable[[bytes], Awaitable[Any]]


async def appends_per_s(append: Append, payload: bytes, in_flight: int, seconds: float) -> float:
    done = 0
    begun = time.perf_counter()

    async def one() -> None:
        nonlocal done
        while time.perf_counter() - begun < seconds:
            await append(payload)
            done += 1

    await asyncio.gather(*[one() for _ in range(in_flight)])
    return done / (time.perf_counter() - begun)


class RedisLog:
    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def append(self, payload: bytes) -> None:
        await self._redis.xadd(TOPIC, {"p": payload})

    async def fill(self, payload: bytes, count: int) -> None:
        await self._redis.delete(TOPIC)
        for first in range(0, count, PIPELINE):
            pipeline = self._redis.pipeline(transaction=False)
            for _ in range(min(PIPELINE, count - first)):
                pipeline.xadd(TOPIC, {"p": payload})
            await pipeline.execute()

    async def read_all(self, count: int) -> None:
        last, found = "0", 0
        while found < count:
            ((_, entries),) = await self._redis.xread({TOPIC: last}, count=PIPELINE)
            last = entries[-1][0]
            found += len(entries)


class JetStreamLog:
    def __init__(self, connection: Any, replicas: int) -> None:
        self._jet = connection.jetstream()
        self._replicas = replicas

    async def begin(self) -> None:
        await self._jet.add_stream(name=TOPIC, subjects=[TOPIC], storage="file", num_replicas=self._replicas)

    async def append(self, payload: bytes) -> None:
        await self._jet.publish(TOPIC, payload)

    async def fill(self, payload: bytes, count: int) -> None:
        await self._jet.purge_stream(TOPIC)
        left = count

        async def one() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await self._jet.publish(TOPIC, payload)

        await asyncio.gather(*[one() for _ in range(WINDOW)])

    async def read_all(self, count: int) -> None:
        over, found = asyncio.Event(), 0

        async def hear(message: Any) -> None:
            nonlocal found
            found += 1
            if found == count:
                over.set()

        subscription = await self._jet.subscribe(
            TOPIC, ordered_consumer=True, cb=hear, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        await over.wait()
        await subscription.unsubscribe()


async def _log_of(system: str, port: str, replicas: int) -> RedisLog | JetStreamLog:
    if system == "redis":
        from redis.asyncio import Redis  # type: ignore[import-not-found]

        return RedisLog(Redis(host="127.0.0.1", port=int(port), max_connections=2 * WINDOW))
    import nats  # type: ignore[import-not-found]

    log = JetStreamLog(await nats.connect(f"nats://127.0.0.1:{port}"), replicas)
    await log.begin()
    return log


async def _main(system: str, port: str, order: Any) -> None:
    log = await _log_of(system, port, order["replicas"])
    payload = bytes(order["size"])
    rates: dict[int, list[float]] = {in_flight: [] for in_flight in order["in_flight"]}
    for _ in range(order["rounds"]):
        for in_flight, found in rates.items():
            found.append(await appends_per_s(log.append, payload, in_flight, order["seconds"]))
    replays = []
    for size in order["replay_sizes"]:
        await log.fill(bytes(size), order["count"])
        begun = time.perf_counter()
        await log.read_all(order["count"])
        replays.append(order["count"] / (time.perf_counter() - begun))
    print(json.dumps({"append": {key: statistics.median(each) for key, each in rates.items()}, "replay": replays}))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
