"""What a run did, in numbers: counts and latencies, as data for whoever prints them.

A latency is the time from a publish row to a deliver row of the same publication (to a receipt row, for receipts).
Percentiles are nearest-rank: always a latency that was really observed. Of a run that recorded counts only, they are
the upper bounds of their buckets.
"""

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.trace import kinds
from resprout.trace.schema import Row

T = TypeVar("T")


class Latency(msgspec.Struct, frozen=True):
    """Of `count` observations, in microseconds."""

    count: int
    median_us: int
    p95_us: int
    p99_us: int
    max_us: int


class Summary(msgspec.Struct, frozen=True):
    rows: int
    duration_us: int
    """From the first row to the last."""
    published: dict[str, int]
    """Publications, by guarantee."""
    delivered: dict[str, int]
    """Deliveries, by guarantee."""
    subscribers: int
    """Clients that asked for a subscription."""
    latency: dict[str, Latency]
    """From publish to deliver, by guarantee; only guarantees that delivered something."""
    receipts: dict[str, Latency]
    """From publish to receipt, by receipt."""
    refused: int
    unresolved: int
    """Publications that were neither refused nor told `delivered` or `failed`."""
    ended: str
    """"quiescent", "timeout", or nothing when the run has no end."""


def summarize(rows: Iterable[Row]) -> Summary:
    """One pass over the rows."""
    published_at: dict[tuple[object, ...], int] = {}
    published: dict[str, int] = {}
    waits: dict[str, list[int]] = {}
    receipt_waits: dict[str, list[int]] = {}
    resolved: set[tuple[object, ...]] = set()
    subscribers: set[str] = set()
    counted = _Counted()
    refused, ended, count = 0, "", 0
    first_us: int | None = None
    last_us = 0
    for row in rows:
        count += 1
        first_us = row.time_us if first_us is None else min(first_us, row.time_us)
        last_us = max(last_us, row.time_us)
        kind = row.kind
        identity = (row.publisher, row.incarnation, row.stream, row.seq)
        if kind == kinds.DELIVER:
            if (begin := published_at.get(identity)) is not None:
                waits.setdefault(row.guarantee or "", []).append(row.time_us - begin)
        elif kind == kinds.PUBLISH:
            published_at.setdefault(identity, row.time_us)
            published[row.guarantee or ""] = published.get(row.guarantee or "", 0) + 1
        elif kind == kinds.RECEIPT:
            if (begin := published_at.get(identity)) is not None:
                receipt_waits.setdefault(row.receipt or "", []).append(row.time_us - begin)
            if row.receipt in ("delivered", "failed"):
                resolved.add(identity)
        elif kind == kinds.SUBSCRIBE:
            subscribers.add(row.node)
        elif kind == kinds.REFUSED and row.publisher is not None:
            refused += 1
            resolved.add(identity)
        elif kind == kinds.COUNTS:
            counted.add(row)
        elif kind in (kinds.QUIESCENT, kinds.TIMEOUT):
            ended = kind
    guarantees = [g.label for g in Guarantee]
    receipts = [*(r.label for r in ReceiptLevel), "failed"]
    return Summary(
        rows=count,
        duration_us=last_us - (first_us or 0),
        published=_in_order(guarantees, published | counted.published),
        delivered=_in_order(guarantees, {word: len(times) for word, times in waits.items()} | counted.delivered),
        subscribers=len(subscribers) + counted.rest.get("subscribers", 0),
        latency=_in_order(guarantees, {word: latency_of(times) for word, times in waits.items()} | counted.latency),
        receipts=_in_order(
            receipts, {word: latency_of(times) for word, times in receipt_waits.items()} | counted.receipts
        ),
        refused=refused + counted.rest.get("refused", 0),
        unresolved=len(published_at.keys() - resolved) + counted.rest.get("unresolved", 0),
        ended=ended,
    )


class _Counted:
    """What a run that recorded counts only says in their place."""

    def __init__(self) -> None:
        self.published: dict[str, int] = {}
        self.delivered: dict[str, int] = {}
        self.latency: dict[str, Latency] = {}
        self.receipts: dict[str, Latency] = {}
        self.rest: dict[str, int] = {}

    def add(self, row: Row) -> None:
        counts = {name: int(text) for name, text in (row.attributes or {}).items()}
        if row.guarantee is None:
            self.rest = counts
            for receipt in dict.fromkeys(name.split(":")[1] for name in counts if name.count(":") == 2):
                self.receipts[receipt] = latency_in(counts, f"receipt:{receipt}")
            return
        self.published[row.guarantee] = counts["published"]
        self.delivered[row.guarantee] = counts["delivered"]
        if "latency_max_us" in counts:
            self.latency[row.guarantee] = latency_in(counts, "latency")


def latency_in(counts: dict[str, int], prefix: str) -> Latency:
    """Of a histogram as `trace.counts` writes it."""
    largest = counts[f"{prefix}_max_us"]
    begin = f"{prefix}:"
    buckets = sorted((int(name.removeprefix(begin)), n) for name, n in counts.items() if name.startswith(begin))
    total = sum(n for _, n in buckets)
    ranks = [-(-total * percent // 100) for percent in (50, 95, 99)]
    reached = list(itertools.accumulate(n for _, n in buckets))
    median, p95, p99 = (min(largest, buckets[bisect.bisect_left(reached, rank)][0]) for rank in ranks)
    return Latency(total, median, p95, p99, largest)


def latency_of(times_us: Sequence[int]) -> Latency:
    """At least one observation is needed."""
    ordered = sorted(times_us)
    n = len(ordered)
    median, p95, p99 = (ordered[-(-n * percent // 100) - 1] for percent in (50, 95, 99))
    return Latency(n, median, p95, p99, ordered[-1])


def _in_order(words: Sequence[str], found: dict[str, T]) -> dict[str, T]:
    """Known words first, in their own order; words nobody knows after them."""
    return {word: found[word] for word in [*words, *sorted(found.keys() - set(words))] if word in found}
