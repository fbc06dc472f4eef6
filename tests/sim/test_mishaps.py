"""What a swarm does to its networks: of every kind, within the fault model, and when the rehearsal said.

The first seeds are drawn and run once for all of these tests, and judged here; `test_swarm` goes on with the next."""

from functools import cache
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Scenario, random_for
from resprout.sim.mishaps import REPAIRED_US, SHORT_US_MAX, with_mishaps
from resprout.sim.run import EVENTS_MAX, EndlessError, FaultModel, RunResult, Trial, formed_us, rehearse
from resprout.sim.swarm import complaint_about, swarm_trial
from resprout.stacks.stack import Survival, everything
from tests.soak import SOAKING, cases, every_nth

SEEDS = range(1, 41) if SOAKING else (*range(1, 17), 28, 29)
"""Drawing a trial rehearses it, which takes as long as a run. Seeds 28 and 29 are the first with a `leave`."""
RUN = SEEDS[: cases(16, 40)]
"""The trials that are also run."""


@cache
def trial_of(seed: int) -> Trial:
    return swarm_trial(seed)


@cache
def result_of(seed: int) -> RunResult:
    return trial_of(seed).run()


@pytest.mark.parametrize("seed", RUN)
def test_the_first_seeds_keep_every_promise(seed: int) -> None:
    trial, result = trial_of(seed), result_of(seed)
    assert [complaint_about(trial.scenario, result), *trial.complaints(result)] == [""]


@st.composite
def trees(draw: st.DrawFn) -> tuple[BrokerSpec, ...]:
    parents = [draw(st.integers(0, i - 1)) for i in range(1, draw(st.integers(1, 9)))]
    return (BrokerSpec("b0"), *(BrokerSpec(f"b{i}", f"b{parent}") for i, parent in enumerate(parents, 1)))


def all_paths(brokers: tuple[BrokerSpec, ...]) -> list[list[str]]:
    """Every way through the tree, walked step by step."""
    around: dict[str, list[str]] = {broker.name: [] for broker in brokers}
    for broker in brokers:
        if broker.parent is not None:
            around[broker.name].append(broker.parent)
            around[broker.parent].append(broker.name)
    paths = [[name] for name in around]
    for path in paths:  # grows while it is walked
        paths += [[*path, name] for name in around[path[-1]] if name not in path]
    return paths


@settings(max_examples=cases(50, 150), deadline=None, derandomize=True)
@given(trees(), st.integers(1, 3), st.data())
def test_the_fault_model_bears_what_no_path_has_too_many_of(
    brokers: tuple[BrokerSpec, ...], faults: int, data: st.DataObject
) -> None:
    names = [broker.name for broker in brokers]
    victims = data.draw(st.sets(st.sampled_from(names)))
    paths = all_paths(brokers)
    crowded = any(sum(n in victims for n in path) > faults for path in paths if len(path) <= 2 * faults + 1)
    depths = {path[-1]: len(path) for path in paths if path[0] == "b0"}
    by_depth = sorted(names, key=lambda name: (depths[name], name not in victims))  # the worst choice among equals
    worst_list = by_depth[: 2 * faults + 1]
    enough_left = 2 * sum(name not in victims for name in worst_list) > len(worst_list)
    bears = FaultModel(brokers, everything(faults)).bears(victims)
    assert not (bears and (crowded or not enough_left))
    if not crowded and 2 * (len(names) - len(victims)) > len(names) and len(victims) == 1:
        assert bears


@settings(max_examples=80, deadline=None, derandomize=True)
@given(trees(), st.integers(1, 2), st.integers(0, 1000))
def test_victims_are_borne_and_pieces_are_larger_than_crashes_and_connected(
    brokers: tuple[BrokerSpec, ...], faults: int, seed: int
) -> None:
    model = FaultModel(brokers, everything(faults))
    victims = model.draw_victims(random_for(seed))
    assert len(set(victims)) == len(victims)
    assert model.bears(victims)
    if len(brokers) > faults + 1:
        piece = model.draw_piece(random_for(seed))
        assert faults < len(set(piece)) == len(piece) < len(brokers)
        assert all(set(model.path(one, other)) <= set(piece) for one, other in combinations(piece, 2))


