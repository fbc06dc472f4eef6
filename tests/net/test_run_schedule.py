"""Workloads and faults of a run with processes wait until every subscription is confirmed."""

import asyncio
from collections.abc import Sequence
from unittest.mock import create_autospec

import pytest

from resprout.audit.judge import judge
from resprout.core.message import Message
from resprout.edge.requests import ClientNews
from resprout.net.event_loop import now_us
from resprout.net.run import coordinator
from resprout.net.run.coordinator import RealRun
from resprout.net.run.crew import Crew
from resprout.net.run.faults import ProcessFaults
from resprout.net.run.schedule import ScheduledApp, first_event_us
from resprout.net.tree import LocalTree
from resprout.scenario.app import AppWish, WakeAt
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import run_scenario

FAR = """
time_limit = "100s"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "writer"
broker = "b0"
[[client]]
name = "reader"
broker = "b1"
latency = "150ms"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = 10
clients = ["writer"]
interval = "10ms"
{more}
"""
"""Before the reader is subscribed, the writer could have published everything."""


def far(more: str = "") -> Scenario:
    return parse_scenario(FAR.format(more=more), "test")


def test_nothing_is_published_before_every_subscription_is_confirmed() -> None:
    result = asyncio.run(RealRun(far()).finish())
    assert result.ended == "quiescent"
    assert not judge(result.rows).violated
    kinds = [row.kind for row in result.rows]
    assert kinds.index("subscribed") < kinds.index("publish")
    assert kinds.count("deliver") == 10
    late = [row.detail for row in result.rows if row.node == "world" and row.kind == "note"]
    assert len(late) == 1 and "all subscriptions are confirmed: the schedule is" in str(late[0])


def test_a_client_that_crashes_before_the_schedule_begins_is_not_waited_for() -> None:
    """The reader is there only from the second half on; the simulator plays the same."""
    later = (
        'start = "1s"\n[[fault]]\nat = "1us"\nkind = "crash"\nnodes = ["reader"]'
        '\n[[fault]]\nat = "3s"\nkind = "recover"\nnodes = ["reader"]'
    )
    scenario = far(later)
    assert run_scenario(scenario).ended == "quiescent"
    result = asyncio.run(RealRun(scenario).finish())
    assert result.ended == "quiescent"
    kinds = [row.kind for row in result.rows]
    assert kinds.index("crash") < kinds.index("publish") < kinds.index("recover") < kinds.index("subscribed")


def test_subscriptions_that_are_not_confirmed_in_time_end_the_run_with_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "SUBSCRIBE_US_MAX", 0)
    monkeypatch.setattr(coordinator, "WAYS_TO_SUBSCRIBE", 0)
    result = asyncio.run(RealRun(far()).finish())
    assert result.ended.startswith("not subscribed after 0 s: reader;")
    assert not any(row.kind == "publish" for row in result.rows)


def test_faults_of_brokers_and_links_wait_for_the_schedule_and_faults_of_clients_do_not() -> None:
    fault = '[[fault]]\nat = "{at}"\nkind = "{kind}"\nnodes = {nodes}\n'
    early = fault.format(at="1us", kind="crash", nodes='["reader"]')
    late = fault.format(at="2us", kind="cut", nodes='["b0", "b1"]') + fault.format(at="3us", kind="heal", nodes="[]")
    told: list[str] = []

    async def play() -> None:
        tree, crew = create_autospec(LocalTree, instance=True), create_autospec(Crew, instance=True)
        crew.runs.return_value = False
        faults = ProcessFaults(
            far('start = "1s"\n' + early + late), tree, crew, lambda kind, node, detail: told.append(kind)
        )
        held_us: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        playing = asyncio.create_task(faults.play(now_us(), held_us))
        while not told:
            await asyncio.sleep(0)
        assert told == ["note"]  # a crash of somebody who does not run
        for _ in range(10):
            await asyncio.sleep(0)
        assert told == ["note"]
        held_us.set_result(1)
        await playing

    asyncio.run(play())
    assert told == ["note", "cut", "heal"]


# -- the clock by itself -----------------------------------------------------------------------------------------------


class Diary:
    """An application that acts at the times it is given, and writes down when it was called."""

    def __init__(self, *due_us: int) -> None:
        self._due_us = due_us
        self.calls: list[tuple[str, int]] = []
        self.done = False

    def start(self, now_us: int) -> Sequence[AppWish]:
        self.calls.append(("start", now_us))
        return [WakeAt(due_us) for due_us in self._due_us]

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        return []

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return []

    def woke(self, now_us: int) -> Sequence[AppWish]:
        self.calls.append(("woke", now_us))
        return [WakeAt(now_us + 5)]


def test_time_stands_still_before_the_first_event_and_goes_on_from_there() -> None:
    diary = Diary(100, 130)
    app = ScheduledApp(diary, 100)
    assert app.start(20) == []
    assert app.woke(40) == []
    assert app.woke(170) == []
    app.release(75)
    assert sorted(wish.at_us for wish in app.woke(180) if isinstance(wish, WakeAt)) == [120, 175, 179, 185, 205]
    assert diary.calls == [("start", 20), ("woke", 40), ("woke", 99), ("woke", 105)]


def test_a_schedule_that_was_released_in_time_is_not_changed() -> None:
    diary = Diary(100)
    app = ScheduledApp(diary, 100)
    app.release(0)
    assert app.start(20) == [WakeAt(100)]
    assert app.woke(101) == [WakeAt(106)]
    assert diary.calls == [("start", 20), ("woke", 101)]


@pytest.mark.parametrize(
    ("more", "first_us"),
    [
        ("", 0),
        ('start = "2s"', 2_000_000),
        ('start = "2s"\n[[fault]]\nat = "1s"\nkind = "crash"\nnodes = ["reader"]', 2_000_000),
        ('start = "2s"\n[[fault]]\nat = "1s"\nkind = "crash"\nnodes = ["reader", "b1"]', 1_000_000),
        ('start = "2s"\n[[fault]]\nat = "1s"\nkind = "cut"\nnodes = ["reader", "b1"]', 1_000_000),
        ('start = "2s"\n[[fault]]\nat = "3s"\nkind = "freeze"\nnodes = ["b1"]', 2_000_000),
    ],
)
def test_the_schedule_begins_with_its_first_workload_or_fault_of_a_broker_or_link(more: str, first_us: int) -> None:
    assert first_event_us(far(more)) == first_us
