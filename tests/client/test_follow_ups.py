"""Ids of messages, and `publish_and_ack`, in programs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import resprout
from resprout import sync
from resprout.client.local import Local
from resprout.testing import Broker
from tests.patience import PATIENCE_S


async def drained(inbox: resprout.Inbox, last: bytes = b"last") -> list[bytes]:
    """Return the payloads before the last one."""
    found: list[bytes] = []
    while (payload := (await inbox.next(PATIENCE_S)).payload) != last:
        found.append(payload)
    return found


def run(scene: Callable[[Local, resprout.Client], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with resprout.local(brokers=2) as network, network.connect("c") as client:
            return await scene(network, client)

    return asyncio.run(whole())


def test_a_durable_subscription_drops_what_has_the_id_of_another_message() -> None:
    async def scene(network: Local, client: resprout.Client) -> tuple[list[bytes], list[str | None], int]:
        plain = await client.subscribe("t")
        inbox = await client.subscribe("t", durable="d")
        async with network.connect("other", broker=1) as other:
            for publisher in (client, other, client):
                receipt = await publisher.publish("t", b"one", message_id="x")
                await receipt.safe()
            await client.publish("t", b"two", message_id="y")
            await client.publish("t", b"last")
        received = await drained(inbox)
        ids = [(await plain.next(PATIENCE_S)).message_id for _ in range(5)]
        (seen,) = (await client.subscriptions()).subscriptions
        return received, ids, seen.repeats

    assert run(scene) == ([b"one", b"two"], ["x", "x", "x", "y", None], 2)


@pytest.mark.parametrize("group", [None, "g"])
def test_a_follow_up_is_published_and_its_message_acknowledged(group: str | None) -> None:
    async def scene(network: Local, client: resprout.Client) -> tuple[list[bytes], list[bytes], int]:
        after = await client.subscribe("after", durable="after")
        for number in range(20):
            if not number:
                inbox = await client.subscribe("t", durable=None if group else "d", group=group, manual_ack=True)
            await client.publish("t", b"%d" % number)
        messages = [await inbox.next(PATIENCE_S) for _ in range(20)]
        assert all(isinstance(message, resprout.DurableMessage) for message in messages)
        await asyncio.gather(
            *(
                message.publish_and_ack("after", b"after " + message.payload, keys=["k"], attributes={"n": 1})
                for message in messages
            )
        )
        await inbox.close()
        async with network.connect("next", broker=1) as other:
            again = await other.subscribe("t", durable=None if group else "d", group=group)
            await client.publish("t", b"last")
            await client.publish("after", b"last")
            seen = await client.subscriptions()
            count = sum(one.follow_ups for one in seen.subscriptions)
            return await drained(again), sorted(await drained(after)), count

    again, after, count = run(scene)
    assert again == []
    assert after == sorted(b"after %d" % number for number in range(20))
    assert count == 20


def test_a_message_has_one_follow_up() -> None:
    async def scene(network: Local, client: resprout.Client) -> list[bytes]:
        after = await client.subscribe("after")
        inbox = await client.subscribe("t", group="g", manual_ack=True)
        await client.publish("t", b"x")
        message = await inbox.next(PATIENCE_S)
        await asyncio.gather(message.publish_and_ack("after", b"1"), message.publish_and_ack("after", b"2"))
        await message.publish_and_ack("after", {"three": 3})
        await client.publish("t", b"y")
        other = await inbox.next(PATIENCE_S)
        other.ack()
        with pytest.raises(resprout.PublishError, match="without a follow-up"):
            await other.publish_and_ack("after", b"4")
        await client.publish("after", b"last")
        return await drained(after)

    assert run(scene) == [b"1"]


def test_a_call_that_waits_ends_with_its_inbox() -> None:
    async def scene(network: Local, client: resprout.Client) -> BaseException | None:
        inbox = await client.subscribe("t", durable="d", manual_ack=True)
        await client.publish("t", b"x")
        message = await inbox.next(PATIENCE_S)
        waiting = asyncio.create_task(message.publish_and_ack("after", b"1"))
        await asyncio.sleep(0)
        await inbox.close()
        await asyncio.wait([waiting])
        return waiting.exception()

    outcome = run(scene)
    assert outcome is None or isinstance(outcome, resprout.ClosedError)


def test_the_blocking_client_has_it_too(resprout_broker: Broker) -> None:
    with sync.connect(resprout_broker.address, name="c") as client:
        after = client.subscribe("after")
        inbox = client.subscribe("t", group="g", manual_ack=True)
        client.publish("t", b"x", message_id="x")
        client.publish("t", b"x", message_id="x")
        client.publish("t", b"y")
        for _ in range(2):
            message = inbox.next(timeout=PATIENCE_S)
            worker = threading.Thread(target=message.publish_and_ack, args=("after", b"after " + message.payload))
            worker.start()
            worker.join(PATIENCE_S)
        inbox.publish_and_ack(message, "after", b"again", timeout=PATIENCE_S)
        assert [after.next(timeout=PATIENCE_S).payload for _ in range(2)] == [b"after x", b"after y"]
        assert after.next_nowait() is None


@pytest.mark.parametrize("wrong", ["", 5, b"x", "x" * 257, "ä" * 200])
def test_an_id_is_a_text_of_some_length(wrong: object) -> None:
    async def scene(network: Local, client: resprout.Client) -> None:
        with pytest.raises(resprout.UsageError, match="message_id"):
            await client.publish("t", b"", message_id=wrong)  # type: ignore[arg-type]

    run(scene)


def test_a_follow_up_is_no_last_value() -> None:
    async def scene(network: Local, client: resprout.Client) -> None:
        inbox = await client.subscribe("t", group="g", manual_ack=True)
        await client.publish("t", b"x")
        message = await inbox.next(PATIENCE_S)
        with pytest.raises(resprout.UsageError, match="last value"):
            await message.publish_and_ack("$kv/b/x", b"")

    run(scene)
