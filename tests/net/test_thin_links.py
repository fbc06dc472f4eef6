"""Over TCP through a thin pipe: live brokers are not suspected, nothing is lost, and everybody has a turn.

The pipe takes bytes only as fast as it passes them on, but the systems at its ends buffer a lot more than it carries in
a lease: what is bounded by time is bounded by those who send.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

import msgspec
import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.links.options import LinkOptions
from resprout.net.address import Address

from .stage import QUICK, Proxy, Running, bare, broker, has_rested, run

MBIT = 125_000
"""Bytes per second."""


class ThinPipe(Proxy):
    """Passes on so many bytes per second in each direction of each connection. It can be blocked."""

    def __init__(self, target: Address, bytes_per_s: float) -> None:
        super().__init__(target)
        self._bytes_per_s = bytes_per_s
        self.open = asyncio.Event()
        self.open.set()

    async def __aenter__(self) -> "ThinPipe":
        await super().__aenter__()
        return self

    async def _pass_on(self, number: int, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        free = loop.time()
        with contextlib.suppress(OSError):
            while chunk := await source.read(4096):
                free = max(free, loop.time()) + len(chunk) / self._bytes_per_s
                await asyncio.sleep(free - loop.time())
                await self.open.wait()
                sink.write(chunk)
                await sink.drain()
        if (pair := self._pairs.pop(number, None)) is not None:
            for writer in pair:
                writer.close()


@contextlib.asynccontextmanager
async def thin_star(leaves: int, bytes_per_s: float) -> AsyncIterator[list[Running]]:
    """A root, and leaves that reach it through a pipe each."""
    async with contextlib.AsyncExitStack() as stack:
        root = await stack.enter_async_context(broker("b0", links=LinkOptions()))
        brokers = [root]
        for number in range(1, leaves + 1):
            pipe = await stack.enter_async_context(ThinPipe(root.address, bytes_per_s))
            leaf = broker(f"b{number}", parent=("b0", pipe.address), links=LinkOptions())
            brokers.append(await stack.enter_async_context(leaf))
        yield brokers


async def take(inbox: Inbox, count: int) -> list[tuple[str, bytes]]:
    found = []
    async for message in inbox:
        found.append((message.publisher, message.payload[:8]))
        if len(found) == count:
            break
    return found


def complaints(brokers: list[Running]) -> list[str]:
    return [
        f"{running.broker.name}: {note.kind} {note.columns}"
        for running in brokers
        for note in running.notes
        if note.kind in ("suspect", "fenced", "repair_begin")
    ]


@pytest.mark.parametrize(("mbit", "publications"), [(10, 12), (1, 2)])
def test_nobody_is_suspected_and_nothing_is_lost_on_thin_links(mbit: int, publications: int) -> None:
    async def scene() -> None:
        async with thin_star(2, mbit * MBIT) as brokers, contextlib.AsyncExitStack() as stack:
            clients: list[Client] = []
            for number, running in enumerate(brokers):
                client = connect(str(running.address), name=f"c{number}")
                clients.append(await stack.enter_async_context(client))
            inboxes = [await client.subscribe("#") for client in clients]

            async def publish(client: Client) -> None:
                receipts = []
                for number in range(publications):
                    payload = f"{number:08}".encode() + bytes(150_000)
                    receipts.append(await client.publish("a", payload))
                    await asyncio.sleep(0.05)
                for receipt in receipts:
                    await receipt.delivered()

            owed = len(clients) * publications
            taking = [asyncio.create_task(take(inbox, owed)) for inbox in inboxes]
            await asyncio.gather(*(publish(client) for client in clients))
            for found in await asyncio.gather(*taking):
                for number in range(len(clients)):
                    mine = [payload for publisher, payload in found if publisher == f"c{number}"]
                    assert mine == [f"{number:08}".encode() for number in range(publications)]
            assert complaints(brokers) == []

    run(scene())


def test_a_message_that_takes_longer_than_a_lease_costs_nobody_its_place() -> None:
    async def scene() -> None:
        async with thin_star(1, 2 * MBIT) as brokers:
            root, leaf = brokers
            here, there = connect(str(root.address), name="here"), connect(str(leaf.address), name="there")
            async with here as publisher, there as subscriber:
                inbox = await subscriber.subscribe("large")
                receipt = await publisher.publish("large", bytes(1 << 20))
                assert await take(inbox, 1) == [("here", bytes(8))]
                await receipt.delivered()
                assert complaints(brokers) == []

    run(scene())


def test_a_frame_that_comes_slowly_keeps_its_connection() -> None:
    async def scene() -> None:
        links = msgspec.structs.replace(QUICK, heartbeat_us=200_000, silence_us=1_000_000)
        async with broker(links=links) as running, bare(running.address) as peer:
            await peer.greet("slow")
            peer.writer.write(struct.pack(">I", 1 << 20))
            rested = True
            for _ in range(30):
                peer.writer.write(bytes(600))
                rested = await has_rested(0.05, stall=0.4) and rested
            if rested:
                assert [note for note in running.notes if note.kind != "founded"] == []
                assert running.sessions == ["slow"]

    run(scene())


def test_small_messages_are_served_while_a_large_one_crawls() -> None:
    async def scene() -> None:
        async with broker(links=LinkOptions()) as root, ThinPipe(root.address, 4 * MBIT) as pipe:
            here, there = connect(str(root.address), name="here"), connect(str(pipe.address), name="there")
            async with here as near, there as far:
                large, small = await far.subscribe("large"), await near.subscribe("small")
                crawling = asyncio.create_task(take(large, 1))
                pipe.open.clear()
                await near.publish("large", bytes(1 << 20))
                for number in range(20):
                    await near.publish("small", f"{number:08}".encode())
                assert len(await take(small, 20)) == 20
                assert not crawling.done()
                pipe.open.set()
                assert await crawling == [("here", bytes(8))]
                assert complaints([root]) == []

    run(scene())
