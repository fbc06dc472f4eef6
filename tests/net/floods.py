"""Floods against a broker, while somebody who behaves uses it: small in `make test`, large when run by itself.

python -m tests.net.floods --idle 5000
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Iterable

import click

from resprout.client.connect import connect
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.descriptors import raise_limit
from resprout.wire.framing import PREAMBLE

from .stage import Running, bare, broker, run

ROUNDS = 50


async def behaves(running: Running, name: str = "honest", rounds: int = ROUNDS) -> float:
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
                    peer.say_messages(number + 1, Publish(bundle, False))
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


async def _report(count: int) -> None:
    links = LinkOptions(greetings_max=1024)
    async with broker(links=links) as running:
        alone_s = await behaves(running, "alone")
        click.echo(f"alone: {alone_s * 1e3:.2f} ms a round trip")
        for what, flood, size in (
            ("idle connections", idle, count),
            ("slow greetings", loris, count // 10),
            ("publishing flooders", publications, 4),
            ("greeting flooders", greetings, 16),
        ):
            async with flood(running.address, size):
                beside_s = await behaves(running, f"beside-{what.partition(' ')[0]}")
            click.echo(f"beside {size} {what}: {beside_s * 1e3:.2f} ms, {beside_s / alone_s:.1f} times")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=5000)
    given = parser.parse_args()
    raise_limit(2 * given.idle + 2048)
    run(_report(given.idle), seconds=600, fast_loop=True)
