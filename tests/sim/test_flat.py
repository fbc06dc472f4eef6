"""Networks without a tree: brokers that know some others, shares of them that fail, and disks that take their time."""

import pytest

from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.write import to_toml
from resprout.sim.cast import Cast
from resprout.sim.run import run_scenario

FLAT = """
seed = {seed}
[topology]
kind = "flat"
brokers = 20
latency = "2ms"
{more}
subscribe = ["a"]
[[workload]]
kind = "random"
clients = ["c3"]
topics = ["a"]
operations = 10
start = "3s"
"""


def flat(seed: int = 1, more: str = "", after: str = "") -> Scenario:
    return parse_scenario(FLAT.format(seed=seed, more=more) + after, "<test>")


def test_every_newcomer_knows_one_that_was_there_before() -> None:
    brokers = flat().brokers
    assert brokers[0].contacts == ()
    for i, broker in enumerate(brokers[1:], 1):
        assert broker.parent is None
        assert len(broker.contacts) == 1
        assert int(broker.contacts[0].removeprefix("b")) < i


def test_whom_newcomers_know_is_drawn_from_the_seed() -> None:
    assert flat(1).brokers == flat(1).brokers
    assert flat(1).brokers != flat(2).brokers


def test_more_contacts_are_as_many_as_there_are_earlier_ones() -> None:
    brokers = flat(more="contacts = 3").brokers
    assert [len(broker.contacts) for broker in brokers[:6]] == [0, 1, 2, 3, 3, 3]
    assert all(len(set(broker.contacts)) == len(broker.contacts) for broker in brokers)


def test_contacts_can_be_named() -> None:
    brokers = flat(more='contacts = ["b0", "b1"]').brokers
    assert [broker.contacts for broker in brokers[:3]] == [(), ("b0",), ("b0", "b1")]


def test_a_flat_network_survives_being_written_down() -> None:
    scenario = flat(more='contacts = 2\ndisk_latency = "3ms"')
    assert parse_scenario(to_toml(scenario), scenario.name) == scenario


def test_two_brokers_of_a_flat_network_are_two_ways_apart() -> None:
    cast = Cast(flat(), lambda row: None, lambda process, note: None, has_faults=False)
    cast.start()
    distances = cast.world.network.distances
    assert distances.between("b3", "b7") == 4_000
    assert distances.between("c3", "b7") == 4_100


def test_a_stack_that_makes_its_own_tree_runs_on_a_flat_network() -> None:
    result = run_scenario(flat())
    assert result.ended == "quiescent"
    assert sum(row.kind == "deliver" for row in result.rows) == 200


CRASH = '[[fault]]\nat = "5s"\nkind = "crash"\nshare = 0.3\n'


def test_a_share_of_the_brokers_is_drawn_from_the_seed() -> None:
    (fault,) = flat(after=CRASH).faults
    assert len(fault.nodes) == 6
    assert fault.nodes == flat(after=CRASH).faults[0].nodes != flat(2, after=CRASH).faults[0].nodes
    assert all(name.startswith("b") for name in fault.nodes)


def test_whoever_is_named_is_spared() -> None:
    for seed in range(1, 6):
        (fault,) = flat(seed, after=CRASH.replace("0.3", "0.9") + 'except = ["b0", "b1"]\n').faults
        assert len(fault.nodes) == 16
        assert not {"b0", "b1"} & set(fault.nodes)


def test_a_share_of_those_that_are_down_recovers() -> None:
    after = CRASH + '[[fault]]\nat = "9s"\nkind = "recover"\nshare = 0.5\n'
    crash, recover = flat(after=after).faults
    assert len(recover.nodes) == 3
    assert set(recover.nodes) < set(crash.nodes)


def test_two_shares_of_one_moment_strike_different_ones() -> None:
    crash, freeze = flat(after=CRASH + CRASH.replace("crash", "freeze")).faults
    assert not set(crash.nodes) & set(freeze.nodes)


def test_a_share_that_comes_to_nobody_is_no_fault() -> None:
    assert flat(after=CRASH.replace("0.3", "0.0")).faults == ()
    assert flat(after=CRASH.replace("0.3", "0.02")).faults == ()


def test_drawn_faults_are_written_down_by_name() -> None:
    scenario = flat(after=CRASH)
    assert parse_scenario(to_toml(scenario), scenario.name) == scenario
    assert "share" not in to_toml(scenario)


DISK = """
[options]
durable = true
[[broker]]
name = "b0"
disk_latency = "{latency}"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = 5
interval = "100ms"
"""


@pytest.mark.parametrize("latency_ms", [7, 30])
def test_what_follows_a_record_waits_until_the_disk_has_it(latency_ms: int) -> None:
    def accepted_us(latency: str) -> list[int]:
        rows = run_scenario(parse_scenario(DISK.format(latency=latency), "<test>")).rows
        at = {row.seq: row.time_us for row in rows if row.kind == "publish"}
        return [row.time_us - at[row.seq] for row in rows if row.kind == "receipt" and row.receipt == "accepted"]

    fast, slow = accepted_us("0s"), accepted_us(f"{latency_ms}ms")
    assert len(fast) == len(slow) == 5
    assert all(late - early == latency_ms * 1_000 for early, late in zip(fast, slow, strict=True))
