"""Violations are told as they show, not at the end."""

import random

import pytest

from resprout.audit.live.judge import LiveJudge, live_as_dict, live_lines
from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import Anomaly
from resprout.trace.schema import Row
from tests.audit.model import good_traces
from tests.audit.mutations import MUTATIONS
from tests.audit.test_live_memory import slowed
from tests.audit.trace_builder import TraceBuilder

SECOND = 1_000_000
QUICK = LiveOptions(lateness_us=5_000, grace_us=10_000, linger_us=50_000, horizon_us=60 * SECOND)
CALM = 100
"""Rows of nobody's between the trace and its end."""


@pytest.mark.parametrize(
    "name",
    [
        "drop", "duplicate", "forge", "deliver_before_publishing", "change_topic", "deliver_unasked", "skip_a_position",
        "publish_twice", "swap", "invert", "pass_a_barrier", "disagree_on_totals",
    ],
)  # fmt: skip
def test_a_violation_is_told_before_the_run_ends(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    tried, prompt = 0, 0
    for seed, rows in good_traces(1000, 12):
        spoiled = mutate(rows, random.Random(seed))
        if spoiled is not None:
            tried += 1
            prompt += rule in {anomaly.rule for anomaly in before_the_end(slowed(spoiled))}
    assert tried >= 3
    least = 1 if name == "drop" else tried  # the last of a client is not overtaken, nor is anything eventual
    assert prompt >= least


def before_the_end(rows: list[Row]) -> list[Anomaly]:
    judge = LiveJudge(QUICK)
    calm = [Row(time_us=rows[-1].time_us + 1000 * n, node="b0", kind="note") for n in range(CALM)]
    found = judge.take([*rows[:-1], *calm])
    assert judge.ended == ""
    return found


def gap() -> TraceBuilder:
    run = TraceBuilder()
    run.subscribe("s", "a")
    run.publish("c:1", "a", "causal")
    run.publish("c:2", "a", "causal")
    run.deliver("s", "c:2")
    return run


def test_a_gap_is_told_when_a_later_publication_of_the_client_has_come() -> None:
    judge = LiveJudge(LiveOptions())
    assert judge.take(gap().rows) == []
    found = judge.take([Row(time_us=4 * SECOND, node="b", kind="note")])
    lost, causal = (anomaly.explanation for anomaly in found)
    assert lost == (
        "s has not delivered c:1, published on a at 0.000002 s, but delivered c:2 at 0, though its subscription a was"
        " confirmed before"
    )
    assert causal == "s delivered c:2 at 0 but never c:1, on which it depends directly"


def test_a_gap_that_is_closed_in_time_is_a_matter_of_order() -> None:
    run = gap()
    run.deliver("s", "c:1")
    judge = LiveJudge(LiveOptions())
    found = judge.take([*run.rows, Row(time_us=9 * SECOND, node="b", kind="note")])
    assert sorted(anomaly.explanation for anomaly in found) == [
        "s delivered c:1 at 1 after c:2 at 0, though c published it first",
        "s delivered c:2 at 0 before c:1 at 1, on which it depends directly",
    ]


def test_nobody_is_blamed_for_what_was_refused() -> None:
    run = gap()
    run.add("c", "refused", **run.identity("c:1"))
    judge = LiveJudge(LiveOptions())
    found = judge.take([*run.rows, Row(time_us=9 * SECOND, node="b", kind="note")])
    found += judge.take([Row(time_us=10 * SECOND, node="world", kind="quiescent")])
    assert found == []


def test_silence_does_not_hold_rows_back_for_ever() -> None:
    run = TraceBuilder()
    run.subscribe("s", "a")
    run.publish("c:1", "a", "fifo")
    run.deliver("s", "c:1", "c:1")
    judge = LiveJudge(LiveOptions())
    assert judge.take(run.rows) == []
    assert judge.held == len(run.rows)
    assert [anomaly.rule for anomaly in judge.pause()] == ["twice"]
    assert judge.held == 0


def test_a_run_that_was_broken_off_is_not_blamed_for_what_is_missing() -> None:
    run = TraceBuilder()
    run.subscribe("s", "a")
    run.publish("c:1", "a", "fifo")
    judge = LiveJudge(LiveOptions())
    assert judge.take(run.rows) == []
    assert judge.close() == []
    assert judge.ended == "aborted"
    assert judge.take(run.rows) == []
    assert judge.counts["after_the_end"] == len(run.rows)


def test_the_summary_says_what_was_judged_and_what_was_not() -> None:
    counts = {"rows": 9, "publications": 3, "deliveries": 2, "late": 1}
    text = live_lines(counts, {"fifo": 2}, "timeout")
    assert text[0] == "3 publications and 2 deliveries judged as they happened; the run met its time limit"
    assert text[-1] == "VIOLATED: 2 anomalies (fifo)"
    assert any("came later than is allowed" in line for line in text)
    assert any("was not judged" in line for line in text)
    assert live_as_dict(counts, {}, "quiescent")["verdict"] == "clean"
    assert live_lines(counts, {}, "quiescent")[-1].startswith("clean")
