"""How many sessions one identity may have, and who gets in when a broker is full (attack: sessions that are left)."""

import contextlib
from pathlib import Path

import pytest

from resprout.cli.status import news_lines
from resprout.client.connect import connect
from resprout.client.errors import ConnectError
from resprout.links.frames import Goodbye, SessionWelcome
from resprout.links.options import LinkOptions
from resprout.net.accounts import TreeSurvey
from resprout.net.connection_limits import BrokerLimits, SessionCounts
from resprout.net.door import Door
from resprout.net.identity.proofs import new_network_key
from resprout.net.identity.scram import verifier_of_token
from tests.net.bare_logins import log_in
from tests.net.floods import behaves
from tests.net.pages import refusals
from tests.net.stage import Running, bare, broker, hello, run, until
from tests.patience import PATIENCE_S

RULES = f"""
[[identity]]
name = "crowd"
secrets = ["{verifier_of_token("token")}"]
clients = ["crowd-*"]
publish = ["#"]
subscribe = ["#"]

[[identity]]
name = "boss"
secrets = ["{verifier_of_token("token")}"]
operate = true

[[identity]]
name = "other"
secrets = ["{verifier_of_token("token")}"]
publish = ["#"]
subscribe = ["#"]

[anybody]
publish = ["#"]
subscribe = ["#"]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return file


async def leave_sessions(running: Running, count: int, first: int = 0) -> None:
    """Begin sessions one after the other, and break each connection at once: few files, many sessions."""
    for number in range(first, first + count):
        async with bare(running.address) as peer:
            await log_in(peer, "crowd", "token")
            peer.say(hello(f"crowd-{number}"))
            answer = await peer.hear()
            assert isinstance(answer, SessionWelcome), answer


def sessions_of(running: Running, prefix: str) -> list[str]:
    return [name for name in running.sessions if name.startswith(prefix)]


def test_sessions_without_a_connection_count_for_their_identity(rules: Path) -> None:
    """Attack 6: whoever leaves one session after the other gets no more than its identity may have."""

    async def scene() -> None:
        limits = BrokerLimits(identity_clients=5)
        async with broker(door=Door(rules=rules, limits=limits)) as running:
            await leave_sessions(running, 12)
            assert len(sessions_of(running, "crowd-")) <= 5
            await behaves(running, "anybody-else", rounds=1)
            reason = "its session had no connection, and another client needed the room"
            assert (await refusals(running))[reason] == 7

    run(scene())


def test_an_identity_with_as_many_connected_clients_as_it_may_have_is_refused_one_more(rules: Path) -> None:
    async def scene() -> None:
        door = Door(rules=rules, limits=BrokerLimits(identity_clients=2))
        async with broker(door=door) as running, bare(running.address) as one, bare(running.address) as two:
            for number, peer in enumerate((one, two)):
                await log_in(peer, "crowd", "token")
                peer.say(hello(f"crowd-{number}"))
                assert isinstance(await peer.hear(), SessionWelcome)
            async with bare(running.address) as three:
                await log_in(three, "crowd", "token")
                three.say(hello("crowd-2"))
                answer = await three.hear()
                assert isinstance(answer, Goodbye)
                assert "2 sessions of one identity is the limit (limits.identity_clients)" in answer.reason
            who = "client crowd-2 of crowd from 127.0.0.1 was turned away"
            why = "2 sessions of one identity is the limit (limits.identity_clients)"
            assert f"{who}: {why}" in [note.columns.get("detail") for note in running.notes]
            survey = TreeSurvey("b0", 1, "", (), 0.0, (running.broker.books.account(),))
            assert news_lines(survey) == [f"b0 has refused 1 request: {why}"], "as `resprout status` prints it"

    run(scene())


def test_a_broker_and_an_operator_get_in_when_clients_have_taken_all_their_room(rules: Path) -> None:
    """Attack 6: of all sessions, some are reserved."""

    async def scene() -> None:
        key = new_network_key()
        door = Door(rules=rules, limits=BrokerLimits(reserved_sessions=4), network_key=key)
        async with (
            broker(door=door, links=LinkOptions(sessions_max=8)) as running,
            contextlib.AsyncExitStack() as peers,
        ):
            for number in range(4):
                peer = await peers.enter_async_context(bare(running.address))
                await log_in(peer, "crowd", "token")
                peer.say(hello(f"crowd-{number}"))
                assert isinstance(await peer.hear(), SessionWelcome)
            full = "4 sessions is the limit .*4 more are kept for brokers and operators"
            with pytest.raises(ConnectError, match=full):
                await connect(str(running), name="other", login="other:token", timeout=PATIENCE_S)
            async with connect(str(running), name="boss", login="boss:token", timeout=PATIENCE_S):
                pass
            async with broker("b1", parent=("b0", running.address), door=Door(rules=rules, network_key=key)) as child:
                await until(lambda: "b0" in child.machine.parts.links and "b1" in running.machine.parts.links)

    run(scene())


def test_a_session_without_a_connection_makes_room_for_whoever_comes_to_a_full_broker(rules: Path) -> None:
    async def scene() -> None:
        key = new_network_key()
        door = Door(rules=rules, limits=BrokerLimits(reserved_sessions=4), network_key=key)
        async with broker(door=door, links=LinkOptions(sessions_max=8)) as running:
            await leave_sessions(running, 4)
            await behaves(running, "anybody-else", rounds=1)
            assert len(sessions_of(running, "crowd-")) == 3, "one of those who had the most"

    run(scene())


class Sessions:
    def __init__(self, *away: str) -> None:
        self.away = away
        self.here = set(away)

    @property
    def session_count(self) -> int:
        return len(self.here)

    def has_session(self, peer: str) -> bool:
        return peer in self.here

    def lingers(self, peer: str) -> bool:
        return peer in self.away


def test_sessions_that_are_over_are_not_counted_and_whoever_comes_again_is_counted_once() -> None:
    sessions = Sessions("a1", "a2", "b1")
    crowd = SessionCounts(sessions)
    for key, name in (("a", "a1"), ("a", "a2"), ("a", "a1"), ("b", "b1")):
        assert crowd.has_room(key, name, 2)
        crowd.enter(key, name)
    assert crowd.has_room("a", "a1", 2) and not crowd.has_room("a", "a3", 2)
    assert crowd.oldest_disconnected("a") == "a2", "the other one came after it"
    assert crowd.oldest_disconnected_of_most() == "a2"
    sessions.here.discard("a2")
    assert crowd.has_room("a", "a3", 2)