def test_where_too_few_live_nobody_falls() -> None:
    brokers = [BrokerSpec("b0"), *(BrokerSpec(f"b{no}", "b0") for no in (1, 2))]
    survival = Survival(1, majority=True, least=3)
    assert FaultModel(brokers, survival).bears(["b1"])
    assert FaultModel(brokers, survival).draw_crashes(random_for(1), ["b0", "b1"]) == []
    assert not FaultModel(brokers[:2], survival).bears_crashes(["b1"])


def test_paths_are_found_both_ways() -> None:
    model = FaultModel(
        [BrokerSpec("r"), BrokerSpec("a", "r"), BrokerSpec("b", "r"), BrokerSpec("c", "b")], everything(1)
    )
    assert model.path("a", "c") == ["a", "r", "b", "c"]
    assert model.path("c", "a") == ["c", "b", "r", "a"]
    assert model.path("b", "b") == ["b"]
    assert model.neighbours("r") == ["a", "b"]
    assert model.neighbours("b") == ["r", "c"]


def test_everything_that_can_happen_is_drawn() -> None:
    trials = [trial_of(seed) for seed in SEEDS]
    strikes = [strike.fault for trial in trials for strike in trial.at_events]
    elsewhere = {
        FaultKind.HANG, FaultKind.UNHANG, FaultKind.DOUBLE, FaultKind.RESTART, FaultKind.SUSPEND, FaultKind.RESUME,
        FaultKind.LEAP, FaultKind.DISK_LOW, FaultKind.DISK_FULL, FaultKind.DISK_FREE, FaultKind.UNRESOLVE,
        FaultKind.RESOLVE,
    }  # fmt: skip  # classes of their own draw these
    assert {fault.kind for trial in trials for fault in trial.timed.faults} == set(FaultKind) - elsewhere
    assert {fault.host for fault in strikes if fault.kind is FaultKind.CRASH} == {False, True}
    assert {fault.kind for fault in strikes} >= {
        FaultKind.CRASH, FaultKind.FREEZE, FaultKind.LEAVE, FaultKind.PARTITION,
    }  # fmt: skip
    assert any("b0" in fault.nodes for fault in strikes)
    assert any(not trial.timed.faults for trial in trials)
    assert any(len({strike.event for strike in trial.at_events}) > 1 for trial in trials)


def test_brokers_fall_when_the_tree_stands_and_only_where_faults_are_tolerated() -> None:
    for trial in map(trial_of, SEEDS):
        brokers = {broker.name for broker in trial.scenario.brokers}
        fallen = [
            fault
            for fault in trial.timed.faults
            if fault.kind in (FaultKind.CRASH, FaultKind.LEAVE) and brokers.intersection(fault.nodes)
        ]
        if fallen:
            assert int(trial.scenario.options["faults_tolerated"]) > 0
            assert fallen[0].at_us >= formed_us(trial.scenario)


def test_whatever_freezes_goes_on_and_whatever_is_cut_heals() -> None:
    for trial in map(trial_of, SEEDS):
        faults = trial.timed.faults
        for number, fault in enumerate(faults):
            later = faults[number + 1 :]
            if fault.kind is FaultKind.FREEZE:
                assert any(other.kind is FaultKind.UNFREEZE and other.nodes == fault.nodes for other in later)
            if fault.kind in (FaultKind.CUT, FaultKind.PARTITION):
                assert any(other.kind is FaultKind.HEAL and other.links in ((), fault.links) for other in later)


