"""A client that returns: the receipts of what it had published, and what it is given of totals."""

import pytest

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.messages import Turned
from tests.edge.house import House
from tests.edge.test_returning import attend


def test_a_publisher_that_returns_has_the_receipts_of_what_is_still_on_its_way() -> None:
    house = House("a", "p")
    house.told("a")
    entries = [house.give("a", by="p"), house.append("a", by="p")]
    house.leave("p")
    session = house.serve("p", attend())
    house.told("p")
    house.sessions.adopt(session, entries)
    assert house.told("p") == [Turned("ordered", ReceiptLevel.ACCEPTED, 2), Turned("ordered", ReceiptLevel.SAFE, 1)]
    house.sessions.known(session, entries[0].bundle or house.bundle())
    assert house.told("p") == [Turned("ordered", ReceiptLevel.SAFE, 1)]
    house.show()
    assert house.told("p") == [Turned("ordered", ReceiptLevel.SAFE, 2)]
    house.take("a", 2)
    assert house.told("p") == [Turned("ordered", ReceiptLevel.DELIVERED, 2)] and house.empty


@pytest.mark.parametrize(
    ("reached", "at_once", "later"),
    [
        ({}, [], Turned("ordered", ReceiptLevel.DELIVERED, 4, first=4)),
        ({"ordered": 4}, [Turned("ordered", ReceiptLevel.DELIVERED, 3)], Turned("ordered", ReceiptLevel.DELIVERED, 4)),
        (
            {"ordered": 9, "eventual": 2},
            [
                Turned("ordered", ReceiptLevel.DELIVERED, 3),
                Turned("ordered", ReceiptLevel.DELIVERED, 9, first=5),
                Turned("eventual", ReceiptLevel.DELIVERED, 2),
            ],
            Turned("ordered", ReceiptLevel.DELIVERED, 9),
        ),
    ],
)
def test_what_lies_around_its_entries_was_delivered(
    reached: dict[str, int], at_once: list[Turned], later: Turned
) -> None:
    house = House("a", "p")
    house.published["p"] = 3
    entry = house.give("a", by="p")
    house.leave("p")
    session = house.serve("p", attend())
    house.told("p")
    house.sessions.adopt(session, [entry], reached)
    told = house.told("p")
    assert [turned for turned in told if turned.receipt is ReceiptLevel.DELIVERED] == at_once
    assert Turned("ordered", ReceiptLevel.SAFE, 4) in told
    house.take("a", 1)
    assert house.told("p") == [later]


def test_an_old_publication_is_answered_at_once() -> None:
    house = House("p")
    house.told("p")
    house.sessions.known(house.clients["p"], house.bundle("p", payloads=(b"", b"")))
    assert house.told("p") == [Turned("ordered", ReceiptLevel.DELIVERED, 2)]


@pytest.mark.parametrize(("guarantee", "tseq"), [(Guarantee.TOTAL, 12), (Guarantee.CAUSAL, -1)])
def test_a_total_is_given_with_its_place_and_what_was_only_carried_is_not(guarantee: Guarantee, tseq: int) -> None:
    house = House("a")
    house.told("a")
    entry = house.append("a", guarantee=guarantee)
    entry.tseq = 12
    house.show()
    assert [message.tseq for message in house.messages("a")] == [tseq]
