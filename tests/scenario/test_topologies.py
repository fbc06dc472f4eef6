import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import UsageError
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import random_for
from resprout.scenario.topologies import SHAPES, parents_in


def depth(parents: list[int | None], broker: int) -> int:
    parent = parents[broker]
    return 0 if parent is None else 1 + depth(parents, parent)


def test_511_brokers_of_degree_3_are_the_complete_binary_tree() -> None:
    parents = parents_in("tree", 511, 3, random.Random(0))
    levels = Counter(depth(parents, broker) for broker in range(511))
    assert levels == {level: 2**level for level in range(9)}


def test_a_chain_and_a_star_are_what_they_are_called() -> None:
    assert parents_in("chain", 4, 3, random.Random(0)) == [None, 0, 1, 2]
    assert parents_in("star", 4, 3, random.Random(0)) == [None, 0, 0, 0]


@settings(deadline=None, derandomize=True)
@given(st.sampled_from(SHAPES), st.integers(1, 60), st.integers(2, 6), st.integers(0, 1000))
def test_every_shape_is_one_tree_in_breadth_first_order_within_its_degree(
    shape: str, brokers: int, degree: int, seed: int
) -> None:
    parents = parents_in(shape, brokers, degree, random.Random(seed))
    assert len(parents) == brokers
    assert parents[0] is None
    later = [parent for parent in parents[1:] if parent is not None]
    assert len(later) == brokers - 1
    assert later == sorted(later)  # with the next line: breadth first
    assert all(parent < broker for broker, parent in enumerate(later, 1))
    if shape in ("tree", "random"):
        assert max(Counter(later).values(), default=0) <= degree - 1


def test_random_trees_differ_by_seed_and_only_by_seed() -> None:
    drawn = [parents_in("random", 30, 4, random_for(seed, "topology")) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown tree 'ring'"):
        parents_in("ring", 3, 3, random.Random(0))


def test_clients_are_dealt_to_the_brokers_in_turn() -> None:
    scenario = parse_scenario(
        '[topology]\nkind = "tree"\nbrokers = 3\nlatency = "2ms"\nbandwidth = "1Mbit"\nclients_per_broker = 2\n'
        'client_latency = "7us"\nsubscribe = ["a/#"]\n'
    )
    assert [(b.name, b.parent, b.latency_us, b.bandwidth_bps) for b in scenario.brokers] == [
        ("b0", None, 2_000, 1_000_000), ("b1", "b0", 2_000, 1_000_000), ("b2", "b0", 2_000, 1_000_000),
    ]  # fmt: skip
    assert [(c.name, c.broker) for c in scenario.clients] == [
        ("c0", "b0"), ("c1", "b1"), ("c2", "b2"), ("c3", "b0"), ("c4", "b1"), ("c5", "b2"),
    ]  # fmt: skip
    assert {(c.latency_us, c.subscriptions[0].filter) for c in scenario.clients} == {(7, "a/#")}


def test_a_large_topology_is_made_quickly_enough_to_be_used() -> None:
    scenario = parse_scenario('[topology]\nkind = "random"\nbrokers = 20000\nclients_per_broker = 1\n')
    assert len(scenario.brokers) == len(scenario.clients) == 20_000


def test_a_group_for_each_subtree_has_the_clients_in_it() -> None:
    clients = parse_scenario(f"{_TREE}brokers = 511\nsubtree_groups = true\n").clients
    groups = [one.filter for client in clients for one in client.subscriptions]
    assert len(set(groups)) == 255 and len(groups) == 3_841, "255 groups have 3,841 memberships"
    assert [one.filter for one in clients[9].subscriptions] == ["group/b0", "group/b1", "group/b4", "group/b9"]
    leaf = clients[510].subscriptions
    assert [one.filter for one in leaf][-1] == "group/b254" and len(leaf) == 8


def test_groups_come_beside_what_all_subscribe_to_and_a_flat_network_has_none() -> None:
    (client, *_) = parse_scenario(f'{_TREE}brokers = 3\nsubtree_groups = true\nsubscribe = ["all"]\n').clients
    assert [one.filter for one in client.subscriptions] == ["all", "group/b0"]
    with pytest.raises(UsageError, match="a flat topology has no subtrees"):
        parse_scenario('[topology]\nkind = "flat"\nbrokers = 3\nsubtree_groups = true\n')


_TREE = '[topology]\nkind = "tree"\n'
