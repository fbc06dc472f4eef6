"""The Lamport clock of a broker."""

import pytest

from resprout.core.bundle import shadow
from resprout.core.errors import BoundError, PeerError
from resprout.core.message_fields import STAMP_MAX
from resprout.order.clock import LEAD, Clock

NOW_US = 1_800_000_000_000_000


class Wall:
    def __init__(self) -> None:
        self.us = NOW_US

    def __call__(self) -> int:
        return self.us


def test_what_happens_here_is_stamped_after_all_that_is_known_and_after_what_it_follows() -> None:
    clock = Clock(5)
    assert [clock.stamp_after(0), clock.stamp_after(9), clock.stamp_after(9), clock.tick()] == [6, 10, 11, 12]


def test_a_stamp_beyond_the_constant_bound_is_the_fault_of_whoever_sends_it_and_changes_nothing() -> None:
    clock = Clock(5)
    with pytest.raises(PeerError, match="beyond"):
        clock.raise_to(STAMP_MAX + 1)
    assert clock.now == 5


def test_a_client_is_refused_what_no_broker_can_have_given_it() -> None:
    clock = Clock(5, Wall())
    for stamp in (NOW_US + 3 * LEAD + 1, STAMP_MAX - 3, STAMP_MAX):
        with pytest.raises(BoundError, match="ahead of all clocks"):
            clock.hear_client(stamp)
    assert clock.now == 5


def test_the_worst_that_a_client_can_claim_leaves_room_for_ever() -> None:
    """The wall clock goes on faster than the clock, so the highest claim can be made again and never adds up."""
    wall = Wall()
    clock = Clock(5, wall)
    for _ in range(100):
        clock.hear_client(wall.us + 3 * LEAD)
        for _ in range(1_000):
            clock.stamp_after(wall.us + 3 * LEAD)
        assert clock.now <= wall.us + LEAD + 1_000
        wall.us += 1_000
    other = Clock(0, wall)
    other.raise_to(clock.now)
    assert other.now == clock.now and not other.limited, "no broker changes what a client caused elsewhere"


def test_a_stamp_of_a_broker_that_no_clock_can_have_reached_is_replaced_and_nobody_is_blamed() -> None:
    clock = Clock(5, Wall())
    assert clock.raise_to(NOW_US + 2 * LEAD + 1) == 6
    bundle = clock.admit(shadow("p", "ordered", 1, 1, 1, STAMP_MAX))
    assert (bundle.stamp, clock.now, clock.limited) == (7, 7, 2)
    honest = shadow("p", "ordered", 1, 2, 2, 9)
    assert clock.admit(honest) is honest and clock.now == 9


def test_a_client_is_not_refused_what_its_broker_let_through_where_clocks_differ_by_less_than_a_lead() -> None:
    wall = Wall()
    ahead, behind = Clock(0, lambda: wall() + LEAD), Clock(0, wall)
    ahead.raise_to(wall() + 3 * LEAD)
    assert ahead.now == wall() + 3 * LEAD
    behind.hear_client(ahead.now)
    assert behind.now == wall() + LEAD
