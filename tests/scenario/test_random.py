"""The random workload: its choices stay within its options, and churn is well behaved."""

import itertools

import msgspec
import pytest

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_attributes, check_keys
from resprout.edge.requests import SubscribeRequest, UnsubscribeRequest
from resprout.filters.predicate import parse_predicate
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.scenario.workloads import EXTRAS_MAX, draw_attributes, draw_filter, draw_where
from tests.scenario.perfect import PerfectNetwork

TOPICS = ("a/b", "a/c", "d")


def run(options: RandomOptions, seed: int = 1, **changes: object) -> PerfectNetwork:
    workload = WorkloadSpec(
        "random", ("c0", "c1"), TOPICS, 4, 200, Mix(0.25, 0.25, 0.25, 0.25), 5_000, 40, 0, 0, options
    )
    clients = tuple(ClientSpec(name, "b0", subscriptions=(SubscriptionSpec("a/#"),)) for name in ("c0", "c1"))
    scenario = Scenario("random", (BrokerSpec("b0"),), seed=seed, clients=clients)
    network = PerfectNetwork(
        msgspec.structs.replace(scenario, workloads=(msgspec.structs.replace(workload, **changes),))
    )
    network.run()
    return network


def test_every_operation_is_made_and_every_choice_occurs() -> None:
    network = run(RandomOptions(keys_max=2, foreign_keys=0.3))
    requests = [request for _, request in network.published("c0")]
    assert len(requests) == 200
    assert {request.topic for request in requests} == set(TOPICS)
    assert {request.guarantee for request in requests} == set(Guarantee)
    assert {len(request.keys) for request in requests} == {0, 1, 2}
    assert {len(request.payload) for request in requests} == {40}
    assert any("#" in key for request in requests for key in request.keys)
    for request in requests:
        assert request.keys == check_keys(request.keys)
        assert request.keys or request.guarantee is not Guarantee.TOTAL
        check_attributes(request.attributes)


def test_sizes_bursts_and_attributes_follow_the_options() -> None:
    network = run(RandomOptions(payload_min=10, burst=7, attributes=False, keys_max=0))
    rows = network.published("c0")
    assert {10, 40} <= {len(request.payload) for _, request in rows} <= set(range(10, 41))
    assert not any(request.attributes for _, request in rows)
    assert {len(request.keys) for _, request in rows} <= {0, 1}, "a total names a key all the same"
    for first in range(0, 196, 7):
        burst = rows[first : first + 7]
        assert len({(time_us, r.topic, r.guarantee, r.keys) for time_us, r in burst}) == 1
    assert len(rows) == 200, "the last burst is shorter"


def test_no_keys_means_none_even_for_a_total() -> None:
    assert not any(request.keys for _, request in run(RandomOptions(), keys=0).published())


def test_pauses_are_as_long_as_the_interval_on_average() -> None:
    times = [time_us for time_us, _ in run(RandomOptions()).published("c0")]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 0 <= min(pauses) < max(pauses) <= 10_000
    assert 4_000 < sum(pauses) / len(pauses) < 6_000


def test_churn_begins_and_ends_extra_subscriptions_without_repeating_one() -> None:
    network = run(RandomOptions(churn=0.5, churn_where=0.5))
    live: set[tuple[str, str | None]] = {("a/#", None)}
    ended = 0
    for _, name, wish in network.wishes:
        if name != "c0":
            continue
        if isinstance(wish, SubscribeRequest) and (wish.filter, wish.where) != ("a/#", None):
            assert (wish.filter, wish.where) not in live
            live.add((wish.filter, wish.where))
            parse_predicate(wish.filter, wish.where)
        elif isinstance(wish, UnsubscribeRequest):
            assert (wish.filter, wish.where) != ("a/#", None), "only what it began itself"
            live.remove((wish.filter, wish.where))
            ended += 1
        assert len(live) <= 1 + EXTRAS_MAX
    assert ended > 10


def test_clients_and_seeds_choose_differently_and_repeatably() -> None:
    first, again, other = run(RandomOptions()), run(RandomOptions()), run(RandomOptions(), seed=2)
    assert first.wishes == again.wishes
    assert first.published("c0") != other.published("c0")
    assert [r.payload for _, r in first.published("c0")] != [r.payload for _, r in first.published("c1")]


def test_conditions_hold_for_some_attributes_and_not_for_others() -> None:
    rng = random_for("vocabulary")
    samples = [draw_attributes(rng) for _ in range(300)]
    conditions = {draw_where(rng) for _ in range(200)}
    mixed = 0
    for where in conditions:
        matching = sum(parse_predicate("#", where).matches("t", attributes) for attributes in samples)
        mixed += 0 < matching < len(samples)
    assert mixed > 0.95 * len(conditions)


def test_filters_are_exact_or_have_a_wildcard_and_always_match_a_topic() -> None:
    rng = random_for("vocabulary")
    filters = {draw_filter(rng, TOPICS) for _ in range(300)}
    assert {"a/b", "d", "+/b", "a/+", "+", "#", "a/#"} <= filters
    for text in filters:
        assert any(parse_predicate(text).matches(topic, {}) for topic in TOPICS)


def test_who_keeps_to_its_subscriptions_publishes_to_nothing_else() -> None:
    scenario = parse_scenario("""
[topology]
kind = "tree"
brokers = 7
subtree_groups = true
subscribe = ["more/#"]
[[workload]]
kind = "random"
subscribed = true
operations = 30
""")
    assert set(scenario.workloads[0].topics) == {"group/b0", "group/b1", "group/b2"}, "a wildcard is no topic"
    network = PerfectNetwork(scenario)
    network.run()
    assert {request.topic for _, request in network.published("c3")} == {"group/b0", "group/b1"}


def test_who_subscribes_to_no_topic_cannot_keep_to_them() -> None:
    with pytest.raises(UsageError, match="client 'c0' subscribes to none of the topics"):
        parse_scenario("""
[topology]
kind = "tree"
brokers = 1
subscribe = ["more/#"]
[[workload]]
kind = "random"
subscribed = true
""")


def test_so_many_clients_stand_evenly_among_all() -> None:
    text = """
[topology]
kind = "tree"
brokers = 10
subscribe = ["t"]
[[workload]]
kind = "random"
topics = ["t"]
clients = {}
"""
    assert parse_scenario(text.format(1)).workloads[0].clients == ("c0",)
    assert parse_scenario(text.format(4)).workloads[0].clients == ("c0", "c2", "c5", "c7")
    assert len(parse_scenario(text.format(10)).workloads[0].clients) == 10
    with pytest.raises(UsageError, match="clients is 11; it must be 1 to 10"):
        parse_scenario(text.format(11))
