"""A publisher that returns from another process, in the same life, and says again what it said: nothing comes twice."""

import asyncio

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.local import Local
from resprout.client.receipts import Receipt
from resprout.core.errors import UsageError
from tests.patience import PATIENCE_S

PARTS = [[b"%d.%d" % (part, n) for n in range(part + 1)] for part in range(6)]


async def say(client: Client, parts: list[list[bytes]]) -> Receipt:
    for part in parts:
        receipt = await client.publish_bundle("a", part, keys=("k",), attributes=[{"n": len(part)}] * len(part))
    return receipt


def returning(network: Local, broker: int, life: int = 5) -> resprout.client.connect.Connecting:
    return resprout.connect(network.addresses[broker], name="p", life=life)


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
            assert {message.incarnation for message in messages} == {5}
            async with returning(network, first, life=6) as later:
                await (await say(later, PARTS[:1])).safe()
            assert (await inbox.next()).incarnation == 6
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
                await returning(network, 0, life=4)

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))


def test_what_is_no_bundle_is_refused_at_once() -> None:
    async def scene() -> None:
        async with resprout.local() as network, returning(network, 0) as p:
            for payloads in ([], [b""] * 1025, [bytes(1 << 20)] * 2):
                with pytest.raises(UsageError, match="are no bundle"):
                    await p.publish_bundle("a", payloads)
            with pytest.raises(UsageError, match="attributes of 1 messages for 2"):
                await p.publish_bundle("a", [b"", b""], attributes=[{}])
            with pytest.raises(UsageError, match="lives are numbered from 1"):
                resprout.connect("b0", life=0)
            receipts = [await p.publish("a", b"x"), await p.publish_bundle("a", [b"y"] * 3), await p.publish("a", b"z")]
            assert [receipt.seq for receipt in receipts] == [1, 4, 5]
            await receipts[-1].safe()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))
