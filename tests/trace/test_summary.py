"""A run in numbers."""

from typing import Any

from resprout.trace.schema import Row
from resprout.trace.summary import Latency, latency_of, summarize


def row(time_us: int, kind: str, seq: int = 1, node: str = "c", **columns: Any) -> Row:
    return Row(
        time_us=time_us, node=node, kind=kind, publisher="c", incarnation=0, stream="ordered", seq=seq, **columns
    )


def test_an_empty_run_has_nothing() -> None:
    summary = summarize([])
    assert (summary.rows, summary.duration_us, summary.latency, summary.ended) == (0, 0, {}, "")


def test_counts_and_latencies_are_per_guarantee_and_receipt() -> None:
    summary = summarize(
        [
            Row(time_us=100, node="s", kind="subscribe", filter="a"),
            row(100, "publish", 1, guarantee="total"),
            row(110, "publish", 2, guarantee="fifo"),
            row(120, "publish", 3, guarantee="fifo"),
            row(130, "deliver", 1, "s", guarantee="total"),
            row(140, "deliver", 2, "s", guarantee="fifo"),
            row(170, "deliver", 2, "s2", guarantee="fifo"),
            row(175, "deliver", 99, "s2", guarantee="fifo"),
            row(180, "receipt", 1, receipt="safe"),
            row(200, "receipt", 1, receipt="delivered"),
            row(200, "refused", 3),
            Row(time_us=300, node="world", kind="quiescent"),
        ]
    )
    assert summary.duration_us == 200
    assert list(summary.published.items()) == [("fifo", 2), ("total", 1)]
    assert list(summary.delivered.items()) == [("fifo", 2), ("total", 1)]
    assert summary.latency["fifo"] == Latency(2, 30, 60, 60, 60)
    assert summary.receipts == {"safe": Latency(1, 80, 80, 80, 80), "delivered": Latency(1, 100, 100, 100, 100)}
    assert (summary.subscribers, summary.refused, summary.unresolved, summary.ended) == (1, 1, 1, "quiescent")


def test_percentiles_are_observations() -> None:
    assert latency_of(list(range(1, 101))) == Latency(100, 50, 95, 99, 100)
    assert latency_of([5]) == Latency(1, 5, 5, 5, 5)
    assert latency_of([9, 1, 5]) == Latency(3, 5, 9, 9, 9)
