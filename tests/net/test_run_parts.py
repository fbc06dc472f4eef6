"""The parts of a run with processes, each by itself."""

import os
import tempfile
from collections.abc import Sequence

import pytest

from resprout.core.contract import (
    Arrived,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Transmit,
)
from resprout.core.errors import PeerError, UsageError
from resprout.links.frames import Goodbye, Hello
from resprout.links.options import LinkOptions
from resprout.net.run.barrier import Barrier
from resprout.net.run.calm import SETTLE_US, Calm, patience_us
from resprout.net.run.orders import Finish, Progress, as_line, read_order, read_report
from resprout.net.run.plan import WORKERS_MAX, check_runnable, longest_way_us, share_out
from resprout.net.run.row_file import RowWriter, read_rows
from resprout.net.run.tally import Tally
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.trace.schema import Row

LINKS = LinkOptions(silence_us=2_000_000, session_linger_us=3_000_000, reconnect_us_max=1_000_000)


class Puppet:
    """A machine that writes down what it is told and does what the test says."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.wants: list[Effect] = []

    def start(self, now_us: int) -> Sequence[Effect]:
        return self.take()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self.told.append(event)
        return self.take()

    def take(self) -> list[Effect]:
        wants, self.wants = self.wants, []
        return wants


def hello(name: str) -> Hello:
    return Hello(1, name, "client", 1, "b0", None, 1, 0, 0)


# -- barrier -----------------------------------------------------------------------------------------------------------


def test_a_barrier_that_bars_nobody_passes_everything() -> None:
    puppet = Puppet()
    barrier = Barrier(puppet)
    puppet.wants = [Connect("b0")]
    assert list(barrier.start(0)) == [Connect("b0")]
    events: list[Event] = [Connected(1, "b0"), Arrived(1, Goodbye("x")), Disconnected(1, "b0", "closed")]
    for event in events:
        barrier.step(event, 0)
    assert puppet.told == events


def test_a_connection_with_a_peer_that_becomes_barred_breaks_and_what_still_comes_is_dropped() -> None:
    puppet = Puppet()
    barrier = Barrier(puppet)
    barrier.step(Connected(1, "b0"), 0)
    barrier.step(Connected(2, None), 0)
    barrier.step(Arrived(2, hello("c1")), 0)
    puppet.told.clear()
    assert list(barrier.bar(["c1", "b0"], 0)) == [Disconnect(1, "cut"), Disconnect(2, "cut")]
    assert puppet.told == [Disconnected(1, "b0", "cut"), Disconnected(2, "c1", "cut")]
    barrier.step(Arrived(1, Goodbye("late")), 0)
    barrier.step(Disconnected(1, "b0", "closed"), 0)
    assert len(puppet.told) == 2


def test_nobody_connects_across_a_cut_in_either_direction() -> None:
    puppet = Puppet()
    barrier = Barrier(puppet)
    barrier.bar(["b0"], 0)
    puppet.wants = [Connect("b0"), Connect("b1")]
    assert list(barrier.start(0)) == [Connect("b1")]
    assert puppet.told == [Disconnected(0, "b0", "unreachable")]
    assert list(barrier.step(Connected(5, None), 0)) == []
    assert list(barrier.step(Arrived(5, hello("b0")), 0)) == [Disconnect(5, "cut")]
    assert puppet.told[-1] == Disconnected(5, None, "unreachable")
    assert list(barrier.step(Connected(6, "b0"), 0)) == [Disconnect(6, "cut")]  # it was under way when the cut came
    assert puppet.told[-1] == Disconnected(0, "b0", "unreachable")


def test_after_a_heal_connections_come_about_again() -> None:
    puppet = Puppet()
    barrier = Barrier(puppet)
    barrier.bar(["b0"], 0)
    barrier.bar([], 0)
    puppet.wants = [Connect("b0"), Transmit(1, "x")]
    assert list(barrier.start(0)) == [Connect("b0"), Transmit(1, "x")]
    barrier.step(Connected(7, "b0"), 0)
    assert puppet.told == [Connected(7, "b0")]


# -- when it is over ---------------------------------------------------------------------------------------------------


def test_a_run_with_every_outcome_is_over_after_a_short_calm() -> None:
    calm = Calm(1_000, LINKS)
    assert not calm.over(0, 10, busy=False, pending=0)
    assert not calm.over(SETTLE_US + 1_999, 10, busy=False, pending=0)
    assert calm.over(SETTLE_US + 2_000, 10, busy=False, pending=0)


def test_anything_observed_and_anybody_busy_begins_the_calm_anew() -> None:
    calm = Calm(0, LINKS)
    calm.over(0, 10, busy=False, pending=0)
    assert not calm.over(SETTLE_US, 11, busy=False, pending=0)
    assert not calm.over(SETTLE_US * 2 - 1, 11, busy=True, pending=0)
    assert not calm.over(SETTLE_US * 3 - 2, 11, busy=False, pending=0)
    assert calm.over(SETTLE_US * 3 - 1, 11, busy=False, pending=0)


def test_an_outcome_that_never_comes_is_waited_for_much_longer_but_not_for_ever() -> None:
    calm = Calm(0, LINKS)
    calm.over(0, 10, busy=False, pending=1)
    assert not calm.over(patience_us(LINKS) - 1, 10, busy=False, pending=1)
    assert calm.over(patience_us(LINKS), 10, busy=False, pending=1)


def test_patience_outlasts_a_silence_and_the_session_after_it() -> None:
    assert patience_us(LINKS) > 5_000_000
    assert patience_us(LinkOptions(session_linger_us=0)) > 2 * LinkOptions().reconnect_us_max


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
    assert read_report(as_line(Progress(rows=3))) == Progress(rows=3)
    for line in (b"", b"{}", b'{"type": "finish"', as_line(Progress())):
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
        (3, 1, '[[fault]]\nat = "1s"\nkind = "cut"\nnodes = ["b0", "b1"]', "a cut between the brokers b0 and b1"),
        (3, 1, '[[fault]]\nat = "1s"\nkind = "partition"\nnodes = ["b2"]', "a partition between the brokers b2 and b0"),
        (3, 1, '[[fault]]\nat = "1s"\nkind = "leave"\nnodes = ["b2"]', "b2 cannot leave"),
    ],
)
def test_what_cannot_be_run_with_processes_is_refused_in_one_line(
    brokers: int, clients: int, faults: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as refusal:
        check_runnable(scenario(brokers, clients, faults))
    assert "\n" not in str(refusal.value)


def test_a_cut_between_a_client_and_its_broker_can_be_run() -> None:
    check_runnable(scenario(3, 1, '[[fault]]\nat = "1s"\nkind = "cut"\nnodes = ["c0", "b0"]'))
    check_runnable(scenario(3, 1, '[[fault]]\nat = "1s"\nkind = "partition"\nnodes = ["c0"]'))
