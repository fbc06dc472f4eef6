"""What counts as a sign of life: words always, connections once, bytes for a while."""

from resprout.overlay.lease_detector import STIRRING_LEASES, LeaseDetector
from resprout.overlay.messages import CouncilOptions, Place
from resprout.overlay.view import MembershipView

SECOND = 1_000_000
LEASE_US = 3 * SECOND


def root_with_child() -> LeaseDetector:
    view = MembershipView("b", 1, "", 1)
    view.found()
    view.neighbours["n"] = True
    view.learn(Place("n", 1, 1, "b", ("b",), "", (1,)))
    detector = LeaseDetector(view, CouncilOptions(heartbeat_us=SECOND // 2, lease_us=LEASE_US))
    detector.follow_parent(0)
    detector.watch(["n"], 0)
    detector.met("n", 1, 0)
    detector.heard("n", 0)
    return detector


def overdue_at(detector: LeaseDetector, from_us: int) -> int:
    return next(time_us for time_us in range(from_us, 60 * SECOND, 100_000) if detector.is_overdue("n", time_us))


def test_a_child_that_says_nothing_is_overdue_after_a_lease() -> None:
    detector = root_with_child()
    assert LEASE_US < overdue_at(detector, 0) < LEASE_US + SECOND // 2
    assert detector.is_sure("n", overdue_at(detector, 0))


def test_a_connection_that_stands_again_and_again_counts_once_until_something_is_said() -> None:
    detector = root_with_child()
    for time_us in range(SECOND, 20 * SECOND, SECOND):
        detector.lost("n", False)
        detector.connected("n", time_us)
    assert overdue_at(detector, 0) < SECOND + LEASE_US + SECOND // 2
    detector.heard("n", 20 * SECOND)
    detector.connected("n", 22 * SECOND)
    assert not detector.is_overdue("n", 22 * SECOND + LEASE_US)


def test_another_life_has_the_time_to_speak() -> None:
    detector = root_with_child()
    detector.connected("n", SECOND)
    detector.met("n", 2, 10 * SECOND)
    assert not detector.is_overdue("n", 10 * SECOND + LEASE_US)


def test_bytes_that_get_on_stand_for_a_stack_on_a_thin_link_but_not_for_ever() -> None:
    detector = root_with_child()
    for time_us in range(SECOND, 60 * SECOND, SECOND):
        if detector.is_overdue("n", time_us):
            break
        detector.stirred("n", time_us)
    assert STIRRING_LEASES * LEASE_US < time_us <= (STIRRING_LEASES + 2) * LEASE_US
