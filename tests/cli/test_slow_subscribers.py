"""A subscriber that does not read, with real brokers, as its neighbours and its operator see it."""

import asyncio
import json
import time

import pytest

from resprout import ClosedError, PublicationDelayed, SlowConsumer, SlowConsumerError, UsageError
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.client.terms import read_policy
from resprout.scenario.load import parse_scenario
from resprout.scenario.source import ScenarioError
from tests.cli.processes import Running, broker, complaint, resprout, running
from tests.net.stage import run, until
from tests.patience import PATIENCE_S

SHARE = 1 << 20
PAYLOADS = [bytes(10_000)] * 20
OPTIONS = ("--set", f"subscriber_bytes={SHARE}", "--set", "slow_consumer_us=500000")
BATCHES = 15
"""3 MB on each topic."""


async def publish_all(client: Client, topic: str) -> None:
    for _ in range(BATCHES):
        await client.publish_bundle(topic, PAYLOADS)


async def publish_one_by_one(client: Client, topic: str) -> None:
    """Wait until each bundle is safe: so much is never on its way that a pause comes too late for all of it."""
    for _ in range(BATCHES):
        receipt = await client.publish_bundle(topic, PAYLOADS)
        await receipt.safe()


async def read_all(inbox: Inbox) -> None:
    for _ in range(BATCHES * len(PAYLOADS)):
        await inbox.next()


async def status(address: str) -> tuple[int, str]:
    done = await asyncio.to_thread(resprout, "status", "--server", address)
    return done.returncode, done.stdout.decode()


def noted(process: Running, kind: str) -> str:
    """What a broker says when it notes something of this kind."""
    while (line := json.loads(process.line())).get("kind") != kind:
        pass
    return str(line)


@pytest.mark.parametrize("where", ["the publishers' broker", "another broker"])
def test_a_subscriber_that_does_not_read_is_cut_off_and_told_and_the_others_get_everything(where: str) -> None:
    async def scene(near: str, far: str) -> None:
        events: list[object] = []
        home = near if where == "the publishers' broker" else far
        async with (
            connect(near, name="p-data") as data,
            connect(near, name="p-other") as other,
            connect(far, name="healthy") as healthy,
            connect(far, name="beside") as beside,
            connect(home, name="culprit", on_event=events.append) as culprit,
        ):
            inbox, others = await healthy.subscribe("data/#"), await beside.subscribe("other/#")
            unread = await culprit.subscribe("data/#")
            async with asyncio.timeout(2 * PATIENCE_S):
                await asyncio.gather(
                    publish_all(data, "data/a"), publish_all(other, "other/b"), read_all(inbox), read_all(others)
                )
                await until(lambda: any(isinstance(event, SlowConsumer) for event in events), 2 * PATIENCE_S)
            with pytest.raises(SlowConsumerError, match=r"slow consumer: .* MiB were unread"):
                while True:
                    await unread.next()
            with pytest.raises(ClosedError):
                await culprit.subscribe("data/#")
            code, said = await status(near)
            assert code == 1 and "slow consumer cut off" in said and "culprit" in said

    with (
        broker("b0", *OPTIONS) as (first, near),
        broker("b1", "--parent", near, *OPTIONS) as (second, far),
    ):
        run(scene(near, far))
        assert "culprit was cut off" in noted(first if where == "the publishers' broker" else second, "slow_consumer")


