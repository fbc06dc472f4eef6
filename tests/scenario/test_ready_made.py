"""The scenarios that come with the packages: each can be loaded, and its applications come to an end."""

from pathlib import Path

import pytest

from resprout.scenario.load import load_scenario
from resprout.scenario.source import shipped
from tests.scenario.perfect import PerfectNetwork

READY_MADE = sorted(shipped("scenarios").values())


@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_the_applications_of_a_ready_made_scenario_come_to_an_end_in_time(path: Path) -> None:
    scenario = load_scenario(path, ["workload.0.operations=20"])
    network = PerfectNetwork(scenario)
    network.run(until_us=scenario.time_limit_us)
    assert all(app.done for app in network.apps.values())
    assert len(network.published()) >= 20
    assert any(network.deliveries.values())


def test_the_bank_is_the_one_of_the_experiment() -> None:
    scenario = load_scenario("bank")
    assert [(b.name, b.parent, b.latency_us) for b in scenario.brokers[1:]] == [
        ("b1", "b0", 115_000), ("b2", "b0", 37_000), ("b3", "b0", 240_000), ("b4", "b1", 40_000),
        ("b5", "b1", 25_000), ("b6", "b2", 30_000), ("b7", "b3", 50_000),
    ]  # fmt: skip
    assert len(scenario.clients) == 5
    assert scenario.options["total_degree"] == 3
    (bank,) = scenario.workloads
    assert (bank.keys, bank.operations, bank.interval_us) == (100, 500, 50_000)


def test_the_flood_is_the_complete_binary_tree() -> None:
    scenario = load_scenario("flood")
    assert len(scenario.brokers) == 31
    assert {b.bandwidth_bps for b in scenario.brokers} == {100_000_000}
    assert [b.parent for b in scenario.brokers].count("b14") == 2
