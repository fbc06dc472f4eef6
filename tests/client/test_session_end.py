"""How a client's session ends, and what its user is told."""

import asyncio
from typing import Any

import msgspec
import pytest

from resprout.client import connect as connecting
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClosedError, ConnectError, PublishError
from resprout.core.errors import UnsupportedReceiptError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.messages import Attend, PublishRefused, Serving, Taken, Turned
from resprout.links.frames import Data, SessionWelcome
from resprout.net import sessions
from resprout.net.address import parse_address
from resprout.net.sessions import Here, Who
from tests.net.stage import QUICK, Bare, Behave, Proxy, broker, let_pass, run, somebody, until

AGAIN_SECONDS = 0.3
"""Whoever wants to come again with `QUICK` links has tried by then, several times."""


async def check_over(proxy: Proxy) -> None:
    """Nothing is left of its client that could connect again."""
    await until(lambda: proxy.connections == 0)
    await let_pass(AGAIN_SECONDS)  # an attempt may have been under way
    before = proxy.attempts
    await let_pass(AGAIN_SECONDS)
    assert proxy.attempts == before


def test_a_broker_that_restarts_ends_inboxes_with_one_clear_message_and_the_client_goes_on() -> None:
    async def scene() -> None:
        async with broker() as first:
            address = first.address
            client = await connect(str(address), name="c", links=QUICK)
            inbox, other = await client.subscribe("t"), await client.subscribe("u")
            await client.publish("t", b"before")
            await until(lambda: len(inbox) == 1)
            receipt = await client.publish("nobody/listens", b"")
            await receipt.safe()
        kept = await client.publish("t", b"kept")
        waiting = asyncio.create_task(kept.delivered())
        async with broker(listen=address, incarnation=2):
            await waiting
            await receipt.safe()
            assert (await inbox.next()).payload == b"before", "what had come is handed out first"
            reason = "b0 could not carry on 2 subscriptions: deliveries may be missing"
            for ended in (inbox, inbox, other):
                with pytest.raises(ClosedError) as caught:
                    await ended.next()
                assert str(caught.value) == f"the session with the broker was lost: {reason}" == ended.failure
            again = await client.subscribe("t")
            await client.publish("t", b"after")
            assert (await again.next()).payload == b"after"
            await client.close()

    run(scene())


def test_a_publisher_does_not_notice_that_its_broker_restarts() -> None:
    async def scene() -> None:
        receipts = []
        async with broker() as first:
            address = first.address
            client = await connect(str(address), name="c", links=QUICK)
            receipts += [await client.publish("t", b"%d" % n) for n in range(100)]
        receipts += [await client.publish("t", b"%d" % n) for n in range(100, 200)]
        async with broker(listen=address, incarnation=2):
            receipts += [await client.publish("t", b"%d" % n) for n in range(200, 300)]
            await asyncio.gather(*(receipt.delivered() for receipt in receipts))
            assert [receipt.seq for receipt in receipts] == list(range(1, 301))
            await client.close()

    run(scene())


def test_a_session_that_was_away_for_too_long_is_over() -> None:
    links = msgspec.structs.replace(QUICK, session_linger_us=50_000)

    async def scene() -> None:
        async with (
            broker(links=links) as running,
            Proxy(running.address) as proxy,
            connect(str(proxy.address), name="c", links=QUICK) as client,
        ):
            inbox = await client.subscribe("t")
            proxy.refusing = True
            proxy.reset_all()
            await until(lambda: running.sessions == [])
            proxy.refusing = False
            with pytest.raises(ClosedError, match="b0 could not carry on 1 subscriptions: deliveries may be missing"):
                await inbox.next()
            again = await client.subscribe("t")
            await client.publish("t", b"after")
            assert (await again.next()).payload == b"after"

    run(scene())


def test_a_newer_client_takes_the_name_and_the_older_one_does_not_fight_back() -> None:
    async def scene() -> None:
        async with broker() as running:
            clients: list[Client] = []
            inboxes = []
            for _ in range(10):
                clients.append(await connect(str(running), name="same", links=QUICK))
                inboxes.append(await clients[-1].subscribe("t"))
            reason = "the session with the broker was lost: another client took the name 'same'"
            for inbox in inboxes[:-1]:
                with pytest.raises(ClosedError) as caught:
                    await inbox.next()
                assert str(caught.value) == reason
            await until(lambda: running.host.connections == 1)
            await let_pass(AGAIN_SECONDS)
            receipt = await clients[-1].publish("t", b"mine")
            assert (await inboxes[-1].next()).payload == b"mine"
            await receipt.delivered()
            assert running.sessions == ["same"] and running.host.connections == 1
            await asyncio.gather(*(client.close() for client in clients))

    run(scene())


