"""A task that is done again publishes nothing twice, and leaves nothing out, wherever it was interrupted."""

import asyncio
from collections.abc import Iterator

import pytest

import resprout
from resprout.core.guarantee import Guarantee
from resprout.spark.options import AccessOptions, SinkError
from resprout.spark.sink import RowBundle, TaskIdentity, publish
from tests.patience import PATIENCE_S

TASK = TaskIdentity("spark", "a query", 4, 1)
BUNDLES = [RowBundle("out", Guarantee.CAUSAL, (), [b"%d.%d" % (n, m) for m in range(3)], None) for n in range(20)]
ROWS = [payload for bundle in BUNDLES for payload in bundle.payloads]


class Interrupted(Exception):  # noqa: N818 (it is no error of ours)
    pass


def until(count: int) -> Iterator[RowBundle]:
    yield from BUNDLES[:count]
    raise Interrupted


def at(*servers: str, timeout_s: float = 30.0) -> AccessOptions:
    return AccessOptions(servers, timeout_s=timeout_s)


async def attempt(task: TaskIdentity, access: AccessOptions, count: int = len(BUNDLES)) -> None:
    """In a thread, as Spark would: it has an event loop of its own."""
    if count < len(BUNDLES):
        with pytest.raises(Interrupted):
            await asyncio.to_thread(publish, task, access, lambda: until(count))
    else:
        await asyncio.to_thread(publish, task, access, lambda: BUNDLES)


@pytest.mark.parametrize("counts", [(0, 20), (7, 20), (19, 20), (3, 12, 20), (20, 20)])
def test_attempts_that_were_interrupted_anywhere_come_to_the_same(counts: tuple[int, ...]) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("s", broker=2) as s:
            inbox = await s.subscribe("out")
            for number, count in enumerate(counts):
                await attempt(TASK, at(network.addresses[number % 3]), count)
            messages = [await inbox.next() for _ in ROWS]
            assert [message.payload for message in messages] == ROWS
            assert {(message.publisher, message.epoch) for message in messages} == {(TASK.publisher, TASK.epoch)}
            await attempt(TaskIdentity("spark", "a query", 5, 1), at(*network.addresses))
            assert [(await inbox.next()).payload for _ in ROWS] == ROWS and len(inbox) == 0, "the next batch is another"

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_a_broker_that_dies_between_two_attempts_changes_nothing() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("s", broker=2) as s:
            inbox = await s.subscribe("out")
            addresses = network.addresses
            await attempt(TASK, at(addresses[1]), 9)
            await network.brokers[1].close()
            await attempt(TASK, at(addresses[1], addresses[0]))
            assert [(await inbox.next()).payload for _ in ROWS] == ROWS and len(inbox) == 0

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_what_cannot_be_published_is_said_in_one_line() -> None:
    async def scene() -> None:
        with pytest.raises(SinkError, match=r"batch 4, partition 1 was not published: 127\.0\.0\.1:1: "):
            await attempt(TASK, at("127.0.0.1:1", timeout_s=0.2))
        async with resprout.local(stack="flood") as network:
            with pytest.raises(resprout.UsageError, match="does not offer 'causal'"):
                await attempt(TASK, at(network.address))

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_a_name_says_the_query_and_the_partition_and_a_life_the_batch() -> None:
    names = {TaskIdentity("spark", query, 0, part).publisher for query in ("a", "b") for part in (0, 1)}
    assert len(names) == 4 and all(name.startswith("spark.") for name in names)
    assert TASK.epoch == 5 and TaskIdentity("spark", "a query", 9, 1).publisher == TASK.publisher
    with pytest.raises(resprout.UsageError, match="longer than 64 bytes"):
        _ = TaskIdentity("s" * 60, "q", 0, 0).publisher
