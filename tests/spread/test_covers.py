"""Searches for what covers and what is covered: sound always, complete while patience lasts."""

import itertools
import random

import pytest

from resprout.filters.predicate import Predicate, filter_covers, parse_predicate
from resprout.spread import covers
from resprout.spread.covers import Covers
from tests.footprint import kept_by

LEVELS = ("a", "b", "+", "$s", "")
FILTERS = [
    "/".join(levels) + rest
    for depth in (1, 2, 3)
    for levels in itertools.product(LEVELS, repeat=depth)
    for rest in ("", "/#")
    if "/".join(levels) + rest
] + ["#"]
CONDITIONS = (None, "x > 1", "x > 5", "x = 7", "x in (7, 9)", "x > 5 or y = 1", "x is not null", "y = 1")


def everything(_: Predicate) -> bool:
    return True


def covers_of(*predicates: Predicate) -> Covers[Predicate]:
    made: Covers[Predicate] = Covers()
    for predicate in predicates:
        made.add(predicate, predicate)
    return made


def test_one_filter_is_found_by_exactly_those_that_it_covers_and_that_cover_it() -> None:
    predicates = [parse_predicate(text) for text in FILTERS]
    for one in predicates:
        made = covers_of(one)
        for other in predicates:
            assert (made.covering(other) is one) == filter_covers(one.filter, other.filter), (one, other)
            found = made.covered(other, 10, everything)
            assert (found == [one]) == filter_covers(other.filter, one.filter), (one, other)


@pytest.mark.parametrize("patience", [0, 1, 5, 40, 100_000])
def test_among_many_whatever_is_found_is_right_and_with_patience_everything_is(
    patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covers, "PATIENCE", patience)
    if patience > 1000:
        monkeypatch.setattr(covers, "TEXT_MAX", 1 << 30)
    rng = random.Random(7)
    for _ in range(150):
        stock = {
            parse_predicate(rng.choice([*FILTERS[:60], "#"]), rng.choice(CONDITIONS)): None
            for _ in range(rng.choice((2, 10, 40)))
        }
        *present, asked = stock if len(stock) > 1 else (*stock, parse_predicate("z"))
        made = covers_of(*present)
        for gone in present[::3]:
            made.remove(gone)
        present = [predicate for predicate in present if predicate not in present[::3]]
        wider = [predicate for predicate in present if predicate.covers(asked)]
        narrower = [predicate for predicate in present if asked.covers(predicate)]
        found, all_found = made.covering(asked), made.covered(asked, 1000, everything)
        assert found in (*wider, None)
        assert len(set(all_found)) == len(all_found) and set(all_found) <= set(narrower)
        if patience > 1000:
            assert (found is not None) == bool(wider)
            assert set(all_found) == set(narrower)


def test_no_more_is_found_than_may_be_moved() -> None:
    made = covers_of(*(parse_predicate(f"a/{n}") for n in range(20)))
    wide = parse_predicate("a/+")
    assert len(made.covered(wide, 7, everything)) == 7
    odd = made.covered(wide, 100, lambda predicate: int(predicate.filter[2:]) % 2 == 1)
    assert [predicate.filter for predicate in odd] == [f"a/{n}" for n in range(1, 20, 2)]


def test_what_is_removed_leaves_nothing_behind() -> None:
    predicates = [parse_predicate(text, where) for text in FILTERS for where in (None, "x > 1")]
    made = covers_of(*predicates)
    random.Random(1).shuffle(predicates)
    for predicate in predicates:
        made.remove(predicate)
    assert kept_by(made) == kept_by(covers_of())


def test_a_condition_that_covers_much_is_found_among_many_that_cover_nothing() -> None:
    made = covers_of(*(parse_predicate("t", f"y = {n}") for n in range(5)))
    wide = parse_predicate("t", "x > 0")
    made.add(wide, wide)
    for n in range(1000):
        assert made.covering(parse_predicate("t", f"x = {n + 1}")) == wide
        if n % (covers.PATIENCE // covers.PAIR_PATIENCE) == 1:
            for noise in range(5):
                useless = parse_predicate("t", f"y = {n * 10 + noise}")
                made.add(useless, useless)


def test_conditions_too_long_to_compare_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("compared")

    monkeypatch.setattr(covers, "implies", refuse)
    long = parse_predicate("t", " or ".join(f"x = {n}" for n in range(50)))
    longer = parse_predicate("t", " or ".join(f"x = {n}" for n in range(60)))
    made = covers_of(longer)
    assert made.covering(long) is None and covers_of(long).covered(longer, 10, everything) == []
