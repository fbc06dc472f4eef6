"""Floods against a broker, while somebody who behaves uses it: small in `make test`, large when run by itself.

python -m tests.net.floods --idle 5000
"""

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from resprout.client.connect import connect
from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.edge.messages import TOPICS_MAX, AskAudience, Attend, Publish, ReadEvents, Subscribe, Unsubscribe
from resprout.links.frames import Data, Goodbye
from resprout.net.address import Address, parse_address
from resprout.net.connection_limits import raise_limit
from resprout.net.process import BrokerPlan, BrokerProcess
from resprout.wire.codec import PREAMBLE
from tests.net.stage import Bare, Running, bare, run
from tests.patience import PATIENCE_S

ROUNDS = 50
SECONDS = 10.0
"""For the round trips beside a flood."""


async def behaves(running: Running | Address, name: str = "honest", rounds: int = ROUNDS) -> float:
    """Round trips of one client; seconds for each."""
    return sum(await round_trips(running, name, rounds)) / rounds


async def round_trips(running: Running | Address, name: str, rounds: int = ROUNDS, pause_s: float = 0.0) -> list[float]:
    """How many seconds each of several round trips of one client takes."""
    found: list[float] = []
    async with connect(str(running), name=name, timeout=PATIENCE_S) as client:
        inbox = await client.subscribe("still/here")
        for number in range(rounds):
            begun = time.monotonic()
            receipt = await client.publish("still/here", b"%d" % number)
            assert (await inbox.next()).payload == b"%d" % number
            await receipt.safe()
            found.append(time.monotonic() - begun)
            await asyncio.sleep(pause_s)
    return found


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


class _Speaker:
    """A client without a program behind it, which acknowledges what comes, or does not read at all."""

    def __init__(self, peer: Bare) -> None:
        self._peer = peer
        self._said = 0
        self._received = 0

    def say(self, *messages: Any) -> None:
        for at in range(0, len(messages) or 1, 200):
            some = messages[at : at + 200]
            self._peer.say_messages(self._said + 1, *some, received=self._received)
            self._said += len(some)

    async def listen(self) -> None:
        """Until the broker ends it."""
        while not isinstance(frame := await self._peer.hear(), Goodbye):
            if isinstance(frame, Data):
                self._received += len(frame.messages)
                self.say()


async def _as_client(address: Address, name: str, epoch: int, act: Callable[["_Speaker"], Any], reads: bool) -> None:
    """One session, until the broker ends it."""
    async with bare(address) as peer:
        await peer.greet(name, epoch=epoch)
        speaker = _Speaker(peer)
        speaker.say(Attend(0))
        if not reads:
            peer.stop_reading()
        acting = asyncio.ensure_future(act(speaker))
        try:
            if reads:
                await speaker.listen()
            else:
                await acting
        finally:
            acting.cancel()
            await asyncio.gather(acting, return_exceptions=True)


async def _again(address: Address, name: str, act: Callable[["_Speaker"], Any], reads: bool = True) -> None:
    """One session after the other, however often it is cut off."""
    for epoch in itertools.count(1):
        with contextlib.suppress(OSError, EOFError, AssertionError):
            await _as_client(address, name, epoch, act, reads)
        await asyncio.sleep(0.05)


def _bundle(name: str, first: int, topic: str, rows: Sequence[Mapping[str, AttributeValue]], body: bytes) -> Publish:
    attributes, payloads = pack_attributes(rows), pack_payloads([body] * len(rows))
    return Publish(Bundle(name, 1, first, len(rows), 0, topic, (), Guarantee.CAUSAL, attributes, payloads), 0)


@contextlib.asynccontextmanager
async def conditions(address: Address, count: int) -> AsyncIterator[None]:
    """Subscribers with long conditions, and somebody who publishes bundles that are tested against all of them."""

    async def subscribe(speaker: _Speaker) -> None:
        wheres = [f"text like '{'%_a_b' * 780}%{number}'" for number in range(150)]
        speaker.say(*[Subscribe(id, "conditions", where) for id, where in enumerate(wheres, 1)])
        await asyncio.sleep(3600)

    async def publish(speaker: _Speaker) -> None:
        rows = [{"text": "a" * 1000}] * 1000
        for number in itertools.count():
            speaker.say(_bundle("condition-publisher", number * 1000 + 1, "conditions", rows, b""))
            await asyncio.sleep(0.5)

    works = [_again(address, f"condition-{number}", subscribe) for number in range(count)]
    async with _together([*works, _again(address, "condition-publisher", publish)]):
        yield


