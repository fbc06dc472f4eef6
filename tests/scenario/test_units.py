import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import UsageError
from resprout.scenario.reader import format_duration, format_rate, parse_duration, parse_rate


@pytest.mark.parametrize(
    ("text", "us"),
    [("50us", 50), ("115ms", 115_000), ("2s", 2_000_000), ("5m", 300_000_000), ("1h", 3_600_000_000), ("0s", 0),
     ("2.5ms", 2_500), ("10 ms", 10_000)],
)  # fmt: skip
def test_durations_are_read_with_their_units(text: str, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize(
    ("text", "bps"), [("100Mbit", 100_000_000), ("10Kbit", 10_000), ("1Gbit", 10**9), ("9600bit", 9600)]
)
def test_bandwidths_are_read_with_their_units(text: str, bps: int) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is not a duration"), ("ms", "is not a duration"), ("-5ms", "is not a duration"), ("5", "is not a duration"),
     ("5 fortnights", "has the unit 'fortnights'"), ("5MS", "has the unit 'MS'"), ("0.5us", "finer than one us"),
     ("1e3ms", "is not a duration"), ("٣ms", "is not a duration"), ("5ms\n", "is not a duration")],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_duration(text)


def test_a_bandwidth_in_bytes_or_with_a_small_letter_is_refused() -> None:
    for text in ("100MB", "100mbit", "100"):
        with pytest.raises(UsageError):
            parse_rate(text)


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 10**16))
def test_what_is_written_is_read_back(amount: int) -> None:
    assert parse_duration(format_duration(amount)) == amount
    assert parse_rate(format_rate(amount)) == amount
