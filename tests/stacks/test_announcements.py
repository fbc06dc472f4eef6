"""What is told to everybody shares frames: how many there are grows with the network, and not with its square."""

from resprout.scenario.model import BrokerSpec, ClientSpec, RandomOptions, Scenario, SubscriptionSpec, WorkloadSpec
from resprout.sim.run import run_scenario

ANNOUNCEMENTS = ("ClientBegan", "Interested", "InterestConfirmed", "Seek", "Sought")


def told(brokers: int) -> tuple[float, float]:
    """Of a calm run of a binary tree with a client at each broker, which publishes once: announcements, and frames of
    all brokers, for each broker."""
    result = run_scenario(
        Scenario(
            name=f"{brokers} brokers",
            brokers=tuple(BrokerSpec(f"b{i}", f"b{(i - 1) // 2}" if i else None) for i in range(brokers)),
            clients=tuple(
                ClientSpec(f"c{i}", f"b{i}", subscriptions=(SubscriptionSpec(f"t{i}"),)) for i in range(brokers)
            ),
            workloads=tuple(
                WorkloadSpec("random", (f"c{i}",), (f"t{i}",), keys=0, operations=1, options=RandomOptions())
                for i in range(brokers)
            ),
        )
    )
    assert result.ended == "quiescent"
    loads = [row.attributes or {} for row in result.rows if row.kind == "load" and (row.node or "").startswith("b")]
    announced = sum(int(load.get(f"sent:{word}", 0)) for load in loads for word in ANNOUNCEMENTS)
    return announced / brokers, sum(int(load["frames_sent"]) for load in loads) / brokers


def test_four_times_the_brokers_are_told_of_in_less_than_twice_the_frames() -> None:
    few_told, few_frames = told(15)
    many_told, many_frames = told(63)
    assert many_told > 3 * few_told, "each broker hears of every other one"
    assert many_frames < 2 * few_frames