@contextlib.asynccontextmanager
async def wildcards(address: Address, count: int) -> AsyncIterator[None]:
    """Subscribers to 32,768 filters that all match one topic, who publish on 200 new ones at a time."""

    async def act(name: str, speaker: _Speaker) -> None:
        for bits in range(1 << 15):
            levels = ["+" if bits >> level & 1 else "a" for level in range(15)]
            speaker.say(Subscribe(bits + 1, "/".join(levels) + "/#", None))
            if bits % 256 == 0:
                await asyncio.sleep(0)
        for number in itertools.count():
            topic = "/".join("a" * 15) + f"/{name}-{number}"
            speaker.say(_bundle(name, number + 1, topic, [{}], b""))
            if number % 200 == 199:
                await asyncio.sleep(0.1)

    names = [f"wildcard-{number}" for number in range(count)]
    async with _together(_again(address, name, partial(act, name)) for name in names):
        yield


@contextlib.asynccontextmanager
async def left_sessions(address: Address, count: int) -> AsyncIterator[None]:
    """Sessions under ever new names that are left at once: they linger."""

    async def leave(number: int) -> None:
        for name in itertools.count():
            with contextlib.suppress(OSError, EOFError, AssertionError):
                async with bare(address) as peer:
                    await peer.greet(f"left-{number}-{name}")

    async with _together(leave(number) for number in range(count)):
        yield


@contextlib.asynccontextmanager
async def unread(address: Address, count: int) -> AsyncIterator[None]:
    """Subscribers to everything that acknowledge frames and take nothing, and somebody who publishes a lot."""

    async def subscribe(speaker: _Speaker) -> None:
        speaker.say(Subscribe(1, "#", None))
        await asyncio.sleep(3600)

    works = [_again(address, f"unread-{number}", subscribe) for number in range(count)]
    async with publications(address, 1), _together(works):
        yield


@contextlib.asynccontextmanager
async def past(address: Address, count: int) -> AsyncIterator[None]:
    """Readers of the past that ask for more and more, and do not read."""

    async def publish(speaker: _Speaker) -> None:
        for number in range(16):
            speaker.say(_bundle("past-publisher", number + 1, "past/x", [{}], bytes(256 << 10)))
        await asyncio.sleep(3600)

    async def ask(speaker: _Speaker) -> None:
        for number in itertools.count():
            ids = range(number * 50 + 1, number * 50 + 51)
            speaker.say(*[ReadEvents(id, "past/#", None, "", 0, 0, 1 << 20) for id in ids])
            await asyncio.sleep(0.05)

    works = [_again(address, f"past-{number}", ask, reads=False) for number in range(count)]
    async with _together([_again(address, "past-publisher", publish), *works]):
        yield


@contextlib.asynccontextmanager
async def churn(address: Address, count: int) -> AsyncIterator[None]:
    """Clients that begin and end subscriptions without end."""

    async def act(name: str, speaker: _Speaker) -> None:
        for number in itertools.count(1):
            ids = range(number * 50, number * 50 + 50)
            speaker.say(*[Subscribe(id, f"{name}/{id}", None) for id in ids], *[Unsubscribe(id) for id in ids])
            await asyncio.sleep(0)

    names = [f"churn-{number}" for number in range(count)]
    async with _together(_again(address, name, partial(act, name)) for name in names):
        yield


@contextlib.asynccontextmanager
async def small_unread(address: Address, count: int) -> AsyncIterator[None]:
    """Publishers of bundles of one byte, each with a subscriber that acknowledges frames and takes nothing."""

    async def subscribe(topic: str, speaker: _Speaker) -> None:
        speaker.say(Subscribe(1, topic, None))
        await asyncio.sleep(3600)

    async def publish(name: str, speaker: _Speaker) -> None:
        for number in itertools.count():
            speaker.say(*[_bundle(name, 200 * number + at, name, [{}], b"x") for at in range(1, 201)])
            await asyncio.sleep(0)

    names = [f"small-{number}" for number in range(count)]
    works = [_again(address, f"{name}-unread", partial(subscribe, name)) for name in names]
    async with _together([*works, *[_again(address, name, partial(publish, name)) for name in names]]):
        yield


