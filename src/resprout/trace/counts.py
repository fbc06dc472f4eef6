"""What clients saw, counted instead of written down: for runs with tens of millions of deliveries.

Of each guarantee: publications, deliveries, how long they took, what they carried, and when they came. A latency goes
into a bucket that is at most 1/64 wider than its lowest value; the largest one is exact. Deliveries are counted by
windows of `WINDOW_US` as well, so that whoever measures throughput can leave out the beginning and the end of a run.

Nothing can be judged from counts: which message came where, and after which, is gone. At the end they are rows of the
trace (`kinds.COUNTS`), so that its digest covers them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from resprout.core.guarantee import Guarantee
from resprout.trace import kinds
from resprout.trace.schema import Row

WINDOW_US: Final = 10_000
_EXACT_BITS: Final = 7

Identity = tuple[str, int, str, int]
"""Publisher, incarnation, stream, number."""


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