def test_faults_strike_at_the_time_that_the_rehearsal_told() -> None:
    """The run is the same up to there: also for a blow after the repair of an earlier one."""
    struck = 0
    for seed in RUN:
        trial = trial_of(seed)
        firsts = {strike.event: strike for strike in reversed(trial.at_events)}
        rehearsed = [strike for strike in firsts.values() if strike.fault.kind is not FaultKind.CUT]
        times = {strike.fault.at_us for strike in rehearsed}
        if len(times) < len(firsts):
            continue  # one of them strikes a little after another, at a time that nobody knew
        rows = {(row.time_us, row.kind, row.node) for row in result_of(seed).rows}
        for strike in rehearsed:
            assert (strike.fault.at_us, str(strike.fault.kind), strike.fault.nodes[0]) in rows
            struck += 1
    assert struck > 10


def test_a_rehearsal_knows_the_time_of_every_event() -> None:
    seed = next(seed for seed in SEEDS if trial_of(seed).at_events)
    rehearsal = rehearse(trial_of(seed))
    stats = result_of(seed).stats
    assert len(rehearsal.times_us) == stats.events
    assert rehearsal.times_us == sorted(rehearsal.times_us)
    assert rehearsal.event_from(0) == 1
    assert rehearsal.event_from(stats.time_us + 1) == stats.events
    event = rehearsal.event_from(rehearsal.times_us[100])
    assert rehearsal.time_of(event) == rehearsal.times_us[100]
    assert event == 1 or rehearsal.time_of(event - 1) < rehearsal.times_us[100]


def test_a_run_that_never_comes_to_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.sim.run.EVENTS_MAX", 50)
    with pytest.raises(EndlessError):
        trial_of(1).run()
    assert EVENTS_MAX > 50


def test_a_run_that_takes_long_is_not_given_up_for_its_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair over links with a round trip of seconds took twenty minutes of virtual time, and ended well."""
    monkeypatch.setattr("resprout.sim.run.EVENTS_MAX", 2_000)
    monkeypatch.setattr("resprout.sim.run.EVENTS_US", 1_000_000, raising=False)
    brokers = (BrokerSpec("b0"), BrokerSpec("b1", "b0", 1_000), BrokerSpec("b2", "b0", 1_000))
    leaving = FaultSpec(600_000_000, FaultKind.LEAVE, ("b2",))
    result = Trial(Scenario("long", brokers, faults=(leaving,), time_limit_us=3_600_000_000)).run()
    assert result.ended == "quiescent" and result.stats.events > 3 * 2_000


def test_scenarios_with_faults_of_their_own_are_left_alone() -> None:
    faults = next(trial.timed.faults for trial in map(trial_of, SEEDS) if trial.timed.faults)
    scenario = msgspec.structs.replace(draw_scenario(1), faults=faults)
    assert with_mishaps(scenario) == Trial(scenario)


def test_another_stack_meets_nothing_that_it_does_not_survive() -> None:
    """The baseline: one broker at a time, which is back after its repair; clients are away for moments only."""
    met: set[FaultKind] = set()
    for seed in every_nth(range(1, 31), 3):
        faults = swarm_trial(seed, stack="ginger").timed.faults
        met.update(fault.kind for fault in faults)
        struck = {fault.nodes[0]: fault.at_us for fault in faults if fault.kind is FaultKind.CRASH}
        for fault in faults:
            assert fault.kind is not FaultKind.LEAVE or fault.nodes[0].startswith("c")
            if fault.kind is FaultKind.RECOVER and fault.nodes[0].startswith("b"):
                assert fault.at_us - struck[fault.nodes[0]] > REPAIRED_US
        away = [fault.at_us for fault in faults if fault.kind is FaultKind.PARTITION]
        back = [fault.at_us for fault in faults if fault.kind is FaultKind.HEAL and not fault.links]
        assert all(min(end - begin for end in back if end >= begin) <= SHORT_US_MAX for begin in away)
    assert met >= {FaultKind.CRASH, FaultKind.RECOVER, FaultKind.LEAVE, FaultKind.PARTITION, FaultKind.HEAL}
