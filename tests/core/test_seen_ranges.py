"""Duplicate detection where the bundles of one origin come in any order."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import seen as seen_module
from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.seen import Seen, SeenRanges
from tests.order.examples import bundle
from tests.soak import cases

ORIGIN = ("p", "ordered", 1)


def test_a_later_bundle_may_come_first_and_each_is_new_once() -> None:
    seen = SeenRanges()
    assert seen.is_new(bundle(5, 3))
    assert seen.is_new(bundle(1, 2))
    assert not seen.is_new(bundle(5, 3)) and not seen.is_new(bundle(1, 2))
    assert seen.is_new(bundle(3, 2)) and seen.upto(ORIGIN) == 7
    assert seen.has(bundle(6, 2)) and not seen.has(bundle(7, 2))


def test_a_watermark_would_have_lost_it() -> None:
    """Why there are two: the topics of one publisher come from two owners, at different speeds."""
    watermark, ranges = Seen(), SeenRanges()
    assert watermark.is_new(bundle(2)) and ranges.is_new(bundle(2))
    assert not watermark.is_new(bundle(1))
    assert ranges.is_new(bundle(1))


def test_publishers_streams_and_lives_are_counted_apart() -> None:
    seen = SeenRanges()
    assert seen.is_new(bundle(2))
    assert seen.is_new(bundle(2, publisher="q"))
    assert seen.is_new(bundle(2, incarnation=2))
    assert seen.is_new(bundle(2, guarantee=Guarantee.EVENTUAL))
    assert not seen.is_new(bundle(2, guarantee=Guarantee.FIFO)), "fifo and causal share the ordered stream"


@pytest.mark.parametrize(("first", "count"), [(2, 2), (3, 3), (1, 9), (5, 4), (5, 2)])
def test_a_bundle_that_is_partly_new_is_refused_and_changes_nothing(first: int, count: int) -> None:
    seen = SeenRanges()
    seen.is_new(bundle(3, 1))
    seen.is_new(bundle(6, 2))
    with pytest.raises(PeerError, match="overlaps what was seen"):
        seen.is_new(bundle(first, count))
    assert len(seen) == 3 and seen.is_new(bundle(1, 2)) and seen.is_new(bundle(4, 2)) and seen.is_new(bundle(8))


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), max_size=120))
def test_what_is_new_is_what_a_set_of_bundles_says(offers: list[tuple[int, int]]) -> None:
    """The bundles of each origin are cut once, whatever way copies of them take."""
    rng = Random(7)
    cuts = {incarnation: _cut(rng, incarnation) for incarnation in (1, 2, 3)}
    seen, reference = SeenRanges(), set[tuple[int, int]]()
    for incarnation, place in offers:
        offered = cuts[incarnation][place]
        assert seen.has(offered) == ((incarnation, place) in reference)
        assert seen.is_new(offered) == ((incarnation, place) not in reference)
        reference.add((incarnation, place))


def _cut(rng: Random, incarnation: int) -> list[Bundle]:
    bundles, first = [], 1
    for _ in range(31):
        count = rng.randint(1, 4)
        bundles.append(bundle(first, count, incarnation=incarnation))
        first += count
    return bundles


def test_too_many_gaps_close_from_below_and_what_comes_then_is_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "GAPS_MAX", 3)
    seen = SeenRanges()
    for number in (2, 4, 6, 8, 10):
        assert seen.is_new(bundle(number))
    assert seen.upto(ORIGIN) == 4 and seen.given_up == 2
    assert not seen.is_new(bundle(1)) and not seen.is_new(bundle(3)), "given up, and said so"
    assert seen.is_new(bundle(5)) and seen.is_new(bundle(9))


def test_memory_is_bounded_by_ranges_and_those_who_are_busy_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "RANGES_KEPT", 20)
    monkeypatch.setattr(seen_module, "GAPS_MAX", 5)
    seen, rng = SeenRanges(), Random(3)
    for number in range(1, 400):
        for first in rng.sample(range(1, 60), 4):
            seen.is_new(bundle(first, publisher=f"c{number}"))
        assert seen.is_new(bundle(number, publisher="busy"))
        assert not seen.is_new(bundle(number, publisher="busy"))
        assert len(seen) <= 2 * (20 + 6)
    assert seen.upto(("busy", "ordered", 1)) == 399
    assert seen.is_new(bundle(1, publisher="c1")), "quiet for so long that it is forgotten"


def test_nothing_before_a_base_is_new_and_bases_are_never_taken_back() -> None:
    seen = SeenRanges()
    seen.is_new(bundle(9))
    seen.raise_to(ORIGIN, 5)
    assert not seen.is_new(bundle(4, 2)) and seen.is_new(bundle(6))
    seen.raise_to(ORIGIN, 2)
    assert seen.upto(ORIGIN) == 6
    seen.raise_to(ORIGIN, 8)
    assert seen.upto(ORIGIN) == 9, "the island joins"


def test_what_was_not_seen_can_be_asked_for_and_passed_over() -> None:
    seen = SeenRanges()
    assert seen.missing(ORIGIN, 2, 9) == [(2, 9)]
    seen.is_new(bundle(4, 2))
    assert seen.missing(ORIGIN, 2, 9) == [(2, 3), (6, 9)]
    seen.pass_over(ORIGIN, 1, 7)
    assert seen.missing(ORIGIN, 2, 9) == [(8, 9)] and not seen.is_new(bundle(6, 2)) and seen.upto(ORIGIN) == 7
