"""What a subscription receives, and how it is taken."""

import asyncio

import pytest

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClosedError
from resprout.client.inbox import Inbox
from resprout.core.errors import UsageError
from resprout.edge.client.machine import ClientOptions
from tests.footprint import kept_by
from tests.net.stage import broker, run, until


async def payloads(inbox: Inbox, count: int) -> list[bytes]:
    return [(await inbox.next()).payload for _ in range(count)]


async def publish(client: Client, topic: str, *texts: str) -> None:
    for text in texts:
        receipt = await client.publish(topic, text.encode())
    await receipt.safe()


def test_overlapping_subscriptions_get_their_own_each_once() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            every = await client.subscribe("#")
            a = await client.subscribe("a/+")
            rich = await client.subscribe("a/#", where="amount > 10")
            both = await client.subscribe("a/1")
            assert await client.subscribe("a/+", where="amount > 10", into=both) is both
            await client.publish("a/1", b"one", attributes={"amount": 11})
            await client.publish("a/2", b"two", attributes={"amount": 9})
            await client.publish("b", b"three", attributes={"amount": 12})
            await client.publish("a/2", b"four", attributes={"amount": 12})
            assert await payloads(every, 4) == [b"one", b"two", b"three", b"four"]
            assert await payloads(a, 3) == [b"one", b"two", b"four"]
            assert await payloads(rich, 2) == [b"one", b"four"]
            assert await payloads(both, 2) == [b"one", b"four"]
            assert [len(inbox) for inbox in (every, a, rich, both)] == [0, 0, 0, 0]

    run(scene())


def test_conditions_that_mean_the_same_may_share_an_inbox() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t", where="x > 1")
            await client.subscribe("t", where="x>1", into=inbox)
            await client.publish("t", b"once", attributes={"x": 2})
            other = await client.subscribe("other")
            assert await payloads(inbox, 1) == [b"once"]
            await client.unsubscribe(inbox)
            await publish(client, "other", "still")
            assert await payloads(other, 1) == [b"still"]

    run(scene())


def test_several_consumers_share_an_inbox_and_none_sleeps_while_there_is_work() -> None:
    """Each keeps its first message for as long as the others have none: they must all be woken by one batch."""

    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t")
            everybody = asyncio.Barrier(5)
            taken: list[bytes] = []

            async def consume() -> None:
                for _ in range(4):
                    taken.append((await inbox.next()).payload)
                    await everybody.wait()

            consumers = [asyncio.create_task(consume()) for _ in range(5)]
            await asyncio.sleep(0)
            for number in range(20):
                await client.publish("t", b"%d" % number)
            await asyncio.gather(*consumers)
            assert taken == [b"%d" % number for number in range(20)]

    run(scene())


def test_batches_hold_everything_once_and_mix_with_single_messages() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t")
            await publish(client, "t", *map(str, range(100)))
            await until(lambda: len(inbox) == 100)
            seen = await payloads(inbox, 3)
            async for batch in inbox.batches():
                seen += [message.payload for message in batch]
                if len(seen) == 100:
                    await publish(client, "t", "more")
                elif len(seen) > 100:
                    break
            assert seen == [str(number).encode() for number in range(100)] + [b"more"]
            ending = asyncio.create_task(client.unsubscribe(inbox))
            assert [batch async for batch in inbox.batches()] == []
            await ending

    run(scene())


def test_a_delivered_receipt_waits_until_the_message_is_taken() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t")
            receipt = await client.publish("t", b"x")
            await receipt.safe()
            await until(lambda: len(inbox) == 1)
            delivered = asyncio.create_task(receipt.delivered())
            await asyncio.sleep(0.05)
            assert not delivered.done() and receipt.state == "safe"
            assert inbox.next_nowait() is not None and inbox.next_nowait() is None
            await delivered
            assert receipt.state == "delivered"

    run(scene())


def test_unsubscribing_hands_out_the_rest_and_ends() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t/1")
            await client.subscribe("t/2", into=inbox)
            await publish(client, "t/1", "one")
            await publish(client, "t/2", "two")
            await until(lambda: len(inbox) == 2)
            await asyncio.gather(client.unsubscribe(inbox), client.unsubscribe(inbox))
            await publish(client, "t/1", "too late")
            assert [message.payload async for message in inbox] == [b"one", b"two"]
            with pytest.raises(ClosedError, match="the subscription is over"):
                await inbox.next()
            with pytest.raises(UsageError, match="this inbox is over"):
                await client.subscribe("t/3", into=inbox)
            again = await client.subscribe("t/1")
            await publish(client, "t/1", "again")
            assert await payloads(again, 1) == [b"again"]

    run(scene())


def test_unsubscribing_wakes_whoever_waits() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c") as client:
            inbox = await client.subscribe("t")
            waiting = [asyncio.create_task(anext(inbox, None)) for _ in range(3)]
            await asyncio.sleep(0)
            await client.unsubscribe(inbox)
            assert await asyncio.gather(*waiting) == [None, None, None]

    run(scene())


def test_what_an_ended_inbox_still_holds_keeps_nobody_waiting() -> None:
    options = ClientOptions(untaken_bytes_max=10_000)

    async def scene() -> None:
        async with broker() as running, connect(str(running), name="c", options=options) as client:
            dropped, kept = await client.subscribe("dropped"), await client.subscribe("kept")
            await publish(client, "dropped", *["x" * 1000] * 50)
            last = await client.publish("kept", b"y" * 5000)
            await until(lambda: len(dropped) > 0)
            await client.unsubscribe(dropped)
            assert await payloads(kept, 1) == [b"y" * 5000]
            await last.delivered()

    run(scene())


def test_an_inbox_belongs_to_one_client() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running)) as one, connect(str(running)) as other:
            inbox = await one.subscribe("t")
            with pytest.raises(UsageError, match="belongs to another client"):
                await other.subscribe("t", into=inbox)

    run(scene())


def test_the_same_subscription_twice_is_refused_and_the_first_goes_on() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running)) as client:
            inbox = await client.subscribe("t", where="x = 1")
            with pytest.raises(UsageError, match="filter='t': this client has subscribed to t where x = 1 already"):
                await client.subscribe("t", where="x = 1")
            for filter, where in (("a/#/b", None), ("t", "x >")):
                with pytest.raises(UsageError):
                    await client.subscribe(filter, where)
            await client.publish("t", b"yes", attributes={"x": 1})
            assert await payloads(inbox, 1) == [b"yes"]

    run(scene())


def test_polling_an_empty_inbox_or_a_receipt_leaves_nothing_behind() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running)) as client:
            inbox = await client.subscribe("t")
            before = kept_by(inbox)
            for _ in range(300):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await inbox.next()
            assert kept_by(inbox) == before
            receipt = await client.publish("t", b"never taken")
            before = kept_by(receipt)
            for _ in range(300):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await receipt.delivered()
            assert kept_by(receipt) < before + 100, "what nobody waits for any more is thrown out now and then"

    run(scene())
