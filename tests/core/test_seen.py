"""Duplicate detection by one watermark per origin."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import seen as seen_module
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NOTHING, Mark
from resprout.core.seen import Seen
from tests.order.examples import bundle
from tests.soak import cases


def test_a_bundle_is_new_once() -> None:
    seen = Seen()
    assert seen.is_new(bundle(1, 3))
    assert not seen.is_new(bundle(1, 3))
    assert not seen.is_new(bundle(2, 1)), "part of what was seen"
    assert seen.is_new(bundle(4))
    assert seen.mark(("p", "ordered", 1)) == 4


def test_numbers_may_be_left_out_where_interest_lets_only_some_through() -> None:
    seen = Seen()
    assert seen.is_new(bundle(10, 2))
    assert not seen.is_new(bundle(5)), "it cannot come after what followed it"
    assert seen.is_new(bundle(20))


def test_publishers_and_streams_are_counted_apart() -> None:
    seen = Seen()
    assert seen.is_new(bundle(1, 5))
    assert seen.is_new(bundle(1, 1, guarantee=Guarantee.EVENTUAL))
    assert seen.is_new(bundle(1, 1, publisher="q"))
    assert not seen.is_new(bundle(1, 1, guarantee=Guarantee.FIFO)), "fifo and causal share the ordered stream"
    assert seen.mark(("nobody", "ordered", 1)) == NOTHING


def test_a_later_life_counts_from_one_and_the_earlier_one_goes_on() -> None:
    seen = Seen()
    assert seen.is_new(bundle(1, 9))
    assert seen.is_new(bundle(1, 1, incarnation=2))
    assert seen.is_new(bundle(10, 1, incarnation=1)), "what an earlier life has published is no repeat"
    assert not seen.is_new(bundle(9, 1, incarnation=1))
    assert not seen.is_new(bundle(1, 1, incarnation=2))
    assert seen.mark(("p", "ordered", 2)) == 1


@pytest.mark.parametrize(("first", "count"), [(3, 2), (1, 4), (2, 100)])
def test_a_bundle_that_is_partly_new_is_refused_and_changes_nothing(first: int, count: int) -> None:
    seen = Seen()
    seen.is_new(bundle(1, 3))
    with pytest.raises(PeerError, match="overlaps what was seen up to 3"):
        seen.is_new(bundle(first, count))
    assert seen.mark(("p", "ordered", 1)) == 3


def test_an_overlap_with_an_earlier_life_is_none() -> None:
    seen = Seen()
    seen.is_new(bundle(1, 3))
    assert seen.is_new(bundle(2, 5, incarnation=2))


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 4)), max_size=20))
def test_no_number_is_new_twice_and_none_below_the_mark(offers: list[tuple[int, int, int]]) -> None:
    seen = Seen()
    taken: set[tuple[int, int]] = set()
    for incarnation, first, count in offers:
        numbers = {(incarnation, seq) for seq in range(first, first + count)}
        try:
            new = seen.is_new(bundle(first, count, incarnation=incarnation))
        except PeerError:
            assert numbers & taken and numbers - taken
            continue
        if new:
            assert all(number > before for number in numbers for before in taken if before[0] == incarnation)
            taken |= numbers
        else:
            assert max(before for before in taken if before[0] == incarnation) >= max(numbers)


def test_what_has_been_quiet_for_long_is_forgotten_and_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "ORIGINS_KEPT", 10)
    seen = Seen()
    for number in range(100):
        assert seen.is_new(bundle(publisher=f"c{number}"))
        assert seen.is_new(bundle(publisher="busy", first=number + 1))
        assert not seen.is_new(bundle(publisher="busy", first=number + 1))
    assert len(seen) <= 21
    assert seen.mark(("busy", "ordered", 1)) == 100
    assert seen.mark(("c0", "ordered", 1)) == 0


def test_what_others_have_come_to_is_seen_here_too_and_never_taken_back() -> None:
    seen = Seen()
    seen.raise_to(("p", "ordered", 1), 4)
    assert not seen.is_new(bundle(4))
    assert seen.is_new(bundle(5))
    seen.raise_to(("p", "ordered", 1), 2)
    assert seen.mark(("p", "ordered", 1)) == 5


def test_marks_tell_everything_that_is_remembered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "ORIGINS_KEPT", 3)
    seen = Seen()
    for number in range(1, 6):
        seen.is_new(bundle(publisher=f"c{number}"))
    seen.is_new(bundle(2, publisher="c2"))
    marks = list(seen.marks())
    assert sorted(mark.publisher for mark in marks) == ["c1", "c2", "c3", "c4", "c5"]
    assert Mark("c2", "ordered", 1, 2) in marks
    other = Seen()
    for mark in marks:
        other.raise_to(mark.origin, mark.seq)
    assert not any(other.is_new(bundle(publisher=f"c{number}")) for number in (4, 5, 2))
