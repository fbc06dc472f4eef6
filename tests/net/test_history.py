"""A broker remembers its last ten minutes: rates by five seconds, and brokers that have gone."""

from resprout.net.accounts import DepartedBroker, HistoryPoint
from resprout.net.history import POINTS_MAX, STEP_SECONDS, History
from resprout.stacks.status import MemberSeen

B1, B2 = MemberSeen("b1", parent="b0"), MemberSeen("b2", parent="b1")


def test_points_are_rates_at_multiples_of_five_seconds() -> None:
    history = History()
    history.add(1003.2, 10, 20, 0, (B1,))
    assert history.points() == () and not history.is_due(1004.9) and history.is_due(1005.1)
    history.add(1005.1, 20, 60, 2, (B1,))
    history.add(1016.0, 30, 60, 1, (B1,))  # two steps late
    assert history.points() == (HistoryPoint(1005, 2.0, 8.0, 2), HistoryPoint(1015, 1.0, 0.0, 1))


def test_only_the_last_ten_minutes_are_kept() -> None:
    history = History()
    for step in range(1, POINTS_MAX + 50):
        history.add(step * STEP_SECONDS + 0.5, step, step, 0, ())
    assert len(history.points()) == POINTS_MAX and history.points()[-1].time == (POINTS_MAX + 49) * STEP_SECONDS


def test_a_clock_that_was_set_makes_no_point() -> None:
    history = History()
    for time_s in (50_000.0, 1000.0, 1005.0, 90_000.0):
        history.add(time_s, 5, 5, 0, ())
    assert [point.time for point in history.points()] == [1005]


def test_a_broker_that_dies_is_told_with_its_place_until_it_returns() -> None:
    history = History()
    history.add(1000.0, 0, 0, 0, (B1, B2))
    history.add(1005.0, 0, 0, 0, (MemberSeen("b1", parent="b0", dead=True), B2))
    history.add(1010.0, 0, 0, 0, (MemberSeen("b2", parent="b0"),))
    history.add(1015.0, 0, 0, 0, None)  # it has no place, so nothing is known of others
    assert history.departed(1020.0) == (DepartedBroker("b1", 1005.0, "b0"),)
    assert history.departed(1005.0 + POINTS_MAX * STEP_SECONDS + 1) == ()
    history.add(1025.0, 0, 0, 0, (B1, B2))
    assert history.departed(1026.0) == ()
