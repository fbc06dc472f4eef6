"""Floods against a broker, while somebody who behaves uses it: small in `make test`, large when run by itself.

python -m tests.net.floods --idle 5000
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterable

import click

from resprout.client.connect import connect
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish
from resprout.net.address import Address, parse_address
from resprout.net.descriptors import raise_limit
from resprout.net.plan import BrokerPlan
from resprout.net.process import BrokerProcess
from resprout.wire.framing import PREAMBLE

from .stage import Running, bare, run

ROUNDS = 50


async def behaves(running: Running | Address, name: str = "honest", rounds: int = ROUNDS) -> float:
    """Round trips of one client; seconds for each."""
    async with connect(str(running), name=name) as client:
        inbox = await client.subscribe("still/here")
        begun = time.monotonic()
        for number in range(rounds):
            receipt = await client.publish("still/here", b"%d" % number)
            assert (await inbox.next()).payload == b"%d" % number
            await receipt.safe()
        return (time.monotonic() - begun) / rounds


@contextlib.asynccontextmanager
async def idle(address: Address, count: int) -> AsyncIterator[int]:
    """Connections that say nothing."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                writers.append((await asyncio.open_connection(address.host, address.port))[1])
        yield len(writers)
    finally:
        for writer in writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def loris(address: Address, count: int) -> AsyncIterator[None]:
    """Connections that greet a byte at a time, for ever."""

    async def drip() -> None:
        with contextlib.suppress(OSError):
            async with bare(address) as peer:
                for byte in PREAMBLE + b"\0\0\1\0" + bytes(256):
                    peer.writer.write(bytes((byte,)))
                    await asyncio.sleep(0.05)

    async with _together(drip() for _ in range(count)):
        yield


@contextlib.asynccontextmanager
async def publications(address: Address, count: int) -> AsyncIterator[None]:
    """Clients that publish as fast as they can, on a topic that nobody wants."""

    async def flood(name: str) -> None:
        payloads = pack_payloads([b"x" * 1000] * 16)
        with contextlib.suppress(OSError, EOFError):
            async with bare(address) as peer:
                await peer.greet(name)
                peer.say_messages(1, Attend(0))
                number = 0
                while True:
                    number += 1
                    first = 16 * (number - 1) + 1
                    bundle = Bundle(name, 1, first, 16, 0, "junk", (), Guarantee.CAUSAL, b"", payloads)
                    peer.say_messages(number + 1, Publish(bundle, 0))
                    await peer.writer.drain()
                    await asyncio.sleep(0)

    async with _together(flood(f"flooder-{number}") for number in range(count)):
        yield


@contextlib.asynccontextmanager
async def greetings(address: Address, count: int) -> AsyncIterator[None]:
    """Sessions that begin and are left, one after the other."""

    async def knock(number: int) -> None:
        life = 0
        with contextlib.suppress(OSError, EOFError):
            while True:
                life += 1
                async with bare(address) as peer:
                    await peer.greet(f"knocker-{number}", epoch=life)
                await asyncio.sleep(0)

    async with _together(knock(number) for number in range(count)):
        yield


@contextlib.asynccontextmanager
async def _together(works: Iterable[Coroutine[object, object, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.sleep(0)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


FLOODS = {"idle": idle, "loris": loris, "publications": publications, "greetings": greetings}


@contextlib.asynccontextmanager
async def _apart(flood: str, address: Address, count: int) -> AsyncIterator[None]:
    """In a process of its own: what a flood costs its sender is not the broker's business."""
    words = ("-m", "tests.net.floods", "--flood", flood, "--at", str(address), "--count", str(count))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert await process.stdout.readline() == b"begun\n"
        yield
    finally:
        process.stdin.close()
        await process.wait()


async def _flood(flood: str, address: Address, count: int) -> None:
    """Until standard input ends."""
    async with FLOODS[flood](address, count):
        click.echo("begun")
        await asyncio.to_thread(sys.stdin.read)


async def _report(count: int) -> None:
    process = BrokerProcess(BrokerPlan(name="b0", links={"greetings_max": 1024}))
    address = await process.start()
    try:
        await behaves(address, "first")
        for what, flood, size in (
            ("idle connections", "idle", count),
            ("slow greetings", "loris", count // 10),
            ("publishing flooders", "publications", 4),
            ("greeting flooders", "greetings", 16),
        ):
            alone_s = await behaves(address, f"alone-{flood}")
            async with _apart(flood, address, size):
                beside_s = await behaves(address, f"beside-{flood}")
            figures = f"{alone_s * 1e3:.2f} ms alone, {beside_s * 1e3:.2f} ms beside: {beside_s / alone_s:.1f} times"
            click.echo(f"{size} {what}: a round trip takes {figures}")
    finally:
        await process.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--flood", choices=FLOODS, help="only this, until standard input ends")
    parser.add_argument("--at", type=parse_address)
    parser.add_argument("--count", type=int, default=4)
    given = parser.parse_args()
    raise_limit(2 * given.idle + 2048)
    work = _flood(given.flood, given.at, given.count) if given.flood else _report(given.idle)
    run(work, seconds=600, fast_loop=True)
