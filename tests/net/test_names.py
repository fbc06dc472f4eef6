"""Names and networks over TCP: second brokers, numbers that nobody believes, roots that forgot everybody."""

import asyncio
from pathlib import Path

import pytest

import resprout
from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.core.message_fields import NUMBER_MAX
from resprout.links.frames import Goodbye, SessionWelcome
from resprout.net import membership as lookout_module
from resprout.net import sessions as session_module
from resprout.net.data_folder import open_folder, remembered
from resprout.net.discover import who_is
from resprout.net.sessions import AHEAD_MAX, believed, incarnation_max, new_incarnation
from tests.net.stage import bare, broker, hello, run, until


def kinds(notes: list[Note]) -> list[str]:
    return [note.kind for note in notes]


def test_a_second_broker_of_a_living_name_is_refused_far_from_it_and_the_first_one_serves_on() -> None:
    async def scene() -> None:
        async with (
            broker("b0") as b0,
            broker("b1", parent=("b0", b0.address)) as b1,
            broker("b2", parent=("b0", b0.address)) as b2,
        ):
            await until(lambda: "joined" in kinds(b1.notes) and "joined" in kinds(b2.notes))
            async with resprout.connect(str(b1), name="c1") as client:
                async with broker("b1", incarnation=99, parent=("b2", b2.address)) as second:
                    with pytest.raises(UsageError, match=f"a broker called b1 lives at {b1.address}"):
                        await second.broker.ended()
                inbox = await client.subscribe("t")
                receipt = await client.publish("t", b"x")
                await receipt.safe()
                assert (await inbox.next()).payload == b"x" and receipt.copies == 2
            assert b1.broker.incarnation == 1 and "fenced" not in kinds(b1.notes)
            assert "name_taken" in kinds(b2.notes)

    run(scene())


def test_a_greeting_with_the_highest_number_locks_nobody_out_and_poisons_no_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        async with broker("b0") as b0:
            async with bare(b0.address) as liar:
                liar.say(hello("c1", incarnation=NUMBER_MAX))
                goodbye = await liar.hear()
                assert isinstance(goodbye, Goodbye) and "far beyond the clock here" in goodbye.reason
            async with resprout.connect(str(b0), name="c1") as client:
                await (await client.publish("t", b"x")).delivered()
            most = incarnation_max()
            assert most is not None
            async with bare(b0.address) as ahead:  # a clock that is a little wrong is believed, and can be outdone
                ahead.say(hello("c2", incarnation=most - 10))
                assert isinstance(await ahead.hear(), SessionWelcome)
            async with resprout.connect(str(b0), name="c2") as client:
                await (await client.publish("t", b"x")).delivered()

    monkeypatch.setattr(session_module, "_latest_incarnation", 0)  # and what it becomes is no later test's
    run(scene())


def test_what_cannot_have_been_met_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = new_incarnation()
    assert believed(now + AHEAD_MAX // 2) == now + AHEAD_MAX // 2
    assert believed(now + 2 * AHEAD_MAX) == 0
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert incarnation_max() is None and believed(1 << 60) == 1 << 60, "a clock that was never set judges nobody"


def test_two_networks_notice_each_other_and_both_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout_module, "LOOK_SECONDS", 0.05)

    async def scene() -> None:
        async with broker("b0") as b0:
            address = b0.address
            async with broker("b1", parent=("b0", address)) as b1:
                await until(lambda: "joined" in kinds(b1.notes))
                await b0.broker.close()
                await until(lambda: "repair_end" in kinds(b1.notes))
                async with broker("b0", incarnation=5, listen=address) as anew:
                    await until(lambda: "two_networks" in kinds(b1.notes) and "two_networks" in kinds(anew.notes))
                    told = await who_is(b1.address, 5, "asker")
                    other = await who_is(address, 5, "asker")
                    assert told.network != other.network
                    assert any(f"b0 is in another network, {other.network}" in line for line in told.notices)
                    assert any(f"b1 is in another network, {told.network}" in line for line in other.notices)

    run(scene())


def test_a_folder_remembers_the_company_and_forgets_it_when_the_broker_is_alone(tmp_path: Path) -> None:
    assert remembered(None).members == {} and remembered(tmp_path / "new").members == {}
    folder = open_folder(tmp_path / "b0", "b0")
    folder.remember("net", {"b1": "host:1", "b2": "host:2"})
    assert remembered(tmp_path / "b0").members == {"b1": "host:1", "b2": "host:2"}
    folder.remember("net", {})
    assert (remembered(tmp_path / "b0").network, remembered(tmp_path / "b0").members) == ("net", {})
    folder.close()
    (tmp_path / "b0" / "company.json").write_text("{")
    with pytest.raises(UsageError, match="does not tell which network"):
        remembered(tmp_path / "b0")


@pytest.mark.parametrize(("brokers", "faults", "copies"), [(1, 0, 1), (1, 1, 1), (2, 1, 2), (2, 2, 2), (3, 1, 2)])
def test_a_receipt_tells_on_how_many_brokers_safe_rests(brokers: int, faults: int, copies: int) -> None:
    async def scene() -> None:
        options = {"faults_tolerated": faults}
        async with resprout.local(brokers=brokers, options=options) as network, network.connect("c1") as client:
            await asyncio.sleep(0)
            while len(network.brokers[0].books.machine.parts.links) < min(2, brokers - 1):
                await asyncio.sleep(0.01)
            for guarantee in ("causal", "total", "eventual"):
                receipt = await client.publish("t", b"x", guarantee=guarantee)
                assert receipt.copies in (0, copies)
                await receipt.safe()
                assert receipt.copies == copies, guarantee
            thin = any("copies here" in line for line in network.brokers[0].notices)
            assert thin == (copies <= faults)

    run(scene())
