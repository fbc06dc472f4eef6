"""Measurements of single runs, by hand and against the summary of the command line."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from resprout.pipeline.metrics import Measurements, measure_run
from resprout.pipeline.metrics.measuring import family_of
from resprout.pipeline.metrics.observed import labels_of
from resprout.pipeline.places import place_of
from resprout.pipeline.results import LoadRow
from resprout.scenario.load import load_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.stacks.stack import Family, all_stacks
from resprout.trace.schema import Row, TraceError
from resprout.trace.store import RunInfo, TraceWriter, write_trace
from resprout.trace.summary import summarize


def publish(time_us: int, seq: int, guarantee: str = "fifo", node: str = "p", **columns: Any) -> Row:
    stream = "eventual" if guarantee == "eventual" else "ordered"
    cells = {"publisher": node, "incarnation": 1, "stream": stream, "seq": seq, "guarantee": guarantee, **columns}
    return Row(time_us=time_us, node=node, kind="publish", **cells)


def deliver(time_us: int, node: str, seq: int, guarantee: str = "fifo", **columns: Any) -> Row:
    stream = "eventual" if guarantee == "eventual" else "ordered"
    cells = {"publisher": "p", "incarnation": 1, "stream": stream, "seq": seq, "guarantee": guarantee, **columns}
    return Row(time_us=time_us, node=node, kind="deliver", **cells)


def row(time_us: int, node: str, kind: str, detail: str | None = None, **attributes: str) -> Row:
    return Row(time_us=time_us, node=node, kind=kind, detail=detail, attributes=attributes or None)


def measured(folder: Path, rows: list[Row], **info: Any) -> Measurements:
    write_trace(folder, rows, RunInfo(ended="quiescent", **info))
    return measure_run(place_of(folder, "e", "r"))


def simulated(folder: Path, scenario: Scenario) -> tuple[Measurements, list[Row]]:
    result = run_scenario(scenario)
    write_trace(folder, result.rows, run_info(scenario, result.ended))
    return measure_run(place_of(folder, "e", scenario.name)), result.rows


def _frames_sent(load: LoadRow) -> int:
    assert load.frames_sent is not None
    return load.frames_sent


def _frames_received(load: LoadRow) -> int:
    assert load.frames_received is not None
    return load.frames_received


def test_a_small_trace_is_measured_as_one_would_by_hand(tmp_path: Path) -> None:
    rows = [
        publish(1_000_000, 1),
        publish(1_500_000, 2),
        publish(1_500_000, 1, "eventual"),
        deliver(1_000_300, "s", 1, hops=1, metadata_bytes=4, payload_bytes=10),
        deliver(1_500_100, "s", 2, hops=3, metadata_bytes=8, payload_bytes=10),
        deliver(1_501_000, "s", 1, "eventual", hops=2),
        deliver(3_000_000, "t", 2, hops=2, metadata_bytes=6, payload_bytes=10),
        row(
            3_000_000,
            "b0",
            "load",
            frames_sent="7",
            frames_received="5",
            **{"sent:Metadata": "3", "sent:Delivery": "4"},
        ),
        row(
            3_000_000,
            "p",
            "load",
            frames_sent="2",
            frames_received="2",
            bytes_sent="99",
            **{"sent:TreeViewUpdate": "1"},
        ),
        row(3_500_000, "world", "quiescent"),
    ]
    found = measured(
        tmp_path / "t", rows, scenario={"name": "n", "stack": "ginger", "clients": [{"name": "p"}]}, seed=4
    )
    [run] = found.runs
    assert (run.experiment, run.run, run.stack, run.seed, run.scenario) == ("e", "r", "ginger", 4, "n")
    assert (run.publications, run.deliveries, run.rows, run.duration_us) == (3, 4, 10, 2_500_000)
    assert (run.keys, run.faults, run.faults_tolerated, run.clients, run.brokers) == (None, 0, None, 1, 0)
    eventual, fifo = found.latency
    assert (eventual.guarantee, eventual.phase, eventual.count, eventual.median_us) == ("eventual", "all", 1, 1_000)
    assert (fifo.count, fifo.median_us, fifo.p95_us, fifo.max_us) == (3, 300, 1_500_000, 1_500_000)
    assert (fifo.p90_us, fifo.p999_us) == (1_500_000, 1_500_000)
    assert fifo.mean_us == pytest.approx((300 + 100 + 1_500_000) / 3)
    [traffic] = found.traffic
    assert traffic.throughput == pytest.approx(4 / 2.0)
    assert (traffic.hops_mean, traffic.metadata_bytes_mean, traffic.metadata_bytes_max) == (2.0, 6.0, 8)
    assert (traffic.frames, traffic.frame_bytes) == (9, 99)
    assert traffic.messages == {"clients": 4, "membership": 1, "publications": 3}
    assert traffic.messages_by_type == {"Delivery": 4, "Metadata": 3, "TreeViewUpdate": 1}
    assert (traffic.converged_us, traffic.settled_us) == (2_000_000, 1_500_000)
    assert (traffic.messages_per_publication, traffic.messages_per_delivery) == (3 / 3, 3 / 4)
    load = {row.node: row for row in found.load}
    assert [(node, row.role) for node, row in load.items()] == [
        ("p", "client"), ("b0", "broker"), ("s", "client"), ("t", "client")
    ]  # fmt: skip
    assert (load["p"].published, load["s"].delivered, load["t"].frames_sent) == (3, 3, None)
    assert (load["b0"].frames_sent, load["b0"].frames_received, load["p"].bytes_sent) == (7, 5, 99)
    assert found.repairs == []


def test_who_crashed_and_who_did_not_return_is_counted_and_what_the_stack_was_told_is_kept(tmp_path: Path) -> None:
    rows = [
        *(row(1_000, name, "crash") for name in ("b1", "b2", "b3", "c")),
        *(row(2_000, name, "recover") for name in ("b1", "b2")),
        row(3_000, "b2", "crash"),
    ]
    scenario = {"name": "n", "stack": "gossip", "clients": [{"name": "c"}]}
    [run] = measured(tmp_path / "t", rows, scenario=scenario, options={"lazy": True, "active": 3}).runs
    assert (run.faults, run.gone) == (3, 2)
    assert run.options == {"active": "3", "lazy": "true"}


def test_nobody_has_to_wait_for_what_came_before_the_last_publication(tmp_path: Path) -> None:
    rows = [publish(1_000, 1), deliver(2_000, "s", 1), publish(9_000, 2)]
    [traffic] = measured(tmp_path / "t", rows).traffic
    assert (traffic.converged_us, traffic.settled_us) == (1_000, 0)
    [traffic] = measured(tmp_path / "u", rows[:1]).traffic
    assert (traffic.converged_us, traffic.settled_us) == (None, None)


def test_steady_throughput_is_that_of_each_subscriber_in_the_middle_of_what_it_was_given(tmp_path: Path) -> None:
    slow = [0, 900_000, 910_000, 920_000, 930_000, 940_000, 950_000, 5_000_000]  # 100 a second, but at both ends
    fast = [7_000_000 + 1_000 * seq for seq in range(8)]
    rows = [publish(0, seq) for seq in range(1, 9)]
    rows += [deliver(time_us, "s", seq) for seq, time_us in enumerate(slow, 1)]
    rows += [deliver(time_us, "t", seq) for seq, time_us in enumerate(fast, 1)]
    rows.append(deliver(9_000_000, "u", 1))  # from one delivery nothing follows
    assert measured(tmp_path / "t", rows).traffic[0].steady_throughput == pytest.approx(100 + 1_000)
    assert measured(tmp_path / "u", []).traffic[0].steady_throughput is None


def test_what_comes_in_frames_took_the_time_between_them(tmp_path: Path) -> None:
    rows = [publish(0, seq) for seq in range(1, 41)]
    rows += [deliver(1_000 * (1 + (seq - 1) // 20), "s", seq) for seq in range(1, 41)]  # two frames of twenty
    assert measured(tmp_path / "t", rows).traffic[0].steady_throughput == pytest.approx(20_000)


def test_a_delivery_counts_for_latency_only_behind_its_publication(tmp_path: Path) -> None:
    rows = [
        deliver(0, "s", 1),
        publish(10, 1),
        publish(20, 1),  # a second row of the same publication changes nothing
        deliver(110, "s", 1),
        deliver(120, "s", 9),
        Row(
            time_us=130,
            node="s",
            kind="deliver",
            publisher="p",
            incarnation=2,
            stream="ordered",
            seq=1,
            guarantee="fifo",
        ),
    ]
    found = measured(tmp_path / "t", rows)
    assert [(latency.count, latency.max_us) for latency in found.latency] == [(1, 100)]
    assert found.runs[0].deliveries == 4


def test_a_trace_without_rows_is_measured(tmp_path: Path) -> None:
    found = measured(tmp_path / "t", [])
    assert (found.runs[0].rows, found.runs[0].duration_us) == (0, 0)
    assert [*found.latency, *found.repairs, *found.load] == []
    assert found.traffic[0].throughput is None


def test_parts_of_a_trace_are_one_run(tmp_path: Path) -> None:
    whole = [publish(0, 1), publish(5, 2), deliver(7, "s", 2), deliver(9, "s", 1), row(9, "world", "quiescent")]
    together = measured(tmp_path / "one", whole)
    writer = TraceWriter(tmp_path / "three")
    for part in (whole[:1], whole[1:3], whole[3:]):
        writer.write(part)
    writer.finish(RunInfo(ended="quiescent"))
    assert measure_run(place_of(tmp_path / "three", "e", "r")) == together


@pytest.mark.parametrize("file", ["bank", "content", "crash-b1-b4"])
@pytest.mark.parametrize("stack", ["resprout", "ginger"])
def test_latencies_are_those_of_the_summary(tmp_path: Path, file: str, stack: str) -> None:
    scenario = load_scenario(file, ["workload.0.operations=20", f"stack={stack}", "options={}"])
    found, rows = simulated(tmp_path / "t", scenario)
    summary = summarize(rows)
    latency = {row.guarantee: row for row in found.latency if row.phase == "all"}
    assert list(latency) == list(summary.latency)
    for guarantee, expected in summary.latency.items():
        row = latency[guarantee]
        got = (row.count, row.median_us, row.p95_us, row.p99_us, row.max_us)
        assert got == (expected.count, expected.median_us, expected.p95_us, expected.p99_us, expected.max_us)
        assert row.p90_us is not None and row.p999_us is not None
        assert row.median_us <= row.p90_us <= row.p95_us and row.p99_us <= row.p999_us <= row.max_us
    assert found.runs[0].duration_us == summary.duration_us
    assert found.runs[0].publications == sum(summary.published.values())
    assert found.runs[0].ended == summary.ended


def test_the_simulator_counts_what_its_nodes_send(tmp_path: Path) -> None:
    scenario = load_scenario("bank", ["workload.0.operations=20"])
    found, _ = simulated(tmp_path / "t", scenario)
    assert [row.node for row in found.load] == [b.name for b in scenario.brokers] + [c.name for c in scenario.clients]
    sent, received = (sum(map(count, found.load)) for count in (_frames_sent, _frames_received))
    under_way = 4 * len(found.load)  # signs of life when the run is over, on links and on sessions kept for a repair
    assert 0 <= sent - received <= under_way < received
    assert all(row.bytes_sent is None for row in found.load)
    assert sum(row.published for row in found.load) == found.runs[0].publications
    assert sum(row.delivered for row in found.load) == found.runs[0].deliveries
    [traffic] = found.traffic
    assert traffic.messages is not None
    assert Family.OTHER not in traffic.messages
    links = len(scenario.brokers) - 1  # every publication has to cross each of them, since somebody listens behind it
    assert (
        traffic.messages[Family.PUBLICATIONS] >= links * found.runs[0].publications * 0.9
    )  # some travel in one bundle


def test_bytes_are_counted_where_a_bandwidth_asks_for_them(tmp_path: Path) -> None:
    settings = ["topology.brokers=5", "workload.0.operations=20", "topology.bandwidth=10Mbit"]
    found, _ = simulated(tmp_path / "t", load_scenario("flood", settings))
    for row in found.load:
        assert (row.bytes_sent is not None) == (row.role == "broker")
    assert found.traffic[0].frame_bytes == sum(row.bytes_sent or 0 for row in found.load)
    payload = sum((row.delivered * 32) for row in found.load)
    assert (found.traffic[0].frame_bytes or 0) > payload


def test_a_network_card_with_a_bandwidth_has_a_busy_share(tmp_path: Path) -> None:
    settings = ["topology.brokers=5", "workload.0.operations=20", "topology.bandwidth=1Mbit"]
    found, _ = simulated(tmp_path / "t", load_scenario("flood", settings))
    for row in found.load:
        if row.role == "client":
            assert row.busy_share is None
        else:
            exact = (row.bytes_sent or 0) * 8 / found.runs[0].duration_us  # a bit takes a microsecond
            assert row.busy_share == pytest.approx(exact, rel=0.05)
            assert 0 < (row.busy_share or 0) < 1


def test_a_run_that_records_counts_has_the_same_measures(tmp_path: Path) -> None:
    settings = ["topology.brokers=7", "workload.0.operations=60", "count_bytes=true"]
    rows, _ = simulated(tmp_path / "r", load_scenario("flood", settings))
    counts, _ = simulated(tmp_path / "c", load_scenario("flood", [*settings, "trace=counts"]))
    assert (counts.runs[0].publications, counts.runs[0].deliveries) == (60, 420)
    unknown = {"settled_us": None}  # counts do not say when the last publication was made
    assert msgspec.structs.replace(counts.traffic[0], digest=rows.traffic[0].digest) == msgspec.structs.replace(
        rows.traffic[0], **unknown
    )
    [told], [true] = counts.latency, rows.latency
    assert (told.guarantee, told.phase, told.count, told.mean_us, told.max_us) == (
        true.guarantee, true.phase, true.count, true.mean_us, true.max_us
    )  # fmt: skip
    assert true.median_us <= told.median_us <= true.median_us * 65 / 64
    assert [row.bytes_sent for row in counts.load] == [row.bytes_sent for row in rows.load]


def test_every_message_of_every_stack_has_a_purpose() -> None:
    for stack in all_stacks().values():
        said = [message for messages in stack.families.values() for message in messages]
        assert len(said) == len(set(said)) and set(said) == set(stack.messages), "one purpose for each, and no more"


def test_messages_of_a_stack_that_is_not_installed_have_another_purpose() -> None:
    assert family_of("resprout", "Forward") is Family.PUBLICATIONS
    assert family_of("ginger", "Forward") is Family.OTHER, "each stack speaks of its own messages only"
    assert family_of("somebody's own", "Forward") is Family.OTHER


def test_a_load_row_that_does_not_count_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"part-00000\.parquet: the load row of b0 counts .*many"):
        measured(tmp_path / "t", [row(0, "b0", "load", frames_sent="many")])


def test_a_scenario_that_makes_no_sense_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"run\.json: the scenario is damaged: .*brokers"):
        measured(tmp_path / "t", [], scenario={"brokers": "many"})


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("keys=10,stack=ginger,seed=2", {"keys": "10", "stack": "ginger"}),
        ("seed=2", {}),
        ("bank: eight brokers, five clients", {}),
        ("a=b", {}),
        ("", {}),
        ("x=,seed=1", {}),
    ],
)
def test_labels_are_read_from_the_name_of_a_run_in_a_sweep(name: str, labels: dict[str, str]) -> None:
    assert labels_of(name) == labels
