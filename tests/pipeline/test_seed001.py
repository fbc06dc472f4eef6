"""The experiments of seed 001 on small trees: the sweeps can be run, and their figures have the shapes that
docs/experiments/seed001.md tells of. The full ones are `resprout sweep seed001-*`."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.pipeline.metrics import measure_run
from resprout.pipeline.places import place_of
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.measures import MEASURES
from resprout.pipeline.sweep import load_plan
from resprout.scenario.load import Axis, load_sweep
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.stacks.stack import find_stack
from resprout.trace.store import write_trace

FIGURES = ("5.1a", "5.1b", "5.1c", "5.1d", "5.1e", "5.1f", "5.2", "5.3", "5.4")
BROKERS = 15
OPERATIONS = 96
AS_LONG = ("workload.0.operations=192",)
"""As the sweeps have it: large payloads take so many until they flow evenly."""
CAUSAL = ("resprout", "locamu", "cbcast", "causal-barriers")


@cache
def played(figure: str, stack: str, changes: tuple[str, ...] = (), **labels: str) -> RunFacts:
    """The run of a sweep with these labels, on a small tree unless they say how large it is, and where one client
    publishes, half as long; judged as well."""
    small = () if "brokers" in labels else (f"topology.brokers={BROKERS}",)
    short = (f"workload.0.operations={OPERATIONS}",) if figure.startswith("5.1") else ()
    sweep = load_plan(f"seed001-{figure}", [*small, *short, *changes]).sweep
    wanted = {**labels, "stack": stack}
    axes = [Axis(axis.name, tuple(p for p in axis.points if p.label == wanted[axis.name])) for axis in sweep.axes]
    (run,) = msgspec.structs.replace(sweep, axes=tuple(axes)).runs()
    result = run_scenario(run.scenario)
    verdict = judge(result.rows, promise=find_stack(run.scenario.stack).promise())
    assert result.ended == "quiescent" and not verdict.violated, f"{run.name}: {verdict.anomalies[:3]}"
    with TemporaryDirectory() as folder:
        write_trace(Path(folder) / "t", result.rows, run_info(run.scenario, result.ended))
        found = measure_run(place_of(Path(folder) / "t", sweep.name, run.name))
    return RunFacts(run=found.runs[0], traffic=found.traffic[0])


def per_broker(facts: RunFacts) -> float:
    """Messages per second, as each subscriber is given them."""
    assert facts.traffic is not None and facts.traffic.steady_throughput is not None
    return facts.traffic.steady_throughput / facts.run.clients


def header(facts: RunFacts) -> float:
    ((_, number),) = MEASURES["header_bytes"].numbers(facts)
    return number


def ordering_bytes(facts: RunFacts) -> int:
    assert facts.traffic is not None and facts.traffic.metadata_bytes_max is not None
    return facts.traffic.metadata_bytes_max


@pytest.mark.parametrize("figure", FIGURES)
def test_every_sweep_can_be_built_and_has_the_default_stack_beside_the_others(figure: str) -> None:
    runs = list(load_sweep(f"seed001-{figure}").runs())
    assert {"resprout", "locamu"} <= {run.scenario.stack for run in runs}
    assert all(run.scenario.has_free_client_links for run in runs)
    one = [run for run in runs if run.labels.get("bundles", "one") == "one" and figure != "5.4"]
    assert all(run.scenario.workloads[0].bundle_max == 1 for run in one), "like with like"


# -- 5.1: delta and LoCaMu ---------------------------------------------------------------------------------------------


def test_a_the_throughput_of_delta_falls_with_the_size_and_that_of_locamu_does_not() -> None:
    small, large = ({s: per_broker(played("5.1a", s, brokers=n, bundles="one")) for s in PLAYED} for n in ("15", "63"))
    assert small["delta"] == pytest.approx(1000 / 6, rel=0.02), "a round trip of 3 hops"
    assert large["delta"] == pytest.approx(1000 / 10, rel=0.02), "of 5 hops"
    for stack in ("resprout", "cbcast"):
        assert large[stack] == pytest.approx(small[stack], rel=0.1)
    assert large["locamu"] > 100 * large["delta"]


PLAYED = ("resprout", "locamu", "delta", "cbcast")


def test_b_delta_gains_on_locamu_with_many_publishers() -> None:
    def ratio(publishers: str, *changes: str) -> float:
        delta, locamu = (
            per_broker(played("5.1b", stack, changes, publishers=publishers, bundles="one"))
            for stack in ("delta", "locamu")
        )
        return delta / locamu

    assert ratio("8", "workload.0.clients=15", "workload.0.operations=8") > 3 * ratio("1"), "ten times with 31 brokers"


def test_c_delta_gains_nothing_from_bandwidth_and_the_others_all_of_it() -> None:
    def gain(stack: str) -> float:
        slow, fast = (
            per_broker(played("5.1c", stack, bandwidth=bandwidth, bundles="one")) for bandwidth in ("10Mbit", "100Mbit")
        )
        return fast / slow

    assert gain("delta") < 2
    for stack in ("resprout", "locamu", "cbcast"):
        assert gain(stack) > 5


def test_d_large_payloads_make_all_headers_alike() -> None:
    def ratio(payload: str) -> float:
        ours, theirs = (
            per_broker(played("5.1d", stack, AS_LONG, payload=payload, bundles="one"))
            for stack in ("resprout", "locamu")
        )
        return ours / theirs

    assert ratio("32") > 2 and ratio("16384") == pytest.approx(1, rel=0.1)


def test_e_f_costs_locamu_its_throughput_and_delta_nothing_to_speak_of() -> None:
    def left(stack: str) -> float:
        one, two = (per_broker(played("5.1e", f"{stack}-f{f}", bundles="one")) for f in "12")
        return two / one

    assert left("locamu") < 0.7 and left("delta") > 0.9


def test_bundles_that_fill_themselves_carry_more_of_every_stack() -> None:
    for stack in PLAYED:
        one, free = (per_broker(played("5.1a", stack, brokers="15", bundles=bundles)) for bundles in ("one", "free"))
        assert free > 1.3 * one, stack


# -- 5.2 and 5.3: causal stacks ----------------------------------------------------------------------------------------

EVERYBODY = ("workload.0.clients=15", "workload.0.operations=4")


@pytest.mark.parametrize("figure", ["5.2", "5.3"])
def test_headers_of_causal_barriers_are_the_largest_and_grow_fastest(figure: str) -> None:
    few, many = (
        {stack: header(played(figure, stack, changes, publishers="1", bandwidth="100Mbit")) for stack in CAUSAL}
        for changes in (("workload.0.clients=2", "workload.0.operations=4"), EVERYBODY)
    )
    assert max(many, key=lambda stack: many[stack]) == max(few, key=lambda stack: few[stack]) == "causal-barriers"
    growth = {stack: many[stack] - few[stack] for stack in CAUSAL}
    assert max(growth, key=lambda stack: growth[stack]) == "causal-barriers"
    assert few["cbcast"] < few["locamu"], "clocks that hardly change are compressed to nearly nothing"


def test_cbcast_suffers_from_groups_and_the_default_stack_does_not() -> None:
    def headers(stack: str) -> list[float]:
        return [
            header(played(figure, stack, EVERYBODY, publishers="1", bandwidth="100Mbit")) for figure in ("5.2", "5.3")
        ]

    one, groups = headers("cbcast")
    assert groups > 1.5 * one
    one, groups = headers("resprout")
    assert groups == pytest.approx(one, rel=0.2)


def test_at_100_messages_a_second_no_bundle_has_company() -> None:
    free = "workload.0.bundle_max=1024"
    runs = [
        played("5.2", "cbcast", (*EVERYBODY, *more), publishers="1", bandwidth="10Mbit").run.digest
        for more in ((), (free,))
    ]
    assert runs[0] == runs[1]


# -- 5.4 and the default stack -----------------------------------------------------------------------------------------


def test_the_default_stack_needs_at_most_16_ordering_bytes_for_a_message() -> None:
    runs: list[Callable[[], RunFacts]] = [
        lambda: played("5.1a", "resprout", brokers="15", bundles="one"),
        lambda: played("5.1a", "resprout", brokers="63", bundles="one"),
        lambda: played("5.2", "resprout", EVERYBODY, publishers="1", bandwidth="100Mbit"),
        lambda: played("5.3", "resprout", EVERYBODY, publishers="1", bandwidth="100Mbit"),
        lambda: played("5.4", "resprout", brokers="15"),
    ]
    assert all(ordering_bytes(run()) <= 16 for run in runs)


def test_with_one_message_in_a_bundle_the_default_stack_carries_more_than_the_other_causal_ones() -> None:
    rates = {stack: per_broker(played("5.1a", stack, brokers="15", bundles="one")) for stack in CAUSAL}
    assert max(rates, key=lambda stack: rates[stack]) == "resprout"
