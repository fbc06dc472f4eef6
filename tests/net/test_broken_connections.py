"""Connections break in the middle of traffic; sessions do not."""

import asyncio
import contextlib
import random
from collections.abc import Callable

import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.client.receipts import Receipt
from resprout.core.guarantee import GuaranteeName
from tests.soak import cases

from .stage import QUICK, Proxy, broker, run, until

Seen = dict[str, list[int]]


async def publish_until(client: Client, done: Callable[[], bool], guarantee: GuaranteeName) -> list[Receipt]:
    receipts: list[Receipt] = []
    while not done() or len(receipts) < 100:
        payload = len(receipts).to_bytes(4, "big") + bytes(len(receipts) % 700)
        receipts.append(await client.publish(f"t/{client.name}", payload, guarantee=guarantee))
        if len(receipts) % 5 == 0:
            await asyncio.sleep(0.002)
    return receipts


async def collect(inbox: Inbox, seen: Seen) -> None:
    async for message in inbox:
        seen.setdefault(message.publisher, []).append(int.from_bytes(message.payload[:4], "big"))


async def reset_many(proxies: list[Proxy], count: int) -> None:
    rng = random.Random(count)
    while sum(proxy.resets for proxy in proxies) < count:
        rng.choice(proxies).reset_one(rng)
        await asyncio.sleep(rng.random() * 0.008)


@pytest.mark.parametrize(
    ("resets", "guarantee", "fast_loop"), [(cases(300, 1000), "causal", False), (cases(100, 300), "eventual", True)]
)
def test_hundreds_of_resets_lose_double_and_reorder_nothing(
    resets: int, guarantee: GuaranteeName, fast_loop: bool
) -> None:
    """Between clients and brokers and between two brokers, while everybody publishes and everybody subscribes."""

    async def scene() -> None:
        async with contextlib.AsyncExitStack() as stack:
            top = await stack.enter_async_context(broker("b0"))
            between = await stack.enter_async_context(Proxy(top.address))
            low = await stack.enter_async_context(broker("b1", parent=("b0", between.address)))
            proxies = [between]
            clients: list[Client] = []
            seen: dict[str, Seen] = {}
            readers: list[asyncio.Task[None]] = []
            for number, at in enumerate((top, low, low)):
                proxies.append(await stack.enter_async_context(Proxy(at.address)))
                client = await connect(str(proxies[-1].address), name=f"c{number}", links=QUICK)
                clients.append(client)
                seen[client.name] = {}
                readers.append(asyncio.create_task(collect(await client.subscribe("t/#"), seen[client.name])))
            breaking = asyncio.create_task(reset_many(proxies, resets))
            sent = await asyncio.gather(*(publish_until(client, breaking.done, guarantee) for client in clients))
            await breaking
            await asyncio.gather(*(receipt.delivered() for receipts in sent for receipt in receipts))
            expected = {client.name: list(range(len(receipts))) for client, receipts in zip(clients, sent, strict=True)}
            assert sum(proxy.resets for proxy in proxies) >= resets
            for client in clients:
                assert seen[client.name] == expected
                await client.close()
            await asyncio.gather(*readers)

    run(scene(), fast_loop=fast_loop)


def test_while_the_way_is_blocked_publications_wait_and_then_arrive_once() -> None:
    async def scene() -> None:
        async with (
            broker() as running,
            Proxy(running.address) as proxy,
            connect(str(proxy.address), name="p", links=QUICK) as publisher,
            connect(str(running), name="s") as subscriber,
        ):
            inbox = await subscriber.subscribe("t")
            await publisher.publish("t", b"0")
            assert (await inbox.next()).payload == b"0"
            proxy.refusing = True
            proxy.reset_all()
            receipts = [await publisher.publish("t", str(number).encode()) for number in range(1, 1000)]
            await asyncio.sleep(0.1)
            assert receipts[0].state == "published" and len(inbox) == 0
            proxy.refusing = False
            await until(lambda: len(inbox) == 999)
            assert [int((await inbox.next()).payload) for _ in receipts] == list(range(1, 1000))
            await asyncio.gather(*(receipt.delivered() for receipt in receipts))

    run(scene())


def test_a_subscriber_that_was_away_gets_what_it_missed_once() -> None:
    async def scene() -> None:
        async with (
            broker() as running,
            Proxy(running.address) as proxy,
            connect(str(running), name="p") as publisher,
            connect(str(proxy.address), name="s", links=QUICK) as subscriber,
        ):
            inbox = await subscriber.subscribe("t")
            proxy.refusing = True
            proxy.reset_all()
            receipts = [await publisher.publish("t", str(number).encode()) for number in range(1000)]
            await receipts[-1].safe()
            assert receipts[0].state == "safe", "nobody claims that it was delivered"
            proxy.refusing = False
            assert [int((await inbox.next()).payload) for _ in receipts] == list(range(1000))
            await receipts[-1].delivered()

    run(scene())
