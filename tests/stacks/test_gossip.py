"""The stack `gossip`: calm runs miss nothing, faults cost a share that is told, and nobody waits for ever."""

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, Reliability
from resprout.edge.requests import SessionLost
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import try_seed
from resprout.trace import kinds
from resprout_lab.gossip import GOSSIP
from tests.edge.desk import Desk
from tests.soak import cases
from tests.stacks.asking import ask


def flat(
    seed: int = 1,
    brokers: int = 20,
    options: str = "",
    guarantee: str = "eventual",
    more: str = "",
    operations: int = 10,
) -> Scenario:
    """Every broker knows one that was there before it, and has a client that publishes and reads."""
    return parse_scenario(f"""
stack = "gossip"
seed = {seed}
time_limit = "120s"
[options]
{options}
[topology]
kind = "flat"
brokers = {brokers}
latency = "2ms"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = {operations}
interval = "100ms"
mix = {{ {guarantee} = 1.0 }}
start = "1s"
{more}
""")


def judged(scenario: Scenario) -> Verdict:
    result = run_scenario(scenario)
    assert result.ended == "quiescent"
    verdict = judge(result.rows, promise=GOSSIP.promise())
    assert not verdict.violated, verdict.anomalies[:3]
    return verdict


CRASH = '[[fault]]\nat = "1500ms"\nkind = "crash"\nshare = 0.3\n'
RECOVER = '[[fault]]\nat = "4s"\nkind = "recover"\nshare = 1.0\ndisk = false\n'


# -- shares ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_drawn_networks_without_faults_miss_nothing(lazy: bool) -> None:
    for seed in range(cases(4, 12)):
        drawn = draw_scenario(seed, stack="gossip", guarantees=GOSSIP.guarantees, options={"lazy": (lazy,)})
        assert judged(drawn).reliability == 1.0, f"seed {seed}"


@pytest.mark.parametrize("options", ["", "lazy = true"])
def test_a_flat_network_without_faults_misses_nothing(options: str) -> None:
    verdict = judged(flat(options=options))
    assert verdict.reliability == 1.0 and verdict.counts["deliveries"] == 20 * 20 * 10


@pytest.mark.parametrize(("options", "share"), [("", 0.98), ("lazy = true", 0.97)])
def test_when_three_in_ten_die_at_once_the_share_that_comes_is_told(options: str, share: float) -> None:
    """With lazy push, what a dead broker published last may have gone to others that died with it, and nowhere else."""
    for seed in (1, 2):
        verdict = judged(flat(seed, options=options, more=CRASH))
        assert verdict.reliability is not None and share < verdict.reliability < 1
        assert verdict.check("lost").status == "measured" and not verdict.anomalies


def test_brokers_that_return_take_part_again() -> None:
    result = run_scenario(flat(brokers=10, more=CRASH + RECOVER, operations=50))
    assert result.ended == "quiescent"
    returned = {row.node for row in result.rows if row.kind == "recover"}
    assert len(returned) == 3
    late = {(row.node, row.publisher) for row in result.rows if row.kind == "deliver" and row.seq == 50}
    assert len(late) == 10 * 10, "whatever is published at the end comes everywhere"


def test_a_network_that_was_in_two_grows_together_and_makes_good_what_was_missed() -> None:
    parted = (
        '[[fault]]\nat = "2s"\nkind = "partition"\nnodes = ["b0", "b1", "b2", "b3", "b4"]\n'
        '[[fault]]\nat = "12s"\nkind = "heal"\n'
    )
    verdict = judged(flat(brokers=10, more=parted, operations=60))
    assert verdict.reliability == 1.0


@pytest.mark.parametrize(("brokers", "active", "seed"), [(8, 2, 2), (8, 2, 7), (30, 3, 5)])
def test_parts_of_an_overlay_in_which_everybody_has_neighbours_enough_find_each_other(
    brokers: int, active: int, seed: int
) -> None:
    """The overlay fell apart when all joined at once, and a third of all or more was missing for ever."""
    waits = '[[fault]]\nat = "10s"\nkind = "heal"\n'
    verdict = judged(flat(seed, brokers, f"active = {active}", more=waits, operations=3))
    assert verdict.reliability == 1.0


@pytest.mark.parametrize(
    "seed",
    [
        160394,  # three with one place left each asked each other in a circle, and withdrew, for ever
    ],
)
def test_seeds_that_once_failed_keep_every_promise(seed: int) -> None:
    outcome = try_seed(seed, stack="gossip")
    assert not outcome.failed, outcome.report


def test_lazy_push_sends_fewer_copies_and_misses_nothing() -> None:
    scenario = flat(brokers=10, options="lazy = true", operations=30)
    lazy, eager = _copies(scenario), _copies(msgspec.structs.replace(scenario, options={}))
    assert lazy < 14 < 30 < eager, "9 copies are a tree"


def _copies(scenario: Scenario) -> float:
    """Of each publication, between brokers."""
    verdict, rows = judged(scenario), run_scenario(scenario).rows
    assert verdict.reliability == 1.0
    sent = [(row.attributes or {}).get(kinds.SENT + "Gossiped", "0") for row in rows if row.kind == kinds.LOAD]
    return sum(map(int, sent)) / verdict.counts["publications"]


def test_clients_of_a_dead_broker_go_on_at_another_and_are_told() -> None:
    dead = '[[fault]]\nat = "1500ms"\nkind = "crash"\nnodes = ["b3"]\n'
    told = ask(flat(brokers=6, more=dead, operations=30), (), ())
    assert told.news(SessionLost, "c3")
    got = [row.seq for row in told.rows if row.kind == "deliver" and row.node == "c0" and row.publisher == "c3"]
    assert got[-1] == 30 and len(got) == len(set(got))


# -- what it says of itself --------------------------------------------------------------------------------------------


def test_it_promises_a_probability() -> None:
    assert GOSSIP.promise().reliability is Reliability.PROBABLE


@pytest.mark.parametrize("guarantee", ["fifo", "causal", "total"])
def test_other_guarantees_are_refused_in_one_line(guarantee: str) -> None:
    with pytest.raises(UsageError) as error:
        flat(guarantee=guarantee)
    assert str(error.value).endswith(f"does not offer '{guarantee}'; it offers eventual")
    assert "\n" not in str(error.value)


def test_a_client_that_publishes_what_is_not_offered_is_cut_off() -> None:
    desk = Desk("gossip")
    desk.serve("c")
    desk.guarantee = Guarantee.CAUSAL
    desk.publish("c")
    assert desk.closed == {"c": "the stack 'gossip' does not offer 'causal'; it offers eventual"}


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"active": 0}, {"lazy": 1}, {"passive_walk": 9}, {"shuffle_active": 99}, {"faults_tolerated": 1}):
        with pytest.raises(UsageError) as error:
            GOSSIP.parse_options(bad)
        assert "\n" not in str(error.value)


def test_equal_seeds_give_equal_runs() -> None:
    scenario = flat(brokers=8, more=CRASH)
    other = msgspec.structs.replace(scenario, seed=2)
    digests = [run_scenario(one).digest for one in (scenario, scenario, other)]
    assert digests[0] == digests[1] != digests[2]
