"""What a broker tells of itself, whom it tells, and how the others are found."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resprout.client.connect import connect
from resprout.client.errors import PublishError
from resprout.core.errors import UsageError
from resprout.net.accounts import BrokerAccount, LatencySummary, PassageAnswer, TopicAnswer, TreeSurvey
from resprout.net.discover import UnreachableError
from resprout.net.door import Door
from resprout.net.identity.proofs import LoginSecret
from resprout.net.identity.scram import verifier_of_token
from resprout.net.survey import ACCOUNT, PASSAGE, READERS, Asker, parse_id, survey
from resprout.net.tls import Keyring
from resprout.stacks.stack import RosterEntry, find_stack
from tests.net.papers import Papers
from tests.net.stage import Running, bare, broker, run, until

TOKEN = "0123456789abcdef"
RULES = f"""
[[identity]]
name = "watcher"
secrets = ["{verifier_of_token(TOKEN)}"]
observe = true

[[identity]]
name = "boss"
secrets = ["{verifier_of_token(TOKEN)}"]
operate = true

[[identity]]
name = "teller"
secrets = ["{verifier_of_token(TOKEN)}"]
publish = ["bank/#"]
subscribe = ["bank/#"]

[anybody]
observe = true
"""


def somebody(login: str | None = None, name: str = "somebody", role: str = "client", keyring: Any = None) -> Asker:
    return Asker(name, role, keyring, LoginSecret(login, TOKEN) if login is not None else None)


@contextlib.asynccontextmanager
async def chain(stack: str = "resprout") -> AsyncIterator[list[Running]]:
    """b0 above b1 above b2."""
    kind = find_stack(stack)
    async with broker("b0", stack=kind) as b0, broker("b1", parent=("b0", b0.address), stack=kind) as b1:
        await until(lambda: b1.broker.books.status().serving)
        async with broker("b2", parent=("b1", b1.address), stack=kind) as b2:
            await until(lambda: b2.broker.books.status().serving)
            yield [b0, b1, b2]


async def looked_at(first: Running) -> TreeSurvey:
    asker = somebody()
    return await survey(asker, await asker.account(first.address))


def test_whoever_asks_one_broker_finds_the_whole_tree_and_what_it_does() -> None:
    async def scene() -> None:
        async with chain() as (b0, b1, b2):
            async with connect(str(b2), name="reader") as reader, connect(str(b0), name="teller") as teller:
                inbox = await reader.subscribe("bank/#")
                receipt = await teller.publish("bank/1", b"x")
                assert (await inbox.next()).payload == b"x"
                await receipt.delivered()
                found = await looked_at(b1)
            assert [one.name for one in found.brokers] == ["b1", "b0", "b2"] and not found.missing
            told = {one.name: one for one in found.brokers}
            assert [told[name].parent for name in ("b0", "b1", "b2")] == [None, "b0", "b1"]
            assert [told[name].address for name in ("b0", "b1", "b2")] == [str(b0), str(b1), str(b2)]
            assert {one.network for one in found.brokers} == {found.network} and all(one.ready for one in found.brokers)
            assert [[client.name for client in told[name].clients] for name in ("b0", "b2")] == [["teller"], ["reader"]]
            assert told["b0"].counters.publications == told["b2"].counters.deliveries == 1
            assert told["b0"].counters.receipts_safe == told["b0"].counters.receipts_delivered == 1
            assert isinstance(told["b0"].delivered_latency, LatencySummary) and told["b1"].counters.carried >= 1
            assert sorted(one.name for one in told["b1"].neighbours if one.neighbour) == ["b0", "b2"]

    run(scene())


def test_who_receives_a_topic_is_told_by_each_broker_with_those_behind_it() -> None:
    async def scene() -> None:
        async with chain() as (b0, b1, b2), connect(str(b2), name="reader") as reader:
            await reader.subscribe("bank/#", where="amount > 3")
            async with connect(str(b1), name="near") as near:
                await near.subscribe("bank/1")
                asker = somebody()
                told = [await asker.ask(one.address, TopicAnswer, READERS, "bank/1") for one in (b0, b1, b2)]
                other = await asker.ask(b0.address, TopicAnswer, READERS, "news")
        assert [one.onward for one in told] == [("b1",), ("b2",), ("b1",)]
        assert [(one.clients, one.conditional) for one in told] == [((), ()), (("near",), ()), ((), ("reader",))]
        assert other.onward == () and not other.clients

    run(scene())


def test_where_a_publication_went_is_remembered_by_every_broker_on_its_way() -> None:
    async def scene() -> None:
        async with chain() as (b0, b1, b2), connect(str(b2), name="reader") as reader:
            inbox = await reader.subscribe("bank/#")
            async with connect(str(b0), name="teller") as teller:
                receipt = await teller.publish("bank/1", b"x")
                message = await inbox.next()
                await receipt.delivered()
            assert parse_id(str(message.id)) == parse_id(str(receipt.id))
            about = msgspec.json.encode(parse_id(str(receipt.id))).decode()
            told = [await somebody().ask(one.address, PassageAnswer, PASSAGE, about) for one in (b0, b1, b2)]
            assert [one.came_from for one in told] == ["teller", "b0", "b1"]
            assert [one.passed_to for one in told] == [("b1",), ("b2",), ()]
            times = [told[0].time, told[0].safe_time, told[0].delivered_time]
            assert told[0].published_here and times == sorted(one for one in times if isinstance(one, float))
            assert told[2].readers == ("reader",) and told[2].given == 1
            unknown = msgspec.json.encode(("teller", 1, "fifo", 99)).decode()
            assert not (await somebody().ask(b0.address, PassageAnswer, PASSAGE, unknown)).found

    run(scene())


def test_a_broker_that_dies_is_missed_repaired_and_noted() -> None:
    async def scene() -> None:
        async with chain() as (b0, b1, b2):
            await b1.broker.close()
            await until(lambda: b0.broker.books.kinds["repair_end"] > 0)
            await until(lambda: b2.broker.books.status().parent == "b0")
            found = await looked_at(b0)
            assert [one.name for one in found.brokers] == ["b0", "b2"]
            assert found.brokers[0].counters.repairs == 1
            assert any(one.kind == "repair_begin" and "b1" in one.detail for one in found.brokers[0].recent)

    run(scene())


@pytest.mark.parametrize("stack", ["flood", "cbcast", "delta", "ginger", "gossip", "locamu", "scribe", "sites"])
def test_every_stack_tells_where_its_brokers_stand(stack: str, tmp_path: Path) -> None:
    kind = find_stack(stack)
    has_disk = kind.keeps_records(kind.parse_options({}))
    folders = [tmp_path / name if has_disk else None for name in ("b0", "b1")]
    roster = (RosterEntry("b0"), RosterEntry("b1", parent="b0")) if stack == "sites" else ()

    async def scene() -> None:
        async with (
            broker("b0", stack=kind, data=folders[0], roster=roster) as b0,
            broker("b1", parent=("b0", b0.address), stack=kind, data=folders[1], roster=roster) as b1,
            connect(str(b1), name="reader") as reader,
        ):
            await until(lambda: b1.broker.books.status().serving)
            await reader.subscribe("t")
            await until(lambda: "b0" in b1.broker.books.status().neighbours)
            found = await looked_at(b1)
            assert [(one.name, one.stack, one.ready) for one in found.brokers] == [
                ("b1", stack, True),
                ("b0", stack, True),
            ]
            assert [client.name for client in found.brokers[0].clients] == ["reader"]
            told = await somebody().ask(b1.address, TopicAnswer, READERS, "t")
            assert told.clients == ("reader",)
            if stack not in ("gossip", "scribe"):
                assert found.brokers[0].parent == "b0" and found.brokers[1].parent is None

    run(scene())


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_with_rules_only_those_are_told_that_may_observe_or_operate(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            for login in ("watcher", "boss"):
                told = await somebody(login, login).account(running.address)
                assert told.name == "b0"
            with pytest.raises(UnreachableError, match="it may neither observe nor operate"):
                await somebody("teller", "teller").account(running.address)
            with pytest.raises(UnreachableError, match="it may neither observe nor operate"):
                await somebody(None, "anybody").account(running.address)  # whatever the rules say of whoever comes
            with pytest.raises(UnreachableError, match="do not belong together"):
                await somebody("nobody").account(running.address)
            with pytest.raises(UnreachableError, match="may not use this name"):
                await somebody("watcher", "boss").account(running.address)
            told = await somebody("watcher", "watcher").account(running.address)
            assert told.counters.refusals["it may neither observe nor operate"] == 2
            assert told.counters.refusals["this identity and this secret do not belong together"] == 1

    run(scene())


def test_from_another_machine_nobody_is_told_anything_without_proof() -> None:
    open_door = Door()
    closed = "it comes from another machine, and has not shown who it is"
    assert open_door.judge_asker("client", "c", None, None, local=True, near=True) == ""
    assert open_door.judge_asker("client", "c", None, None, local=False, near=True) == closed
    assert open_door.judge_asker("broker", "b", None, None, local=False, near=False) == "no broker is known to be there"
    assert open_door.judge_asker("broker", "b", None, None, local=False, near=True) == ""
    assert "there is no --network-key here" in Door(closed=True).judge_asker(
        "broker", "b", None, None, local=False, near=True
    )


def test_with_tls_a_certificate_is_proof_enough_and_the_teller_is_who_it_says(tmp_path: Path) -> None:
    papers = Papers(tmp_path)

    async def scene() -> None:
        async with broker(door=papers.door("b0", clients_certified=True)) as running:
            told = await somebody(None, "teller", keyring=Keyring(papers.client("teller"))).account(running.address)
            assert told.name == "b0"
            with pytest.raises(UnreachableError, match="it has no certificate"):
                await somebody(None, "teller", keyring=Keyring(papers.client())).account(running.address)
            with pytest.raises(UnreachableError):
                await somebody().account(running.address)

    run(scene())


def test_nonsense_is_answered_by_one_line_and_counted() -> None:
    async def scene() -> None:
        async with broker() as running:
            for what, about, why in (
                ("weather", "", "nothing that a broker tells"),
                (READERS, "a/#", "topic"),
                (PASSAGE, "[1]", "no id of a publication"),
            ):
                with pytest.raises(UnreachableError, match=why):
                    await somebody().ask(running.address, BrokerAccount, what, about)
            async with bare(running.address) as stranger:
                stranger.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
                await stranger.ended()
            told = await somebody().ask(running.address, BrokerAccount, ACCOUNT)
            assert told.counters.refusals == {"it said what is no frame": 1}

    run(scene())


def test_what_rules_refuse_in_a_session_is_counted_by_reason(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            async with connect(str(running), name="teller", login=f"teller:{TOKEN}") as teller:
                receipts = [await teller.publish("news", b"x") for _ in range(3)]
                for receipt in receipts:
                    with pytest.raises(PublishError):
                        await receipt.accepted()
                await (await teller.publish("bank/1", b"x")).delivered()
            told = running.broker.books.counters()
            assert told.publications_refused == 3 and told.refusals["it may not publish there"] >= 1
            assert told.publications == 4 and told.receipts_safe == 1

    run(scene())


def test_an_id_is_read_as_programs_print_it_and_anything_else_is_refused() -> None:
    for text in ("('a.b', 7, 'fifo', 3)", '["a.b", 7, "fifo", 3]', "a.b.7/fifo:3"):
        assert parse_id(text) == parse_id("('a.b', 7, 'fifo', 3)")
    for text in ("", "x", "(1, 2)", "('a', 'b', 'c', 'd')", "a.b/fifo:x", "__import__('os')", "(" * 3000):
        with pytest.raises(UsageError, match="no publication's id"):
            parse_id(text)
