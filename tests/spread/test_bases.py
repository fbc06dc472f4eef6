"""Bases are joined by maximum, told as marks, and shared."""

from random import Random

from resprout.core.message_fields import Mark
from resprout.spread.covers import REMEMBERED_MAX, Base, Bases

A, B, C = ("alice", "f", 1), ("bob", "f", 1), ("carol", "f", 2)


def test_a_joined_base_has_the_further_of_both_and_changes_neither() -> None:
    one, other = {A: 3, B: 5}, {B: 4, C: 1, A: 7}
    assert Bases().join(one, other) == {A: 7, B: 5, C: 1}
    assert (one, other) == ({A: 3, B: 5}, {B: 4, C: 1, A: 7})


def test_what_adds_nothing_leaves_the_very_same_base() -> None:
    bases, one = Bases(), {A: 3, B: 5}
    assert bases.join(one, {A: 2, B: 5}) is one
    assert bases.join(one, {}) is one and bases.join({}, one) is one and bases.join(one, one) is one


def test_the_same_question_gets_the_same_answer_and_no_copy_of_it() -> None:
    bases, one, other = Bases(), {A: 3}, {B: 4}
    assert bases.join(one, other) is bases.join(one, other)
    marks = bases.tell(one)
    assert bases.tell(one) is marks == (Mark(*A, 3),)
    assert bases.hear(marks) is bases.hear(marks)
    assert bases.hear(marks) == one


def test_nothing_is_told_as_nothing() -> None:
    assert Bases().tell({}) == () and Bases().hear(()) == {}


def test_answers_are_right_however_many_were_asked_for_meanwhile() -> None:
    rng, bases = Random(5), Bases()
    for _ in range(4 * REMEMBERED_MAX):  # those that are forgotten make room in memory for others
        one, other = ({origin: rng.randrange(1, 9) for origin in rng.sample([A, B, C], 2)} for _ in range(2))
        expected: Base = {origin: max(one.get(origin, 0), other.get(origin, 0)) for origin in {**one, **other}}
        joined = bases.join(one, other)
        assert joined == expected
        assert bases.hear(bases.tell(joined)) == expected
