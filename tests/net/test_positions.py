"""Positions in a log and durable subscriptions that read one, with real brokers."""

import asyncio
import contextlib
from pathlib import Path

import pytest

import resprout
from resprout.client.errors import CommitError, FencedError, SubscribeError
from resprout.client.past_events import Offset
from resprout.core.errors import UsageError
from resprout.logs.declaration import LogDeclaration
from resprout.logs.positions import IDENTITY_POSITIONS_MAX
from resprout.net.door import Door
from tests.net.stage import run
from tests.net.test_logs import LOG, have, is_fed, publish, replica
from tests.net.test_ownership import as_identity, identity, written


def test_a_position_is_stored_with_the_log(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            replica("b0", tmp_path) as b0,
            replica("b1", tmp_path, b0) as b1,
            contextlib.AsyncExitStack() as dies,
        ):
            b2 = await dies.enter_async_context(replica("b2", tmp_path, b0))
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b0), name="p") as p, resprout.connect(str(b1), name="q") as q:
                await have(tmp_path, LOG.replicas, await publish(p, 0, 40))
                assert await p.committed("ev", "billing") is None
                assert await p.commit("ev", "billing", 20) == Offset("log.ev", 20)
                assert str(await q.committed("ev", "billing")) == "log.ev@20"
                assert (await q.commit("ev", "billing", "log.ev@7")).position == 20
                await dies.aclose()
                assert (await q.commit("ev", "billing", 7, force=True)).position == 7
                assert (await p.committed("ev", "billing")) == Offset("log.ev", 7)
                with pytest.raises(CommitError, match="ends at offset 40"):
                    await p.commit("ev", "billing", 41)
                with pytest.raises(CommitError, match="there is no log other"):
                    await p.commit("other", "billing", 1)
                with pytest.raises(UsageError, match="no offset of the log"):
                    await p.commit("ev", "billing", "log.other@1")
                await p.forget_position("ev", "billing")
                assert await q.committed("ev", "billing") is None

    run(scene())


async def take(inbox: resprout.Inbox, count: int) -> list[tuple[bytes, bool]]:
    got = [await inbox.next(timeout=60) for _ in range(count)]
    return [(message.payload, message.redelivered) for message in got]


def test_a_durable_subscription_to_a_log_goes_on_where_the_last_consumer_stopped(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1, replica("b2", tmp_path, b0) as b2:
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b0), name="p") as p:
                sent = await publish(p, 0, 30)
                await have(tmp_path, LOG.replicas, sent)
                async with resprout.connect(str(b1), name="one") as one:
                    inbox = await one.subscribe("ev/#", log="ev", durable="billing", replay_from="earliest")
                    assert await take(inbox, 10) == [(payload, False) for payload in sent[:10]]
                async with resprout.connect(str(b2), name="two") as two:
                    assert (await two.committed("ev", "billing")) == Offset("log.ev", 9)  # the tenth was not acked
                    inbox = await two.subscribe("ev/#", log="ev", durable="billing", replay_from="latest")
                    assert await take(inbox, 21) == [(payload, True) for payload in sent[9:]]
                    more = await publish(p, 30, 40)
                    assert await take(inbox, 10) == [(payload, False) for payload in more]
                    with pytest.raises(UsageError, match="consumes it already"):
                        await two.subscribe("ev/#", log="ev", durable="billing")
                    await inbox.unsubscribe()
                    assert await two.committed("ev", "billing") is None

    run(scene())


def test_the_consumer_before_is_fenced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1, replica("b2", tmp_path, b0) as b2:
            await is_fed(b0, b1, b2)
            async with (
                resprout.connect(str(b0), name="p") as p,
                resprout.connect(str(b1), name="one") as one,
                resprout.connect(str(b2), name="two") as two,
            ):
                first = await one.subscribe("ev/#", log="ev", durable="billing")
                sent = await publish(p, 0, 30)
                assert await take(first, 20) == [(payload, False) for payload in sent[:20]]
                second = await two.subscribe("ev/#", log="ev", durable="billing")
                with pytest.raises(FencedError, match="another consumer has taken over"):
                    while True:
                        await first.next(timeout=60)
                        await publish(p, 100, 101)
                (payload, _) = (await take(second, 1))[0]
                assert payload in sent[:21]

    run(scene())


