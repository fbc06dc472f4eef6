"""Brokers of LoCaMu die and come back: within the model nothing is lost or reordered, beyond it somebody says so."""

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.core.contract import Received, Recovered
from resprout.edge.requests import SessionLost
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import try_seed
from resprout_lab.locamu import LOCAMU, journal
from resprout_lab.locamu.algorithm import Algorithm
from resprout_lab.locamu.broker import LocamuOptions
from resprout_lab.locamu.journal import StateJournal
from resprout_lab.locamu.messages import MissingRequest
from resprout_lab.locamu.tree import SafeTree
from tests.stacks.asking import ask
from tests.stacks.locamu_net import Chance, Hands, chain


def row(*faults: FaultSpec, f: int = 1, brokers: int = 6) -> Scenario:
    """Brokers in a row; clients at both ends publish and read."""
    line = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "3ms"\n' + (f'parent = "b{no - 1}"\n' if no else "")
        for no in range(brokers)
    )
    ends = "".join(f'[[client]]\nname = "c{no}"\nbroker = "b{no}"\nsubscribe = ["t/#"]\n' for no in (0, brokers - 1))
    scenario = parse_scenario(f"""
stack = "locamu"
seed = 5
time_limit = "60s"
options = {{ f = {f} }}
{line}{ends}
[[workload]]
kind = "random"
topics = ["t/1", "t/2"]
operations = 80
mix = {{ causal = 1.0 }}
interval = "20ms"
start = "1s"
""")
    return msgspec.structs.replace(scenario, faults=faults)


def crash(at_ms: int, *names: str) -> FaultSpec:
    return FaultSpec(at_ms * 1_000, FaultKind.CRASH, nodes=names)


def back(at_ms: int, *names: str, disk: bool = True) -> FaultSpec:
    return FaultSpec(at_ms * 1_000, FaultKind.RECOVER, nodes=names, disk=disk)


def rules(scenario: Scenario) -> set[str]:
    """What the judge complains of."""
    result = run_scenario(scenario)
    found = {anomaly.rule for anomaly in judge(result.rows, promise=LOCAMU.promise()).anomalies}
    return found | ({"stuck"} if result.ended != "quiescent" else set())


# -- within the model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b1", "b2", "b4"])
def test_a_broker_that_dies_for_good_is_passed_over_and_nobody_else_loses_anything(name: str) -> None:
    assert rules(row(crash(1_500, name))) == set()


@pytest.mark.parametrize("name", ["b0", "b2", "b5"])
def test_a_broker_that_returns_goes_on_where_it_was(name: str) -> None:
    assert rules(row(crash(1_500, name), back(2_500, name))) == set(), "its own clients have missed nothing"


def test_with_f_2_two_in_a_row_may_die_and_with_f_1_one_after_the_other() -> None:
    assert rules(row(crash(1_500, "b2", "b3"), f=2, brokers=8)) == set()
    assert rules(row(crash(1_300, "b1"), back(1_700, "b1"), crash(1_701, "b2"), back(2_200, "b2"))) == set()


def test_the_same_one_may_die_again_and_again() -> None:
    faults = [fault for at in range(1_200, 2_600, 200) for fault in (crash(at, "b2"), back(at + 100, "b2"))]
    assert rules(row(*faults)) == set()


@pytest.mark.parametrize("f", [1, 2])
def test_whatever_happens_within_the_model_everybody_reads_everything_once_in_causal_order(f: int) -> None:
    for seed in range(8):
        for returns in (True, False):
            assert run_by_chance(seed, f, returns=returns) == [], f"seed {seed}"


def run_by_chance(seed: int, f: int, *, returns: bool) -> list[str]:
    """What was wrong."""
    net = Chance(seed, 7 if f == 1 else 10, f)
    net.run(40, returns=returns)
    return net.wrong()


def test_when_all_are_back_nothing_is_kept_and_nothing_waits() -> None:
    for seed in range(20, 26):
        net = Chance(seed, 7, 1)
        net.run(40)
        kept = {
            name: len(machine.algorithm.sent) + len(machine.algorithm.buffer) for name, machine in net.machines.items()
        }
        assert not any(kept.values()), f"seed {seed}: {kept}"


# -- switched off ------------------------------------------------------------------------------------------------------


def test_without_the_way_around_the_judge_complains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafeTree, "_count_out", lambda self, name: None)
    assert rules(row(crash(1_500, "b2")))


@pytest.mark.parametrize("part", ["_send_in_place", "_send_again"])
def test_without_the_rules_of_retransmission_somebody_waits_for_ever(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Algorithm, part, lambda self, copy, name: None)
    assert any(run_by_chance(seed, 1, returns=part == "_send_again") for seed in range(200))


def test_those_around_a_dead_broker_send_each_other_a_message_once_and_not_for_ever() -> None:
    """Seed 51495: they talk since its first death, so after its second they do not ask each other what they have."""
    net = Hands({"b0": None, "b1": "b0", "b2": "b0", "b3": "b0", "b4": "b0"})
    net.kill("b0")
    net.settle()
    net.start("b0")
    net.settle()
    net.publish("b1")
    net.carry_all("b1", "b0")
    for name in ("b2", "b3", "b4"):
        net.carry_all("b0", name)
    net.headers.clear()
    net.kill("b0")
    carried = 0
    while carried < 500 and (ways := net.streams.busy()):
        carried += net.carry(*ways[0])
    assert len(net.headers) == 9, "from each of four to those of the three others that it does not know to have it"
    net.settle()
    assert not net.wrong()


