"""Rates and latencies of the last moments, from counts that only grow: a look at them every second."""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from resprout.edge.broker.tally import BOUNDS_US, TrafficTally
from resprout.net.account.values import LatencySummary, Rates

RATE_SECONDS: Final = 10
LATENCY_SECONDS: Final = 60


class _Look(NamedTuple):
    time_s: float
    published: int
    delivered: int
    carried: int
    passed_on: int
    safe: tuple[int, ...]
    spread: tuple[int, ...]


class RateHistory:
    """`look` is called about once a second, and when somebody asks."""

    def __init__(self, tally: TrafficTally, now_s: float) -> None:
        self._tally = tally
        self._looks: deque[_Look] = deque([self._take(now_s)], maxlen=LATENCY_SECONDS + 2)

    def look(self, now_s: float) -> None:
        self._looks.append(self._take(now_s))

    def rates(self, now_s: float) -> Rates:
        now, then = self._take(now_s), self._before(now_s - RATE_SECONDS)
        passed_s = now.time_s - then.time_s
        if passed_s <= 0:
            return Rates()
        pairs = zip(now[1:5], then[1:5], strict=True)
        return Rates(*[round((after - before) / passed_s, 2) for after, before in pairs])

    def latencies(self, now_s: float) -> tuple[LatencySummary | None, LatencySummary | None]:
        """Of `safe`, and of `delivered`; None where there was none."""
        now, then = self._take(now_s), self._before(now_s - LATENCY_SECONDS)
        return _summary(now.safe, then.safe), _summary(now.spread, then.spread)

    def _take(self, now_s: float) -> _Look:
        tally = self._tally
        return _Look(
            now_s, tally.published, tally.delivered, tally.carried, tally.passed_on,
            tuple(tally.safe_latency.counts), tuple(tally.spread_latency.counts),
        )  # fmt: skip

    def _before(self, time_s: float) -> _Look:
        """The last look that is as old as that; the first one, if none is."""
        return next((look for look in reversed(self._looks) if look.time_s <= time_s), self._looks[0])


def _summary(now: Sequence[int], then: Sequence[int]) -> LatencySummary | None:
    counts = [after - before for after, before in zip(now, then, strict=True)]
    total = sum(counts)
    return LatencySummary(total, quantile_ms(counts, 0.5), quantile_ms(counts, 0.99)) if total else None


def quantile_ms(counts: Sequence[int], share: float) -> float:
    """As far as the counts tell: within the bounds where it lies, as if all were spread evenly there."""
    wanted = share * sum(counts)
    before = 0
    for place, count in enumerate(counts):
        if count and before + count >= wanted:
            low = BOUNDS_US[place - 1] if place else 0
            high = BOUNDS_US[place] if place < len(BOUNDS_US) else low
            return round((low + (high - low) * (wanted - before) / count) / 1000, 3)
        before += count
    return 0.0
