"""Waits may be cancelled at any moment; messages are not lost by it."""

import asyncio
import contextlib
import itertools
import random

import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.edge.client.machine import ClientOptions
from resprout.links.options import LinkOptions
from tests.net.stage import Proxy, broker, run, until

SMALL = LinkOptions(window_bytes=2_000)
HASTY = ClientOptions(queue_bytes_high=1)
"""Little room, so that publishers have to pause."""

LAST = 1 << 20
"""The number of the last publication."""


async def cancelled_somewhere(rng: random.Random, task: "asyncio.Task[None]") -> bool:
    """Cancels the task at some later turn of the loop; False when it had finished by then."""
    for _ in range(rng.randrange(6)):
        await asyncio.sleep(0)
    if rng.random() < 0.1:
        await asyncio.sleep(0.002)
    if task.done():
        return False
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return task.cancelled()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("consumers", [1, 3])
def test_a_cancelled_wait_for_a_message_loses_none(seed: int, consumers: int) -> None:
    async def consume(rng: random.Random, inbox: Inbox, seen: list[int]) -> None:
        async def take() -> None:
            seen.append(int((await inbox.next()).payload))

        while len(seen) < 400:
            taking = asyncio.create_task(take())
            if rng.random() < 0.7:
                await cancelled_somewhere(rng, taking)
            else:
                await asyncio.wait([taking], timeout=0.02)
                taking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await taking

    async def scene() -> None:
        rng = random.Random(seed)
        seen: list[int] = []
        async with broker() as running, connect(str(running)) as publisher, connect(str(running)) as client:
            inbox = await client.subscribe("t")
            work = [asyncio.create_task(consume(random.Random(seed + n), inbox, seen)) for n in range(consumers)]
            for number in range(400):
                receipt = await publisher.publish("t", str(number).encode())
                if rng.random() < 0.1:
                    await asyncio.sleep(0.001)
            await asyncio.gather(*work)
            await receipt.delivered()
        assert seen == list(range(400))

    run(scene())


@pytest.mark.parametrize("seed", range(5))
def test_a_cancelled_publish_has_published_and_never_twice_or_out_of_order(seed: int) -> None:
    async def read(inbox: Inbox, got: list[int]) -> None:
        while not got or got[-1] != LAST:
            got.append(int.from_bytes((await inbox.next()).payload[:4], "big"))
            if len(got) % 5 == 0:
                await asyncio.sleep(0.001)

    async def scene() -> None:
        rng = random.Random(seed)
        numbers = itertools.count()
        begun: list[int] = []
        got: list[int] = []
        async with (
            broker(options={"log_bytes": 50_000}, links=SMALL) as running,
            Proxy(running.address) as proxy,
            connect(str(proxy.address), links=SMALL, options=HASTY) as publisher,
            connect(str(running)) as subscriber,
        ):
            reading = asyncio.create_task(read(await subscriber.subscribe("t"), got))

            async def publish(number: int) -> None:
                begun.append(number)
                await publisher.publish("t", number.to_bytes(4, "big") + bytes(rng.randrange(9_000)))

            async def begin() -> "asyncio.Task[None]":
                """A publication that has returned, unless it waits for room: giving way takes one turn."""
                publishing = asyncio.create_task(publish(next(numbers)))
                for _ in range(3):
                    await asyncio.sleep(0)
                return publishing

            for number in range(200):
                if number % 10 == 9:  # nothing passes, so nobody grants more: they all pause, and one is cancelled
                    proxy.passing.clear()
                    while (first := await begin()).done():
                        first.result()
                    publishing = [first, await begin(), await begin()]
                    assert not any(one.done() for one in publishing)
                    assert await cancelled_somewhere(rng, rng.choice(publishing)), "it was cancelled while it paused"
                    proxy.passing.set()
                    await asyncio.wait(publishing)
                    assert sum(one.cancelled() for one in publishing) == 1, "the others went on"
                else:
                    publishing = [asyncio.create_task(publish(next(numbers))) for _ in range(3)]
                    await cancelled_somewhere(rng, rng.choice(publishing))
                await asyncio.gather(*publishing, return_exceptions=True)
            await publish(LAST)
            await reading
        assert got == begun, "whoever began has published"

    run(scene())


@pytest.mark.parametrize("seed", range(8))
def test_a_cancelled_subscribe_subscribes_to_nothing_and_disturbs_nobody(seed: int) -> None:
    async def scene() -> None:
        rng = random.Random(seed)
        async with broker() as running, connect(str(running)) as publisher, connect(str(running)) as client:
            steady = await client.subscribe("t/steady")
            stop = False
            sent = 0

            async def publish() -> None:
                nonlocal sent
                while not stop:
                    await publisher.publish("t/steady", str(sent).encode())
                    await publisher.publish("t/other", b"")
                    sent += 1
                    await asyncio.sleep(0)

            publishing = asyncio.create_task(publish())
            left: list[Inbox] = []
            for _ in range(60):
                await cancelled_somewhere(rng, asyncio.create_task(subscribe_and_leave(client, "t/other", left)))
                for nobodys in left:  # it was cancelled while it waited for a message, or for the end
                    await client.unsubscribe(nobodys)
                left.clear()
            inbox = await client.subscribe("t/other")
            before = sent
            assert (await inbox.next()).topic == "t/other"
            stop = True
            await publishing
            got = [await steady.next() for _ in range(sent)]
            assert [int(message.payload) for message in got] == list(range(sent))
            assert {message.topic for message in got} == {"t/steady"}
            await until(lambda: len(inbox) >= sent - before - 1)
            await client.unsubscribe(inbox)

    run(scene())


async def subscribe_and_leave(client: Client, filter: str, left: list[Inbox]) -> None:
    """`left`: what it has subscribed to and did not come to end."""
    inbox = await client.subscribe(filter)
    left.append(inbox)
    await inbox.next()
    await client.unsubscribe(inbox)
    left.remove(inbox)
