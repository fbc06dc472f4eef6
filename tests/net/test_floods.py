"""Limits per address and per identity, and those who behave while others flood."""

from pathlib import Path

import pytest

from resprout.client.connect import connect
from resprout.client.errors import ConnectError, SubscribeError
from resprout.core.errors import UsageError
from resprout.links.frames import Goodbye, SessionWelcome
from resprout.links.options import LinkOptions
from resprout.net import reception
from resprout.net.connection_limits import BrokerLimits, ConnectionCounts, is_local, source_of
from resprout.net.door import Door
from resprout.net.identity.scram import verifier_of_token
from tests.net.floods import behaves, greetings, idle, loris, publications
from tests.net.pages import refusals
from tests.net.stage import QUICK, bare, broker, hello, run, until

RULES = f"""
[[identity]]
name = "crowd"
secrets = ["{verifier_of_token("token")}"]
publish = ["#"]
subscribe = ["#"]
limits = {{ identity_clients = 2, client_subscriptions = 3 }}

[anybody]
publish = ["#"]
subscribe = ["#"]
"""


def test_one_address_has_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reception, "is_local", lambda source: False)

    async def scene() -> None:
        door = Door(limits=BrokerLimits(address_connections=3))
        async with broker(door=door) as running:
            async with bare(running.address) as one, bare(running.address) as two, bare(running.address) as three:
                for name, peer in (("c1", one), ("c2", two), ("c3", three)):
                    await peer.greet(name)
                with pytest.raises(ConnectError, match="b0 has 3 connections from this address and takes no more"):
                    await connect(str(running))
            await until(lambda: running.host.connections == 0)
            assert await refusals(running) == {"3 connections from one address is the limit": 1}
            await behaves(running, rounds=1)
            notes = [str(note.columns.get("detail")) for note in running.notes]
            assert "127.0.0.1 was turned away: 3 connections from one address is the limit" in notes

    run(scene())


def test_connections_of_this_machine_are_not_counted() -> None:
    for address, local in (("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("192.0.2.1", False), ("", True)):
        assert is_local(source_of(address)) is local
    assert not is_local(source_of("2001:db8::1"))


def test_one_identity_has_so_many_clients_each_with_so_many_subscriptions(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        async with broker(door=Door(rules=rules)) as running:
            first = await connect(str(running), name="crowd.1", login="crowd:token")
            second = await connect(str(running), name="crowd.2", login="crowd:token")
            with pytest.raises(ConnectError, match="2 sessions of one identity is the limit"):
                await connect(str(running), name="crowd.3", login="crowd:token")
            again = await connect(str(running), name="crowd.2", login="crowd:token")
            inboxes = [await first.subscribe(f"t/{number}") for number in range(3)]
            with pytest.raises(SubscribeError, match=r"crowd\.1 has 3 subscriptions and may have 3"):
                await first.subscribe("t/4")
            await first.unsubscribe(inboxes[0])
            await first.subscribe("t/4")
            await behaves(running, "somebody-else", rounds=1)
            for client in (first, second, again):
                await client.close()
            await until(lambda: running.host.connections == 0)
            await (await connect(str(running), name="crowd.3", login="crowd:token")).close()

    run(scene())


def test_those_who_say_nothing_keep_nobody_out() -> None:
    async def scene() -> None:
        async with broker(links=LinkOptions(greetings_max=100)) as running, idle(running.address, 300) as opened:
            assert opened == 300
            await behaves(running)
            assert running.host.connections <= 101

    run(scene())


def test_those_who_greet_a_byte_at_a_time_are_given_up_and_keep_nobody_out() -> None:
    async def scene() -> None:
        async with broker(links=QUICK) as running:
            running.host.greeting_s_max = 0.3
            async with loris(running.address, 50):
                await behaves(running)
                await until(lambda: running.host.connections == 0)
            assert sum((await refusals(running)).values()) == 50

    run(scene())


def test_who_behaves_is_served_while_others_publish_as_fast_as_they_can() -> None:
    async def scene() -> None:
        async with broker(links=QUICK) as running, publications(running.address, 2):
            await behaves(running)

    run(scene())


def test_who_behaves_is_served_while_others_begin_session_after_session() -> None:
    async def scene() -> None:
        async with broker(links=QUICK) as running, greetings(running.address, 4):
            await behaves(running)

    run(scene())


def test_a_greeting_beyond_the_sessions_of_a_broker_is_told_so() -> None:
    async def scene() -> None:
        async with broker(links=LinkOptions(sessions_max=1)) as running, bare(running.address) as one:
            await one.greet("c1")
            async with bare(running.address) as two:
                two.say(hello("c2"))
                assert isinstance(await two.hear(), Goodbye)
            async with bare(running.address) as again:
                again.say(hello("c1", epoch=2))
                assert isinstance(await again.hear(), SessionWelcome)

    run(scene())


def test_counts_go_up_and_down_and_nothing_is_left() -> None:
    crowd = ConnectionCounts()
    for _ in range(3):
        crowd.enter("a")
    crowd.leave("a")
    assert (crowd["a"], crowd["b"]) == (2, 0)
    crowd.leave("a")
    crowd.leave("a")
    assert crowd["a"] == 0
    with pytest.raises(UsageError, match="limit identity_clients must be 1 or more, not 0"):
        BrokerLimits(identity_clients=0)
