"""Subscriptions that read a log, with real brokers: from the past to the present, and from broker to broker."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

import resprout
from resprout.client.errors import ClosedError, EventsMissing, GapError, ReadError
from resprout.core.errors import UnsupportedSubscriptionError, UsageError
from resprout.core.message import Message
from resprout.logs.declaration import LogDeclaration
from tests.net.stage import run, until
from tests.net.test_logs import LOG, bundles, have, is_fed, kept, publish, replica


async def take(inbox: resprout.Inbox, count: int) -> list[Message]:
    return [await inbox.next(timeout=60) for _ in range(count)]


def payloads_of(messages: Sequence[Message]) -> list[bytes]:
    return [message.payload for message in messages]


def test_a_subscription_reads_a_log_from_any_place_and_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            replica("b0", tmp_path) as b0,
            replica("b1", tmp_path, b0) as b1,
            replica("b2", tmp_path, b0) as b2,
            replica("b3", tmp_path, b0) as b3,
        ):
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b0), name="p") as p:
                before = await publish(p, 0, 30)
                await have(tmp_path, LOG.replicas, before)
                for number, broker in enumerate((b1, b3)):
                    async with resprout.connect(str(broker), name=f"r{number}") as r:
                        early = await r.subscribe("ev/#", log="ev", replay_from="earliest")
                        middle = await r.subscribe("ev/+", replay_from="log.ev@17")
                        assert payloads_of(await take(early, len(before))) == before
                        late = await r.subscribe("ev/x", log="ev")
                        after = await publish(p, 100 * number, 100 * number + 20)
                        seen = await take(early, 20)
                        assert payloads_of(seen) == payloads_of(await take(late, 20)) == after
                        assert payloads_of(await take(middle, len(before) - 17 + 20)) == before[17:] + after
                        assert [message.position for message in seen] == list(range(len(before), len(before) + 20))
                        assert early.next_nowait() is None
                        before += after
                        await early.unsubscribe()
                        with pytest.raises(StopAsyncIteration):
                            await anext(early)
                        await r.unsubscribe(middle)
                        assert middle.is_over and not late.is_over
                    assert not late.failure

    run(scene())


def test_a_subscription_goes_on_when_its_broker_dies(tmp_path: Path) -> None:
    """The reader's broker is a replica, and dies while messages come; so it moves in the middle of the log."""

    async def scene() -> None:
        async with (
            replica("b0", tmp_path) as b0,
            replica("b1", tmp_path, b0) as b1,
            contextlib.AsyncExitStack() as dies,
        ):
            b2 = await dies.enter_async_context(replica("b2", tmp_path, b0))
            await is_fed(b0, b1, b2)
            async with (
                resprout.connect(str(b1), name="p") as p,
                resprout.connect(f"{b2},{b0},{b1}", name="r") as r,
            ):
                inbox = await r.subscribe("ev/#", log="ev", replay_from="earliest")
                assert r.broker == "b2"
                sent = await publish(p, 0, 100)
                seen = await take(inbox, 100)
                dying = asyncio.create_task(dies.aclose())
                while not dying.done() or len(sent) < 400:
                    sent += await publish(p, len(sent), len(sent) + 20)
                await dying
                sent += await publish(p, len(sent), len(sent) + 100)
                seen += await take(inbox, len(sent) - 100)
                assert payloads_of(seen) == sent
                assert [message.position for message in seen] == list(range(len(sent)))
                assert r.broker != "b2"

    run(scene())


def test_a_subscription_waits_while_no_replica_can_answer(tmp_path: Path) -> None:
    async def scene() -> None:
        log = LogDeclaration("ev", "ev/#", ("b1",))
        async with (
            replica("b0", tmp_path, log=log) as b0,
            replica("b1", tmp_path, b0, log=log) as b1,
            resprout.connect(str(b0), name="r") as r,
        ):
            await is_fed(b0, b1)
            async with resprout.connect(str(b0), name="p") as p:
                sent = await publish(p, 0, 20)
                inbox = await r.subscribe("ev/#", log="ev", replay_from="earliest")
                assert payloads_of(await take(inbox, 20)) == sent
                await b1.broker.close()
                sent = await publish(p, 20, 30)
                assert not len(inbox)
                async with replica("b1", tmp_path, b0, life=2, log=log):
                    assert payloads_of(await take(inbox, 10)) == sent

    run(scene())


def test_a_gap_in_a_log_is_raised_after_what_is_before_it(tmp_path: Path) -> None:
    log = LogDeclaration("ev", "ev/#", ("b0",))

    async def life(number: int, first: int) -> list[bytes]:
        async with replica("b0", tmp_path, life=number, log=log) as b0:
            await is_fed(b0)
            async with resprout.connect(str(b0), name=f"p{number}") as p:
                sent = await publish(p, first, first + 5)
                await until(lambda: bundles(kept(tmp_path, "b0"))[-5:] == sent)
        return sent

    async def scene() -> None:
        sent = await life(1, 0) + await life(2, 5)
        events: list[object] = []
        async with (
            replica("b0", tmp_path, life=3, log=log) as b0,
            resprout.connect(str(b0), name="r", on_event=events.append) as r,
        ):
            await is_fed(b0)
            inbox = await r.subscribe("ev/#", log="ev", replay_from="earliest")
            assert payloads_of(await take(inbox, 5)) == sent[:5]
            with pytest.raises(GapError) as caught:
                await inbox.next(timeout=60)
            assert (caught.value.gap.position, caught.value.gap.following) == (5, 6)
            behind = await r.subscribe("ev/#", replay_from=f"log.ev@{caught.value.gap.following}")
            assert payloads_of(await take(behind, 5)) == sent[5:]
            inbox = await r.subscribe("ev/#", log="ev", replay_from="earliest", allow_gaps=True)
            assert payloads_of(await take(inbox, 10)) == sent
            assert any(isinstance(event, EventsMissing) for event in events)

    run(scene())


def test_wrong_subscriptions_to_logs_are_refused(tmp_path: Path) -> None:
    log = LogDeclaration("ev", "ev/#", ("b0",))

    async def scene() -> None:
        async with replica("b0", tmp_path, log=log) as b0, resprout.connect(str(b0), name="r") as r:
            await is_fed(b0)
            with pytest.raises(ReadError, match="there is no log other"):
                await r.subscribe("ev/#", log="other")
            with pytest.raises(ReadError, match="keeps ev/#, and not all of x/#"):
                await r.subscribe("x/#", log="ev")
            with pytest.raises(ReadError, match="ends at offset 0"):
                await r.subscribe("ev/#", replay_from="log.ev@7")
            with pytest.raises(UsageError, match="no offset of the log"):
                await r.subscribe("ev/#", log="ev", replay_from="log.other@7")
            with pytest.raises(UnsupportedSubscriptionError, match="group='g'"):
                await r.subscribe("ev/#", log="ev", group="g")
            with pytest.raises(UsageError, match="when_full='block'"):
                await r.subscribe("ev/#", log="ev", when_full="block")
            other = await r.subscribe("x/#")
            with pytest.raises(UsageError, match="into="):
                await r.subscribe("ev/#", log="ev", into=other)
            inbox = await r.subscribe("#", log="ev")  # all that the log keeps
        with pytest.raises(ClosedError, match="is over"):
            await inbox.next(timeout=10)

    run(scene())
