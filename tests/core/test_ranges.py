"""Sets of numbers that are nearly without gaps."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.seen import Ranges, as_ranges
from tests.soak import cases


def numbers(ranges: Ranges, most: int = 60) -> set[int]:
    return {number for number in range(1, most) if number in ranges}


@settings(max_examples=cases(100, 300), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), max_size=25))
def test_ranges_hold_what_was_added_and_tell_what_was_new(added: list[tuple[int, int]]) -> None:
    ranges, reference = Ranges(), set[int]()
    for first, more in added:
        wanted = set(range(first, first + more + 1))
        new = ranges.add(first, first + more)
        assert [n for low, high in new for n in range(low, high + 1)] == sorted(wanted - reference)
        reference |= wanted
        assert numbers(ranges) == reference
        assert ranges.upto == next(n for n in range(60) if n + 1 not in reference)
        islands = list(ranges.islands())
        assert islands == as_ranges(n for n in reference if n > ranges.upto), "as few as possible"
        assert ranges.has_islands == bool(islands)
        assert ranges.gaps == len(islands)


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), max_size=15),
    st.integers(1, 45),
    st.integers(0, 9),
)
def test_a_run_of_numbers_is_held_as_a_whole_or_touched(added: list[tuple[int, int]], first: int, more: int) -> None:
    ranges, reference = Ranges(), set[int]()
    for low, length in added:
        ranges.add(low, low + length)
        reference |= set(range(low, low + length + 1))
    run = set(range(first, first + more + 1))
    assert ranges.holds(first, first + more) == (run <= reference)
    assert ranges.touches(first, first + more) == bool(run & reference)


def test_the_lowest_gap_can_be_closed() -> None:
    ranges = Ranges()
    for first, last in ((1, 2), (5, 6), (9, 9)):
        ranges.add(first, last)
    assert ranges.close_gap() == (3, 4)
    assert ranges.upto == 6 and list(ranges.islands()) == [(9, 9)]
    assert ranges.close_gap() == (7, 8)
    assert ranges.upto == 9 and not ranges.has_islands


def test_what_passes_by_one_that_waits_takes_no_memory() -> None:
    ranges = Ranges()
    for number in range(2, 100_000):
        ranges.add(number, number)
    assert list(ranges.islands()) == [(2, 99_999)] and ranges.upto == 0
    assert ranges.add(1, 1) == [(1, 1)] and ranges.upto == 99_999


def test_nothing_is_no_range() -> None:
    assert Ranges().add(3, 2) == [] and as_ranges([]) == []


def test_what_is_missing_is_told_without_changing_anything() -> None:
    for seed in range(200):
        rng = Random(seed)
        ranges, held = Ranges(), set[int]()
        for _ in range(rng.randint(0, 8)):
            first = rng.randint(1, 30)
            last = first + rng.randint(0, 4)
            ranges.add(first, last)
            held |= set(range(first, last + 1))
        first = rng.randint(1, 35)
        last = first + rng.randint(0, 20)
        missing = ranges.lacks(first, last)
        told = [number for low, high in missing for number in range(low, high + 1)]
        assert told == [number for number in range(first, last + 1) if number not in held], f"seed {seed}"
        assert ranges.lacks(first, last) == missing
