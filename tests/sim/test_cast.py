"""What a scenario makes of a stack: seats and contacts of its brokers, their lives, and when a run with faults is over.

The stack is one of puppets: brokers that keep sessions with their neighbours in the tree and remember what they hear.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from resprout.core.contract import (
    Effect,
    Event,
    LinkDown,
    LinkUp,
    Machine,
    Note,
    Open,
    Received,
    Request,
    Retire,
    Send,
    SetTimer,
    Silent,
    TimerFired,
)
from resprout.edge.requests import LeaveRequest
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Scenario
from resprout.sim import cast
from resprout.sim.cast import SETTLE_US, SILENCE_US, link_options, settle_us
from resprout.sim.run import FaultAtEvent, RunResult, run_scenario
from resprout.stacks.stack import BrokerSeat, Stack, WaitTimes
from tests.sim.puppets import Bell, Heartbeat, Pulse, Word

SECOND_US = 1_000_000


class Options(msgspec.Struct, frozen=True):
    lease_us: int = 3 * SECOND_US
    bell_us: int = 0
    """When the root rings, sends a word to everybody, and so keeps the run going until then."""


class Sitter:
    def __init__(self, seat: BrokerSeat, options: Options) -> None:
        self.seat = seat
        self.options = options
        self.neighbours = neighbours(seat.name)
        self.heard: list[tuple[int, Event]] = []

    def start(self, now_us: int) -> Sequence[Effect]:
        effects: list[Effect] = [Open(name) for name in self.neighbours]
        effects.append(SetTimer(Heartbeat(), now_us + 200_000))
        if self.options.bell_us > now_us and self.seat.name == "b0":
            effects.append(SetTimer(Bell("x"), self.options.bell_us))
        return effects

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self.heard.append((now_us, event))
        match event:
            case Request(body=LeaveRequest()):
                return [Note("fenced", {"detail": "asked to"}), Retire("left", again=False)]
            case Received(message=Word()):
                return [Retire("fenced")]
            case Received(peer=peer, message=Pulse()) if self.seat.name < peer:
                return [Send(peer, Pulse())]
            case TimerFired(timer=Heartbeat()):
                return [*(Send(name, Pulse()) for name in self.neighbours), SetTimer(Heartbeat(), now_us + 200_000)]
            case TimerFired(timer=Bell()):
                return [Send(name, Word()) for name in self.neighbours]
        return []

    def times(self, kind: type[Event]) -> list[int]:
        return [time for time, event in self.heard if isinstance(event, kind)]

    def events(self, kind: type[Event]) -> list[Any]:
        return [event for _, event in self.heard if isinstance(event, kind)]


def neighbours(name: str) -> list[str]:
    """b0 is the root, b1 and b2 its children, b3 hangs on b1; whoever joins hangs on b2."""
    tree = {"b0": ["b1", "b2"], "b1": ["b0", "b3"], "b2": ["b0"], "b3": ["b1"]}
    return tree.get(name, ["b2"])


class House:
    """Every life of every broker, in the order in which they began."""

    def __init__(self) -> None:
        self.lives: list[Sitter] = []

    def make(self, seat: BrokerSeat, options: Options, rng: Random) -> Machine:
        self.lives.append(Sitter(seat, options))
        return self.lives[-1]

    def of(self, name: str) -> list[Sitter]:
        return [life for life in self.lives if life.seat.name == name]

    def contacts(self, name: str) -> list[tuple[str, ...]]:
        return [life.seat.contacts for life in self.of(name)]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    house = House()
    stack = Stack("puppets", (), Options, (Word, Pulse), house.make)
    monkeypatch.setattr(cast, "find_stack", lambda name: stack)
    yield house


def scenario(*faults: FaultSpec, latency_us: int = 1_000, **options: int) -> Scenario:
    parents = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1"}
    brokers = tuple(BrokerSpec(name, parent, latency_us) for name, parent in parents.items())
    return Scenario("puppets", brokers, faults=faults, options=options)


def fault(at_s: float, kind: FaultKind, *nodes: str, **fields: Any) -> FaultSpec:
    return FaultSpec(int(at_s * SECOND_US), kind, nodes, **fields)


def of_kind(result: RunResult, kind: str) -> list[tuple[str, str | None]]:
    return [(row.node, row.detail) for row in result.rows if row.kind == kind]


# -- seats ------------------------------------------------------------------------------------------------------------


def test_the_root_founds_the_network_and_everybody_else_may_ask_all_others_its_parent_first(house: House) -> None:
    run_scenario(scenario())
    assert [(life.seat.name, life.seat.parent, life.seat.contacts) for life in house.lives] == [
        ("b0", None, ()),
        ("b1", "b0", ("b0", "b2", "b3")),
        ("b2", "b0", ("b0", "b1", "b3")),
        ("b3", "b1", ("b1", "b0", "b2")),
    ]
    assert {life.seat.address for life in house.lives} == {""}
    assert {life.seat.site for life in house.lives} == {""}


def test_a_broker_is_told_its_site_and_only_of_the_contacts_that_the_scenario_names(house: House) -> None:
    brokers = (
        BrokerSpec("b0", site="s0"),
        BrokerSpec("b1", site="s0", contacts=("b0",)),
        BrokerSpec("b2", "b0", site="s1", contacts=("b1",)),
    )
    again = (fault(1, FaultKind.CRASH, "b1"), fault(2, FaultKind.RECOVER, "b1"))
    run_scenario(Scenario("puppets", brokers, faults=again))
    assert [(life.seat.name, life.seat.parent, life.seat.contacts, life.seat.site) for life in house.lives] == [
        ("b0", None, (), "s0"),
        ("b1", None, ("b0",), "s0"),
        ("b2", "b0", ("b0", "b1"), "s1"),
        ("b1", None, ("b0",), "s0"),
    ]


def test_a_broker_that_joins_may_ask_everybody_who_was_there_from_the_start(house: House) -> None:
    run_scenario(
        scenario(
            fault(1, FaultKind.JOIN, "b7", parent="b2"),
            fault(2, FaultKind.JOIN, "b8", parent="b7"),
            fault(3, FaultKind.JOIN, "b9"),
        )
    )
    assert house.contacts("b7") == [("b2", "b0", "b1", "b3")]
    assert house.contacts("b8") == [("b7", "b0", "b1", "b2", "b3")]
    assert house.contacts("b9") == [("b0", "b1", "b2", "b3")]


def test_a_later_life_may_ask_everybody_who_has_ever_been_there_even_that_of_the_root(house: House) -> None:
    run_scenario(
        scenario(
            fault(1, FaultKind.JOIN, "b7", parent="b2"),
            fault(2, FaultKind.CRASH, "b0", "b3", "b7"),
            fault(3, FaultKind.RECOVER, "b0", "b3", "b7"),
            fault(4, FaultKind.LEAVE, "b7"),
            fault(5, FaultKind.JOIN, "b7", parent="b3"),
        )
    )
    assert house.contacts("b0") == [(), ("b1", "b2", "b3", "b7")]
    assert house.contacts("b3") == [("b1", "b0", "b2"), ("b1", "b0", "b2", "b7")]
    assert house.contacts("b7") == [
        ("b2", "b0", "b1", "b3"),
        ("b2", "b0", "b1", "b3"),
        ("b3", "b0", "b1", "b2"),
    ]
    assert [life.seat.incarnation for life in house.of("b7")] == [1, 2, 3]


# -- lives ------------------------------------------------------------------------------------------------------------


def test_a_broker_that_retires_comes_back_as_the_next_incarnation_with_contacts(house: House) -> None:
    result = run_scenario(scenario(bell_us=2 * SECOND_US))
    assert result.ended == "quiescent"
    assert [life.seat.incarnation for life in house.of("b1")] == [1, 2]
    assert house.contacts("b1")[1] == ("b0", "b2", "b3")
    [down] = house.of("b0")[0].events(LinkDown)[:1]
    assert down.cause == "restarted"
    seen = {row.kind for row in result.rows}
    assert seen <= {"link_refused", "load", "quiescent"}  # only the stack knows why, and says so


def test_a_broker_is_asked_to_leave_and_leaves_for_good(house: House) -> None:
    result = run_scenario(scenario(fault(1, FaultKind.LEAVE, "b3")))
    assert result.ended == "quiescent"
    assert of_kind(result, "leave") == [("b3", None)]
    assert of_kind(result, "fenced") == [("b3", "asked to")]
    assert len(house.of("b3")) == 1
    [parent] = house.of("b1")
    assert [silent.refused for silent in parent.events(Silent)][:2] == [False, True]
    assert parent.events(LinkDown) == []


def test_a_neighbour_of_a_dead_process_knows_for_certain_after_three_latencies(house: House) -> None:
    run_scenario(scenario(fault(1, FaultKind.CRASH, "b1")))
    for name in ("b0", "b3"):
        [life] = house.of(name)
        silences = [(time, event.refused) for time, event in life.heard if isinstance(event, Silent)]
        assert silences[:2] == [(1_001_000, False), (1_003_000, True)]


def test_a_silent_host_is_noticed_and_never_said_to_refuse(house: House) -> None:
    result = run_scenario(scenario(fault(1, FaultKind.CRASH, "b1", host=True)))
    assert result.ended == "quiescent"
    for name in ("b0", "b3"):
        [life] = house.of(name)
        noticed = [event for event in life.events(Silent) if event.peer == "b1"]
        assert noticed
        assert not any(event.refused for event in noticed)
        assert life.events(LinkDown) == []
        assert min(life.times(Silent)) <= SECOND_US + SILENCE_US + SECOND_US


def test_a_broker_that_crashed_and_recovered_is_known_as_restarted_by_both_sides(house: House) -> None:
    run_scenario(scenario(fault(1, FaultKind.CRASH, "b1"), fault(2, FaultKind.RECOVER, "b1")))
    for name in ("b0", "b3"):
        [life] = house.of(name)
        assert [(down.peer, down.cause) for down in life.events(LinkDown)] == [("b1", "restarted")]
        assert [up.incarnation for up in life.events(LinkUp) if up.peer == "b1"] == [1, 2]


@pytest.mark.parametrize("event", [1, 40, 77])
def test_a_broker_crashes_at_the_number_of_an_event(house: House, event: int) -> None:
    crash = FaultAtEvent(event, FaultSpec(0, FaultKind.CRASH, ("b1",)))
    one, other = (run_scenario(scenario(bell_us=SECOND_US), at_events=[crash]) for _ in range(2))
    assert one.digest == other.digest
    assert one.stats == other.stats
    assert of_kind(one, "crash") == [("b1", None)]


# -- when it is over --------------------------------------------------------------------------------------------------


def test_signs_of_life_do_not_keep_a_run_going(house: House) -> None:
    result = run_scenario(scenario())
    assert result.ended == "quiescent"
    assert result.stats.time_us < SECOND_US


@pytest.mark.parametrize(
    "trouble",
    [
        fault(1, FaultKind.FREEZE, "b1"),
        fault(1, FaultKind.CRASH, "b1"),
        fault(1, FaultKind.CRASH, "b1", host=True),
        fault(1, FaultKind.PARTITION, "b1", "b3"),
        FaultSpec(SECOND_US, FaultKind.CUT, links=(("b0", "b1"),)),
        fault(1, FaultKind.LEAVE, "b1"),
    ],
    ids=lambda fault: f"{fault.kind} {'host' if fault.host else ''}",
)
def test_a_broker_that_never_answers_again_does_not_keep_a_run_from_ending(house: House, trouble: FaultSpec) -> None:
    result = run_scenario(scenario(trouble))
    assert result.ended == "quiescent"
    assert SECOND_US + SETTLE_US <= result.stats.time_us <= SECOND_US + 2 * SETTLE_US


def test_a_run_lasts_long_enough_for_a_broker_that_wakes_up_late_to_be_heard(house: House) -> None:
    run_scenario(scenario(fault(1, FaultKind.FREEZE, "b1"), fault(20, FaultKind.UNFREEZE, "b1")))
    [parent] = house.of("b0")
    assert parent.times(Silent)
    last = max(time for time, event in parent.heard if isinstance(event, Received) and event.peer == "b1")
    assert last > 20 * SECOND_US
    assert parent.events(LinkDown) == []


def test_a_run_lasts_long_enough_for_a_partition_to_be_forgotten(house: House) -> None:
    run_scenario(scenario(fault(1, FaultKind.PARTITION, "b1", "b3"), fault(40, FaultKind.HEAL)))
    for name, peer in (("b0", "b1"), ("b1", "b0")):
        [life] = house.of(name)
        assert max(time for time, e in life.heard if isinstance(e, Received) and e.peer == peer) > 40 * SECOND_US
        assert life.events(LinkDown) == []
        assert len([up for up in life.events(LinkUp) if up.peer == peer]) == 1


def test_a_run_with_faults_is_calm_for_longer_than_silence_and_lease_together() -> None:
    links = link_options(scenario())
    assert links.silence_us == SILENCE_US
    assert settle_us(links, WaitTimes()) == SETTLE_US
    assert settle_us(links, WaitTimes(death_us=60 * SECOND_US)) == 2 * (SILENCE_US + 60 * SECOND_US)


def test_nobody_is_suspected_only_because_it_is_far_away(house: House) -> None:
    distant = scenario(latency_us=2 * SECOND_US, bell_us=60 * SECOND_US)
    assert (link_options(distant).silence_us or 0) > 4 * 4 * SECOND_US
    result = run_scenario(distant)
    assert of_kind(result, "suspect") == []
    assert not [time for life in house.lives for time in life.times(Silent) if time < 60 * SECOND_US]


def test_a_broker_that_joins_far_away_counts(house: House) -> None:
    joining = scenario(fault(1, FaultKind.JOIN, "b7", parent="b2", latency_us=3 * SECOND_US))
    assert (link_options(joining).silence_us or 0) > 4 * 3 * SECOND_US
