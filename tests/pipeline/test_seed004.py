"""The experiments of seed 004 on few messages: the sweeps are the text's, and their figures have the shapes that
docs/experiments/seed004.md tells of. The full ones are `resprout sweep seed004-*`."""

from functools import cache

import pytest

from resprout.core.contract import word_of
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.measures import BETWEEN_BROKERS, CLIENTS, MEASURES, OTHER, layer_of, messages_by_layer
from resprout.stacks.stack import DEFAULT, find_stack
from resprout_lab import SYSTEMS
from resprout_lab.figures.formulas import SIZES, TOPICS, mean_shares, owners_of, ring_shares, topics_owned
from resprout_lab.scribe.ring_numbers import number_of, to_key
from tests.overlay.chord_net import Ring
from tests.pipeline.made_up import run_row, traffic
from tests.pipeline.played import play, runs_of

FEW = ("workload.0.operations=4",)


@cache
def played(figure: str, system: str, *changes: str, **labels: str) -> RunFacts:
    wanted = {axis: (label,) for axis, label in labels.items()}
    (run,) = runs_of(f"seed004-{figure}", changes, system=(system,), **wanted)
    facts = play(f"seed004-{figure}", run)
    assert facts.verdict is not None and facts.verdict.status == "clean"
    assert facts.verdict.owed == facts.verdict.came, f"{run.name}: reliability without failures"
    return facts


def converged_us(facts: RunFacts) -> float:
    ((_, number),) = MEASURES["convergence"].numbers(facts)
    return number


# -- the sweeps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "brokers", "published"),
    [
        ("3", {20}, {10, 25, 50, 75}),
        ("4", {20}, {10, 25, 50, 75}),
        ("5", {10, 20, 30}, {20}),
        ("6", {10, 20, 30}, {30}),
    ],
)
def test_every_sweep_has_the_nodes_and_messages_of_its_figure(
    figure: str, brokers: set[int], published: set[int]
) -> None:
    runs = list(runs_of(f"seed004-{figure}"))
    assert {len(run.scenario.brokers) for run in runs} == brokers
    assert {workload.operations for run in runs for workload in run.scenario.workloads} == published
    assert {"scribe", "gossip", "resprout"} <= {run.scenario.stack for run in runs}
    assert not any(run.scenario.faults for run in runs)
    assert all(len(run.scenario.clients) == len(run.scenario.brokers) for run in runs)
    if figure == "6":
        assert {workload.topics for run in runs for workload in run.scenario.workloads} == {TOPICS}


# -- messages by layer -------------------------------------------------------------------------------------------------


def test_every_message_of_every_stack_has_a_layer() -> None:
    for name in (DEFAULT, *SYSTEMS):
        layers = {word_of(kind): layer_of(name, word_of(kind)) for kind in find_stack(name).messages}
        assert OTHER not in layers.values()
        assert {"Publish", "Delivery"} <= {word for word, layer in layers.items() if layer == CLIENTS}
    assert [layer_of("gossip", word) for word in ("Shuffle", "Gossiped", "Publish")] == ["overlay", "spread", "edge"]
    assert layer_of("gossip", "NoSuchMessage") == layer_of("elsewhere", "Publish") == OTHER


def test_what_clients_say_is_no_layer_between_brokers() -> None:
    counted = {"Gossiped": 7, "IHave": 2, "Shuffle": 5, "Publish": 100}
    facts = RunFacts(run=run_row(stack="gossip"), traffic=traffic("e", "r", messages_by_type=counted))
    assert messages_by_layer(facts) == {"spread": 9, "overlay": 5}
    assert {own["layer"]: number for own, number in MEASURES["layers"].numbers(facts)} == {
        "spread": 9, "overlay": 5, BETWEEN_BROKERS: 14
    }  # fmt: skip
    assert not list(MEASURES["layers"].numbers(RunFacts(run=run_row())))


