"""What a broker has counted, over all lives of its process: plain numbers, read when somebody asks."""

from bisect import bisect_left
from typing import Final

BOUNDS_US: Final = (
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000,
)  # fmt: skip
"""Upper ends of what is counted together; the last count has no end."""


class LatencyCounts:
    """How long something took, how often."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.sum_us = 0

    def add(self, took_us: int) -> None:
        self.counts[bisect_left(BOUNDS_US, took_us)] += 1
        self.sum_us += took_us


class TrafficTally:
    """Publications are counted as messages, not as bundles. `carried` is what other brokers sent, `passed_on` what was
    sent to other brokers, each copy."""

    __slots__ = (
        "carried", "delivered", "delivered_bytes", "passed_on", "published", "published_bytes",
        "refused_publications", "refused_subscriptions", "safe", "safe_latency", "spread", "spread_latency",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.published_bytes = 0
        self.carried = 0
        self.passed_on = 0
        self.delivered = 0
        """To clients here, each copy."""
        self.delivered_bytes = 0
        self.safe = 0
        self.spread = 0
        """Publications of clients here whose publishers were told `safe`, and `delivered`."""
        self.refused_publications = 0
        self.refused_subscriptions = 0
        self.safe_latency = LatencyCounts()
        self.spread_latency = LatencyCounts()
        """From the moment that a publication came from its publisher to the moment that this one was told so. Of those
        that are timed."""
