"""Random rows, sane or not: the arrays must say what the plain summary says."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.pipeline.metrics import measure_run
from resprout.pipeline.places import place_of
from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, TraceWriter
from resprout.trace.summary import summarize
from tests.soak import cases

rows = st.builds(
    Row,
    time_us=st.integers(0, 1_000),
    node=st.sampled_from(["p", "q", "s"]),
    kind=st.sampled_from(["publish", "deliver", "deliver", "deliver", "receipt", "note"]),
    publisher=st.sampled_from(["p", "q", "q", None]),
    incarnation=st.sampled_from([1, 2, None]),
    stream=st.sampled_from(["eventual", "ordered"]),
    seq=st.sampled_from([1, 2, 3, -1, 2**63 - 1, None]),
    guarantee=st.sampled_from(["eventual", "causal", "total", "best", None]),
    hops=st.sampled_from([0, 3, None]),
)


@given(st.lists(rows, max_size=60), st.integers(1, 60))
@settings(max_examples=cases(30, 100), deadline=None, derandomize=True)
def test_latencies_of_any_rows_are_those_of_the_summary(rows: list[Row], part: int) -> None:
    with TemporaryDirectory() as folder:
        writer = TraceWriter(folder)
        for begin in range(0, len(rows), part):
            writer.write(rows[begin : begin + part])
        writer.finish(RunInfo())
        found = measure_run(place_of(Path(folder), "e", "r"))
    summary = summarize(rows)
    latency = {row.guarantee: row for row in found.latency}
    assert list(latency) == list(summary.latency)
    for guarantee, expected in summary.latency.items():
        row = latency[guarantee]
        got = (row.count, row.median_us, row.p95_us, row.p99_us, row.max_us)
        assert got == (expected.count, expected.median_us, expected.p95_us, expected.p99_us, expected.max_us)
    assert found.runs[0].duration_us == summary.duration_us
    assert found.runs[0].publications == sum(summary.published.values())
    hops = [row.hops for row in rows if row.kind == "deliver" and row.hops is not None]
    assert found.traffic[0].hops_mean == (sum(hops) / len(hops) if hops else None)
    assert sum(row.delivered for row in found.load) == sum(row.kind == "deliver" for row in rows)
