"""Counting acknowledgements of one link: what is told, what is heard, what is refused, what is forgotten."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import PeerError
from resprout.order.entry import Entry
from resprout.order.link import AHEAD_MAX, Link, LinkNews
from resprout.order.messages import Ahead, Levels
from tests.order.examples import bundle
from tests.soak import cases


def link_with(faults: int, sent: int = 0, arrived: int = 0) -> tuple[Link, list[Entry], list[Entry]]:
    link = Link("n", 1, faults, None)
    out = [Entry(n, bundle(n + 1), None, None, 0) for n in range(sent)]
    into = [Entry(n, bundle(n + 1), link, None, 1) for n in range(arrived)]
    for entry in out:
        link.sent.add(entry)
    for entry in into:
        entry.undone = 1
        link.arrived.add(entry)
    return link, out, into


def hear(link: Link, report: Levels) -> tuple[list[tuple[int, Entry]], list[tuple[int, Entry]], list[Entry]]:
    news = link.take_report(report)
    return news.reaches, news.levels, news.delivered


def test_a_report_is_a_count_and_says_only_what_is_new() -> None:
    link, out, _ = link_with(1, sent=3)
    assert hear(link, Levels((2,), (1,), (), (0,), 1)) == ([(0, out[0]), (0, out[1])], [(1, out[0])], [out[0]])
    assert hear(link, Levels((2,), (1,), (), (0,), 1)) == ([], [], []), "the same again is no news"
    assert hear(link, Levels((3,), (3,), (), (0,), 3)) == (
        [(0, out[2])],
        [(1, out[1]), (1, out[2])],
        [out[1], out[2]],
    ), "a later one makes a lost one good"


def test_a_report_also_says_how_far_the_other_direction_has_come() -> None:
    link, _, into = link_with(2, arrived=2)
    assert hear(link, Levels((0, 0), (0, 0), (2,), (2, 1), 0)) == (
        [(1, into[0]), (1, into[1])],
        [(1, into[0]), (1, into[1]), (2, into[0])],
        [],
    )


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (Levels((4,), (0,), (), (0,), 0), "level 0 reported for 4 of 3"),
        (Levels((2,), (3,), (), (0,), 0), "level 1 reported for 3 of 2"),
        (Levels((2,), (0,), (), (2,), 0), "level 1 reported for 2 of 1"),
        (Levels((2,), (0,), (), (0,), 3), "3 reported as delivered of 2 taken"),
        (Levels((-1,), (0,), (), (0,), 0), "level 0 reported for -1"),
        (Levels((2,), (0,), (), (0,), -1), "-1 reported as delivered"),
        (Levels((2, 0), (0,), (), (0,), 0), "other levels than this side"),
        (Levels((2,), (0, 0), (), (0,), 0), "other levels than this side"),
        (Levels((2,), (0,), (1,), (0,), 0), "other levels than this side"),
        (Levels((2,), (0,), (), (), 0), "other levels than this side"),
        (Levels((), (), (), (), 0), "both must tolerate the same number of faults"),
        (Levels((1 << 62,), (0,), (), (0,), 0), "level 0 reported"),
    ],
)
def test_impossible_reports_are_refused(report: Levels, why: str) -> None:
    link, _, _ = link_with(1, sent=3, arrived=1)
    with pytest.raises(PeerError, match=why):
        link.take_report(report)


@pytest.mark.parametrize(
    "report",
    [
        Levels((1,), (1,), (), (1,), 1),
        Levels((2,), (1,), (), (1,), 2),
        Levels((2,), (2,), (), (0,), 2),
        Levels((2,), (2,), (), (1,), 1),
    ],
)
def test_a_report_that_takes_something_back_is_refused(report: Levels) -> None:
    link, _, _ = link_with(1, sent=3, arrived=1)
    link.take_report(Levels((2,), (2,), (), (1,), 2))
    with pytest.raises(PeerError, match="before"):
        link.take_report(report)


def test_what_may_be_told_is_told_once() -> None:
    link, out, into = link_with(1, sent=2, arrived=3)
    assert link.report() == Levels((3,), (0,), (), (0,), 0), "they are here"
    assert link.report() is None
    into[1].level = 2
    assert link.report() is None, "a count stops before the first that has not come so far"
    into[0].level = 1
    into[0].undone = 0
    out[0].level = 1
    assert link.report() == Levels((3,), (2,), (), (1,), 1)
    assert link.report() is None


def test_having_a_bundle_and_having_it_read_are_told_apart() -> None:
    """`have` rises with the copies; `firm` only when readers have taken it. Safety must not wait for slow readers, and
    nobody may forget a copy before they have read theirs."""
    link, _, into = link_with(2, arrived=1)
    assert link.report() == Levels((1, 0), (0, 0), (0,), (0, 0), 0)
    into[0].reach = 2
    assert link.report() == Levels((1, 1), (0, 0), (0,), (0, 0), 0)
    into[0].level = 3
    assert link.report() == Levels((1, 1), (1, 1), (0,), (0, 0), 0)


def test_nothing_at_all_is_no_news() -> None:
    for faults in (0, 1, 3):
        assert link_with(faults)[0].report() is None


def test_what_both_sides_are_through_with_is_forgotten() -> None:
    link, out, into = link_with(1, sent=2, arrived=2)
    for entry in (*out, *into):
        entry.reach, entry.level = 1, 2
        entry.undone = 0
    link.report()
    assert len(link.sent.entries) == 2, "the neighbour has said nothing yet"
    assert len(link.arrived.entries) == 2
    link.take_report(Levels((2,), (1,), (), (1,), 1))
    assert list(link.sent.entries) == [2]
    assert list(link.arrived.entries) == [2]
    link.take_report(Levels((2,), (2,), (), (2,), 2))
    assert link.report() is None, "forgetting is no news"
    assert link.sent.entries == {} and link.arrived.entries == {}
    again = Levels((2,), (2,), (), (2,), 2)
    assert hear(link, again) == ([], [], []), "a repeated report about what is forgotten is fine"
    with pytest.raises(PeerError):
        link.take_report(Levels((3,), (2,), (), (2,), 2))


def test_without_faults_to_tolerate_there_is_nothing_to_say_about_the_other_direction() -> None:
    link, _, into = link_with(0, sent=1, arrived=1)
    into[0].undone = 0
    assert link.report() == Levels((1,), (), (), (), 1)
    assert link.arrived.entries == {}
    assert hear(link, Levels((1,), (), (), (), 1))[2]
    assert link.sent.entries == {}


STEPS = st.lists(st.integers(0, 3), min_size=4, max_size=4)


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(
    faults=st.integers(0, 3),
    sent=st.integers(0, 5),
    arrived=st.integers(0, 5),
    reports=st.lists(st.tuples(STEPS, STEPS, STEPS, STEPS, st.integers(-1, 3)), max_size=12),
)
def test_any_report_is_taken_or_refused_and_each_level_of_each_entry_is_heard_once(
    faults: int,
    sent: int,
    arrived: int,
    reports: list[tuple[list[int], list[int], list[int], list[int], int]],
) -> None:
    """Each report raises the counts of the one before by some steps, now and then too many or one too few."""
    link, out, into = link_with(faults, sent, arrived)
    reaches = max(1, faults)
    columns = [[0] * reaches, [0] * faults, [0] * (reaches - 1), [0] * faults]
    done = 0
    news: list[LinkNews] = []
    for *steps, more_done in reports:
        columns = [
            [count + more for count, more in zip(column, step, strict=False)]
            for column, step in zip(columns, steps, strict=True)
        ]
        done += more_done
        have, firm, back_have, back_firm = columns
        possible = (
            _falls([sent, *have])
            and _falls([have[0], *firm])
            and _falls([arrived, *back_have])
            and _falls([arrived, *back_firm])
            and more_done >= 0
            and done <= have[0]
        )
        try:
            news.append(link.take_report(Levels(tuple(have), tuple(firm), tuple(back_have), tuple(back_firm), done)))
        except PeerError:
            assert not possible
            break  # the link is cut off
        assert possible
        link.report()
    for heard in ([pair for one in news for pair in one.reaches], [pair for one in news for pair in one.levels]):
        assert len(heard) == len({(level, id(entry)) for level, entry in heard})
        assert all(entry in out or (entry in into and level > 0) for level, entry in heard)
    delivered = [entry for one in news for entry in one.delivered]
    assert delivered == out[: len(delivered)]


def _falls(counts: list[int]) -> bool:
    return counts == sorted(counts, reverse=True)


# -- one that is not taken ---------------------------------------------------------------------------------------------


def ahead(*parts: tuple[int, int, int]) -> tuple[Ahead, ...]:
    return tuple(Ahead(*part) for part in parts)


def test_what_is_taken_behind_one_that_is_not_is_told_one_by_one() -> None:
    link, _, into = link_with(1, arrived=5)
    link.report()
    for entry in (into[1], into[2], into[4]):
        entry.level, entry.undone = 1, 0
        link.moved(entry)
    assert link.report() == Levels((5,), (0,), (), (0,), 0, ahead((1, 2, 3), (1, 5, 5), (0, 2, 3), (0, 5, 5)))
    assert link.report() is None
    into[0].level, into[0].undone = 1, 0
    link.moved(into[0])
    assert link.report() == Levels((5,), (3,), (), (0,), 3), "those behind it are counted with it"


def test_what_is_heard_of_some_behind_one_that_is_not_taken_is_heard_once() -> None:
    link, out, _ = link_with(1, sent=4)
    news = hear(link, Levels((4,), (0,), (), (0,), 0, ahead((1, 3, 4), (0, 3, 4))))
    assert news[1:] == ([(1, out[2]), (1, out[3])], [out[2], out[3]])
    news = hear(link, Levels((4,), (4,), (), (0,), 4))
    assert news[1:] == ([(1, out[0]), (1, out[1])], [out[0], out[1]])


def test_what_is_through_behind_one_that_is_not_taken_is_forgotten() -> None:
    """One who does not read for a day must not make everybody remember a day."""
    link, out, into = link_with(1, sent=50, arrived=50)
    link.report()
    for entry in (*out[1:], *into[1:]):
        entry.level, entry.undone = 2, 0
        link.moved(entry)
    link.report()
    link.take_report(Levels((50,), (0,), (), (0,), 0, ahead((1, 2, 50), (0, 2, 50), (-1, 2, 50))))
    assert list(link.sent.entries) == [1] and list(link.arrived.entries) == [1]
    assert len(link.sent.numbers) == len(link.arrived.numbers) == 1


def test_very_many_that_are_not_taken_are_told_in_several_reports() -> None:
    link, _, into = link_with(0, arrived=2 * AHEAD_MAX + 10)
    link.report()
    for entry in into[1::2]:
        entry.undone = 0
        link.moved(entry)
    reports = [link.report(), link.report(), link.report()]
    assert [len(report.ahead) for report in reports if report is not None] == [AHEAD_MAX, 5]


@pytest.mark.parametrize(
    "part", [(0, 0, 1), (0, 2, 1), (0, 1, 4), (1, 1, 4), (-1, 1, 2), (2, 1, 1), (-2, 1, 1), (9, 1, 1)]
)
def test_impossible_reports_of_some_are_refused(part: tuple[int, int, int]) -> None:
    link, _, _ = link_with(1, sent=3, arrived=1)
    with pytest.raises(PeerError, match="reported for"):
        link.take_report(Levels((3,), (0,), (), (0,), 0, ahead(part)))


def test_a_level_that_leaves_out_the_one_below_it_is_refused_at_last() -> None:
    link, out, _ = link_with(2, sent=2)
    for entry in out:
        entry.reach, entry.level = 2, 3
    link.report()
    link.take_report(Levels((2, 2), (0, 0), (0,), (0, 0), 0, ahead((2, 2, 2), (0, 2, 2))))
    with pytest.raises(PeerError, match="reported once more"):
        link.take_report(Levels((2, 2), (2, 0), (0,), (0, 0), 0))
