"""What a client published before it came: what is kept is answered for, the rest is delivered now, or soon."""

from collections.abc import Callable

from resprout.core.bundle import Origin
from resprout.core.contract import Send
from resprout.core.guarantee import ReceiptLevel
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Turned
from resprout.stacks.resprout.unsettled import Answering
from tests.edge.house import House

ORDERED = "ordered"


def came(last: int) -> tuple[House, Answering, ClientSession]:
    """A client that has published so much elsewhere, of which nothing is kept here."""
    house = House("c")
    reached: Callable[[Origin], int] = {("c", ORDERED, 1): last}.get  # type: ignore[assignment]
    return house, Answering(house.sessions, lambda origin: reached(origin) or 0), house.clients["c"]


def delivered(house: House) -> list[int]:
    house.sessions.flush(house.out)
    sent = [effect.message for effect in house.out if isinstance(effect, Send)]
    house.out.clear()
    return [told.seq for told in sent if isinstance(told, Turned) and told.receipt is ReceiptLevel.DELIVERED]


def test_what_has_left_no_trace_is_delivered_at_once_where_everything_was_kept() -> None:
    house, answering, session = came(7)
    answering.adopt(session, (), None)
    assert answering.is_settled(session)
    assert delivered(house) == [7]


def test_elsewhere_it_is_delivered_when_nobody_keeps_it_for_others_any_more() -> None:
    house, answering, session = came(7)
    answering.adopt(session, (), 1_000)
    assert not answering.is_settled(session)
    answering.settle(999)
    assert delivered(house) == []
    answering.settle(1_000)
    assert answering.is_settled(session)
    assert delivered(house) == [7]


def test_a_client_that_has_left_is_told_nothing() -> None:
    house, answering, session = came(7)
    answering.adopt(session, (), 1_000)
    house.sessions.leave("c", house.out)
    answering.leave("c")
    answering.settle(2_000)
    assert delivered(house) == []
    assert answering.is_settled(session)
