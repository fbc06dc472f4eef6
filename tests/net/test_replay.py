"""A subscription may begin in the past: first what the broker keeps, then what comes, without a gap or a repeat."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.inbox import Inbox
from tests.net.test_events import keeper

from .stage import broker, run, until


async def publish(client: Client, first: int, last: int, pause_every: int = 0) -> None:
    for number in range(first, last + 1):
        receipt = await client.publish("a/b", b"%d" % number)
        if pause_every and number % pause_every == 0:
            await asyncio.sleep(0.002)
    await receipt.safe()


async def numbers(inbox: Inbox, last: int) -> list[int]:
    got: list[int] = []
    while not got or got[-1] != last:
        got.append(int((await inbox.next()).payload))
    return got


def test_the_past_and_what_is_published_meanwhile_come_as_one_sequence(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            broker("b0") as root,
            keeper(tmp_path, root.address) as tap,
            resprout.connect(str(root), name="p") as publisher,
            resprout.connect(str(tap)) as reader,
        ):
            await publish(publisher, 1, 300)
            publishing = asyncio.create_task(publish(publisher, 301, 900, pause_every=7))
            await asyncio.sleep(0.05)
            inboxes = [await reader.subscribe("a/#", replay_from="earliest")]
            inboxes.append(await reader.subscribe("a/b", replay_from=datetime(2020, 1, 1, tzinfo=UTC)))
            got = await asyncio.gather(*(numbers(inbox, 900) for inbox in inboxes))
            assert got == [list(range(1, 901))] * 2
            await publishing
            await publish(publisher, 901, 903)
            assert await numbers(inboxes[0], 903) == [901, 902, 903]
            assert int((await anext(inboxes[1].batches()))[0].payload) == 901

    run(scene())


def test_it_begins_at_an_offset_as_it_was_read_or_written_down(tmp_path: Path) -> None:
    async def scene() -> None:
        async with keeper(tmp_path) as tap, resprout.connect(str(tap), name="c") as client:
            for number in range(1, 6):
                await publish(client, number, number)  # each in a bundle of its own
            page = await client.read("a/#")
            offset = page.offset_of(page.messages[2])
            by_value = await client.subscribe("a/#", replay_from=offset)
            assert await numbers(by_value, 5) == [3, 4, 5]
            by_text = await client.subscribe("a/b", replay_from=str(offset))
            assert await numbers(by_text, 5) == [3, 4, 5]

    run(scene())


def test_what_is_not_kept_is_refused_by_an_error_of_its_own_and_nothing_is_subscribed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with keeper(tmp_path) as tap, resprout.connect(str(tap), name="c") as client:
            with pytest.raises(resprout.ReadError, match="not all of # is kept here: this broker keeps a/#"):
                await client.subscribe("#", replay_from="earliest")
            with pytest.raises(resprout.ReadError, match="other"):
                await client.subscribe("a/#", replay_from="other.00000000@4")
            with pytest.raises(resprout.UsageError, match=r"replay_from=.yesterday. is no position"):
                await client.subscribe("a/#", replay_from="yesterday")
            await client.subscribe("#")
        async with broker("b0") as root, resprout.connect(str(root), name="c") as client:
            with pytest.raises(resprout.ReadError, match="keeps no events"):
                await client.subscribe("a/#", replay_from="earliest")

    run(scene())


def test_a_durable_subscription_begins_in_the_past_and_again_if_its_consumer_ends_before_it_is_through(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with keeper(tmp_path) as tap, resprout.connect(str(tap), name="c") as client:
            await publish(client, 1, 100)
            inbox = await client.subscribe("a/#", durable="d", replay_from="earliest")
            await publish(client, 101, 120)
            assert [int((await inbox.next()).payload) for _ in range(30)] == list(range(1, 31))
            assert inbox.replaying
            await inbox.close()
            inbox = await client.subscribe("a/#", durable="d")
            again = [await inbox.next() for _ in range(120)]
            assert [int(message.payload) for message in again] == list(range(1, 121))
            assert again[0].redelivered
            asked = asyncio.create_task(inbox.next())
            await until(lambda: not inbox.replaying)
            await publish(client, 121, 121)
            assert int((await asked).payload) == 121
            await inbox.close()
            inbox = await client.subscribe("a/#", durable="d", replay_from="earliest")  # it is there: it goes on
            assert int((await inbox.next()).payload) == 121
            with pytest.raises(resprout.UnsupportedSubscriptionError, match="a group does not begin in the past"):
                await client.subscribe("a/#", group="g", replay_from="earliest")
            with pytest.raises(resprout.ReadError, match="not all of # is kept"):
                await client.subscribe("#", durable="e", replay_from="earliest")

    run(scene())


def test_the_past_of_a_durable_subscription_is_read_where_it_is_held(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0") as root, keeper(tmp_path, root.address) as tap:
            async with resprout.connect(str(tap), name="c") as client:
                await publish(client, 1, 5)
                await client.subscribe("a/#", durable="d", replay_from="earliest")
            async with resprout.connect(str(root), name="other") as other:
                inbox = await other.subscribe("a/#", durable="d")
                with pytest.raises(resprout.ReadError, match="is held by tap, and its past is read there"):
                    await inbox.next()

    run(scene())
