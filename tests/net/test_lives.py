"""A broker's lives: one after the other at the same address, until it leaves for good."""

import asyncio
from pathlib import Path

import pytest

from resprout.core.contract import Answer, Locate, Persist, Recovered, Request, Retire, SetTimer, Timer
from resprout.core.errors import UsageError
from resprout.edge.requests import DRAIN_US, LeaveRequest
from resprout.journal.interface import DiskError
from resprout.journal.journal import Records
from resprout.net import broker as broker_module
from resprout.net.address import Address, ListenError, take_place
from resprout.net.discover import UnreachableError, who_is
from tests.net.puppets import Puppet, Theatre, host_of
from tests.net.stage import LOOPBACK, bare, run, until


class Tick(Timer, frozen=True):
    """When to tick."""


def test_a_broker_that_retires_lives_again_at_the_same_address_and_asks_whom_it_knows() -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(
            parent="b0", peers={"b0": Address("127.0.0.1", 1), "b2": Address("127.0.0.1", 2)}, contacts=("b2",)
        )
        address = broker.address
        first = theatre.puppet
        seat = theatre.seats[0]
        assert (seat.incarnation, seat.parent, seat.contacts, seat.address) == (5, "b0", ("b2",), str(address))
        async with bare(address) as guest:
            broker.host.perform(
                [Locate("b7", "127.0.0.1:7"), SetTimer(Tick(), 0), Retire("it was declared dead"), Answer("late")]
            )
            await guest.ended()
        await until(lambda: len(theatre.seats) == 2)
        seat = theatre.seats[1]
        assert (seat.incarnation, seat.parent, seat.contacts, seat.address) == (6, "b0", ("b2", "b7"), str(address))
        assert theatre.remarks == ["life 5 is over: it was declared dead"]
        await until(lambda: broker.incarnation == 6)
        here = await who_is(address, 5, "asker")
        assert (here.name, here.incarnation) == ("b1", 6)
        assert first.told == [] and theatre.puppet is not first
        await broker.close()
        with pytest.raises(UnreachableError):
            await who_is(address, 5, "asker")

    run(scene())


def test_a_broker_that_has_chosen_another_parent_asks_it_first_in_its_next_life_and_only_then() -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(parent="b0", peers={"b0": Address("127.0.0.1", 1)})
        broker.host.perform([Locate("b7", "127.0.0.1:7"), Retire("asked to move", toward="b7")])
        await until(lambda: len(theatre.seats) == 2)
        assert (theatre.seats[1].parent, theatre.seats[1].contacts) == ("b7", ("b0",))
        await until(lambda: broker.incarnation == 6)
        broker.host.perform([Retire("it was declared dead")])
        await until(lambda: len(theatre.seats) == 3)
        assert (theatre.seats[2].parent, theatre.seats[2].contacts) == ("b0", ("b7",))
        await broker.close()

    run(scene())


def test_the_founder_of_a_network_asks_the_others_when_it_lives_again() -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play("b0")
        assert theatre.seats[0].contacts == () and theatre.seats[0].parent is None
        broker.found({"b0": broker.address, "b1": Address("127.0.0.1", 1)})
        broker.host.perform([Retire("fenced")])
        await until(lambda: len(theatre.seats) == 2)
        assert theatre.seats[1].contacts == ("b1",)
        await broker.close()

    run(scene())


def test_short_lives_follow_each_other_more_and_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "PAUSE_SECONDS_MIN", 0.02)

    async def scene() -> None:
        theatre = Theatre()
        theatre.at_start = [Retire("no luck")]
        began = asyncio.get_running_loop().time()
        broker = await theatre.play()
        await until(lambda: len(theatre.seats) >= 6)
        assert asyncio.get_running_loop().time() - began > 0.6, "after 20, 40, 80, 160 and 320 ms, never earlier"
        await broker.close()

    run(scene())


def test_a_cut_lasts_over_lives() -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(barred=("b9",))
        for life in (1, 2):
            await until(lambda life=life: len(theatre.seats) == life)
            with pytest.raises(UnreachableError):
                await who_is(broker.address, 5, "b9")
            assert (await who_is(broker.address, 5, "b8")).incarnation == 4 + life
            broker.host.perform([Retire("again")])
        await broker.close()

    run(scene())


