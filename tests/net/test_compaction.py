"""Logs that are compacted by key, with real brokers on real disks: every reader sees the last message of each key."""

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import resprout
from resprout.core.bundle import unpack_payloads
from resprout.edge.requests import StoredMessage
from resprout.logs.declaration import LogDeclaration
from resprout.spark.options import SourceOptions, source_options
from resprout.spark.partitions import SourceProgress, source_ranges
from resprout.spark.reading import view_of, when_lost
from tests.net.stage import Running, run, until
from tests.net.test_logs import is_fed, replica

NAMES = ("b0", "b1", "b2")
LOG = LogDeclaration("ev", "ev/#", NAMES, segment_bytes=4_096, compact=True, compact_bytes=2_000)
KEYS = 7

Values = dict[str, bytes]
"""The last payload of each topic."""


@contextlib.asynccontextmanager
async def brokers(data: Path, life: int = 1) -> AsyncIterator[tuple[Running, Running, Running]]:
    async with (
        replica("b0", data, life=life, log=LOG) as b0,
        replica("b1", data, b0, life=life, log=LOG) as b1,
        replica("b2", data, b0, life=life, log=LOG) as b2,
    ):
        yield b0, b1, b2


async def publish(client: resprout.Client, count: int, last: Values, mark: bytes) -> None:
    for number in range(count):
        topic = f"ev/{number % KEYS}"
        payload = b"" if number % 11 == 0 else b"%s %d" % (mark, number)
        receipt = await client.publish(topic, payload, guarantee="fifo")
        last[topic] = payload
    await receipt.safe()


def compacted(*brokers: Running) -> list[int]:
    """How many entries the replicas have compacted, as far as they have caught up."""
    replicas = [replica for each in brokers for replica in each.machine.logs.replicas.values()]
    ends = {replica.state.end for replica in replicas}
    if len(ends) > 1 or not all(replica.can_read for replica in replicas):
        return [0]
    return [replica.entries.compacted.through for replica in replicas]


async def pages(client: resprout.Client, size: int = 500) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    page = await client.read("ev/#", log="ev", size=size)
    while True:
        found += page.messages
        if page.at_end:
            return found
        page = await client.read("ev/#", log="ev", start=page.next, size=size)


def values(messages: list[resprout.Message]) -> Values:
    assert [each.position for each in messages] == sorted({each.position for each in messages})
    return {each.topic: each.payload for each in messages}


def read_as_spark(options: SourceOptions) -> tuple[list[int], Values]:
    """Offsets and last values that a batch reads."""
    return read_ranges(options, [source_ranges(options)])


def read_as_stream(options: SourceOptions) -> tuple[list[int], Values]:
    """The same of a stream, in micro-batches of up to 100 offsets."""
    progress = SourceProgress(options)

    def batches() -> Iterator[Iterable[Any]]:
        at = progress.begin()
        while (end := progress.advance(at, 100)) != at:
            yield progress.ranges(at, end)
            at = end

    return read_ranges(options, batches())


def read_ranges(options: SourceOptions, batches: Iterable[Iterable[Any]]) -> tuple[list[int], Values]:
    offsets: list[int] = []
    last: Values = {}
    for one in itertools.chain.from_iterable(batches):
        for events in view_of(options).pages(one, when_lost(options)):
            for event in events:
                offsets += [event.position + place for place in event.offsets or range(event.bundle.count)]
                last[event.bundle.topic] = unpack_payloads(event.bundle)[-1]
    return offsets, last


def test_every_reader_of_a_compacted_log_ends_with_the_last_values(tmp_path: Path) -> None:
    async def scene() -> None:
        async with brokers(tmp_path) as (b0, b1, b2):
            await is_fed(b0, b1, b2)
            last: Values = {}
            async with resprout.connect(str(b2), name="p") as p:
                await publish(p, 300, last, b"first")
                await until(lambda: min(compacted(b0, b1, b2)) > 100)
                await publish(p, 10, last, b"second")
                await until(lambda: {each.machine.logs.replicas["ev"].state.end for each in (b0, b1, b2)} == {310})
                found = [each.message for each in await pages(p)]
                assert values(found) == last and len(found) < 310
                inbox = await p.subscribe("ev/#", log="ev", replay_from="earliest")
                followed = [await inbox.next(timeout=60)]
                while followed[-1].position < found[-1].position:  # replicas may compact more meanwhile
                    followed.append(await inbox.next(timeout=60))
                assert values(followed) == last
                options = source_options(
                    {"servers": f"{b0},{b1}", "subscribe": "ev/#", "log": "ev", "startingOffsets": "earliest"}, False
                )
                for read in (read_as_spark, read_as_stream):
                    offsets, given = await asyncio.to_thread(read, options)
                    assert given == last and offsets == sorted(set(offsets)), read.__name__

    run(scene())


def test_a_replica_that_lost_its_disk_copies_what_others_have_compacted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path, log=LOG) as b0, replica("b1", tmp_path, b0, log=LOG) as b1:
            last: Values = {}
            async with replica("b2", tmp_path, b0, log=LOG) as b2, resprout.connect(str(b1), name="p") as p:
                await is_fed(b0, b1, b2)
                await publish(p, 100, last, b"first")
            async with resprout.connect(str(b1), name="q") as q:
                await publish(q, 300, last, b"second")
                await until(lambda: min(compacted(b0, b1)) > 200)
            shutil.rmtree(tmp_path / "b2")
            async with replica("b2", tmp_path, b0, life=2, log=LOG) as b2, resprout.connect(str(b2), name="r") as r:
                await until(lambda: min(compacted(b0, b1, b2)) > 200)
                assert values([each.message for each in await pages(r)]) == last

    run(scene())


@pytest.mark.parametrize("size", [1, 400, 1 << 18])
def test_all_brokers_that_were_killed_at_once_have_the_last_values(tmp_path: Path, size: int) -> None:
    async def scene() -> None:
        last: Values = {}
        async with brokers(tmp_path) as (b0, b1, b2):
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b1), name="p") as p:
                await publish(p, 300, last, b"first")
                await until(lambda: min(compacted(b0, b1, b2)) > 100)
        async with brokers(tmp_path, life=2) as (b0, b1, b2), resprout.connect(str(b2), name="r") as r:
            await until(lambda: min(compacted(b0, b1, b2)) > 100)
            found = [each.message for each in await pages(r, size)]
            assert values(found) == last

    run(scene())
