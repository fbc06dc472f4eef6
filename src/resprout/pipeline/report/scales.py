"""Where numbers go on an axis: linear from zero, or logarithmic, with round ticks."""

import itertools
import math
from collections.abc import Sequence
from typing import Final

import msgspec

_STEPS: Final = (1, 2, 2.5, 5, 10)
_TICKS: Final = 5
_POWERS_WITH_STEPS: Final = 3


class Scale(msgspec.Struct, frozen=True):
    """From values to shares of the axis, 0 to 1."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def share(self, value: float) -> float:
        if self.is_log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear_scale(largest: float, smallest: float = 0.0) -> Scale:
    """Between round numbers around these two; something to see even when all is zero."""
    reach = largest - smallest if largest > smallest else 1.0
    raw = reach / _TICKS
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(step * magnitude for step in _STEPS if step * magnitude >= raw * (1 - 1e-9))
    first = math.floor(smallest / step + 1e-9)
    last = max(first + 1, math.ceil(largest / step - 1e-9))
    return Scale(first * step, last * step, tuple(number * step for number in range(first, last + 1)))


def log_scale(smallest: float, largest: float) -> Scale:
    """Between round numbers around these two, both above zero; over few powers of ten, with 2 and 5 of each."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    steps = (1, 2, 5) if last - first <= _POWERS_WITH_STEPS else (1,)
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    low = max(mark for mark in marks if mark <= smallest * (1 + 1e-9))
    high = min(mark for mark in marks if mark >= largest * (1 - 1e-9) and mark > low)
    return Scale(low, high, tuple(mark for mark in marks if low <= mark <= high), is_log=True)


def places_of(labels: Sequence[str]) -> list[float]:
    """Where the labels of an axis stand, 0 to 1: by their value when all are numbers that rise, else evenly."""
    if len(labels) == 1:
        return [0.5]
    values = [_as_number(label) for label in labels]
    numbers = [value for value in values if value is not None]
    rising = len(numbers) == len(labels) and all(a < b for a, b in itertools.pairwise(numbers))
    if rising and numbers[0] > 0 and numbers[-1] / numbers[0] >= _LOG_FROM:
        numbers = [math.log(number) for number in numbers]
    elif not rising:
        numbers = [float(place) for place in range(len(labels))]
    return [(number - numbers[0]) / (numbers[-1] - numbers[0]) for number in numbers]


_LOG_FROM: Final = 20.0
"""Numbers that lie further apart than this stand on a logarithmic axis."""


def _as_number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
