"""A run in numbers: counts and latencies, from its rows or recorded in place of them.

`summarize` takes them from rows. A latency is the time from a publish row to a deliver row of the same publication (to
a receipt row, for receipts). Percentiles are nearest-rank: always a latency that was observed. For a run that recorded
counts only, they are the upper bounds of their buckets.

`Counts` records what clients saw without a row for each delivery, for runs with tens of millions of deliveries. For
each guarantee it has publications, deliveries, latencies, payload bytes and times. A latency goes into a bucket that is
at most 1/64 wider than its lowest value; the largest one is exact. Deliveries are also counted by windows of
`WINDOW_US`, so that throughput can be measured without the beginning and the end of a run. Counts cannot be judged:
they do not say which message came where, and after which. At the end they are rows of the trace (`kinds.COUNTS`), so
that its digest covers them.
"""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.trace import kinds
from resprout.trace.schema import Row

WINDOW_US: Final = 10_000
_EXACT_BITS: Final = 7

Identity = tuple[str, int, str, int]
"""Publisher, incarnation, stream, number."""

T = TypeVar("T")


def bucket_of(value: int) -> int:
    """The largest value of the bucket that this one falls into: itself, when it is small."""
    surplus = value.bit_length() - _EXACT_BITS
    return value if surplus <= 0 else (((value >> surplus) + 1) << surplus) - 1


class Histogram:
    """Times in microseconds, by bucket."""

    __slots__ = ("buckets", "largest", "total")

    def __init__(self) -> None:
        self.buckets: defaultdict[int, int] = defaultdict(int)
        self.largest = 0
        self.total = 0

    def add(self, value: int) -> None:
        self.buckets[bucket_of(value)] += 1
        self.total += value
        if value > self.largest:
            self.largest = value

    def attributes(self, prefix: str) -> dict[str, int]:
        found = {f"{prefix}:{bucket}": count for bucket, count in sorted(self.buckets.items())}
        return found | ({f"{prefix}_max_us": self.largest, f"{prefix}_sum_us": self.total} if found else {})


class _OfGuarantee:
    __slots__ = (
        "delivered", "first_us", "hops", "last_us", "latency", "metadata_bytes", "metadata_bytes_max", "payload_bytes",
        "published", "windows",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        self.first_us: int | None = None
        """When the first was published, and the last delivered."""
        self.last_us = 0
        self.hops = 0
        self.metadata_bytes = 0
        self.metadata_bytes_max = 0
        self.payload_bytes = 0
        self.latency = Histogram()
        self.windows: defaultdict[int, int] = defaultdict(int)

    def attributes(self) -> dict[str, int]:
        counts = {
            "published": self.published,
            "delivered": self.delivered,
            "first_publish_us": self.first_us or 0,
            "last_delivery_us": self.last_us,
            "hops": self.hops,
            "metadata_bytes": self.metadata_bytes,
            "metadata_bytes_max": self.metadata_bytes_max,
            "payload_bytes": self.payload_bytes,
        }
        windows = {f"window:{begin_us}": count for begin_us, count in sorted(self.windows.items())}
        return counts | self.latency.attributes("latency") | windows


class Counts:
    """Of all clients of a run."""

    def __init__(self) -> None:
        self._of = {guarantee: _OfGuarantee() for guarantee in Guarantee}
        self._streams = {guarantee: guarantee.stream for guarantee in Guarantee}
        self._published_us: dict[Identity, int] = {}
        """Of what may still be delivered."""
        self._receipts: dict[str, Histogram] = {}
        self._subscribers: set[str] = set()
        self._resolved = 0
        self._refused = 0

    def published(self, time_us: int, identity: Identity, guarantee: Guarantee) -> None:
        of = self._of[guarantee]
        of.published += 1
        if of.first_us is None:
            of.first_us = time_us
        self._published_us[identity] = time_us

    def delivered(
        self, time_us: int, publisher: str, incarnation: int, seq: int, guarantee: Guarantee, hops: int,
        metadata_bytes: int, payload_bytes: int,
    ) -> None:  # fmt: skip
        of = self._of[guarantee]
        of.delivered += 1
        of.last_us = time_us
        of.hops += hops
        of.metadata_bytes += metadata_bytes
        if metadata_bytes > of.metadata_bytes_max:
            of.metadata_bytes_max = metadata_bytes
        of.payload_bytes += payload_bytes
        of.windows[time_us - time_us % WINDOW_US] += 1
        began_us = self._published_us.get((publisher, incarnation, self._streams[guarantee], seq))
        if began_us is not None:
            of.latency.add(time_us - began_us)

    def receipt(self, time_us: int, identity: Identity, receipt: str) -> None:
        began_us = self._published_us.get(identity)
        if began_us is None:
            return
        self._receipts.setdefault(receipt, Histogram()).add(time_us - began_us)
        if receipt == "delivered":
            del self._published_us[identity]  # everybody who is owed it has it
        self._resolved += receipt in ("delivered", "failed")

    def refused(self, identity: Identity) -> None:
        self._refused += 1
        self._resolved += self._published_us.pop(identity, None) is not None

    def subscribed(self, client: str) -> None:
        self._subscribers.add(client)

    def rows(self, time_us: int, node: str) -> Iterator[Row]:
        """One for each guarantee that was used, and one for the rest."""
        for guarantee, of in self._of.items():
            if of.published or of.delivered:
                yield Row(
                    time_us=time_us, node=node, kind=kinds.COUNTS, guarantee=guarantee.label,
                    attributes=_as_texts(of.attributes()),
                )  # fmt: skip
        published = sum(of.published for of in self._of.values())
        rest = {
            "subscribers": len(self._subscribers),
            "refused": self._refused,
            "unresolved": published - self._resolved,
        }
        for receipt, histogram in self._receipts.items():
            rest |= histogram.attributes(f"receipt:{receipt}")
        yield Row(time_us=time_us, node=node, kind=kinds.COUNTS, attributes=_as_texts(rest))


def _as_texts(counts: dict[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in sorted(counts.items())}


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
    """Of a histogram as `trace.summary` writes it."""
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
