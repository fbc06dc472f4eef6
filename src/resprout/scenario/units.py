"""Durations and rates as people write them: `115ms`, `100Mbit`. A number without a unit is refused.

Durations are whole microseconds and rates whole bits per second; what does not come out whole is refused too, because
the run would then not be the one that was written. Decimal fractions are fine where they come out whole (`2.5ms`).
"""

import re
from decimal import Decimal
from typing import Final

from resprout.core.errors import UsageError

DURATIONS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
RATES: Final = {"bit": 1, "Kbit": 1_000, "Mbit": 1_000_000, "Gbit": 1_000_000_000}

_QUANTITY: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


def parse_duration(text: str) -> int:
    """Microseconds."""
    return _parse(text, DURATIONS, "a duration", "115ms")


def parse_rate(text: str) -> int:
    """Bits per second."""
    return _parse(text, RATES, "a bandwidth", "100Mbit")


def format_duration(us: int) -> str:
    """The shortest text that `parse_duration` reads back."""
    return _format(us, {unit: size for unit, size in DURATIONS.items() if unit in ("us", "ms", "s")})


def format_rate(bps: int) -> str:
    return _format(bps, RATES)


def _parse(text: str, units: dict[str, int], what: str, example: str) -> int:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise UsageError(f'{text!r} is not {what}: a number and a unit, such as "{example}"')
    number, unit = found.groups()
    if unit not in units:
        raise UsageError(f"{text!r} has the unit {unit!r}; {what} has one of {', '.join(units)}")
    amount = Decimal(number) * units[unit]
    if amount != amount.to_integral_value():
        raise UsageError(f"{text!r} is finer than one {next(iter(units))}")
    return int(amount)


def _format(amount: int, units: dict[str, int]) -> str:
    unit, size = next((u, s) for u, s in reversed(units.items()) if amount % s == 0)
    return f"{amount // size}{unit}"
