"""The parts of a run with processes, each by itself."""

import asyncio
import os
import tempfile

import pytest

from resprout.core.errors import PeerError, UsageError
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.event_loop import now_us
from resprout.net.run.clients import Tally
from resprout.net.run.crew import Crew
from resprout.net.run.exchange import ClientsProgress, Finish, RowWriter, as_line, read_order, read_report, read_rows
from resprout.net.run.schedule import (
    SETTLE_US,
    UNTOLD_SETTLE_US,
    WORKERS_MAX,
    Calm,
    Patience,
    Repairs,
    check_runnable,
    longest_way_us,
    share_out,
    silence_us,
)
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.stacks.stack import WaitTimes
from resprout.trace.schema import Row

LINKS = LinkOptions(silence_us=2_000_000, session_linger_us=3_000_000, reconnect_us_max=1_000_000)
PATIENCE = Patience(LINKS, WaitTimes())


# -- when it is over ---------------------------------------------------------------------------------------------------


def test_a_run_with_every_outcome_is_over_after_a_short_calm() -> None:
    calm = Calm(1_000, PATIENCE)
    assert not calm.over(0, 10, busy=False, pending=0)
    assert not calm.over(SETTLE_US + 1_999, 10, busy=False, pending=0)
    assert calm.over(SETTLE_US + 2_000, 10, busy=False, pending=0)


def test_without_a_receipt_that_all_was_delivered_the_calm_must_last_longer() -> None:
    calm = Calm(0, PATIENCE, tells_delivered=False)
    assert not calm.over(0, 10, busy=False, pending=0)
    assert not calm.over(UNTOLD_SETTLE_US - 1, 10, busy=False, pending=0)
    assert calm.over(UNTOLD_SETTLE_US, 10, busy=False, pending=0)


def test_anything_observed_and_anybody_busy_begins_the_calm_anew() -> None:
    calm = Calm(0, PATIENCE)
    calm.over(0, 10, busy=False, pending=0)
    assert not calm.over(SETTLE_US, 11, busy=False, pending=0)
    assert not calm.over(SETTLE_US * 2 - 1, 11, busy=True, pending=0)
    assert not calm.over(SETTLE_US * 3 - 2, 11, busy=False, pending=0)
    assert calm.over(SETTLE_US * 3 - 1, 11, busy=False, pending=0)


def test_an_outcome_that_never_comes_is_waited_for_much_longer_but_not_for_ever() -> None:
    calm = Calm(0, PATIENCE)
    calm.over(0, 10, busy=False, pending=1)
    assert not calm.over(PATIENCE.patience_us - 1, 10, busy=False, pending=1)
    assert calm.over(PATIENCE.patience_us, 10, busy=False, pending=1)


def test_patience_outlasts_whatever_anybody_waits_for() -> None:
    assert PATIENCE.patience_us > 5_000_000
    assert Patience(LinkOptions(session_linger_us=0), WaitTimes()).patience_us > 2 * LinkOptions().reconnect_us_max
    assert Patience(LINKS, WaitTimes(death_us=3_000_000, return_us=10_000_000)).patience_us > 15_000_000


def test_a_run_is_not_over_before_a_broker_that_fell_silent_last_could_be_declared_dead() -> None:
    patience = Patience(LINKS, WaitTimes(death_us=3_000_000))
    calm = Calm(0, patience)
    calm.over(0, 10, busy=False, pending=0, fault_us=0)
    assert not calm.over(5_000_000, 10, busy=False, pending=0, fault_us=0)
    assert calm.over(patience.suspicion_us, 10, busy=False, pending=0, fault_us=0)
    assert not calm.over(patience.suspicion_us, 11, busy=False, pending=0, fault_us=0)
    assert not calm.over(patience.suspicion_us + SETTLE_US - 1, 11, busy=False, pending=0, fault_us=0)
    assert calm.over(patience.suspicion_us + SETTLE_US, 11, busy=False, pending=0, fault_us=0)


def test_repairs_are_open_until_somebody_says_that_they_ended() -> None:
    repairs = Repairs()

    def hear(kind: str, detail: str, node: str = "b0") -> None:
        repairs.hear(Row(time_us=0, node=node, kind=kind, detail=detail))

    hear("repair_begin", "b1")
    hear("repair_begin", "b2", "b7")
    hear("repair_begin", "b3", "b7")
    hear("suspect", "b4")
    assert (repairs.open, repairs.heard) == (2, 3)
    hear("repair_end", "b3 b2", "b7")
    hear("repair_end", "b1", "b7")
    assert (repairs.open, repairs.heard) == (1, 5)
    hear("repair_end", "b1")
    assert (repairs.open, repairs.heard) == (0, 6)
    for end in ("fenced", "crash"):
        hear("repair_begin", "b1", "b8")
        assert repairs.open == 1
        hear(end, "b0", "b8")
        assert repairs.open == 0