def test_two_lives_with_one_number_are_never_mistaken_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines whose clocks agree to the tick may do that; one of the two sessions wins, whole."""
    monkeypatch.setattr(connecting, "next_incarnation", lambda met: 7)

    async def scene() -> None:
        newer_won = 0
        for _ in range(20):
            async with broker() as running:
                older = await connect(str(running), name="same", links=QUICK)
                inbox = await older.subscribe("t")
                try:
                    newer = await connect(str(running), name="same", links=QUICK)
                except ConnectError as error:
                    assert "of same is over" in str(error)
                    receipt = await older.publish("t", b"older")
                    assert (await inbox.next()).payload == b"older"
                    await receipt.delivered()
                else:
                    newer_won += 1
                    with pytest.raises(ClosedError, match="same began anew"):
                        await inbox.next()
                    await (await newer.publish("t", b"newer")).delivered()
                    await newer.close()
                await older.close()
        assert 0 < newer_won < 20

    run(scene())


def test_a_clock_that_goes_back_keeps_no_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with broker() as running:
            for now in (1000, 10, 1):
                monkeypatch.setattr(sessions, "new_incarnation", lambda now=now: now)
                monkeypatch.setattr(sessions, "_latest_incarnation", 0)
                async with connect(str(running), name="c") as client:
                    await (await client.publish("t", b"x")).delivered()
            assert running.host.machine.latest_incarnation("c") == 1002  # type: ignore[attr-defined]

    run(scene())


def puppet_broker(*says: Any, receipts: tuple[ReceiptLevel, ...] = tuple(ReceiptLevel)) -> Behave:
    """Serves, says that once it has heard something from its client, and then nothing more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Bare(reader, writer)
        greeting = await peer.hear()
        if isinstance(greeting, Who):
            peer.say(Here("b0", "broker", 1))
            return
        peer.say(SessionWelcome(1, "b0", "broker", 1, greeting.epoch, 0, 1 << 30))
        attend = await peer.hear()
        assert attend.messages == (Attend(0),)
        peer.say(Data(1, 1, 1 << 30, (Serving("resprout", tuple(Guarantee), 0, receipts=receipts),)))
        while not isinstance(await peer.hear(), Data):
            pass
        peer.say(Data(2, 1, 1 << 30, says))
        await peer.ended()

    return serve


def test_nobody_waits_for_a_receipt_that_the_network_does_not_give() -> None:
    async def scene() -> None:
        turned = Turned("ordered", ReceiptLevel.ACCEPTED, 1)
        async with somebody(puppet_broker(turned, receipts=(ReceiptLevel.ACCEPTED,))) as address:
            client = await connect(address, name="c")
            assert client.receipts == (ReceiptLevel.ACCEPTED,)
            receipt = await client.publish("t", b"x")
            await receipt.accepted()
            for waiting in (receipt.safe, receipt.delivered):
                with pytest.raises(UnsupportedReceiptError, match=r"^the stack 'resprout' does not give .* accepted$"):
                    await waiting()
            await client.close()

    run(scene())


def test_a_broker_that_breaks_the_rules_is_left_with_a_reason() -> None:
    async def scene() -> None:
        async with somebody(puppet_broker(Taken(1))) as target, Proxy(parse_address(target)) as proxy:
            client = await connect(str(proxy.address), name="c", links=QUICK)
            with pytest.raises(ClosedError, match=r"the session with the broker was lost: .*Taken"):
                await client.subscribe("t")
            with pytest.raises(ClosedError):
                await client.publish("t", b"x")
            await check_over(proxy)
            await client.close()

    run(scene())


def test_closing_waits_until_the_broker_has_what_was_published() -> None:
    async def scene() -> None:
        async with broker() as running, connect(str(running), name="s") as subscriber:
            inbox = await subscriber.subscribe("t")
            async with connect(str(running), name="p") as publisher:
                for number in range(5000):
                    last = await publisher.publish("t", str(number).encode())
            assert last.state in ("accepted", "safe", "delivered")
            assert [int((await inbox.next()).payload) for _ in range(5000)] == list(range(5000))

    run(scene())


def test_closing_ends_every_wait() -> None:
    async def scene() -> None:
        async with broker() as running:
            client = await connect(str(running), name="c")
            inbox, idle = await client.subscribe("t"), await client.subscribe("idle")
            receipt = await client.publish("t", b"unread")
            await until(lambda: len(inbox) == 1)
            waits = [asyncio.create_task(idle.next()), asyncio.create_task(receipt.delivered())]
            await asyncio.sleep(0)
            await asyncio.gather(client.close(), client.close())
            with pytest.raises(ClosedError, match="the subscription is over"):
                await waits[0]
            with pytest.raises(PublishError, match=r"the client is closed .it may still be delivered"):
                await waits[1]
            assert [message.payload async for message in inbox] == [b"unread"]
            for call in (client.publish("t", b"x"), client.unsubscribe(inbox), client.subscribe("u")):
                with pytest.raises(ClosedError, match="the client is closed"):
                    await call
            await until(lambda: running.sessions == [])

    run(scene())


def test_a_cancelled_close_leaves_nothing_open() -> None:
    async def scene() -> None:
        async with broker() as running, Proxy(running.address) as proxy:
            client = await connect(str(proxy.address), name="c", links=QUICK)
            proxy.refusing = True
            proxy.reset_all()
            await client.publish("t", b"cannot leave")
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0.05)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await check_over(proxy)
            with pytest.raises(ClosedError):
                await client.publish("t", b"x")

    run(scene())


def test_refused_publications_are_definite_and_leave_the_others_alone() -> None:
    says = (PublishRefused("ordered", 2, 1, "it is not wanted"), Turned("ordered", ReceiptLevel.SAFE, 3))

    async def scene() -> None:
        async with somebody(puppet_broker(*says)) as address, connect(address, name="c") as client:
            before = await client.publish("t", b"before")
            refused = await client.publish("t", b"refused", guarantee="total")
            after = await client.publish("t", b"after")
            await asyncio.gather(before.safe(), after.safe())
            for wait in (refused.accepted, refused.safe, refused.delivered):
                with pytest.raises(PublishError, match=r"it is not wanted .it will not be delivered") as caught:
                    await wait()
                assert caught.value.definite
            assert refused.state == "refused" and after.state == "safe"

    run(scene())
