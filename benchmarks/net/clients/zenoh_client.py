"""Zenoh's client: `python -m benchmarks.net.clients.zenoh_client publisher|subscriber PORT`.

Reliable, and a publisher that is too fast waits: nothing is dropped. A subscriber takes messages from the client's
channel, which is faster than being called back from its thread.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import zenoh  # type: ignore[import-not-found]

from resprout.cli.load.stream import Take
from resprout.cli.load.worker import run_worker

KEY = "load/1"


def _open(port: str) -> Any:
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([f"tcp/127.0.0.1:{port}"]))
    config.insert_json5("scouting/multicast/enabled", "false")
    return zenoh.open(config)


class ZenohSender:
    def __init__(self, port: str) -> None:
        self._session = _open(port)
        self._publisher = self._session.declare_publisher(
            KEY, congestion_control=zenoh.CongestionControl.BLOCK, reliability=zenoh.Reliability.RELIABLE
        )

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        put = self._publisher.put
        for block in blocks:
            for payload in block:
                put(payload)
            await asyncio.sleep(0)

    async def send(self, payload: bytes) -> None:
        self._publisher.put(payload)

    async def settle(self, payload: bytes) -> None:
        raise NotImplementedError("a publisher does not learn what became of a message")

    async def close(self) -> None:
        self._session.close()


class ZenohReceiver:
    """Blocks the event loop while it waits; whoever gives the orders does not wait for ever."""

    def __init__(self, port: str) -> None:
        self._session = _open(port)
        self._subscriber = self._session.declare_subscriber(KEY)

    async def receive(self, take: Take, batches: bool) -> None:
        for sample in self._subscriber:
            if take(sample.payload.to_bytes()):
                return

    async def close(self) -> None:
        self._session.close()


async def _sender(port: str) -> ZenohSender:
    return ZenohSender(port)


async def _receiver(port: str) -> ZenohReceiver:
    return ZenohReceiver(port)


if __name__ == "__main__":
    run_worker(sys.argv[1], sys.argv[2], _sender, _receiver)