def test_3_gossip_sends_each_message_over_all_its_links_and_a_tree_once_to_each_node() -> None:
    eager, lazy, tree = (played("3", system, *FEW, published="10") for system in ("gossip", "gossip-lazy", "resprout"))
    copies = {facts.run.labels["system"]: next(MEASURES["copies"].numbers(facts))[1] for facts in (eager, lazy, tree)}
    assert copies["resprout"] == pytest.approx(19, abs=0.1), "one for each node but the first"
    assert copies["gossip"] > 3.5 * 19 and 19 <= copies["gossip-lazy"] < copies["gossip"]


def test_3_messages_grow_with_what_is_published() -> None:
    few, many = (played("3", "gossip", f"workload.0.operations={count}", published="10") for count in (2, 8))
    assert messages_by_layer(many)["spread"] == pytest.approx(4 * messages_by_layer(few)["spread"], rel=0.2)


def test_4_where_messages_take_time_everybody_waits_for_the_busiest_node() -> None:
    loud = ("workload.0.operations=10", "workload.0.payload=2000", "topology.brokers=10")
    for system in MEASURED:
        wide, narrow = (
            played("4", system, *loud, published="10", bandwidth=bandwidth) for bandwidth in ("unlimited", "10Mbit")
        )
        assert converged_us(narrow) > 3 * converged_us(wide)
        busiest_us = max(row.bytes_sent or 0 for row in narrow.load if row.role == "broker") * 8 / 10
        assert 0.6 < busiest_us / converged_us(narrow) < 1.1, f"{system}: what it sends at 10 bits in a microsecond"


MEASURED = ("gossip", "resprout")


def test_5_the_messages_of_the_overlay_grow_with_the_nodes() -> None:
    few, many = (messages_by_layer(played("5", "gossip", *FEW, nodes=nodes))["overlay"] for nodes in ("10", "30"))
    assert many > 2 * few


# -- 6: who owns which topic -------------------------------------------------------------------------------------------


def test_6_thirty_topics_are_3_and_one_and_a_half_and_1_for_each_node_and_some_node_has_none() -> None:
    shares = {nodes: ring_shares([f"b{number}" for number in range(nodes)], TOPICS) for nodes in SIZES}
    assert [shares[nodes].expected for nodes in SIZES] == [3, 1.5, 1]
    assert [shares[nodes].least for nodes in SIZES] == [0, 0, 0]
    means = [mean_shares(nodes, TOPICS, 200) for nodes in SIZES]
    assert means[0].most > means[1].most > means[2].most, "the most of a node falls with more nodes"
    uneven = [mean.most / mean.expected for mean in means]
    assert uneven[0] < uneven[1] < uneven[2], "beside what is expected it rises"


def test_6_owners_are_those_that_a_ring_names() -> None:
    net = Ring(seed=2)
    net.grow(20)
    net.stabilise(40)
    asked = net.living["m7"]
    for topic in TOPICS:
        asked.chord.look_up(to_key(number_of(topic)))
    net.stabilise(10)
    named = [asked.found[to_key(number_of(topic))] for topic in TOPICS]
    assert [found.owner.name for found in named if found is not None] == list(owners_of(net.members, TOPICS))


def test_6_the_figure_has_what_is_expected_the_least_and_the_most_for_each_size() -> None:
    (grid,) = topics_owned()
    assert grid.xs == tuple(map(str, SIZES)) and set(grid.series) == {"expected", "least", "most"}
    assert grid.cells["", "of these runs", "20", "expected"].median == 1.5 and not grid.runs


def test_6_no_node_of_gossip_bears_much_more_than_another() -> None:
    loads = {
        own["of"]: number for own, number in MEASURES["broker_loads"].numbers(played("6", "gossip", *FEW, nodes="10"))
    }
    assert loads["least"] <= loads["mean"] <= loads["most"] < 1.5 * loads["mean"]
