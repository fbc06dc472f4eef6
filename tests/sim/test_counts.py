"""A run that records counts only: the same run, without a row for each delivery, and nothing to judge."""

from pathlib import Path

import pytest

from resprout.audit.judge import judge
from resprout.core.errors import UsageError
from resprout.net.run.schedule import check_runnable
from resprout.pipeline.places import find_runs
from resprout.pipeline.python_judge import judge_here
from resprout.scenario.load import parse_scenario
from resprout.scenario.write import run_info
from resprout.sim.run import RunResult, run_scenario
from resprout.trace.schema import TraceError
from resprout.trace.store import Trace, TraceWriter
from resprout.trace.summary import Histogram, bucket_of, summarize

SCENARIO = """
name = "counted"
seed = 5
{top}
[topology]
kind = "tree"
brokers = 7
latency = "3ms"
subscribe = ["a", "b"]
[[workload]]
kind = "random"
topics = ["a", "b"]
operations = 30
mix = {{ eventual = 0.3, causal = 0.5, total = 0.2 }}
interval = "5ms"
[[fault]]
at = "200ms"
kind = "cut"
nodes = ["b0", "b1"]
[[fault]]
at = "400ms"
kind = "heal"
"""


def played(top: str = "") -> RunResult:
    return run_scenario(parse_scenario(SCENARIO.format(top=top), "<test>"))


@pytest.fixture(scope="module")
def rows() -> RunResult:
    return played()


@pytest.fixture(scope="module")
def counts() -> RunResult:
    return played('trace = "counts"')


def test_counting_does_not_change_the_run(rows: RunResult, counts: RunResult) -> None:
    assert (rows.stats, rows.ended, rows.traffic) == (counts.stats, counts.ended, counts.traffic)


def test_counts_are_those_of_the_rows_that_were_not_written(rows: RunResult, counts: RunResult) -> None:
    whole, counted = summarize(rows.rows), summarize(counts.rows)
    assert counted.published == whole.published
    assert counted.delivered == whole.delivered
    assert (counted.subscribers, counted.refused, counted.unresolved) == (7, whole.refused, whole.unresolved)
    assert counted.ended == whole.ended
    for told, true in ((counted.latency, whole.latency), (counted.receipts, whole.receipts)):
        assert told.keys() == true.keys()
        for word, latency in true.items():
            assert (told[word].count, told[word].max_us) == (latency.count, latency.max_us)
            for percentile in ("median_us", "p95_us", "p99_us"):
                exact = getattr(latency, percentile)
                assert exact <= getattr(told[word], percentile) <= exact * 65 / 64


def test_what_deliveries_carried_is_summed_up(rows: RunResult, counts: RunResult) -> None:
    deliveries = [row for row in rows.rows if row.kind == "deliver" and row.guarantee == "causal"]
    row = next(row for row in counts.rows if row.kind == "counts" and row.guarantee == "causal")
    told = {name: int(text) for name, text in (row.attributes or {}).items()}
    assert told["metadata_bytes"] == sum(row.metadata_bytes or 0 for row in deliveries)
    assert told["metadata_bytes_max"] == max(row.metadata_bytes or 0 for row in deliveries)
    assert told["payload_bytes"] == sum(row.payload_bytes or 0 for row in deliveries)
    assert told["hops"] == sum(row.hops or 0 for row in deliveries)
    assert told["last_delivery_us"] == deliveries[-1].time_us
    windows = {int(name.split(":")[1]): count for name, count in told.items() if name.startswith("window:")}
    assert sum(windows.values()) == len(deliveries)
    for begin_us, count in windows.items():
        assert count == sum(begin_us <= row.time_us < begin_us + 10_000 for row in deliveries)


def test_no_row_is_left_of_what_clients_asked_and_got(counts: RunResult) -> None:
    found = {row.kind for row in counts.rows}
    assert not found & {"publish", "deliver", "receipt", "subscribe", "subscribed"}
    assert {"cut", "heal", "load", "counts", "quiescent"} <= found


def test_the_judge_refuses_it_in_one_line(counts: RunResult, tmp_path: Path) -> None:
    scenario = parse_scenario(SCENARIO.format(top='trace = "counts"'), "<test>")
    writer = TraceWriter(tmp_path)
    writer.write(counts.rows)
    info = writer.finish(run_info(scenario, counts.ended, counts.traffic))
    assert info.traffic["frames_sent"] == counts.traffic["frames_sent"]
    with pytest.raises(TraceError, match=r'^the run recorded counts only \(trace = "counts"\)'):
        judge(Trace(counts.rows, info))
    with pytest.raises(TraceError, match="counts only") as refused:
        judge_here(find_runs([tmp_path]))
    assert str(refused.value).startswith(f"{tmp_path}: ")


def test_processes_are_not_asked_to_count() -> None:
    with pytest.raises(UsageError, match="only for `resprout sim`"):
        check_runnable(parse_scenario(SCENARIO.format(top='trace = "counts"'), "<test>"))


def test_a_bucket_is_little_wider_than_its_values() -> None:
    for value in [*range(3_000), 10**5, 10**9 + 7]:
        assert value <= bucket_of(value) <= value * 65 / 64
        assert bucket_of(bucket_of(value)) == bucket_of(value)
    assert len({bucket_of(value) for value in range(1 << 20)}) < 1_000


def test_an_empty_histogram_says_nothing() -> None:
    assert Histogram().attributes("latency") == {}