def test_without_its_disk_a_broker_is_not_taken_back_and_somebody_says_so() -> None:
    assert rules(row(crash(1_500, "b5"), back(2_500, "b5", disk=False))) & {"lost", "stuck"}


# -- beyond the model --------------------------------------------------------------------------------------------------


def test_two_dead_in_a_row_are_beyond_f_1_and_the_judge_says_so() -> None:
    assert rules(row(crash(1_500, "b2", "b3"))) & {"lost", "stuck"}
    survival = LOCAMU.survives(LocamuOptions())
    assert (survival.faults, survival.span) == (1, 3), "it never said that it would survive this"


def test_when_they_are_back_those_who_waited_go_on() -> None:
    assert rules(row(crash(1_500, "b2", "b3"), back(2_500, "b2"), back(3_500, "b3"))) == set()


# -- clients of the dead -----------------------------------------------------------------------------------------------


def test_clients_of_a_dead_broker_wait_for_it_and_are_given_what_they_missed() -> None:
    told = ask(row(crash(1_500, "b5"), back(2_500, "b5")), (), ())
    assert not told.news(SessionLost, "c5")
    read = [one.seq for one in told.rows if one.kind == "deliver" and one.node == "c5" and one.publisher == "c0"]
    assert read == list(range(1, 81)), "once, in order"
    came = [one.seq for one in told.rows if one.kind == "deliver" and one.node == "c0" and one.publisher == "c5"]
    assert came == list(range(1, 81)), "what it publishes comes, once, in order"
    late = [one for one in told.rows if one.kind == "deliver" and one.node == "c5" and one.time_us > 2_500_000]
    assert late, "and it reads again"


def test_clients_of_a_broker_that_never_returns_wait_for_it_and_the_judge_says_what_they_lost() -> None:
    assert rules(row(crash(1_500, "b5"))) & {"lost", "receipt"}


def test_found_by_the_swarm_a_client_is_not_given_what_it_never_asked_for_by_a_broker_that_starts_again() -> None:
    """Seed 400036: messages of the journal became safe after clients were served, and looked new to them."""
    assert not try_seed(400036, stack="locamu").complaint


def test_found_by_the_swarm_a_full_buffer_does_not_keep_out_what_the_others_wait_for() -> None:
    """Seed 430003: the session ended at the first message that found no room, before one came that was in order."""
    assert not try_seed(430003, stack="locamu", fixed={"held_back": 100}).complaint


# -- the disk ----------------------------------------------------------------------------------------------------------


def test_now_and_then_all_of_the_state_is_written_and_the_rest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RECORDS_MAX", 10)
    net = Hands(chain(4))
    for no in range(60):
        net.publish(f"b{2 * (no % 2)}")
        if no % 3 == 0:
            net.settle()
        if no in (20, 40):
            net.kill("b1")
        elif no in (25, 45):
            net.start("b1")
    net.settle()
    assert not net.wrong() and max(len(records) for records in net.disks.values()) < 40


def test_what_cannot_be_read_from_disk_is_not_half_believed() -> None:
    net = Hands(chain(3))
    net.publish("b1")
    net.settle()
    whole = tuple(net.disks["b1"])
    net.kill("b1")
    net.disks["b1"] = [*whole[:-1], b"\xc1"]
    net.start("b1")
    assert net.machines["b1"].algorithm.past.counts == {}, "it begins like a stranger"
    net.settle()
    assert "b1" in net.machines["b0"].tree.dead, "and is treated as one"


def test_without_its_journal_a_returning_broker_uses_its_numbers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateJournal, "write_processed", lambda *args: None)
    assert rules(row(crash(1_500, "b2"), back(2_000, "b2")))


def test_a_neighbour_that_claims_what_was_never_sent_is_cut_off() -> None:
    net = Hands(chain(3))
    net.step("b1", Received("b0", MissingRequest((("b1", 7),))))
    assert net.closed == [("b1", "b0", "b0 cannot have 7 messages of this broker")]


def test_a_broker_that_starts_for_the_first_time_finds_nothing() -> None:
    net = Hands(chain(2))
    net.step("b1", Recovered(()))
    net.publish("b1")
    net.settle()
    assert not net.wrong()


# -- room --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", [1, 10])
def test_little_room_costs_time_and_nothing_else(buffer: int) -> None:
    faults = (crash(1_300, "b2"), back(2_500, "b2"), crash(2_600, "b3"), back(2_900, "b3"))
    for struck in ((), faults):
        assert rules(msgspec.structs.replace(row(*struck), options={"f": 1, "buffer": buffer})) == set()


def test_what_a_broker_that_stays_away_is_owed_is_kept_and_then_publishers_wait() -> None:
    net = Hands(chain(3), buffer=5)
    net.kill("b1")
    for _ in range(6):
        net.publish("b0")
        net.settle()
    assert net.read["b2"] == net.read["b0"] and ("b0", "cb0") in net.held, "all others have it"
    net.start("b1")
    net.settle()
    assert not net.held and not net.wrong()


# -- brokers that join -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [2, 3])
def test_a_broker_that_joins_while_somebody_publishes_blocks_nobody(f: int) -> None:
    """A message that was numbered before the third broker came waits for no copy there."""
    join = FaultSpec(1_400_000, FaultKind.JOIN, ("b2",), parent="b1", latency_us=20_000)
    assert rules(row(join, f=f, brokers=2)) == set()