def test_acks_out_of_order_store_only_what_has_no_hole(tmp_path: Path) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1, replica("b2", tmp_path, b0) as b2:
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b0), name="p") as p:
                async with resprout.connect(str(b1), name="one") as one:
                    inbox = await one.subscribe(
                        "ev/#", log="ev", durable="billing", replay_from="earliest", manual_ack=True
                    )
                    await publish(p, 0, 10)
                    got = [await inbox.next(timeout=60) for _ in range(10)]
                    for place in (0, 1, 2, 4, 5, 9):
                        got[place].ack()
                    await asyncio.sleep(0)
                assert await p.committed("ev", "billing") == Offset("log.ev", 3)

    run(scene())


ALONE = LogDeclaration("ev", "ev/#", ("b0",))
RIGHTS = 'publish = ["#"]\nsubscribe = ["#"]\n'


def test_a_position_is_not_moved_taken_over_or_deleted_by_another_identity(tmp_path: Path) -> None:
    helper = identity("helper", RIGHTS + 'consume = ["audit"]\nmanage = ["audit"]')
    rules = written(tmp_path, identity("owner", RIGHTS), identity("thief", RIGHTS), helper)

    async def scene() -> None:
        async with replica("b0", tmp_path, log=ALONE, door=Door(rules=rules)) as b0:
            await is_fed(b0)
            async with (
                as_identity(b0, "owner") as owner,
                as_identity(b0, "thief") as thief,
                as_identity(b0, "helper") as friend,
            ):
                await have(tmp_path, ALONE.replicas, await publish(owner, 0, 40))
                assert (await owner.commit("ev", "billing", 10)).position == 10
                for attempt in (
                    thief.commit("ev", "billing", 40),
                    thief.commit("ev", "billing", 1, force=True),
                    thief.forget_position("ev", "billing"),
                ):
                    with pytest.raises(CommitError, match="belongs to another identity"):
                        await attempt
                with pytest.raises((CommitError, SubscribeError), match="belongs to another identity"):
                    await thief.subscribe("ev/#", log="ev", durable="billing")
                assert await owner.committed("ev", "billing") == Offset("log.ev", 10)
                with pytest.raises(CommitError, match="keep the name of the position 'audit' for other identities"):
                    await owner.commit("ev", "audit", 1)
                assert (await friend.commit("ev", "audit", 5)).position == 5
                with pytest.raises(CommitError, match="belongs to another identity"):
                    await owner.commit("ev", "audit", 6)
                await owner.forget_position("ev", "billing")
                assert (await thief.commit("ev", "billing", 3)).position == 3, "it is free again"

    run(scene())


def test_an_identity_leaves_room_for_positions_of_others(tmp_path: Path) -> None:
    rules = written(tmp_path, identity("owner", RIGHTS), identity("greedy", RIGHTS))

    async def scene() -> None:
        async with replica("b0", tmp_path, log=ALONE, door=Door(rules=rules)) as b0:
            await is_fed(b0)
            async with as_identity(b0, "owner") as owner, as_identity(b0, "greedy") as greedy:
                await have(tmp_path, ALONE.replicas, await publish(owner, 0, 4))
                for number in range(IDENTITY_POSITIONS_MAX):
                    await greedy.commit("ev", f"r{number}", 1)
                with pytest.raises(CommitError, match=f"has {IDENTITY_POSITIONS_MAX} positions of greedy"):
                    await greedy.commit("ev", "one-more", 1)
                assert (await owner.commit("ev", "billing", 2)).position == 2

    run(scene())
