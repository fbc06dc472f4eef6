"""The relay's client: `python -m benchmarks.net.clients.bare_client publisher|subscriber PORT`.

Each message is its length and its payload, written when it is published; the event loop hands to the system
together what was written in one turn. A publisher that is too fast waits.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import cast

from benchmarks.net.servers.bare_relay import LENGTH_BYTES, READER
from resprout.cli.load.stream import Take
from resprout.cli.load.worker import Inlet, run_worker


class Wire(asyncio.Protocol):
    """One connection; `inlet` is given the payloads that come."""

    def __init__(self, inlet: Inlet | None = None) -> None:
        self._inlet = inlet
        self._rest = b""
        self.room = asyncio.Event()
        self.room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._inlet is not None, "a publisher is told nothing"
        data = self._rest + data if self._rest else data
        put, at, size = self._inlet.put, 0, len(data)
        while at + LENGTH_BYTES <= size:
            begin = at + LENGTH_BYTES
            end = begin + int.from_bytes(data[at:begin], "big")
            if end > size:
                break
            put(data[begin:end])
            at = end
        self._rest = data[at:]

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()


class BareSender:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        write, room = self._wire.transport.write, self._wire.room
        for block in blocks:
            for payload in block:
                write(len(payload).to_bytes(LENGTH_BYTES, "big") + payload)
            await asyncio.sleep(0)
            if not room.is_set():
                await room.wait()

    async def send(self, payload: bytes) -> None:
        self._wire.transport.write(len(payload).to_bytes(LENGTH_BYTES, "big") + payload)

    async def settle(self, payload: bytes) -> None:
        raise NotImplementedError("a publisher does not learn what became of a message")

    async def close(self) -> None:
        self._wire.transport.close()


class BareReceiver:
    def __init__(self, wire: Wire, inlet: Inlet) -> None:
        self._wire = wire
        self._inlet = inlet

    async def receive(self, take: Take, batches: bool) -> None:
        await self._inlet.receive(take)

    async def close(self) -> None:
        self._wire.transport.close()


async def _connect(port: str, inlet: Inlet | None = None) -> Wire:
    _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(inlet), "127.0.0.1", int(port))
    return wire


async def _sender(port: str) -> BareSender:
    return BareSender(await _connect(port))


async def _receiver(port: str) -> BareReceiver:
    inlet = Inlet()
    wire = await _connect(port, inlet)
    wire.transport.write(READER)
    return BareReceiver(wire, inlet)


if __name__ == "__main__":
    run_worker(sys.argv[1], sys.argv[2], _sender, _receiver)
