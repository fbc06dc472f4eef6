"""Two programs under one client name, far apart: the later one stays, the earlier one is told, no receipt lies."""

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.edge.requests import SessionLost
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import RunResult, run_scenario
from tests.sim.test_delivered import CHAIN, SECOND, client, published, told, work

BEGAN_US = 4 * SECOND


def late(name: str) -> tuple[FaultSpec, ...]:
    """A client that begins later than all others."""
    return (FaultSpec(1, FaultKind.CRASH, (name,)), FaultSpec(BEGAN_US, FaultKind.RECOVER, (name,)))


def run(broker: str, *faults: FaultSpec, f: int = 1, other: str = "b4") -> RunResult:
    double = msgspec.structs.replace(client("px", broker, "c"), called="p")
    scenario = Scenario(
        "doubled",
        CHAIN,
        options={"faults_tolerated": f},
        clients=(client("p", "b0", "c"), double, client("r", other, "a")),
        workloads=(work("p", "a", operations=80), work("px", "a", operations=40)),
        faults=faults,
    )
    result = run_scenario(scenario)
    assert not judge(result.rows).violated and result.ended == "quiescent"
    return result


def left(result: RunResult) -> dict[str, int]:
    return {row.node: row.time_us for row in result.rows if row.kind == "leave"}


@pytest.mark.parametrize("f", [0, 1, 2])
@pytest.mark.parametrize("broker", ["b0", "b1", "b4"])
def test_the_earlier_one_is_told_at_any_distance(broker: str, f: int) -> None:
    result = run(broker, *late("px"), f=f)
    assert list(left(result)) == ["p"]
    assert BEGAN_US < left(result)["p"] < BEGAN_US + SECOND
    assert published(result, "p")[-1].time_us <= left(result)["p"], "it publishes nothing more"


@pytest.mark.parametrize("reader", ["b0", "b2", "b4"])
def test_what_both_publish_reaches_everybody_and_no_receipt_lies(reader: str) -> None:
    """Both begin at once. Wherever the later one was faster, what the earlier one published was taken for old."""
    result = run("b4", other=reader)
    delivered = {(row.publisher, row.seq) for row in result.rows if row.kind == "deliver" and row.node == "r"}
    for publisher in ("p", "px"):
        for seq in told(result, publisher):
            assert (publisher, seq) in delivered
    assert len(told(result, "px")) == 40, "the later one is not disturbed"


def test_an_earlier_life_that_comes_later_is_told_at_once() -> None:
    result = run("b4", *late("p"))
    assert left(result)["p"] < BEGAN_US + SECOND and not published(result, "p")


@pytest.mark.parametrize("victim", ["b0", "b4"])
def test_a_client_that_loses_its_broker_is_the_same_one_elsewhere(victim: str) -> None:
    """Its earlier double was told long before, and it is not taken for a double of itself."""
    result = run("b4", *late("px"), FaultSpec(5 * SECOND, FaultKind.CRASH, (victim,)))
    assert list(left(result)) == ["p"]
    assert len(told(result, "px")) == 40


def test_both_sides_of_a_cut_agree_when_it_heals() -> None:
    """Whoever begins while nobody else can be told is announced when the link is there again."""
    cut = FaultSpec(3 * SECOND, FaultKind.CUT, links=(("b1", "b2"),))
    heal = FaultSpec(8 * SECOND, FaultKind.HEAL, links=(("b1", "b2"),))
    result = run("b4", cut, *late("px"), heal)
    assert list(left(result)) == ["p"] and left(result)["p"] > 8 * SECOND


def test_a_lost_session_says_whether_somebody_else_has_the_name() -> None:
    assert not SessionLost("the broker broke the rules", over=True).superseded
