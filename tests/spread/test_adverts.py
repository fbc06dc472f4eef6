"""One broker's advertisements, message by message."""

from resprout.spread.adverts import Adverts
from resprout.spread.messages import Advertised, Unadvertised
from resprout.spread.says import Says


def adverts(*neighbours: str) -> Adverts:
    made = Adverts()
    for name in neighbours:
        made.add_neighbour(name)
    return made


def test_a_topic_is_told_to_every_other_neighbour_once() -> None:
    board = adverts("n1", "n2")
    says: Says = []
    board.advertise("n1", "t", says)
    board.advertise("n1", "t", says)
    board.advertise("c", "t", says)
    assert says == [("n2", Advertised("t")), ("n1", Advertised("t"))]
    assert board.directions("t") == ("n1", "c")
    assert board.count("c") == 1


def test_a_neighbour_hears_the_end_when_nobody_else_advertises() -> None:
    board = adverts("n1", "n2")
    says: Says = []
    for direction in ("c", "d", "n1"):
        board.advertise(direction, "t", says)
    says.clear()
    board.withdraw("c", "t", says)
    assert says == [], "d still advertises"
    board.withdraw("d", "t", says)
    assert says == [("n1", Unadvertised("t"))], "n2 must still hear of n1"
    board.withdraw("n1", "t", says)
    assert says == [("n1", Unadvertised("t")), ("n2", Unadvertised("t"))]
    assert board.directions("t") == ()


def test_a_client_that_leaves_takes_its_topics_along() -> None:
    board = adverts("n")
    says: Says = []
    board.advertise("c", "t", says)
    board.advertise("c", "u", says)
    board.advertise("d", "u", says)
    says.clear()
    board.withdraw_all("c", says)
    board.withdraw_all("c", says)
    board.withdraw_all("stranger", says)
    assert says == [("n", Unadvertised("t"))]
    assert board.count("c") == 0 and board.directions("u") == ("d",)


def test_withdrawing_what_was_never_advertised_changes_nothing() -> None:
    board = adverts("n")
    says: Says = []
    board.withdraw("c", "t", says)
    board.advertise("d", "t", says)
    board.withdraw("c", "t", says)
    assert says == [("n", Advertised("t"))]


def test_a_new_neighbour_is_told_everything() -> None:
    board = adverts()
    says: Says = []
    board.advertise("c", "t", says)
    board.advertise("c", "u", says)
    board.add_neighbour("n")
    assert says == []
    assert board.told("n") == [("n", Advertised("t")), ("n", Advertised("u"))]
