"""The Lamport clock of a broker."""

import pytest

from resprout.core.errors import PeerError
from resprout.order.clock import STAMP_MAX, Clock


def test_what_happens_here_is_stamped_after_all_that_is_known_and_after_what_it_follows() -> None:
    clock = Clock(5)
    assert [clock.stamp_after(0), clock.stamp_after(9), clock.stamp_after(9), clock.tick()] == [6, 10, 11, 12]


def test_a_stamp_that_no_honest_peer_has_is_refused_and_changes_nothing() -> None:
    clock = Clock(5)
    for refused in (clock.raise_to, clock.stamp_after):
        with pytest.raises(PeerError, match="beyond"):
            refused(STAMP_MAX + 1)
    assert clock.now == 5