def test_a_broker_leaves_when_it_is_asked_to() -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play()
        ended = asyncio.create_task(broker.ended())
        theatre.puppet.react = lambda event: [Retire("asked to", again=False)]
        broker.leave()
        await ended
        assert theatre.puppet.told == [Request(LeaveRequest(DRAIN_US))]
        await broker.close()
        assert len(theatre.seats) == 1

    run(scene())


def test_the_next_life_waits_for_the_place_and_gives_up_when_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "LISTEN_SECONDS_MAX", 0.3)

    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play()
        broker.host.perform([Retire("again")])
        place = await take_place(broker.address)  # somebody was quicker
        with pytest.raises(ListenError, match="address already in use"):
            await broker.ended()
        place.close()
        await broker.close()

    run(scene())


def test_who_connects_before_the_machine_has_started_waits() -> None:
    async def scene() -> None:
        place = await take_place(LOOPBACK)
        asking = asyncio.create_task(who_is(place.address, 10, "asker"))
        await asyncio.sleep(0.1)
        assert not asking.done()
        host = host_of(Puppet(), "b1")
        host.start()
        await host.serve(place)
        assert (await asking).name == "b1"
        await host.close()

    run(scene())


# -- what survives -----------------------------------------------------------------------------------------------------


def test_a_durable_stack_needs_a_folder() -> None:
    async def scene() -> None:
        with pytest.raises(UsageError, match="b1 is to be durable: give --data DIR"):
            await Theatre().play(durable=True)

    run(scene())


def test_records_and_the_number_of_the_last_life_survive_lives_and_processes(tmp_path: Path) -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(durable=True, data=tmp_path)
        broker.host.perform([Persist(b"one"), Persist(b"two"), Retire("fenced")])
        await until(lambda: len(theatre.seats) == 2)
        assert (await theatre.puppet.hears(Recovered)).records == [b"one", b"two"]
        await broker.close()
        broker = await theatre.play(durable=True, data=tmp_path)
        assert theatre.seats[-1].incarnation == 7, "one more than any before, whatever is asked for"
        assert theatre.puppet.told == [Recovered([b"one", b"two"])]
        with pytest.raises(UsageError, match="another process uses"):
            await theatre.play(durable=True, data=tmp_path)
        await broker.close()

    run(scene())


def test_a_torn_tail_is_told_in_one_line(tmp_path: Path) -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(data=tmp_path)
        broker.host.perform([Persist(b"one")])
        await broker.close()
        with (tmp_path / "journal" / f"{0:020}.journal").open("ab") as file:
            file.write(b"half")
        broker = await theatre.play(data=tmp_path)
        [remark] = theatre.remarks
        assert remark.startswith(f"{tmp_path}/journal/{0:020}.journal: a write was torn by a crash; its 4 bytes, from ")
        assert theatre.puppet.told == [Recovered([b"one"])]
        await broker.close()

    run(scene())


def test_a_broker_whose_disk_fails_stops_before_anything_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Records, changes: object, time_us: int) -> None:
        raise DiskError("no space left")

    monkeypatch.setattr(Records, "apply", full)

    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(data=tmp_path)
        broker.host.perform([Persist(b"one"), Retire("never done")])
        with pytest.raises(DiskError, match="no space left"):
            await broker.ended()
        assert len(theatre.seats) == 1
        await broker.close()

    run(scene())


# -- where others reach it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost", "127.0.0.1"])
def test_others_are_told_an_address_that_can_be_connected_to(host: str) -> None:
    async def scene() -> None:
        theatre = Theatre()
        broker = await theatre.play(listen=Address(host, 0))
        told, _, port = theatre.seats[0].address.rpartition(":")
        assert told not in ("", "0.0.0.0", "[::]") and int(port) == broker.address.port
        if host in ("localhost", "127.0.0.1"):
            assert told == host
        await broker.close()
        broker = await theatre.play(listen=Address(host, 0), advertise=Address("b1.example.org", 7450))
        assert theatre.seats[1].address == "b1.example.org:7450"
        await broker.close()

    run(scene())


def test_a_machine_without_an_address_must_be_told_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "no-such-host.invalid")

    async def scene() -> None:
        with pytest.raises(UsageError, match=r"--advertise HOST:\d+"):
            await Theatre().play(listen=Address("", 0))

    run(scene())
