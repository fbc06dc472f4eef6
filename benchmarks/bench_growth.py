"""How the processor time of a calm simulated run grows with the number of its brokers.

Every broker has a client, which shares a topic with one other and publishes ten times. A broker hears of every other
one, of its client and of its topic, so that its own work is linear in the size of the network: eight times the brokers
may cost each of them eight times as much, and not more. Time is the process's, so that neighbours disturb little.
"""

import time

from benchmarks.measure import Measure
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.scenario.topologies import parents_in
from resprout.sim.run import run_scenario

SMALL = 127
LARGE = 1_023
OPERATIONS = 10


def pairs(brokers: int) -> Scenario:
    """Clients 0 and 1 talk to each other, 2 and 3, and so on."""
    parents = parents_in("tree", brokers, 3, random_for(1, "growth"))
    clients = tuple(
        ClientSpec(f"c{i}", f"b{i}", subscriptions=(SubscriptionSpec(f"t{i // 2}"),)) for i in range(brokers)
    )
    workloads = tuple(
        WorkloadSpec(
            "random", tuple(client.name for client in clients[i : i + 2]), (f"t{i // 2}",), keys=0,
            operations=OPERATIONS, options=RandomOptions(attributes=False),
        )
        for i in range(0, brokers, 2)
    )  # fmt: skip
    return Scenario(
        name=f"{brokers} brokers in pairs",
        brokers=tuple(BrokerSpec(f"b{i}", None if up is None else f"b{up}") for i, up in enumerate(parents)),
        clients=clients,
        workloads=workloads,
    )


def milliseconds_per_broker(brokers: int) -> float:
    scenario = pairs(brokers)
    begin = time.process_time()
    result = run_scenario(scenario)
    spent = time.process_time() - begin
    assert result.ended == "quiescent"
    return spent * 1_000 / brokers


def run(quick: bool = False) -> list[Measure]:
    small, large = (SMALL // 4, LARGE // 4) if quick else (SMALL, LARGE)
    yardstick = min(milliseconds_per_broker(small) for _ in range(3))
    value = milliseconds_per_broker(large)
    return [
        Measure(
            f"a calm run of {large} brokers", value, "ms of processor time per broker", f"{small} brokers", yardstick,
            "at most 8 times as much for 8 times the brokers",
        )
    ]  # fmt: skip


if __name__ == "__main__":
    for measure in run(quick=True):
        print(f"{measure.name}: {measure.value:.1f} {measure.unit}; {measure.yardstick}: {measure.yardstick_value:.1f}")
