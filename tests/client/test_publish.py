"""Publishing has a fast way for more of the same: whatever is mixed, everything arrives as it was published."""

import asyncio
import random
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.client.publisher import BURST
from resprout.client.receipts import Stream
from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from tests.net.stage import broker, run

GUARANTEES: tuple[Any, ...] = ("fifo", "causal", Guarantee.CAUSAL, Guarantee.FIFO)
SIZES = (0, 1, 32, 300, 4_090, 4_096, 5_000, 70_000)


@pytest.mark.parametrize("seed", range(6))
def test_any_mix_of_publications_arrives_complete_and_in_order(seed: int) -> None:
    async def story() -> None:
        rng = random.Random(seed)
        async with (
            broker() as running,
            connect(str(running.address), name="p") as p,
            connect(str(running.address)) as s,
        ):
            inbox = await s.subscribe("#")
            sent: list[tuple[str, tuple[str, ...], dict[str, Any], bytes]] = []
            topic, keys, guarantee, attributes = "t", ["k"], GUARANTEES[0], {}
            while len(sent) < 3 * BURST:
                if rng.random() < 0.1:
                    topic = rng.choice("tuv")
                if rng.random() < 0.1:
                    keys[0] = rng.choice("klm")  # the same list, with another content
                if rng.random() < 0.1:
                    guarantee = rng.choice(GUARANTEES)
                attributes = {"n": len(sent)} if rng.random() < 0.1 else {}
                payload = bytes(rng.choice(SIZES if rng.random() < 0.05 else SIZES[:4]))
                named: Any = keys if rng.random() < 0.3 else ()
                sent.append((topic, tuple(named), dict(attributes), payload))
                receipt = await p.publish(topic, payload, guarantee=guarantee, keys=named, attributes=attributes)
                if rng.random() < 0.02:
                    await receipt.safe()
                if rng.random() < 0.02:
                    await asyncio.sleep(rng.choice((0, 0.001)))
            assert receipt.seq == len(sent)
            got = [await inbox.next() for _ in sent]
            assert [(m.topic, m.keys, dict(m.attributes), m.payload) for m in got] == sent
            assert [m.seq for m in got] == list(range(1, len(sent) + 1))

    run(story())


def test_publishers_in_several_tasks_share_the_client_and_each_keeps_its_order() -> None:
    async def story() -> None:
        async with (
            broker() as running,
            connect(str(running.address), name="p") as p,
            connect(str(running.address)) as s,
        ):
            inbox = await s.subscribe("#")

            async def publish(task: int) -> None:
                for n in range(1_000):
                    await p.publish("t", b"%d %d" % (task, n))
                    if n % (100 + task) == 0:
                        await asyncio.sleep(0)

            async with asyncio.TaskGroup() as group:
                for task in range(4):
                    group.create_task(publish(task))
            seen: dict[int, list[int]] = {task: [] for task in range(4)}
            for _ in range(4_000):
                task, n = map(int, (await inbox.next()).payload.split())
                seen[task].append(n)
            assert seen == {task: list(range(1_000)) for task in range(4)}

    run(story())


def test_what_cannot_be_published_is_refused_in_the_middle_of_a_burst_and_changes_nothing() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            inbox = await client.subscribe("#")
            payload: Any
            for payload in (b"1", "text", b"2", bytes(limits.PAYLOAD_BYTES + 1), b"3", None, b"4"):
                try:
                    await client.publish("t", payload)
                except UsageError:
                    assert payload not in (b"1", b"2", b"3", b"4")
            assert [(await inbox.next()).payload for _ in range(4)] == [b"1", b"2", b"3", b"4"]

    run(story())


def test_a_burst_without_a_pause_lets_others_have_their_turn() -> None:
    async def story() -> None:
        async with broker() as running, connect(str(running.address)) as client:
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for _ in range(20 * BURST):
                await client.publish("t", b"x")
            task.cancel()
            assert turns >= 15

    run(story())


def test_iterating_may_be_broken_off_and_taken_up_again_in_any_way() -> None:
    async def story() -> None:
        async with (
            broker() as running,
            connect(str(running.address), name="p") as p,
            connect(str(running.address)) as s,
        ):
            inbox = await s.subscribe("#")
            for n in range(300):
                await p.publish("t", b"%d" % n)
            got: list[int] = []
            rng = random.Random(1)
            while len(got) < 300:
                way = rng.randrange(4)
                if way == 0:
                    got.append(int((await inbox.next()).payload))
                elif way == 1 and (now := inbox.next_nowait()) is not None:
                    got.append(int(now.payload))
                elif way == 2:
                    async for message in inbox:
                        got.append(int(message.payload))
                        if rng.random() < 0.3 or len(got) == 300:
                            break
                elif way == 3 and rng.random() < 0.05:
                    async for batch in inbox.batches():
                        got.extend(int(message.payload) for message in batch)
                        break
            assert got == list(range(300))

    run(story())


def test_receipts_are_asked_for_at_once_while_somebody_waits_and_for_the_very_first_publication() -> None:
    async def story() -> None:
        stream = Stream("c", 1, "ordered", asyncio.get_running_loop(), lambda: None)
        assert stream.take_awaited(0), "nobody can have waited yet, and somebody may be about to"
        assert not stream.take_awaited(0)
        waiting = asyncio.create_task(stream.reach(ReceiptLevel.SAFE, 1))
        await asyncio.sleep(0)
        assert stream.take_awaited(0)
        assert stream.take_awaited(0), "it still waits"
        stream.turned(ReceiptLevel.SAFE, 1, 1)
        await waiting
        assert stream.take_awaited(0), "it waited until now, and what it publishes next may leave before it waits again"
        assert not stream.take_awaited(0)

    run(story())
