"""One broker's advertisements, message by message."""

from resprout.spread.adverts import Adverts
from resprout.spread.messages import Advertised, Unadvertised
from resprout.spread.outbound import Outbound


def adverts(outbound: Outbound, *neighbours: str) -> Adverts:
    made = Adverts(outbound)
    for name in neighbours:
        made.add_neighbour(name)
    return made


def test_a_topic_is_told_to_every_other_neighbour_once() -> None:
    outbound: Outbound = []
    board = adverts(outbound, "n1", "n2")
    board.advertise("n1", "t")
    board.advertise("n1", "t")
    board.advertise("c", "t")
    assert outbound == [("n2", Advertised("t")), ("n1", Advertised("t"))]
    assert board.directions("t") == ("n1", "c")
    assert board.count("c") == 1


def test_a_neighbour_hears_the_end_when_nobody_else_advertises() -> None:
    outbound: Outbound = []
    board = adverts(outbound, "n1", "n2")
    for direction in ("c", "d", "n1"):
        board.advertise(direction, "t")
    outbound.clear()
    board.withdraw("c", "t")
    assert outbound == [], "d still advertises"
    board.withdraw("d", "t")
    assert outbound == [("n1", Unadvertised("t"))], "n2 must still hear of n1"
    board.withdraw("n1", "t")
    assert outbound == [("n1", Unadvertised("t")), ("n2", Unadvertised("t"))]
    assert board.directions("t") == ()


def test_a_client_that_leaves_takes_its_topics_along() -> None:
    outbound: Outbound = []
    board = adverts(outbound, "n")
    board.advertise("c", "t")
    board.advertise("c", "u")
    board.advertise("d", "u")
    outbound.clear()
    board.withdraw_all("c")
    board.withdraw_all("c")
    board.withdraw_all("stranger")
    assert outbound == [("n", Unadvertised("t"))]
    assert board.count("c") == 0 and board.directions("u") == ("d",)


def test_withdrawing_what_was_never_advertised_changes_nothing() -> None:
    outbound: Outbound = []
    board = adverts(outbound, "n")
    board.withdraw("c", "t")
    board.advertise("d", "t")
    board.withdraw("c", "t")
    assert outbound == [("n", Advertised("t"))]


def test_a_new_neighbour_is_told_everything() -> None:
    outbound: Outbound = []
    board = adverts(
        outbound,
    )
    board.advertise("c", "t")
    board.advertise("c", "u")
    board.add_neighbour("n")
    assert outbound == []
    assert board.told("n") == [("n", Advertised("t")), ("n", Advertised("u"))]
