from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.filters import shelves
from resprout.filters.access import INFINITE, text_rank
from resprout.filters.shelves import RangeSet
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(80, 250))

EDGES = [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.1, 0.1 + 2**-55, 5e-324, 1e308, -1e308, 1.5, 1e18, 1e19]
numbers = st.one_of(
    st.sampled_from(EDGES),
    st.integers(-20, 20),
    st.integers(2**62, 2**62 + 40),
    st.floats(-20, 20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
)
ends = st.tuples(st.one_of(numbers, st.just(-INFINITE)), st.one_of(numbers, st.just(INFINITE))).filter(
    lambda pair: pair[0] <= pair[1]
)
asked = st.lists(st.one_of(numbers, st.sampled_from([INFINITE, -INFINITE])), max_size=10)


@SETTINGS
@given(st.lists(ends, max_size=40), st.data(), asked, st.sampled_from([1, 2, 512]))
def test_a_number_finds_exactly_the_ranges_that_hold_it(
    spans: list[tuple[float, float]], data: st.DataObject, values: list[float], run: int
) -> None:
    with mock.patch.object(shelves, "_RUN", run):
        kept: RangeSet[int] = RangeSet()
        for serial, (low, high) in enumerate(spans):
            kept.add(low, high, serial, serial)
        gone = set(data.draw(st.lists(st.sampled_from(range(len(spans))), unique=True))) if spans else set()
        for serial in sorted(gone):
            kept.remove(*spans[serial], serial, serial)
        ends_too = [end for span in spans for end in span]
        for value in [*values, *ends_too]:
            found: list[int] = []
            kept.collect(value, found)
            holding = [n for n, (low, high) in enumerate(spans) if low <= value <= high and n not in gone]
            assert sorted(found) == holding
        assert bool(kept) is (len(gone) < len(spans))


def test_lengths_made_to_be_all_different_share_a_bounded_number_of_classes() -> None:
    kept: RangeSet[int] = RangeSet()
    for exponent in range(-1070, 1024):
        kept.add(0, 2.0**exponent, exponent, exponent)
    kept.add(-1.7e308, 1.7e308, 5000, 5000)
    assert len(kept._spans) <= shelves.CLASSES_MAX
    found: list[int] = []
    kept.collect(2.0**10, found)
    assert sorted(found) == [*range(10, 1024), 5000]


@SETTINGS
@given(st.text(max_size=12), st.text(max_size=12))
def test_the_rank_of_texts_never_contradicts_their_order(one: str, other: str) -> None:
    if one <= other:
        assert text_rank(one) <= text_rank(other)
    if text_rank(one) < text_rank(other):
        assert one < other
