"""A workload can keep its publications from travelling together: bundles of one, to compare like with like."""

import pytest

from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.write import to_toml
from resprout.sim.run import RunResult, run_scenario

SCENARIO = """
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b0"
[[client]]
name = "c1"
broker = "b1"
subscribe = ["a", "b"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["a"]
keys = 0
operations = 60
burst = 20
attributes = false
interval = "5ms"
start = "1s"
{more}
"""


def sent(result: RunResult, node: str, message: str) -> int:
    row = next(row for row in result.rows if row.kind == "load" and row.node == node)
    return int((row.attributes or {}).get(f"sent:{message}", 0))


def scenario(more: str = "") -> Scenario:
    return parse_scenario(SCENARIO.format(more=more), "<test>")


@pytest.mark.parametrize(("most", "bundles"), [("", 3), ("bundle_max = 1", 60), ("bundle_max = 7", 9)])
def test_no_bundle_holds_more_than_the_workload_allows(most: str, bundles: int) -> None:
    result = run_scenario(scenario(most))
    assert sent(result, "c0", "Publish") == bundles
    assert sent(result, "b0", "Forward") == bundles
    assert sum(row.kind == "deliver" for row in result.rows) == 60


def test_of_a_client_with_several_workloads_the_least_counts() -> None:
    other = 'bundle_max = 5\n[[workload]]\nkind = "random"\ntopics = ["b"]\nbundle_max = 2\n'
    assert scenario(other).bundle_caps == {"c0": 2, "c1": 2}
    assert scenario().bundle_caps == {}


def test_the_limit_survives_being_written_down() -> None:
    first = scenario("bundle_max = 3")
    assert parse_scenario(to_toml(first), "<test>") == first
