"""The eventually perfect failure detector, and the stacks that have it: silent hosts, pauses, false suspicions."""

from collections import Counter

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.core.contract import CancelTimer, SetTimer
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.sim.told_losses import not_under_way
from resprout.stacks.shell import Step
from resprout.stacks.stack import find_stack
from resprout_lab.blocks.detector import DOUBLED_MAX, FailureDetector, SuspectDue

STACKS = ("locamu", "delta", "cbcast", "causal-barriers")


class Watch:
    """A detector with a timeout of 100 us, and what it does."""

    def __init__(self) -> None:
        self.step = Step()
        self.suspected: list[str] = []
        self.detector = FailureDetector(self.step, 100, self.suspected.append)

    def waits_us(self) -> list[int]:
        """Of the timers that were set, since the last time."""
        waits = [one.at_us - self.step.now_us for one in self.step.out if isinstance(one, SetTimer)]
        self.step.out.clear()
        return waits


def test_a_peer_is_suspected_once_when_it_was_silent_for_its_timeout() -> None:
    watch = Watch()
    watch.detector.silent("b1")
    watch.detector.silent("b1")
    assert watch.waits_us() == [100] and not watch.suspected
    watch.detector.due(SuspectDue("b1"))
    watch.detector.silent("b1")
    assert watch.suspected == ["b1"] and watch.detector.is_suspected("b1") and not watch.waits_us()


def test_a_peer_that_is_heard_in_time_is_not_suspected() -> None:
    watch = Watch()
    watch.detector.silent("b1")
    assert not watch.detector.heard("b1")
    assert CancelTimer(SuspectDue("b1")) in watch.step.out
    watch.detector.due(SuspectDue("b1"))
    assert not watch.suspected


def test_a_false_suspicion_is_revoked_and_doubles_the_timeout_of_that_peer_only() -> None:
    watch = Watch()
    for no in range(10):
        watch.detector.silent("b1")
        watch.detector.due(SuspectDue("b1"))
        assert watch.detector.heard("b1"), f"suspicion {no} was false"
    assert watch.detector.timeout_us("b1") == 100 * DOUBLED_MAX and watch.detector.timeout_us("b2") == 100


# -- the stacks --------------------------------------------------------------------------------------------------------


def row(stack: str, *faults: FaultSpec) -> Scenario:
    """Six brokers in a row; clients at both ends publish and read."""
    line = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "3ms"\n' + (f'parent = "b{no - 1}"\n' if no else "") for no in range(6)
    )
    ends = "".join(f'[[client]]\nname = "c{no}"\nbroker = "b{no}"\nsubscribe = ["t/#"]\n' for no in (0, 5))
    scenario = parse_scenario(f"""
stack = "{stack}"
seed = 5
time_limit = "90s"
{line}{ends}
[[workload]]
kind = "random"
topics = ["t/1", "t/2"]
operations = 80
mix = {{ fifo = 1.0 }}
interval = "20ms"
start = "1s"
""")
    return msgspec.structs.replace(scenario, faults=faults)


def fault(at_ms: int, kind: FaultKind, *nodes: str, host: bool = False) -> FaultSpec:
    return FaultSpec(at_ms * 1_000, kind, nodes, host=host)


SCENES = {
    "a silent host": (fault(1_500, FaultKind.CRASH, "b2", host=True),),
    "a silent host that returns": (
        fault(1_500, FaultKind.CRASH, "b2", host=True), fault(12_000, FaultKind.RECOVER, "b2"),
    ),
    "a freeze beyond the timeout": (fault(1_500, FaultKind.FREEZE, "b2"), fault(12_000, FaultKind.UNFREEZE, "b2")),
    "a freeze below the timeout": (fault(1_500, FaultKind.FREEZE, "b2"), fault(2_700, FaultKind.UNFREEZE, "b2")),
}  # fmt: skip
LINK = (("b2", "b1"),)
LOCAMU_SCENES = {
    "a link that breaks": (FaultSpec(1_500_000, FaultKind.CUT, links=LINK),),
    "a link that breaks and heals": (
        FaultSpec(1_500_000, FaultKind.CUT, links=LINK), FaultSpec(9_000_000, FaultKind.HEAL, links=LINK),
    ),
    "a broker that is cut off": (fault(1_500, FaultKind.PARTITION, "b2"), fault(9_000, FaultKind.HEAL)),
}  # fmt: skip


def lost_or_told(scenario: Scenario) -> tuple[list[str], int]:
    """What the judge complains of, and the deliveries."""
    result = run_scenario(scenario)
    verdict = judge(result.rows, promise=find_stack(scenario.stack).promise())
    complaints = [anomaly.rule for anomaly in verdict.anomalies]
    deliveries = sum(one.kind == "deliver" for one in result.rows)
    return complaints + ([] if result.ended == "quiescent" else ["stuck"]), deliveries


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("stack", STACKS)
def test_nobody_at_living_brokers_loses_anything(stack: str, scene: str) -> None:
    assert lost_or_told(row(stack, *SCENES[scene])) == ([], 320)


@pytest.mark.parametrize("scene", LOCAMU_SCENES)
def test_locamu_survives_broken_links(scene: str) -> None:
    assert lost_or_told(row("locamu", *LOCAMU_SCENES[scene])) == ([], 320)


@pytest.mark.parametrize("stack", STACKS)
def test_without_suspicions_everybody_waits_for_a_silent_host(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailureDetector, "silent", lambda self, name: None)
    complaints, deliveries = lost_or_told(row(stack, *SCENES["a silent host"]))
    assert complaints and deliveries < 320


# -- clients of a broker that returns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", STACKS)
def test_the_client_of_a_broker_that_returns_after_a_second_misses_at_most_what_was_under_way(stack: str) -> None:
    """`locamu` and `delta` promise that it misses nothing. The others tell it."""
    scenario = row(stack, fault(1_500, FaultKind.CRASH, "b3"), fault(2_500, FaultKind.RECOVER, "b3"))
    reader = msgspec.structs.replace(scenario.clients[0], name="c3", broker="b3")
    scenario = msgspec.structs.replace(scenario, clients=(*scenario.clients, reader))
    result = run_scenario(scenario)
    anomalies = judge(result.rows, promise=find_stack(stack).promise()).anomalies
    found = Counter(anomaly.rule for anomaly in anomalies)
    assert result.ended == "quiescent" and not set(found) - {"lost_told"}
    assert found["lost_told"] <= (0 if stack in ("locamu", "delta") else 5)
    assert not not_under_way(scenario, result.rows, anomalies)
