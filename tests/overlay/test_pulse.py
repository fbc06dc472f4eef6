"""What counts as a sign of life: words always, connections once, bytes for a while."""

from resprout.overlay.places import Place
from resprout.overlay.pulse import STIRRING_LEASES, Pulse
from resprout.overlay.standing import MembershipView
from resprout.overlay.status import CouncilOptions

SECOND = 1_000_000
LEASE_US = 3 * SECOND


def root_with_child() -> Pulse:
    standing = MembershipView("b", 1, "", 1)
    standing.found()
    standing.neighbours["n"] = True
    standing.learn(Place("n", 1, 1, "b", ("b",), "", (1,)))
    pulse = Pulse(standing, CouncilOptions(heartbeat_us=SECOND // 2, lease_us=LEASE_US))
    pulse.follow_parent(0)
    pulse.watch(["n"], 0)
    pulse.met("n", 1, 0)
    pulse.heard("n", 0)
    return pulse


def overdue_at(pulse: Pulse, from_us: int) -> int:
    return next(time_us for time_us in range(from_us, 60 * SECOND, 100_000) if pulse.is_overdue("n", time_us))


def test_a_child_that_says_nothing_is_overdue_after_a_lease() -> None:
    pulse = root_with_child()
    assert LEASE_US < overdue_at(pulse, 0) < LEASE_US + SECOND // 2
    assert pulse.is_sure("n", overdue_at(pulse, 0))


def test_a_connection_that_stands_again_and_again_counts_once_until_something_is_said() -> None:
    pulse = root_with_child()
    for time_us in range(SECOND, 20 * SECOND, SECOND):
        pulse.silent("n", False)
        pulse.connected("n", time_us)
    assert overdue_at(pulse, 0) < SECOND + LEASE_US + SECOND // 2
    pulse.heard("n", 20 * SECOND)
    pulse.connected("n", 22 * SECOND)
    assert not pulse.is_overdue("n", 22 * SECOND + LEASE_US)


def test_another_life_has_the_time_to_speak() -> None:
    pulse = root_with_child()
    pulse.connected("n", SECOND)
    pulse.met("n", 2, 10 * SECOND)
    assert not pulse.is_overdue("n", 10 * SECOND + LEASE_US)


def test_bytes_that_get_on_stand_for_a_stack_on_a_thin_link_but_not_for_ever() -> None:
    pulse = root_with_child()
    for time_us in range(SECOND, 60 * SECOND, SECOND):
        if pulse.is_overdue("n", time_us):
            break
        pulse.stirred("n", time_us)
    assert STIRRING_LEASES * LEASE_US < time_us <= (STIRRING_LEASES + 2) * LEASE_US
