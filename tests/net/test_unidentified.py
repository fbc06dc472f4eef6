"""Connections that say nothing keep nobody out; who is turned away is said, with the limit; and so is a low ulimit."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.core.contract import Effect, Note
from resprout.core.errors import UsageError
from resprout.links.options import LinkOptions
from resprout.links.sessions import PERIOD_US, Refusals
from resprout.net.connection_limits import CONNECTIONS_MIN, RESERVED, Unidentified, raise_limit, room_for, source_of
from resprout.net.sessions import Here, Who
from tests.net.stage import Bare, Running, broker, run, until

FEW = LinkOptions(greetings_max=8, sessions_max=100)


@contextlib.asynccontextmanager
async def silent(running: Running, count: int, source: str = "127.0.0.1") -> AsyncIterator[list[Bare]]:
    """So many connections that say nothing, one after the other."""
    peers: list[Bare] = []
    try:
        for _ in range(count):
            opened = await asyncio.open_connection("127.0.0.1", running.address.port, local_addr=(source, 0))
            peers.append(Bare(*opened))
        yield peers
    finally:
        for peer in peers:
            peer.writer.close()


def details(running: Running) -> list[str]:
    return [str(note.columns.get("detail", "")) for note in running.notes]


def test_a_client_is_served_however_many_connections_say_nothing() -> None:
    async def scene() -> None:
        async with broker(links=FEW) as running, silent(running, 40):
            async with connect(str(running), name="alice") as client:
                inbox = await client.subscribe("a")
                await client.publish("a", b"x")
                assert (await inbox.next()).payload == b"x"
            assert running.host.connections <= FEW.greetings_max + 1
            said = [text for text in details(running) if "have not said who they are" in text]
            assert said == ["127.0.0.1 was turned away: 8 connections that have not said who they are is the limit"]

    run(scene())


def test_one_address_that_floods_pushes_out_itself_and_nobody_from_elsewhere() -> None:
    async def scene() -> None:
        async with broker(links=FEW) as running, silent(running, 1) as [slow], silent(running, 60, "127.0.0.2"):
            await until(lambda: running.host.connections == FEW.greetings_max)
            slow.say(Who("slow"))
            assert isinstance(await slow.hear(), Here)

    run(scene())


def test_sessions_are_not_pushed_out_and_what_says_nothing_makes_room_for_them() -> None:
    async def scene() -> None:
        async with broker(links=FEW) as running:
            running.host.reception.connections_max = 4
            async with contextlib.AsyncExitStack() as clients:
                for number in range(3):
                    await clients.enter_async_context(connect(str(running), name=f"c{number}"))
                async with silent(running, 10):
                    await until(lambda: running.host.connections == 4)
                    await clients.enter_async_context(connect(str(running), name="last"))
                    assert sorted(running.sessions) == ["c0", "c1", "c2", "last"]
                async with silent(running, 1) as [refused]:
                    goodbye = await refused.hear()
                    assert goodbye.reason == "b0 has 4 connections and takes no more"
            assert "127.0.0.1 was turned away: 4 connections is the limit" in details(running)

    run(scene())


def test_who_waits_longest_of_the_largest_crowd_goes_first() -> None:
    def stranger(number: int, address: str) -> Any:
        return SimpleNamespace(number=number, address=address)

    unidentified: Unidentified[Any] = Unidentified(5)
    assert unidentified.next_to_close() is None
    crowd: list[Any] = [stranger(n, address) for n, address in enumerate(("a", "b", "a", "c", "a"))]
    for one in crowd:
        unidentified.enter(one)
    assert len(unidentified) == 5
    assert unidentified.next_to_close() == crowd[0]
    unidentified.leave(crowd[0])
    unidentified.leave(crowd[0])
    assert len(unidentified) == 4 and unidentified.next_to_close() == crowd[2]


def test_a_source_is_an_address_and_of_ipv6_a_network() -> None:
    assert source_of("10.1.2.3") == "10.1.2.3" and source_of("") == ""
    assert source_of("2001:db8:1:2:3::4") == source_of("2001:db8:1:2:ffff::1%eth0") == "2001:db8:1:2::/64"
    assert source_of("::ffff:10.0.0.1") != source_of("::ffff:10.0.0.2")


def test_turning_away_thousands_is_said_once_in_a_while_with_their_number() -> None:
    refusals = Refusals()
    out: list[Effect] = []
    for number in range(1000):
        refusals.tell(f"c{number}", "8 is the limit", number * PERIOD_US // 600, out)
    assert [note.columns["detail"] for note in out if isinstance(note, Note)] == [
        "c0 was turned away: 8 is the limit",
        "c600 was turned away: 8 is the limit; 599 more since that was said last",
    ]


@pytest.fixture
def files_allowed() -> Iterator[Any]:
    """Sets how many files this process may have open, for a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda count: resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_ulimit_is_said_at_the_start_and_no_more_connections_are_taken_than_it_allows(files_allowed: Any) -> None:
    async def scene() -> None:
        files_allowed(RESERVED + 40)
        async with broker() as running:
            [said] = [text for text in details(running) if "ulimit" in text]
            assert said.startswith(f"this process may have {RESERVED + 40} files open at once: it takes 40 connections")
            assert running.host.reception.connections_max == 40

    run(scene())


def test_a_ulimit_that_leaves_no_room_is_refused(files_allowed: Any) -> None:
    files_allowed(RESERVED + CONNECTIONS_MIN - 1)
    with pytest.raises(UsageError, match="a broker needs 80; raise `ulimit -n`"):
        room_for(1000)


def test_a_broker_of_its_own_takes_what_files_it_may(files_allowed: Any) -> None:
    files_allowed(256)
    raise_limit(400)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400 + RESERVED
    assert room_for(400) == (400, "")
    raise_limit(100)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400 + RESERVED, "never lowered"