@contextlib.asynccontextmanager
async def audiences(address: Address, count: int) -> AsyncIterator[None]:
    """Subscribers with 64 placements of wildcards each, and clients that ask who listens to 64 new topics of 31 levels:
    the index looks at all placements down to the last level."""
    topic = ["a"] * 30

    def filters(number: int) -> list[str]:
        found = []
        for bits in range(64):
            levels = topic.copy()
            for at in range(6):
                levels[(6 * number + at) % 30] = "+" if bits >> at & 1 else "a"
            found.append("/".join([*levels, "z"]))
        return found

    async def subscribe(number: int, speaker: _Speaker) -> None:
        speaker.say(*[Subscribe(id, each, None) for id, each in enumerate(filters(number), 1)])
        await asyncio.sleep(3600)

    async def ask(number: int, speaker: _Speaker) -> None:
        for id in itertools.count(1):
            asked = ["/".join([*topic, f"{number}-{id}-{at}"]) for at in range(TOPICS_MAX)]
            speaker.say(AskAudience(id, tuple(asked)))
            await asyncio.sleep(0.002)

    works = [_again(address, f"wide-{number}", partial(subscribe, number)) for number in range(count)]
    asking = [_again(address, f"asking-{number}", partial(ask, number)) for number in range(count)]
    async with _together([*works, *asking]):
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


FLOODS = {
    "idle": idle, "loris": loris, "publications": publications, "greetings": greetings, "conditions": conditions,
    "wildcards": wildcards, "left_sessions": left_sessions, "unread": unread, "past": past, "churn": churn,
    "small_unread": small_unread, "audiences": audiences,
}  # fmt: skip


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


async def _report(count: int, only: Sequence[str]) -> None:
    for what, flood, size in (
        ("idle connections", "idle", count),
        ("slow greetings", "loris", count // 10),
        ("publishing flooders", "publications", 4),
        ("greeting flooders", "greetings", 16),
        ("subscribers with 150 long conditions", "conditions", 1),
        ("subscribers to 32,768 wildcard filters", "wildcards", 1),
        ("clients that leave sessions", "left_sessions", 16),
        ("readers that take nothing", "unread", 4),
        ("readers of the past that do not read", "past", 16),
        ("clients that begin and end subscriptions", "churn", 4),
        ("readers that take no small messages", "small_unread", 2),
        ("clients that ask for audiences", "audiences", 5),
    ):
        if not only or flood in only:
            await _measure(what, flood, size)


async def _measure(what: str, flood: str, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = BrokerPlan(name="b0", links={"greetings_max": 1024}, data=Path(folder), keep=("past/#",))
        process = BrokerProcess(plan)
        address = await process.start()
        try:
            await behaves(address, "first")
            alone_s = sorted(await round_trips(address, f"alone-{flood}"))
            async with _apart(flood, address, size):
                await asyncio.sleep(SECONDS / 10)
                beside_s = sorted(await round_trips(address, f"beside-{flood}", ROUNDS, SECONDS / ROUNDS))
                memory = _memory_mb(process.pid)
            middle, worst = beside_s[len(beside_s) // 2], beside_s[-1]
            figures = f"{alone_s[len(alone_s) // 2] * 1e3:.2f} ms alone; beside them {middle * 1e3:.2f} ms"
            click.echo(f"{size} {what}: {figures}, at most {worst * 1e3:.0f} ms; the broker has {memory:.0f} MB")
        finally:
            await process.stop()


def _memory_mb(pid: int) -> float:
    """What a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--flood", choices=FLOODS, help="only this, until standard input ends")
    parser.add_argument("--at", type=parse_address)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--only", choices=FLOODS, nargs="*", default=(), help="these floods, and no others")
    given = parser.parse_args()
    raise_limit(2 * given.idle + 2048)
    work = _flood(given.flood, given.at, given.count) if given.flood else _report(given.idle, given.only)
    run(work, seconds=600, fast_loop=True)