def publication(kind: str, seq: int, **columns: object) -> Row:
    return Row(
        time_us=0, node="c0", kind=kind, publisher="c0", incarnation=1, stream="ordered", seq=seq, **columns  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_tally_knows_what_has_no_outcome() -> None:
    tally = Tally()
    for seq in (1, 2, 3):
        tally.count(publication("publish", seq))
    tally.count(Row(time_us=0, node="c0", kind="subscribe", filter="a"))
    assert (tally.published, tally.pending) == (3, 4)
    tally.count(publication("receipt", 1, receipt="safe"))
    assert tally.pending == 4
    tally.count(publication("receipt", 1, receipt="delivered"))
    tally.count(publication("receipt", 2, receipt="failed"))
    tally.count(publication("refused", 3))
    tally.count(Row(time_us=0, node="c0", kind="subscribed", filter="a"))
    assert (tally.pending, tally.rows) == (0, 9)


def test_the_last_receipt_that_the_network_gives_is_an_outcome() -> None:
    modest, silent = Tally("accepted"), Tally("")
    for tally in (modest, silent):
        tally.count(publication("publish", 1))
    assert (modest.pending, silent.pending) == (1, 0)
    modest.count(publication("receipt", 1, receipt="accepted"))
    assert modest.pending == 0


# -- rows and lines ----------------------------------------------------------------------------------------------------


def test_rows_survive_the_file_and_half_a_batch_is_nobodys() -> None:
    rows = [publication("publish", seq, keys=("k",), attributes={"a": "1"}) for seq in range(5)]
    with tempfile.TemporaryFile(buffering=0) as file:
        writer = RowWriter(file.fileno())
        for row in rows[:3]:
            writer.record(row)
        writer.save()
        writer.save()
        whole = os.fstat(file.fileno()).st_size
        assert read_rows(file.fileno()) == rows[:3]
        for row in rows[3:]:
            writer.record(row)
        writer.save()
        assert read_rows(file.fileno()) == rows
        size = os.fstat(file.fileno()).st_size
        for cut in reversed(range(whole, size)):
            os.ftruncate(file.fileno(), cut)
            assert read_rows(file.fileno()) == rows[:3]


def test_what_are_no_rows_is_refused() -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"\0\0\0\x02\x91\x01")
        with pytest.raises(PeerError, match="no rows"):
            read_rows(file.fileno())


def test_orders_and_reports_are_lines_and_anything_else_is_refused() -> None:
    assert read_order(as_line(Finish())) == Finish()
    assert read_report(as_line(ClientsProgress(rows=3))) == ClientsProgress(rows=3)
    for line in (b"", b"{}", b'{"type": "finish"', as_line(ClientsProgress())):
        with pytest.raises(PeerError):
            read_order(line)


# -- plan --------------------------------------------------------------------------------------------------------------


def scenario(brokers: int = 3, clients: int = 1, faults: str = "") -> Scenario:
    return parse_scenario(
        f'[topology]\nkind = "chain"\nbrokers = {brokers}\nlatency = "3ms"\nclients_per_broker = {clients}\n{faults}'
    )


def test_clients_that_a_signal_will_hit_have_a_process_to_themselves() -> None:
    plan = share_out(scenario(3, 20, '[[fault]]\nat = "1s"\nkind = "freeze"\nnodes = ["c7", "b0"]'))
    assert plan[0] == ("c7",)
    assert len(plan) == WORKERS_MAX
    assert sorted(name for names in plan for name in names) == sorted(f"c{i}" for i in range(60))
    assert max(map(len, plan)) - min(map(len, plan[1:])) <= 1


def test_few_clients_have_a_process_each_and_none_need_none() -> None:
    assert share_out(scenario(3, 1)) == [("c0",), ("c1",), ("c2",)]
    assert share_out(scenario(3, 0)) == []


def test_the_longest_way_is_there_and_back_through_the_root() -> None:
    assert longest_way_us(scenario(3, 1)) == 2 * (6_000 + 100)


@pytest.mark.parametrize(
    ("brokers", "clients", "faults", "complaint"),
    [
        (65, 0, "", "65 brokers, each a process: at most 64"),
        (60, 10, "", "600 clients: at most 512"),
    ],
)
def test_what_cannot_be_run_with_processes_is_refused_in_one_line(
    brokers: int, clients: int, faults: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as refusal:
        check_runnable(scenario(brokers, clients, faults))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "fault",
    [
        'cut"\nnodes = ["b0", "b1"]',
        'cut"\nnodes = ["c0", "b0"]',
        'partition"\nnodes = ["b2"]',
        'leave"\nnodes = ["b2"]',
    ],
)
def test_whatever_happens_to_links_and_nodes_can_be_run(fault: str) -> None:
    check_runnable(scenario(3, 1, f'[[fault]]\nat = "1s"\nkind = "{fault}'))


def test_whoever_is_far_away_is_not_taken_for_silent() -> None:
    assert silence_us(scenario(3, 1)) == 2_000_000
    far = parse_scenario('[topology]\nkind = "chain"\nbrokers = 5\nlatency = "300ms"\nclients_per_broker = 1')
    assert silence_us(far) > 4 * 1_200_000


def test_a_client_that_is_about_to_return_is_told_of_new_brokers_when_it_begins() -> None:
    async def play() -> None:
        crew = Crew(scenario(), {})
        try:
            await crew.start()
            crew.go(now_us(), {"b0": "127.0.0.1:1"})
            crew.worker("c0").kill()
            returning = asyncio.create_task(crew.revive("c0"))
            await asyncio.sleep(0)
            assert not crew.worker("c0").has_started
            crew.found("late", Address("127.0.0.1", 2))
            crew.bar({"c0": ["b0"]})
            await returning
            assert crew.runs("c0")
        finally:
            await crew.stop()
            crew.forget_rows()

    asyncio.run(play())
