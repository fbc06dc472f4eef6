"""Tables of transitions: what they allow, and that each says something of every state."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from resprout.core.errors import transition
from resprout.order.link import LINK_STATES, LinkState
from resprout.order.totals.totals import TOTALS_STATES, TotalsState
from resprout.stacks.resprout.joining.newcomer import NEWCOMER_STATES, NewcomerState
from resprout.stacks.resprout.life import LIFE_STATES, LifeState
from resprout.stacks.resprout.repair.finish import COORDINATOR_STATES, CoordinatorState
from resprout.stacks.resprout.repair.member import MEMBER_STATES, MemberState


def test_a_transition_that_the_table_allows_gives_the_new_state() -> None:
    assert transition(LINK_STATES, LinkState.ADDED, LinkState.OPEN) is LinkState.OPEN


def test_a_transition_that_the_table_does_not_have_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="LinkState: OPEN after REMOVED"):
        transition(LINK_STATES, LinkState.REMOVED, LinkState.OPEN)


@pytest.mark.parametrize(
    ("states", "table"),
    [
        (LinkState, LINK_STATES),
        (TotalsState, TOTALS_STATES),
        (LifeState, LIFE_STATES),
        (NewcomerState, NEWCOMER_STATES),
        (CoordinatorState, COORDINATOR_STATES),
        (MemberState, MEMBER_STATES),
    ],
)
def test_a_table_has_a_row_for_every_state(states: type[Enum], table: Mapping[Any, frozenset[Any]]) -> None:
    assert list(table) == list(states)
