"""ZeroMQ's client: `python -m benchmarks.net.clients.zmq_client publisher|subscriber PORT`.

Queues have no limit, so nothing is dropped. A message is one frame that begins with the topic: four times as fast as a
frame for the topic and another one for the payload.
"""

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence

import zmq  # type: ignore[import-not-found]

from resprout.cli.load.stream import Take
from resprout.cli.load.worker import run_worker

TOPIC = b"load/1 "
SILENCE_MS_MAX = 30_000
SUBSCRIBING_S = 0.1


class ZmqSender:
    def __init__(self, port: str) -> None:
        self._socket = zmq.Context.instance().socket(zmq.PUB)  # a crowd shares what works behind it
        self._socket.set_hwm(0)
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        send = self._socket.send
        for block in blocks:
            for payload in block:
                send(TOPIC + payload)
            await asyncio.sleep(0)

    async def send(self, payload: bytes) -> None:
        self._socket.send(TOPIC + payload)

    async def settle(self, payload: bytes) -> None:
        raise NotImplementedError("a publisher does not learn what became of a message")

    async def close(self) -> None:
        self._socket.close(linger=0)


class ZmqReceiver:
    def __init__(self, port: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.set_hwm(0)
        self._socket.setsockopt(zmq.RCVTIMEO, SILENCE_MS_MAX)
        self._socket.subscribe(TOPIC)
        self._socket.connect(f"tcp://127.0.0.1:{int(port) + 1}")
        time.sleep(SUBSCRIBING_S)

    async def receive(self, take: Take, batches: bool) -> None:
        recv = self._socket.recv
        topic_bytes = len(TOPIC)
        try:
            while not take(recv()[topic_bytes:]):
                pass
        except zmq.Again:
            raise TimeoutError from None

    async def close(self) -> None:
        self._context.destroy(linger=0)


async def _sender(port: str) -> ZmqSender:
    return ZmqSender(port)


async def _receiver(port: str) -> ZmqReceiver:
    return ZmqReceiver(port)


if __name__ == "__main__":
    run_worker(sys.argv[1], sys.argv[2], _sender, _receiver)
