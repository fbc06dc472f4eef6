"""Subscriptions that are confirmed when everybody else has recorded them."""

from typing import Any

import pytest

from resprout.core.errors import PeerError
from resprout.core.message_fields import Mark
from resprout.filters.predicate import parse_predicate
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout_lab.blocks.recorded import RecordedSubscriptions

T = parse_predicate("t")


def with_neighbours(*names: str) -> RecordedSubscriptions:
    table = RecordedSubscriptions(lambda: [Mark("p", "ordered", 1, 7)])
    for name in names:
        table.add_link(name, ())
    return table


def said(table: RecordedSubscriptions) -> list[tuple[str, Any]]:
    outbound = list(table.outbound)
    table.outbound.clear()
    return outbound


def test_a_clients_wish_is_confirmed_when_every_neighbour_has_recorded_it() -> None:
    table = with_neighbours("n", "m")
    assert table.want("c", T) == []
    assert said(table) == [("n", Interested(1, "t", None)), ("m", Interested(2, "t", None))]
    assert table.hear_recorded("n", InterestConfirmed(1)) == []
    (recorded,) = table.hear_recorded("m", InterestConfirmed(2))
    assert (recorded.direction, recorded.predicate) == ("c", T)
    assert recorded.base == {("p", "ordered", 1): 7}, "what had passed before is not owed"


def test_a_neighbours_wish_is_recorded_when_all_behind_the_others_have_it() -> None:
    table = with_neighbours("n", "m")
    assert table.hear("n", Interested(5, "t", None)) == []
    assert said(table) == [("m", Interested(1, "t", None))]
    assert table.hear_recorded("m", InterestConfirmed(1)) == []
    assert said(table) == [("n", InterestConfirmed(5))]


def test_nobody_who_goes_is_waited_for() -> None:
    table = with_neighbours("n", "m")
    table.want("c", T)
    table.hear_recorded("n", InterestConfirmed(1))
    (recorded,) = table.remove_link("m")
    assert recorded.direction == "c"


def test_what_nobody_else_wants_is_withdrawn() -> None:
    table = with_neighbours("n", "m")
    table.want("c", T, confirmed=True)
    table.want("d", T, confirmed=True)
    said(table)
    table.drop("c", T)
    assert said(table) == []
    table.drop_all("d")
    assert said(table) == [("n", Uninterested(1)), ("m", Uninterested(2))]
    assert table.hear_recorded("n", InterestConfirmed(1)) == [], "the answer crossed the withdrawal"


def test_a_new_neighbour_that_was_told_what_it_is_asked_hears_only_what_has_changed() -> None:
    table = with_neighbours("old")
    table.want("c", T, confirmed=True)
    table.want("c", parse_predicate("u"), confirmed=True)
    asks = table.asks_for("new")
    table.drop("c", T)
    table.want("c", parse_predicate("v"), confirmed=True)
    said(table)
    table.add_link("new", asks)
    (asked, withdrawn) = said(table)
    assert isinstance(asked[1], Interested) and asked[1].filter == "v"
    assert withdrawn == ("new", Uninterested(asks[0].id))


def test_a_neighbour_asks_once_and_withdraws_what_it_asked() -> None:
    table = with_neighbours("n")
    table.hear("n", Interested(1, "t", None))
    for again in (Interested(1, "u", None), Interested(2, "t", None), Interested(3, "a/#/b", None)):
        with pytest.raises(PeerError):
            table.hear("n", again)
    with pytest.raises(PeerError, match="never had the wish 9"):
        table.hear_ended("n", Uninterested(9))
