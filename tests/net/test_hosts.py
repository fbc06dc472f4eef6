"""One life of a node: where its peers are, who cannot be reached, and that nothing is done after its end."""

import asyncio
import socket
from collections.abc import Sequence

import msgspec
import pytest

from resprout.core.contract import (
    Answer,
    Arrived,
    Connect,
    Connected,
    Disconnected,
    Effect,
    Event,
    Locate,
    Note,
    Persist,
    Request,
    Retire,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
)
from resprout.core.errors import UsageError
from resprout.journal.interface import DiskError
from resprout.links.frames import PROTOCOL_VERSION, Goodbye, Hello
from resprout.net.address import Address, AddressBook, is_refusal
from resprout.net.discover import UnreachableError, who_is
from resprout.net.host import HostEnd, Upward
from tests.net.puppets import Puppet, free_address, host_of
from tests.net.stage import LOOPBACK, bare, run, until


class Tick(Timer, frozen=True):
    """When to tick."""


def hello(name: str) -> Hello:
    return Hello(PROTOCOL_VERSION, name, "broker", 1, "b0", None, 1, 0, 0)


def greets(event: Event) -> Sequence[Effect]:
    if isinstance(event, Connected) and event.peer is not None:
        return [Transmit(event.connection, hello("b1"))]
    return ()


# -- where peers are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast_loop", [False, True], ids=["asyncio", "uvloop"])
def test_only_a_host_that_says_so_refuses(fast_loop: bool) -> None:
    async def scene() -> None:
        nobody = await free_address()
        places = {"gone": nobody, "lost": Address("no-such-host.invalid", 1), "odd": Address("a..b", 1)}
        puppet = Puppet([Connect(name) for name in (*places, "unknown")])
        host = host_of(puppet, "b1", places)
        host.start()
        await puppet.hears(Disconnected, 4)
        await host.close()
        assert {event.peer: event.refused for event in puppet.heard(Disconnected)} == {
            "gone": True, "lost": False, "odd": False, "unknown": False,
        }  # fmt: skip

    run(scene(), fast_loop=fast_loop)


def test_a_host_with_several_addresses_refuses_when_all_of_them_do() -> None:
    several = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno {}] Connect call failed"
    assert is_refusal(OSError(several.format(111)))
    assert not is_refusal(OSError(several.format(113)))
    assert is_refusal(ConnectionRefusedError(111, "x"))
    for other in (TimeoutError(), OSError(113, "x"), OSError("x"), UnicodeError("x"), socket.gaierror(-2, "x")):
        assert not is_refusal(other)


def test_a_peer_is_looked_for_where_it_was_last_located() -> None:
    async def scene() -> None:
        peer = Puppet()
        far = host_of(peer)
        place = await far.listen(LOOPBACK)
        gone = await free_address()
        puppet = Puppet([Locate("b0", "127.0.0.1:1"), Locate("b0", str(place)), Connect("b0")])
        host = host_of(puppet, "b1", {"b0": gone})
        host.start()
        assert (await puppet.hears(Connected)).peer == "b0"
        await host.close()
        await far.close()

    run(scene())


def test_an_address_that_is_none_is_ignored_with_a_note() -> None:
    async def scene() -> None:
        said: list[Upward] = []
        bad = ("::1:80", "b0", ":7450", "h:0", "h h:1", "x" * 400 + ":1")
        puppet = Puppet([*(Locate("b0", text) for text in bad[:1] + bad[2:]), Locate("b0", ""), Locate("-", "h:1")])
        host = host_of(puppet, "b1")
        host.tell(said.append)
        host.start()
        assert len(said) == 6 and all(isinstance(note, Note) for note in said)
        host.perform([Connect("b0")])
        assert "the address of b0 is not known" in (await puppet.hears(Disconnected)).reason
        await host.close()

    run(scene())


def test_a_book_takes_so_many_names_and_no_more_but_still_replaces() -> None:
    book = AddressBook({"a": Address("h", 1)}, names_max=2)
    book.locate("b", "h:2")
    with pytest.raises(UsageError, match="2 addresses are known"):
        book.locate("c", "h:3")
    book.locate("a", "h:4")
    assert list(book) == ["a", "b"] and book.find("a") == Address("h", 4) and book.find("c") is None


# -- cuts --------------------------------------------------------------------------------------------------------------


