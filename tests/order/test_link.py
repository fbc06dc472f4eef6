"""Counting acknowledgements of one link: what is told, what is heard, what is refused, what is forgotten."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import PeerError
from resprout.order.entry import Entry
from resprout.order.link import Link
from tests.order.examples import bundle

Report = tuple[tuple[int, ...], tuple[int, ...], int]


def link_with(faults: int, sent: int = 0, arrived: int = 0) -> tuple[Link, list[Entry], list[Entry]]:
    link = Link("n", faults, None)
    out = [Entry(n, bundle(n + 1), None, None, 0) for n in range(sent)]
    into = [Entry(n, bundle(n + 1), link, None, 1) for n in range(arrived)]
    for entry in out:
        link.sent.add(entry)
    for entry in into:
        entry.undone = 1
        link.arrived.add(entry)
    return link, out, into


def test_a_report_is_a_count_and_says_only_what_is_new() -> None:
    link, out, _ = link_with(1, sent=3)
    assert link.take_report((2, 1), (0,), 1) == ([(0, out[0]), (0, out[1]), (1, out[0])], [out[0]])
    assert link.take_report((2, 1), (0,), 1) == ([], []), "the same again is no news"
    assert link.take_report((3, 3), (0,), 3) == (
        [(0, out[2]), (1, out[1]), (1, out[2])],
        [out[1], out[2]],
    ), "a later one makes a lost one good"


def test_a_report_also_says_how_far_the_other_direction_has_spread() -> None:
    link, _, into = link_with(2, arrived=2)
    assert link.take_report((0, 0, 0), (2, 1), 0) == ([(1, into[0]), (1, into[1]), (2, into[0])], [])


@pytest.mark.parametrize(
    ("taken", "spread", "done", "why"),
    [
        ((4, 0), (0,), 0, "level 0 reported for 4 of 3"),
        ((2, 3), (0,), 0, "level 1 reported for 3 of 2"),
        ((2, 0), (2,), 0, "level 1 reported for 2 of 1"),
        ((2, 0), (0,), 3, "3 reported as delivered of 2 taken"),
        ((-1, 0), (0,), 0, "level 0 reported for -1"),
        ((2, 0), (0,), -1, "-1 reported as delivered"),
        ((2, 0, 0), (0,), 0, "3 levels reported where 2 are used"),
        ((2,), (0,), 0, "1 levels reported where 2 are used"),
        ((2, 0), (0, 0), 0, "levels reported"),
        ((), (), 0, "0 levels reported"),
        ((1 << 62, 0), (0,), 0, "level 0 reported"),
    ],
)
def test_impossible_reports_are_refused(taken: tuple[int, ...], spread: tuple[int, ...], done: int, why: str) -> None:
    link, _, _ = link_with(1, sent=3, arrived=1)
    with pytest.raises(PeerError, match=why):
        link.take_report(taken, spread, done)


@pytest.mark.parametrize("report", [((1, 2), (1,), 2), ((2, 1), (1,), 2), ((2, 2), (0,), 2), ((2, 2), (1,), 1)])
def test_a_report_that_takes_something_back_is_refused(report: Report) -> None:
    link, _, _ = link_with(1, sent=3, arrived=1)
    link.take_report((2, 2), (1,), 2)
    with pytest.raises(PeerError, match="before"):
        link.take_report(*report)


def test_what_may_be_told_is_told_once() -> None:
    link, out, into = link_with(1, sent=2, arrived=3)
    assert link.report() == ((3, 0), (0,), 0), "they are here: level 0"
    assert link.report() is None
    into[1].level = 2
    assert link.report() is None, "a count stops before the first that has not come so far"
    into[0].level = 1
    into[0].undone = 0
    out[0].level = 1
    assert link.report() == ((3, 2), (1,), 1)
    assert link.report() is None


def test_nothing_at_all_is_no_news() -> None:
    for faults in (0, 1, 3):
        assert link_with(faults)[0].report() is None


def test_what_both_sides_are_through_with_is_forgotten() -> None:
    link, out, into = link_with(1, sent=2, arrived=2)
    for entry in (*out, *into):
        entry.level = 2
        entry.undone = 0
    link.report()
    assert len(link.sent.entries) == 2, "the neighbour has said nothing yet"
    assert len(link.arrived.entries) == 2
    link.take_report((2, 1), (1,), 1)
    link.report()
    assert list(link.sent.entries) == [2]
    assert list(link.arrived.entries) == [2]
    link.take_report((2, 2), (2,), 2)
    assert link.report() is None, "forgetting is no news"
    assert link.sent.entries == {} and link.arrived.entries == {}
    assert link.take_report((2, 2), (2,), 2) == ([], []), "a repeated report about what is forgotten is fine"
    with pytest.raises(PeerError):
        link.take_report((3, 2), (2,), 2)


def test_without_faults_to_tolerate_there_is_nothing_to_say_about_spread() -> None:
    link, _, into = link_with(0, sent=1, arrived=1)
    into[0].undone = 0
    assert link.report() == ((1,), (), 1)
    assert link.arrived.entries == {}
    assert link.take_report((1,), (), 1)[1]
    link.report()
    assert link.sent.entries == {}


STEPS = st.lists(st.integers(0, 3), min_size=4, max_size=4)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    faults=st.integers(0, 3),
    sent=st.integers(0, 5),
    arrived=st.integers(0, 5),
    reports=st.lists(st.tuples(STEPS, STEPS, st.integers(-1, 3)), max_size=12),
)
def test_any_report_is_taken_or_refused_and_each_level_of_each_entry_is_heard_once(
    faults: int, sent: int, arrived: int, reports: list[tuple[list[int], list[int], int]]
) -> None:
    """Each report raises the counts of the one before by some steps, now and then too many or one too few."""
    link, out, into = link_with(faults, sent, arrived)
    taken, spread, done = [0] * (faults + 1), [0] * faults, 0
    heard: list[tuple[int, Entry]] = []
    delivered: list[Entry] = []
    for more_taken, more_spread, more_done in reports:
        taken = [count + more for count, more in zip(taken, more_taken, strict=False)]
        spread = [count + more for count, more in zip(spread, more_spread, strict=False)]
        done += more_done
        possible = (
            sorted([sent, *taken], reverse=True) == [sent, *taken]
            and sorted([arrived, *spread], reverse=True) == [arrived, *spread]
            and more_done >= 0
            and done <= taken[0]
        )
        try:
            raised, newly = link.take_report(tuple(taken), tuple(spread), done)
        except PeerError:
            assert not possible
            break  # the link is cut off
        assert possible
        heard += raised
        delivered += newly
        link.report()
    assert len(heard) == len({(level, id(entry)) for level, entry in heard})
    assert delivered == out[: len(delivered)]
    assert all(0 <= level <= faults and (entry in out or (entry in into and level > 0)) for level, entry in heard)
