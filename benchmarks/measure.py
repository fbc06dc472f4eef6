"""How a benchmark reports: a rate beside its yardstick, both measured in the same run, interleaved, as medians."""

import statistics
import time
from collections.abc import Callable

import msgspec


class Measure(msgspec.Struct, frozen=True):
    name: str
    value: float
    unit: str
    yardstick: str
    """What it is compared with."""
    yardstick_value: float
    goal: str = ""
    """The goal in words, when there is one."""

    @property
    def ratio(self) -> float:
        return self.value / self.yardstick_value


def rate(work: Callable[[], int]) -> float:
    """Units per second of one call; the work returns how many units it did."""
    begin = time.perf_counter()
    units = work()
    return units / (time.perf_counter() - begin)


def interleaved(rounds: int, *works: Callable[[], int]) -> list[float]:
    """Median rate of each work over several rounds, taken in turns so that a noisy neighbour disturbs all alike."""
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for sample, work in zip(samples, works, strict=True):
            sample.append(rate(work))
    return [statistics.median(sample) for sample in samples]