def test_connections_with_a_barred_peer_break_on_both_sides_and_are_no_refusal() -> None:
    async def scene() -> None:
        far_puppet = Puppet()
        far = host_of(far_puppet)
        place = await far.listen(LOOPBACK)
        puppet = Puppet([Connect("b0")])
        puppet.react = greets
        host = host_of(puppet, "b1", {"b0": place})
        host.start()
        await far_puppet.hears(Arrived)
        far.bar(["b1"])
        assert not far_puppet.heard(Disconnected)[0].refused, "told at once"
        assert not (await puppet.hears(Disconnected)).refused
        host.perform([Connect("b0")])  # the far side lets nobody in who says that name
        assert (await puppet.hears(Disconnected, 2)).connection != 0
        with pytest.raises(UnreachableError):
            await who_is(place, 5, "b1")
        assert (await who_is(place, 5, "b2")).name == "b0"
        host.bar(["b0"])
        host.perform([Connect("b0")])  # and this side does not even try
        lost = await puppet.hears(Disconnected, 3)
        assert (lost.connection, lost.peer, lost.refused) == (0, "b0", False)
        far.bar([])
        host.bar([])
        host.perform([Connect("b0")])
        await until(lambda: far.connections == 1 and host.connections == 1)
        await host.close()
        await far.close()

    run(scene())


def test_a_connection_that_was_under_way_when_the_cut_came_never_came_about() -> None:
    async def scene() -> None:
        far = host_of(Puppet())
        place = await far.listen(LOOPBACK)
        puppet = Puppet([Connect("b0")])
        host = host_of(puppet, "b1", {"b0": place})
        host.start()
        await asyncio.sleep(0)  # the attempt has begun
        host.bar(["b0"])
        lost = await puppet.hears(Disconnected)
        assert (lost.connection, lost.peer, lost.refused) == (0, "b0", False)
        assert not puppet.heard(Connected)
        await host.close()
        await far.close()

    run(scene())


# -- the end of a life -------------------------------------------------------------------------------------------------


def test_after_it_retires_a_machine_does_nothing_and_is_told_nothing() -> None:
    async def scene() -> None:
        far_puppet = Puppet()
        far = host_of(far_puppet)
        place = await far.listen(LOOPBACK)
        ends: list[HostEnd] = []
        said: list[Upward] = []
        puppet = Puppet([Connect("b0"), SetTimer(Tick(), 0)])
        puppet.react = greets
        host = host_of(puppet, "b1", {"b0": place}, ended=ends.append)
        host.tell(said.append)
        own_place = await host.listen(LOOPBACK)
        host.start()
        await far_puppet.hears(Arrived)
        await puppet.hears(TimerFired)
        told = len(puppet.told)
        number = puppet.heard(Connected)[0].connection
        host.perform(
            [
                SetTimer(Tick(), 0), Answer("before"), Retire("fenced"), Answer("after"),
                Transmit(number, Goodbye("x")), Connect("b0"),
            ]
        )  # fmt: skip
        assert ends == [Retire("fenced")] and said == [Answer("before")]
        await far_puppet.hears(Disconnected)
        assert [type(event.frame) for event in far_puppet.heard(Arrived)] == [Hello], "no farewell"
        host.handle(Request("anybody there?"))
        host.perform([Answer("late")])
        with pytest.raises(UnreachableError, match="connection refused"):
            await who_is(own_place, 5, "asker")
        await asyncio.sleep(0.05)
        assert len(puppet.told) == told and len(said) == 1
        await host.close()
        await far.close()

    run(scene())


def test_who_leaves_for_good_says_farewell_to_clients_and_is_simply_gone_for_brokers() -> None:
    async def scene() -> None:
        ends: list[HostEnd] = []
        puppet = Puppet()
        host = host_of(puppet, ended=ends.append)
        place = await host.listen(LOOPBACK)
        host.start()
        async with bare(place) as client, bare(place) as broker:
            client.say(msgspec.structs.replace(hello("c1"), role="client"))
            broker.say(hello("b2"))
            await puppet.hears(Arrived, 2)
            host.perform([Retire("its work is done", again=False)])
            assert await client.hear() == Goodbye("b0 has left: its work is done")
            with pytest.raises(EOFError):
                await broker.hear()
        assert ends == [Retire("its work is done", again=False)]
        await host.close()

    run(scene())


def test_what_cannot_be_kept_ends_the_life() -> None:
    async def scene() -> None:
        ends: list[HostEnd] = []
        said: list[Upward] = []
        host = host_of(Puppet([Answer(1), Persist(b"x"), Answer(2)]), "b1", ended=ends.append)
        host.tell(said.append)
        host.start()
        assert said == [Answer(1)]
        assert len(ends) == 1 and isinstance(ends[0], DiskError)
        await host.close()

    run(scene())
