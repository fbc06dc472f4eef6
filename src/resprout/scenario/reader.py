"""Reads a table of a scenario key by key, refusing with the place what is missing, unknown or of the wrong kind.

Durations and rates are written as people do: `115ms`, `100Mbit`. A number without a unit is refused. Durations are
whole microseconds and rates whole bits per second; a value that does not come out whole is refused too, because the run
would then not be the one that was written. Decimal fractions are fine where they come out whole (`2.5ms`).
"""

import difflib
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeVar

from resprout.core.errors import UsageError
from resprout.scenario.source import TomlPath, TomlSource

T = TypeVar("T")

DURATION_US_MAX: Final = 366 * 24 * 3_600_000_000
"""A virtual year is longer than any run."""
RATE_BPS_MAX: Final = 10**15

_REQUIRED: Final[Any] = object()

DURATIONS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
RATES: Final = {"bit": 1, "Kbit": 1_000, "Mbit": 1_000_000, "Gbit": 1_000_000_000}

_QUANTITY: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


def suggestion(word: str, choices: Iterable[str]) -> str:
    """ "; did you mean 'latency'?", or the choices when none is close."""
    choices = list(choices)
    close = difflib.get_close_matches(word, choices, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it is one of {', '.join(choices)}"


class TomlTable:
    """One TOML table. `what` names it to people ("broker b3"); empty for the file itself."""

    def __init__(self, source: TomlSource, path: TomlPath, what: str = "") -> None:
        value: Any = source.tree
        for step in path:
            value = value[step]
        self.source = source
        self.path = path
        self.what = what
        if not isinstance(value, dict):
            self.fail("", f"must be a table, not {_kind(value)}")
        self.values: dict[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def fail(self, key: str | TomlPath, reason: str) -> NoReturn:
        """Blames a key of this table, something below it, or (with "") the table itself."""
        below = (key,) if isinstance(key, str) else key
        path = (*self.path, *below) if key else self.path
        self.source.fail(path, f"{self.what}: {reason}" if self.what else reason)

    def only(self, known: Iterable[str]) -> None:
        """Refuses every key that is not among these."""
        known = list(known)
        for key in self.values:
            if key not in known:
                self.fail(key, f"unknown key {key!r}{suggestion(key, known)}")

    def tables(self, key: str, limit: int, what: str) -> list["TomlTable"]:
        """An array of tables; each is called by its name, or by its number from 0."""
        rows = self.values.get(key, [])
        if not isinstance(rows, list):
            self.fail(key, f"write [[{key}]], not [{key}]: there can be several")
        if len(rows) > limit:
            self.fail(key, f"{len(rows)} {key}s; at most {limit}")
        return [TomlTable(self.source, (*self.path, key, i), self._called(what, row, i)) for i, row in enumerate(rows)]

    def _called(self, what: str, row: Any, number: int) -> str:
        name = row.get("name") if isinstance(row, dict) else None
        return f"{what} {name if isinstance(name, str) else number}"

    def checked(self, key: str, check: Callable[[str], T], default: T = _REQUIRED) -> T:
        """A text that a function of a lower floor accepts; its complaint gets the place."""
        if key not in self.values:
            return self._default(key, default)
        return self.attempt(key, check, self.text(key))

    def text(self, key: str, default: str = _REQUIRED) -> str:
        value: str = self._typed(key, str, "a text", default)
        return value

    def flag(self, key: str, default: bool = _REQUIRED) -> bool:
        value: bool = self._typed(key, bool, "true or false", default)
        return value

    def integer(self, key: str, low: int, high: int, default: int = _REQUIRED) -> int:
        value: int = self._typed(key, int, "a whole number", default)
        self._within(key, value, low, high)
        return value

    def number(self, key: str, low: float, high: float, default: float = _REQUIRED) -> float:
        value: float = self._typed(key, (int, float), "a number", default)
        self._within(key, value, low, high)
        return float(value)

    def choice(self, key: str, choices: Iterable[str], default: str = _REQUIRED) -> str:
        choices = [str(choice) for choice in choices]
        word = self.text(key, default)
        if key in self.values and word not in choices:
            self.fail(key, f"unknown {key} {word!r}{suggestion(word, choices)}")
        return word

    def duration(self, key: str, default: int = _REQUIRED, high: int = DURATION_US_MAX) -> int:
        us: int = self._quantity(key, parse_duration, default, high, "115ms", format_duration)
        return us

    def rate(self, key: str, default: int | None = _REQUIRED) -> int | None:
        bps: int | None = self._quantity(key, parse_rate, default, RATE_BPS_MAX, "100Mbit", format_rate)
        if bps == 0:
            self.fail(key, "a bandwidth of 0 lets nothing pass; leave it out for unlimited")
        return bps

    def texts(self, key: str, limit: int, default: tuple[str, ...] = _REQUIRED) -> tuple[str, ...]:
        """A list of texts, without repeats."""
        if key not in self.values:
            return self._default(key, default)
        rows: dict[str, None] = {}
        for i, row in enumerate(self.rows(key, limit)):
            if not isinstance(row, str):
                self.fail((key, i), f"{key} is a list of texts; {_kind(row)} is in it")
            if row in rows:
                self.fail((key, i), f"{key} names {row!r} twice")
            rows[row] = None
        return tuple(rows)

    def rows(self, key: str, limit: int) -> list[Any]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            self.fail(key, f"{key} must be a list, not {_kind(value)}")
        if len(value) > limit:
            self.fail(key, f"{key} has {len(value)} elements; at most {limit}")
        return value

    def attempt(self, key: str | TomlPath, check: Callable[..., T], *arguments: Any) -> T:
        """Calls a check of a lower floor; its complaint gets the place of `key`."""
        try:
            return check(*arguments)
        except UsageError as error:
            self.fail(key, str(error))

    def _default(self, key: str, default: T) -> T:
        if default is _REQUIRED:
            self.fail("", f"{key!r} is missing")
        return default

    def _typed(self, key: str, kind: Any, called: str, default: Any) -> Any:
        if key not in self.values:
            return self._default(key, default)
        value = self.values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(key, f"{key} must be {called}, not {_kind(value)}")
        return value

    def _within(self, key: str, value: float, low: float, high: float) -> None:
        if key in self.values and not low <= value <= high:  # also refuses NaN
            self.fail(key, f"{key} is {value}; it must be {low} to {high}")

    def _quantity(
        self, key: str, parse: Callable[[str], int], default: Any, high: int, example: str, show: Callable[[int], str]
    ) -> Any:
        if key not in self.values:
            return self._default(key, default)
        value = self.values[key]
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.fail(key, f'{key} = {value} has no unit; write it as in "{example}"')
        amount = self.attempt(key, parse, self.text(key))
        if amount > high:
            self.fail(key, f"{key} is {value}; at most {show(high)}")
        return amount


def _kind(value: Any) -> str:
    words = {bool: "true or false", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return words.get(type(value), f"a {type(value).__name__}")


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
