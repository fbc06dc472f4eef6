"""One client name in two programs, and programs that were away for too long; over TCP."""

import asyncio

import pytest

import resprout
from resprout.client.errors import ClosedError, PublishError
from resprout.net import sessions
from resprout.net.address import parse_address
from resprout.net.discover import who_is
from resprout.net.sessions import new_incarnation
from tests.net.stage import run


def test_the_older_of_two_clients_of_one_name_is_told_wherever_they_are() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("w", broker=1) as witness:
            inbox = await witness.subscribe("t")
            older = await network.connect("x", broker=1)
            last = await older.subscribe("nothing/comes")
            await (await older.publish("t", b"1")).safe()
            newer = await network.connect("x", broker=2)
            await (await newer.publish("t", b"2")).safe()
            assert [(await inbox.next()).payload for _ in range(2)] == [b"1", b"2"]
            with pytest.raises(ClosedError, match="another client took the name 'x'"):
                await last.next()
            with pytest.raises(ClosedError, match="another client took the name 'x'"):
                await older.publish("t", b"3")
            receipt = await newer.publish("t", b"4")
            assert (await inbox.next()).payload == b"4"
            await receipt.delivered()
            await newer.close()

    run(scene())


def test_what_the_older_one_published_is_delivered_or_uncertain() -> None:
    """Twenty publications went nowhere once, and all twenty receipts said `delivered`."""

    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("w", broker=0) as witness:
            inbox = await witness.subscribe("t")
            got: list[bytes] = []

            async def read() -> None:
                while not got or got[-1] != b"end":
                    got.append((await inbox.next()).payload)

            reading = asyncio.create_task(read())
            older = await network.connect("x", broker=1)
            newer = await network.connect("x", broker=2)
            await (await newer.publish("t", b"new")).delivered()
            told: list[bytes] = []
            for n in range(20):
                try:
                    receipt = await older.publish("t", b"%d" % n)
                    await receipt.delivered()
                except (ClosedError, PublishError) as error:
                    assert not getattr(error, "definite", False)
                    break
                told.append(b"%d" % n)
            await (await newer.publish("t", b"end")).delivered()
            await reading
            assert set(told) <= set(got)
            await newer.close()

    run(scene())


def test_the_newer_one_stays_though_the_clock_of_the_older_one_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker knows the latest life, so whoever begins takes a later one."""

    async def scene() -> None:
        async with resprout.local(brokers=3) as network:
            ahead = new_incarnation() + 3_600
            monkeypatch.setattr(sessions, "new_incarnation", lambda: ahead)
            older = await network.connect("x", broker=1)
            last = await older.subscribe("nothing/comes")
            monkeypatch.setattr(sessions, "new_incarnation", lambda: 1)
            monkeypatch.setattr(sessions, "_latest_incarnation", 0)
            far = parse_address(network.addresses[2])
            while (await who_is(far, 5, "x")).met < ahead:
                await asyncio.sleep(0.01)
            newer = await network.connect("x", broker=2)
            with pytest.raises(ClosedError, match="another client took the name 'x'"):
                await last.next()
            await (await newer.publish("t", b"1")).safe()
            await newer.close()

    run(scene())
