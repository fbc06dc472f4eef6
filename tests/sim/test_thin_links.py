"""Links that are saturated, and nothing else is wrong: nobody is taken for dead, and everything arrives."""

from collections import Counter

import msgspec
import pytest

from resprout.scenario.model import BrokerSpec, ClientSpec, RandomOptions, Scenario, SubscriptionSpec, WorkloadSpec
from resprout.sim.classes.links import thin_links
from resprout.sim.run import RunResult, run_scenario
from resprout.sim.swarm import complaint_about, try_seed
from tests.soak import cases

MBIT = 1_000_000
KINDS = ("suspect", "fenced", "repair_begin")
"""Of rows that nobody wants to see without a fault."""

SEEDS = {
    "a total that was submitted is not delivered without what its publisher had published before": 90093,
}


def star(brokers: int, bandwidth_bps: int) -> tuple[BrokerSpec, ...]:
    return tuple([BrokerSpec(f"b{i}", "b0" if i else None, 5_000, bandwidth_bps) for i in range(brokers)])


def chain(brokers: int, bandwidth_bps: int) -> tuple[BrokerSpec, ...]:
    return tuple([BrokerSpec(f"b{i}", f"b{i - 1}" if i else None, 5_000, bandwidth_bps) for i in range(brokers)])


def everybody_tells_everybody(brokers: tuple[BrokerSpec, ...], operations: int, payload: int) -> Scenario:
    clients = [
        ClientSpec(f"c{i}", broker.name, subscriptions=(SubscriptionSpec("#"),)) for i, broker in enumerate(brokers)
    ]
    work = WorkloadSpec(
        "random", tuple(client.name for client in clients), ("a",), keys=0, operations=operations, payload=payload,
        interval_us=50_000, start_us=2_000_000, options=RandomOptions(attributes=False),
    )  # fmt: skip
    return Scenario("thin", brokers, seed=1, clients=tuple(clients), workloads=(work,), time_limit_us=600_000_000)


def check_that_all_goes_well(scenario: Scenario) -> RunResult:
    result = run_scenario(scenario)
    assert complaint_about(scenario, result) == ""
    found = Counter(row.kind for row in result.rows)
    assert [kind for kind in KINDS if found[kind]] == []
    assert found["deliver"] == found["publish"] * len(scenario.clients)
    receipts = Counter(row.receipt for row in result.rows if row.kind == "receipt")
    assert receipts == dict.fromkeys(("accepted", "safe", "delivered"), found["publish"])
    return result


@pytest.mark.parametrize("mbit", [10, 1])
def test_brokers_of_a_saturated_star_are_not_taken_for_dead(mbit: int) -> None:
    result = check_that_all_goes_well(everybody_tells_everybody(star(3, mbit * MBIT), 20, 150_000))
    # The root sends each of 60 publications to its own client, and to both others unless it came from there.
    least_us = 2_000_000 + 140 * 150_000 * 8 // mbit
    assert result.stats.time_us < least_us * 11 // 10, "the links carry nearly what they can"


def test_a_star_of_twenty_leaves_with_large_payloads_comes_to_rest() -> None:
    check_that_all_goes_well(everybody_tells_everybody(star(21, 100 * MBIT), 2, 100_000))


@pytest.mark.parametrize(("mbit", "payload"), [(10, 100_000), (10, 300_000), (2, 100_000)])
def test_every_publication_in_a_saturated_chain_is_told_delivered(mbit: int, payload: int) -> None:
    check_that_all_goes_well(everybody_tells_everybody(chain(5, mbit * MBIT), 10, payload))


def test_a_message_of_one_mebibyte_on_the_thinnest_link_outlasts_the_lease() -> None:
    result = check_that_all_goes_well(everybody_tells_everybody(chain(2, MBIT), 1, 1 << 20))
    assert result.stats.time_us > 10_000_000, "a lease is 3 s"


def test_a_message_larger_than_every_window_outlasts_many_leases() -> None:
    scenario = everybody_tells_everybody(chain(3, 2 * MBIT), 1, 12 << 20)
    large = msgspec.structs.replace(scenario, options={"max_payload": "16MiB"})
    result = check_that_all_goes_well(large)
    assert result.stats.time_us > 100_000_000, "a lease is 3 s"


def test_small_messages_on_one_link_have_their_turn_beside_a_large_one_on_another() -> None:
    def work(client: str, topic: str, operations: int, payload: int, interval_us: int) -> WorkloadSpec:
        return WorkloadSpec(
            "random", (client,), (topic,), keys=0, operations=operations, payload=payload, interval_us=interval_us,
            start_us=2_000_000, options=RandomOptions(attributes=False),
        )  # fmt: skip

    clients = (
        ClientSpec("c0", "b0"),
        ClientSpec("c1", "b1", subscriptions=(SubscriptionSpec("large"),)),
        ClientSpec("c2", "b2", subscriptions=(SubscriptionSpec("small"),)),
        ClientSpec("c3", "b0"),
    )
    scenario = Scenario(
        "beside", star(3, 10 * MBIT), seed=1, options={"faults_tolerated": 0}, clients=clients,
        workloads=(work("c0", "large", 5, 1 << 20, 1_000_000), work("c3", "small", 200, 50, 20_000)),
    )  # fmt: skip
    result = run_scenario(scenario)
    assert complaint_about(scenario, result) == ""
    asked_us = {row.seq: row.time_us for row in result.rows if row.kind == "publish" and row.topic == "small"}
    taken_us = [
        row.time_us - asked_us[row.seq] for row in result.rows if row.kind == "deliver" and row.topic == "small"
    ]
    assert len(taken_us) == 200
    assert max(taken_us) < 250_000, "in one go, 1 MiB takes 839 ms at 10 Mbit"


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())
def test_what_went_wrong_on_thin_links_goes_well(seed: int) -> None:
    outcome = try_seed(seed, "thin-links")
    assert not outcome.failed, outcome.report


@pytest.mark.parametrize("seed", range(1, cases(4, 9)))
def test_thin_links_by_chance(seed: int) -> None:
    outcome = try_seed(seed, "thin-links")
    assert not outcome.failed, outcome.report


def test_equal_seeds_draw_equal_thin_links() -> None:
    assert thin_links(5) == thin_links(5)
    assert thin_links(5) != thin_links(6)
