"""The swarm's class of brokers that look for a place, and the complaint about those that find none."""

import msgspec
import pytest

from resprout.scenario.model import FaultKind, FaultSpec
from resprout.sim.swarm import homeless, swarm_trial, try_seed, try_seeds
from resprout.trace.schema import Row
from tests.soak import cases

BLOCK = 5


@pytest.mark.parametrize("first", range(1, cases(6, 41), BLOCK))
def test_drawn_newcomers_all_find_a_place_and_the_tree_comes_to_rest(first: int) -> None:
    outcomes = try_seeds(range(first, first + BLOCK), wanted="newcomers")
    failures = [outcome.report for outcome in outcomes if outcome.failed]
    assert not failures, "\n\n".join(failures)


def test_a_line_on_long_links_has_the_time_that_its_joins_take() -> None:
    """A line of 28 brokers on long links: each name is looked for in the whole line, so the second half joins one by
    one, about 8 s apart. The last broker had its place after 160 s, and its client subscribed after 165 s. A run has to
    be calm for 29 s after that, but this one was called stuck after 180 s."""
    outcome = try_seed(290001162, "newcomers")
    assert not outcome.failed, outcome.report


def test_a_broker_without_a_place_at_the_end_is_homeless_and_one_that_does_not_run_is_not() -> None:
    scenario = swarm_trial(1, "newcomers").scenario
    join = FaultSpec(0, FaultKind.JOIN, ("late",), parent="b0")
    scenario = msgspec.structs.replace(scenario, brokers=scenario.brokers[:3], faults=(join,))

    def rows(*kinds: tuple[str, str]) -> list[Row]:
        return [Row(time_us=0, node=node, kind=kind) for node, kind in kinds]

    assert homeless(scenario, []) == ["b1", "b2"], "the root founds the network, and the other one has not started"
    both = [("b1", "joined"), ("b2", "joined")]
    assert homeless(scenario, rows(*both)) == []
    assert homeless(scenario, rows(*both, ("late", "join"))) == ["late"]
    assert homeless(scenario, rows(*both, ("b1", "fenced"), ("b2", "crash"))) == ["b1"]
    assert homeless(scenario, rows(*both, ("b2", "crash"), ("b2", "recover"))) == ["b2"]
    assert homeless(scenario, rows(*both, ("b2", "fenced"), ("b2", "name_refused"))) == [], "its name is taken"
    second = ("b2+1", "double")
    assert homeless(scenario, rows(*both, second)) == ["b2+1"]
    assert homeless(scenario, rows(*both, second, ("b2+1", "joined"))) == []
    assert homeless(scenario, rows(*both, second, ("b2+1", "name_refused"))) == []
