"""What a client asks and gets, as rows."""

from typing import Any

import msgspec
import pytest

from resprout.core.contract import EndCode
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.requests import BrokerChanged, RoomAgain, SessionBegan, SessionLost
from resprout.scenario.observe import ClientRows
from resprout.trace import kinds

MESSAGE = Message("p", 1, 4, "t", (), Guarantee.TOTAL, {}, b"abc", 7, 2, 5)


@pytest.mark.parametrize(("claimed", "written"), [(-1, None), (0, 0), (12, 12)])
def test_a_delivery_has_the_place_that_the_network_claims_for_it_or_none(claimed: int, written: int | None) -> None:
    row = ClientRows("c", 1).delivered(9, msgspec.structs.replace(MESSAGE, tseq=claimed))
    assert row.kind == kinds.DELIVER and row.tseq == written


@pytest.mark.parametrize(
    ("news", "details"),
    [
        (BrokerChanged("b2"), ["b2 serves this client now"]),
        (SessionBegan("s", (), 1), []),
        (RoomAgain(), []),
    ],
)
def test_a_change_of_brokers_is_a_note_for_people(news: Any, details: list[str]) -> None:
    rows = list(ClientRows("c", 1).told(3, news))
    assert [row.detail for row in rows] == details and all(row.kind == kinds.NOTE for row in rows)


@pytest.mark.parametrize(
    ("news", "written"),
    [
        (SessionLost("too late", over=False), [(kinds.SESSION_LOST, "too late")]),
        (SessionLost("it broke the rules", over=True), [(kinds.SESSION_LOST, "it broke the rules")]),
        (
            SessionLost("c restarted", over=True, code=EndCode.REPLACED),
            [(kinds.NOTE, "session lost: c restarted"), (kinds.LEAVE, None)],
        ),
    ],
)
def test_a_client_that_is_told_of_a_loss_has_a_row_for_the_judges(
    news: SessionLost, written: list[tuple[str, str | None]]
) -> None:
    """But one whose name another has taken only leaves."""
    assert [(row.kind, row.detail) for row in ClientRows("c", 1).told(3, news)] == written
