"""A publisher that returns from another process, in the same life, and says again what it said: nothing comes twice."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.local import Local
from resprout.client.receipts import Receipt
from resprout.core.errors import UsageError
from resprout.core.guarantee import GuaranteeName
from resprout.edge.client.options import ClientOptions
from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, OptionValue, Scenario
from tests.patience import PATIENCE_S

PARTS = [[b"%d.%d" % (part, n) for n in range(part + 1)] for part in range(6)]


async def say(client: Client, parts: list[list[bytes]]) -> Receipt:
    for part in parts:
        receipt = await client.publish_bundle("a", part, keys=("k",), attributes=[{"n": len(part)}] * len(part))
    return receipt


def returning(network: Local, broker: int, epoch: int = 5) -> resprout.client.connect.Connecting:
    return resprout.connect(network.addresses[broker], name="p", epoch=epoch)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 2), (2, 0), (0, 2)])
def test_what_is_said_again_comes_once_wherever_it_is_said(first: int, second: int) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("s", broker=1) as s:
            inbox = await s.subscribe("a", where="n > 0")
            p = await returning(network, first)
            await (await say(p, PARTS[:4])).accepted()
            async with returning(network, second) as again:
                await (await say(again, PARTS)).safe()
            messages = [await inbox.next() for _ in range(sum(map(len, PARTS)))]
            assert [message.payload for message in messages] == [payload for part in PARTS for payload in part]
            assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
            assert {message.epoch for message in messages} == {5}
            async with returning(network, first, epoch=6) as later:
                await (await say(later, PARTS[:1])).safe()
            assert (await inbox.next()).epoch == 6
            assert len(inbox) == 0
            await p.close()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_an_earlier_life_is_not_served_and_the_same_one_elsewhere_ends_the_session_before() -> None:
    async def scene() -> None:
        async with resprout.local() as network:
            p = await returning(network, 0)
            await (await say(p, PARTS)).safe()
            async with returning(network, 0) as again:
                await (await say(again, PARTS)).safe()
                with pytest.raises(resprout.ClientError):
                    await (await say(p, [[b"late"]])).safe()
            await p.close()
            with pytest.raises(resprout.ConnectError, match="incarnation 4 of p is over"):
                await returning(network, 0, epoch=4)

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


ALL = [b"%d" % number for number in range(1, 6)]


async def said_again(addresses: Sequence[str], guarantee: GuaranteeName, first: int, second: int) -> list[bytes]:
    """Publish 1 to 3, and 1 to 5 from another process, as far as brokers can tell; return what a subscriber got."""
    async with resprout.connect(addresses[1], name="s") as s:
        inbox = await s.subscribe("a")
        async with resprout.connect(addresses[first], name="p", epoch=5) as p:
            before = [await p.publish("a", payload, guarantee=guarantee) for payload in ALL[:3]]
            await before[-1].accepted()
        async with resprout.connect(addresses[second], name="p", epoch=5) as p:
            for receipt in [await p.publish("a", payload, guarantee=guarantee) for payload in ALL]:
                await receipt.safe()
            await (await p.publish("a", b"end", guarantee=guarantee)).safe()
            got: list[bytes] = []
            while not got or got[-1] != b"end":
                got.append((await inbox.next()).payload)
            return got


@pytest.mark.parametrize("guarantee", ["eventual", "causal", "total"])
@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 2)])
def test_single_publications_are_said_again_with_more_behind_them(
    guarantee: GuaranteeName, first: int, second: int
) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network:
            assert await said_again(network.addresses, guarantee, first, second) == [*ALL, b"end"]

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


@pytest.mark.parametrize(
    ("stack", "guarantee"),
    [
        ("ginger", "total"), ("cbcast", "causal"), ("causal-barriers", "causal"), ("delta", "fifo"),
        ("sites", "total"), ("scribe", "total"),
    ],
)  # fmt: skip
def test_other_stacks_take_single_publications_again_too(stack: str, guarantee: GuaranteeName) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3, stack=stack) as network:
            assert await said_again(network.addresses, guarantee, 0, 2) == [*ALL, b"end"]

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_single_publications_are_said_again_to_processes_that_were_killed_in_between(tmp_path: Path) -> None:
    async def scene() -> None:
        options: dict[str, OptionValue] = {"faults_tolerated": 0, "durable": "journal"}
        scenario = Scenario(name="again", brokers=(BrokerSpec("b0", None),), options=options)
        async with LocalTree(scenario, data=tmp_path) as tree:
            async with resprout.connect(str(tree.address("b0")), name="p", epoch=5) as p:
                for payload in ALL[:3]:
                    receipt = await p.publish("a", payload)
                await receipt.safe()
            tree.process("b0").kill()
            await tree.process("b0").wait()
            address = str(await tree.restart("b0", found=True))
            async with resprout.connect(address, name="s") as s, resprout.connect(address, name="p", epoch=5) as p:
                inbox = await s.subscribe("a")
                for receipt in [await p.publish("a", payload) for payload in ALL]:
                    await receipt.safe()
                assert [(await inbox.next()).payload for _ in range(2)] == ALL[3:], "the first three came before"

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


async def bundles(client: Client, guarantee: GuaranteeName, sizes: list[int]) -> list[Receipt]:
    numbers, receipts = itertools.count(1), []
    for size in sizes:
        rows = [{"n": next(numbers)} for _ in range(size)]
        payloads = [b"%d" % row["n"] for row in rows]
        receipts.append(await client.publish_bundle("a", payloads, guarantee=guarantee, attributes=rows))
    return receipts


async def bundled_again(
    network: Local, guarantee: GuaranteeName, brokers: tuple[int, int], before: list[int], again: list[int],
    options: ClientOptions | None = None,
) -> None:  # fmt: skip
    """Publish messages in bundles, and again in other ones; check that a subscriber gets each once, in order."""
    async with network.connect("s", broker=1) as s:
        inbox = await s.subscribe("a")
        p, q = [resprout.connect(network.addresses[b], name="p", epoch=5, options=options) for b in brokers]
        first = await p
        await (await bundles(first, guarantee, before))[-1].accepted()
        async with q as second:
            for receipt in await bundles(second, guarantee, again):
                await receipt.safe()
            got = [await inbox.next() for _ in range(sum(again))]
            assert [int(message.payload) for message in got] == [message.seq for message in got]
            assert [message.seq for message in got] == list(range(1, sum(again) + 1))
            assert all(message.attributes == {"n": message.seq} for message in got)
            assert len(inbox) == 0
        await first.close()


@pytest.mark.parametrize("same_bundles", [False, True])
@pytest.mark.parametrize("guarantee", ["eventual", "causal", "total"])
@pytest.mark.parametrize("brokers", [(1, 1), (1, 2)])
@pytest.mark.parametrize(
    ("before", "again"), [([3], [5, 3]), ([3, 3], [2, 5, 1]), ([1, 1, 1], [5, 3]), ([4, 2], [1] * 8)]
)
def test_bundles_are_said_again_with_other_boundaries(
    guarantee: GuaranteeName, brokers: tuple[int, int], before: list[int], again: list[int], same_bundles: bool
) -> None:
    """Also by a program that has promised not to, as long as no broker crashes."""

    async def scene() -> None:
        async with resprout.local(brokers=3) as network:
            await bundled_again(network, guarantee, brokers, before, again, ClientOptions(same_bundles=same_bundles))

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


@pytest.mark.parametrize("brokers", [(1, 1), (0, 2)])
@pytest.mark.parametrize(
    ("stack", "guarantee"),
    [
        ("ginger", "total"), ("ginger", "fifo"), ("cbcast", "causal"), ("causal-barriers", "causal"),
        ("delta", "fifo"), ("sites", "total"), ("scribe", "total"), ("flood", "eventual"), ("gossip", "eventual"),
    ],
)  # fmt: skip
def test_other_stacks_take_bundles_with_other_boundaries_too(
    stack: str, guarantee: GuaranteeName, brokers: tuple[int, int]
) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3, stack=stack) as network:
            await bundled_again(network, guarantee, brokers, [3, 3], [2, 5, 1], ClientOptions(same_bundles=True))

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_the_receipt_of_a_bundle_is_that_of_all_its_messages() -> None:
    """Messages of a client with a life are delivered independently of each other: here one of two is not read."""

    async def scene() -> None:
        async with resprout.local() as network, network.connect("s") as s, returning(network, 0) as p:
            inbox = await s.subscribe("a", where="n = 1")
            receipt = await p.publish_bundle("a", [b"1", b"2"], attributes=[{"n": 1}, {"n": 2}])
            delivered = asyncio.create_task(receipt.delivered())
            await receipt.safe()
            while receipt.state != "delivered":
                await asyncio.sleep(0.01)
            assert not delivered.done(), "the first message is not read"
            await inbox.next()
            await delivered

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_what_is_no_bundle_is_refused_at_once() -> None:
    async def scene() -> None:
        async with resprout.local() as network, returning(network, 0) as p:
            for payloads in ([], [b""] * 1025, [bytes(1 << 20)] * 2):
                with pytest.raises(UsageError, match="are no bundle"):
                    await p.publish_bundle("a", payloads)
            with pytest.raises(UsageError, match="attributes of 1 messages for 2"):
                await p.publish_bundle("a", [b"", b""], attributes=[{}])
            with pytest.raises(UsageError, match="epoch=0: a whole number from 1 to"):
                resprout.connect("b0", name="p", epoch=0)
            receipts = [await p.publish("a", b"x"), await p.publish_bundle("a", [b"y"] * 3), await p.publish("a", b"z")]
            assert [receipt.seq for receipt in receipts] == [1, 4, 5]
            await receipts[-1].safe()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))
