"""Logs with several partitions, with real brokers: written, read, followed, and consumed by name."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

import resprout
from resprout.client.errors import CommitError, FencedError, ReadError
from resprout.client.past_events import Offset
from resprout.core.errors import UsageError
from resprout.core.partitions import partition_of
from resprout.edge.requests import StoredMessage
from resprout.logs.declaration import LogDeclaration
from tests.net.stage import run
from tests.net.test_log_changes import broker
from tests.net.test_logs import is_fed, replica

PARTITIONS = 4
LOG = LogDeclaration("ev", "ev/#", ("b0", "b1", "b2"), partitions=PARTITIONS)
KEYS = tuple(f"k{number}" for number in range(10))

Sent = dict[str, list[bytes]]
"""Payloads by key, in the order in which they were published."""


async def publish(client: resprout.Client, first: int, last: int, sent: Sent) -> None:
    for number in range(first, last):
        key = KEYS[number % len(KEYS)]
        payload = b"%d" % number
        receipt = await client.publish("ev/x", payload, keys=[key], guarantee="fifo")
        sent.setdefault(key, []).append(payload)
    await receipt.safe()


async def take(inbox: resprout.Inbox, count: int) -> list[resprout.Message]:
    return [await inbox.next(timeout=60) for _ in range(count)]


def check(messages: list[resprout.Message], sent: Mapping[str, list[bytes]]) -> None:
    """Check that each key has its messages in order, in its partition, at offsets without holes."""
    for key, payloads in sent.items():
        assert [message.payload for message in messages if message.keys == (key,)] == payloads
    offsets: dict[int, list[int]] = {}
    for message in messages:
        assert message.partition == partition_of(message.topic, message.keys, PARTITIONS)
        offsets.setdefault(message.partition, []).append(message.position)
    for found in offsets.values():
        assert found == list(range(found[0], found[0] + len(found)))


def test_partitions_are_read_and_followed_together(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            broker("b0", tmp_path) as b0,
            broker("b1", tmp_path, b0),
            broker("b2", tmp_path, b0) as b2,
            broker("b3", None, b0) as b3,
            resprout.connect(str(b3), name="p") as p,
            resprout.connect(str(b2), name="r") as r,
        ):
            await p.create_log("ev", "ev/#", replicas=["b0", "b1", "b2"], partitions=PARTITIONS)
            leaders = {replica.leader for replica in b0.machine.logs.replicas.values()}
            assert leaders == {"b0", "b1", "b2"}
            sent: Sent = {}
            await publish(p, 0, 200, sent)
            inbox = await r.subscribe("ev/#", log="ev", replay_from="earliest")
            past = await take(inbox, 200)
            check(past, sent)
            start: str | Offset = "earliest"
            found: list[StoredMessage] = []
            while True:
                page = await r.read("ev/#", log="ev", start=start, size=2_000)
                found += page.messages
                start = str(page.next)
                assert [page.offset_of(each).journal for each in page.messages] == [
                    f"log.ev~{each.partition}" for each in page.messages
                ]
                if page.at_end:
                    break
            check([stored.message for stored in found], sent)
            assert page.end == len(found) == 200 and page.next.position == 200
            more: Sent = {}
            late = await p.subscribe("ev/#", log="ev", replay_from=page.next)
            await publish(p, 200, 260, more)
            check(await take(inbox, 60), more)
            check(await take(late, 60), more)
            only = await r.read("ev/#", log="ev~2")
            assert {each.partition for each in only.messages} == {2} and str(only.next).startswith("log.ev~2@")
            third = await r.subscribe("ev/#", replay_from="log.ev~2@3")
            assert [each.position for each in await take(third, 5)] == [3, 4, 5, 6, 7]
            with pytest.raises(ReadError, match="the log ev has no partition 4: it has 4"):
                await r.read("ev/#", log="ev~4")
            with pytest.raises(UsageError, match="does not name an offset in each of the 4 partitions"):
                await r.subscribe("ev/#", log="ev", replay_from="log.ev@1,2,3")
            await p.delete_log("ev")
            with pytest.raises(ReadError, match="there is no log ev"):
                await p.read("ev/#", log="ev")

    run(scene())


def test_a_position_has_an_offset_in_each_partition(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, resprout.connect(str(b0), name="p") as p:
            await p.create_log("ev", "ev/#", replicas=["b0"], partitions=PARTITIONS)
            sent: Sent = {}
            await publish(p, 0, 100, sent)
            await take(await p.subscribe("ev/#", log="ev", replay_from="earliest"), 100)
            assert await p.committed("ev", "billing") is None
            end = (await p.read("ev/#", log="ev", start="latest")).next
            assert await p.commit("ev", "billing", end) == end == await p.committed("ev", "billing")
            assert (await p.commit("ev", "other", "log.ev@1,0,2,0")).position == 3
            assert await p.commit("ev~1", "other", 1) == Offset("log.ev~1", 1)
            assert str(await p.committed("ev", "other")) == "log.ev@1,1,2,0"
            with pytest.raises(CommitError, match="has 4 partitions: name one, ev~0 to ev~3"):
                await p.commit("ev", "billing", 7)
            await p.forget_position("ev", "billing")
            assert await p.committed("ev", "billing") is None

    run(scene())


def test_a_durable_subscription_consumes_all_partitions(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            broker("b0", tmp_path) as b0,
            resprout.connect(str(b0), name="p") as p,
            resprout.connect(str(b0), name="q") as q,
        ):
            await p.create_log("ev", "ev/#", replicas=["b0"], partitions=PARTITIONS)
            sent: Sent = {}
            await publish(p, 0, 100, sent)
            inbox = await p.subscribe("ev/#", log="ev", durable="billing", replay_from="earliest")
            seen = await take(inbox, 60)
            await inbox.close()  # the last message was not acknowledged
            inbox = await q.subscribe("ev/#", log="ev", durable="billing")
            rest = await take(inbox, 41)
            assert rest[0].redelivered and seen[-1].payload in {message.payload for message in rest}
            assert {each.payload for each in seen} | {each.payload for each in rest} == {
                payload for payloads in sent.values() for payload in payloads
            }
            other = await p.subscribe("ev/#", log="ev", durable="billing")
            await publish(p, 100, 140, sent)
            with pytest.raises(FencedError):
                while True:
                    await inbox.next(timeout=60)
                    await asyncio.sleep(0.02)
            await other.unsubscribe()
            assert await p.committed("ev", "billing") is None

    run(scene())


def test_of_two_consumers_that_begin_together_one_gets_all_partitions(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0", tmp_path) as b0, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(resprout.connect(str(b0), name=f"c{n}")) for n in range(3)]
            await clients[0].create_log("ev", "ev/#", replicas=["b0"], partitions=PARTITIONS)
            begun = await asyncio.gather(
                *[client.subscribe("ev/#", log="ev", durable="billing", replay_from="earliest") for client in clients],
                return_exceptions=True,
            )
            assert all(isinstance(each, resprout.DurableInbox | FencedError) for each in begun), begun
            sent: Sent = {}
            await publish(clients[0], 0, 80, sent)
            took: list[list[resprout.Message]] = []
            for inbox in begun:
                if isinstance(inbox, resprout.DurableInbox):
                    got: list[resprout.Message] = []
                    with contextlib.suppress(FencedError):
                        got += await take_until_fenced(inbox, 80)
                    took.append(got)
            assert sum(len(got) == 80 for got in took) >= 1

    run(scene())


async def take_until_fenced(inbox: resprout.Inbox, count: int) -> list[resprout.Message]:
    got = [await inbox.next(timeout=60) for _ in range(count)]
    await inbox.close()
    return got


def test_partitions_survive_the_death_of_a_broker_that_leads_some(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            replica("b0", tmp_path, log=LOG) as b0,
            contextlib.AsyncExitStack() as dies,
            replica("b2", tmp_path, b0, log=LOG) as b2,
        ):
            b1 = await dies.enter_async_context(replica("b1", tmp_path, b0, log=LOG))
            await is_fed(b0, b1, b2)  # all partitions at once
            sent: Sent = {}
            async with resprout.connect(str(b0), name="p") as p, resprout.connect(str(b2), name="r") as r:
                inbox = await r.subscribe("ev/#", log="ev", replay_from="earliest")
                await publish(p, 0, 100, sent)
                await dies.aclose()
                await publish(p, 100, 200, sent)
                check(await take(inbox, 200), sent)

    run(scene())
