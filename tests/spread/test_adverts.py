"""One broker's advertisements, message by message."""

from resprout.spread.adverts import Adverts
from resprout.spread.messages import Advertised, Unadvertised
from resprout.spread.outbound import Outbound


def adverts(*neighbours: str) -> Adverts:
    made = Adverts()
    for name in neighbours:
        made.add_neighbour(name)
    return made


def test_a_topic_is_told_to_every_other_neighbour_once() -> None:
    board = adverts("n1", "n2")
    outbound: Outbound = []
    board.advertise("n1", "t", outbound)
    board.advertise("n1", "t", outbound)
    board.advertise("c", "t", outbound)
    assert outbound == [("n2", Advertised("t")), ("n1", Advertised("t"))]
    assert board.directions("t") == ("n1", "c")
    assert board.count("c") == 1


def test_a_neighbour_hears_the_end_when_nobody_else_advertises() -> None:
    board = adverts("n1", "n2")
    outbound: Outbound = []
    for direction in ("c", "d", "n1"):
        board.advertise(direction, "t", outbound)
    outbound.clear()
    board.withdraw("c", "t", outbound)
    assert outbound == [], "d still advertises"
    board.withdraw("d", "t", outbound)
    assert outbound == [("n1", Unadvertised("t"))], "n2 must still hear of n1"
    board.withdraw("n1", "t", outbound)
    assert outbound == [("n1", Unadvertised("t")), ("n2", Unadvertised("t"))]
    assert board.directions("t") == ()


def test_a_client_that_leaves_takes_its_topics_along() -> None:
    board = adverts("n")
    outbound: Outbound = []
    board.advertise("c", "t", outbound)
    board.advertise("c", "u", outbound)
    board.advertise("d", "u", outbound)
    outbound.clear()
    board.withdraw_all("c", outbound)
    board.withdraw_all("c", outbound)
    board.withdraw_all("stranger", outbound)
    assert outbound == [("n", Unadvertised("t"))]
    assert board.count("c") == 0 and board.directions("u") == ("d",)


def test_withdrawing_what_was_never_advertised_changes_nothing() -> None:
    board = adverts("n")
    outbound: Outbound = []
    board.withdraw("c", "t", outbound)
    board.advertise("d", "t", outbound)
    board.withdraw("c", "t", outbound)
    assert outbound == [("n", Advertised("t"))]


def test_a_new_neighbour_is_told_everything() -> None:
    board = adverts()
    outbound: Outbound = []
    board.advertise("c", "t", outbound)
    board.advertise("c", "u", outbound)
    board.add_neighbour("n")
    assert outbound == []
    assert board.told("n") == [("n", Advertised("t")), ("n", Advertised("u"))]