@pytest.mark.parametrize("durable", [False, True])
def test_one_that_blocks_stops_only_publishers_of_its_topics_and_everybody_says_for_whom(durable: bool) -> None:
    async def scene(near: str, far: str) -> None:
        events: list[object] = []
        async with (
            connect(near, name="p-data", on_event=events.append) as data,
            connect(near, name="p-other") as other,
            connect(far, name="beside") as beside,
            connect(far, name="culprit") as culprit,
        ):
            others = await beside.subscribe("other/#")
            kind, name = ("durable subscription", "archive") if durable else ("subscriber", "culprit")
            if durable:
                unread: Inbox = await culprit.subscribe("data/#", durable="archive", window=1, manual_ack=True)
            else:
                unread = await culprit.subscribe("data/#", when_full="block")
            held = asyncio.create_task(publish_one_by_one(data, "data/a"))
            reason = f"waits for {kind} {name} at b1, which has too much unread of data/#"
            async with asyncio.timeout(2 * PATIENCE_S):
                await until(
                    lambda: any(isinstance(one, PublicationDelayed) and one.reason == reason for one in events), 60
                )
                await asyncio.gather(publish_all(other, "other/b"), read_all(others))
                code, said = await status(far)
                assert code == 1
                assert f"b0: publisher p-data {reason}" in said
                assert f"b1: {kind} {name} has " in said and "publishers of these topics have waited for" in said
                told = json.loads((await asyncio.to_thread(resprout, "status", "--json", "--server", near)).stdout)
                brokers = {one["name"]: one for one in told["brokers"]}
                assert [one["name"] for one in brokers["b0"]["held"]] == ["p-data"]
                assert brokers["b0"]["paused"][0]["filters"] == ["data/#"]
                assert brokers["b0"]["paused"][0]["bytes"] > SHARE
                if not durable:
                    (account,) = [one for one in brokers["b1"]["clients"] if one["name"] == "culprit"]
                    assert account["queue_bytes"] > SHARE
                    await asyncio.gather(held, read_all(unread))
                else:
                    await culprit.end_subscription("archive")
                    await held
                began = time.monotonic()
                while (await status(near))[0] and time.monotonic() - began < PATIENCE_S:
                    await asyncio.sleep(0.2)
                assert (await status(near))[0] == 0

    with (
        broker("b0", *OPTIONS) as (first, near),
        broker("b1", "--parent", near, *OPTIONS) as (_, far),
    ):
        run(scene(near, far))
        assert "p-data waits for" in noted(first, "held")


def test_the_command_that_publishes_says_for_whom_it_is_held_and_when_it_goes_on() -> None:
    """It printed nothing unless standard error was a terminal."""

    async def scene(near: str) -> None:
        async with connect(near, name="culprit") as culprit:
            unread = await culprit.subscribe("data/#", when_full="block")
            with running("pub", "data/a", "-", "--name", "feed", "--server", near) as feed:
                assert feed.process.stdin is not None
                lines = b"".join([payload.replace(b"\0", b"x") + b"\n" for payload in PAYLOADS * BATCHES])
                writing = asyncio.create_task(asyncio.to_thread(_write_all, feed, lines))
                said = await asyncio.to_thread(feed.error_line)
                assert said.startswith("publisher feed is held since ")
                assert said.endswith(": waits for subscriber culprit at b0, which has too much unread of data/#")
                await asyncio.gather(writing, read_all(unread))
                _, rest = await asyncio.to_thread(feed.rest)
                assert feed.process.returncode == 0
                assert rest.decode().splitlines()[-1].startswith("publisher feed goes on after ")

    with broker("b0", *OPTIONS) as (_, near):
        run(scene(near))


def _write_all(feed: Running, lines: bytes) -> None:
    assert feed.process.stdin is not None
    view = memoryview(lines)
    while view:
        view = view[feed.process.stdin.write(view) or 0 :]
    feed.process.stdin.close()
    feed.process.stdin = None


def test_a_policy_that_a_subscription_cannot_have_is_refused_in_one_line() -> None:
    assert "is for durable subscriptions" in complaint("sub", "a", "--when-full", "spill")
    assert "one of 'block', 'drop_oldest', 'spill'" in complaint(
        "sub", "a", "--durable", "d", "--when-full", "disconnect"
    )


@pytest.mark.parametrize("word", ["push back", "drop oldest", "push_back"])
def test_a_policy_has_one_name(word: str) -> None:
    """Words of earlier versions are refused by the command, by the library and in scenarios."""
    assert repr(word) in complaint("sub", "a", "--when-full", word)
    with pytest.raises(UsageError, match="one of 'disconnect', 'drop_oldest', 'block'"):
        read_policy(word)
    text = f"""
        broker = [{{ name = "b" }}]
        client = [{{ name = "c", broker = "b", subscribe = [{{ filter = "a", durable = "d", when_full = "{word}" }}] }}]
    """
    with pytest.raises(ScenarioError, match=f"unknown when_full '{word}'"):
        parse_scenario(text)
