"""A broker dies under its clients, and their programs do not notice."""

import asyncio

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.errors import ClosedError
from resprout.client.inbox import Inbox
from resprout.client.local import Local
from tests.net.stage import run, until


async def kill(network: Local, number: int) -> None:
    """Without a farewell: its connections end, and nobody listens there any more."""
    await network.brokers[number].close()


async def numbers(inbox: Inbox, last: int) -> list[int]:
    got: list[int] = []
    while not got or got[-1] != last:
        got.append(int((await inbox.next()).payload))
    return got


async def publish(client: Client, count: int, pause_every: int, receipts: list[resprout.Receipt]) -> None:
    for n in range(count):
        receipts.append(await client.publish("t", b"%d" % n))
        if n % pause_every == 0:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("dying", [1, 2])
def test_publishers_and_subscribers_go_on_when_their_broker_dies(dying: int) -> None:
    count = 3_000

    async def scene() -> None:
        async with resprout.local(brokers=5) as network:
            publisher, subscriber, witness = [
                await network.connect(name, broker=at) for name, at in (("p", dying), ("s", dying), ("w", 0))
            ]
            inboxes = [await client.subscribe("t") for client in (subscriber, witness)]
            sent: list[resprout.Receipt] = []
            publishing = asyncio.create_task(publish(publisher, count, 10, sent))
            reading = [asyncio.create_task(numbers(inbox, count - 1)) for inbox in inboxes]
            await until(lambda: len(sent) > 300 and sent[300].state in ("safe", "delivered"))
            await kill(network, dying)
            await publishing
            assert await asyncio.gather(*reading) == [list(range(count))] * 2
            await asyncio.gather(*(receipt.safe() for receipt in sent))
            for client in (publisher, subscriber, witness):
                await client.close()

    run(scene())


def test_subscriptions_made_before_and_while_the_broker_is_gone_are_confirmed_and_complete() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network:
            client, other = await network.connect("c", broker=2), await network.connect("o", broker=1)
            before = await client.subscribe("before")
            await kill(network, 2)
            asking = asyncio.create_task(client.subscribe("while"))
            ending = asyncio.create_task(client.subscribe("ending"))
            await asyncio.sleep(0)
            await other.publish("before", b"missed by nobody")
            while_ = await asking
            await client.unsubscribe(await ending)
            await other.publish("while", b"x")
            assert (await before.next()).payload == b"missed by nobody"
            assert (await while_.next()).payload == b"x"
            await client.unsubscribe(before)
            with pytest.raises(ClosedError):
                await before.next()
            await asyncio.gather(client.close(), other.close())

    run(scene())
