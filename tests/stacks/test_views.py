"""What brokers know of the tree after it has been repaired: everything within f + 1 hops, as before."""

import pytest

from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Scenario
from resprout.sim.run import Run
from resprout.stacks.resprout import ResproutBroker

CHAIN = tuple(BrokerSpec(f"b{i}", f"b{i - 1}" if i else None) for i in range(9))


def brokers_after(faults_tolerated: int, *dead: str) -> dict[str, ResproutBroker]:
    """The living of a chain of nine, long after these died together."""
    crash = FaultSpec(5_000_000, FaultKind.CRASH, dead)
    run = Run(Scenario("views", CHAIN, options={"faults_tolerated": faults_tolerated}, faults=(crash,)), None, ())
    assert run.finish().ended == "quiescent"
    alive = {name: node.process for name, node in run.world.nodes.items() if node.process is not None}
    machines = {name: process.machine.machine for name, process in alive.items()}  # type: ignore[attr-defined]
    assert all(isinstance(machine, ResproutBroker) for machine in machines.values())
    return machines


def within(brokers: dict[str, ResproutBroker], name: str, hops: int) -> set[str]:
    """Over the links that really stand."""
    found = level = {name}
    for _ in range(hops):
        level = {other for one in level for other in brokers[one].parts.links} - found
        found = found | level
    return found


@pytest.mark.parametrize(("faults", "dead"), [(1, ("b3",)), (1, ("b0",)), (2, ("b3", "b4")), (2, ("b0", "b1"))])
def test_every_broker_knows_all_within_reach_after_a_repair(faults: int, dead: tuple[str, ...]) -> None:
    brokers = brokers_after(faults, *dead)
    assert len(brokers) == len(CHAIN) - len(dead)
    for name, broker in brokers.items():
        places = broker.life.view.places
        near = within(brokers, name, faults + 1)
        assert near <= set(places), f"{name} does not know {near - set(places)}"
        for other in near:
            assert set(places[other].neighbours) == set(brokers[other].parts.links), f"{name} about {other}"
            assert places[other].parent == brokers[other].life.view.parent
