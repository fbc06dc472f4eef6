"""The roll of client names, and the book of who listens where: what is told to whom."""

import random

import pytest

from resprout.order.link import Link
from resprout.overlay.messages import Life
from resprout.spread.messages import Outbound
from resprout.stacks.resprout import client_book
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.messages import ClientBegan, ListenersChanged, ListenersHeard
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.stack import BrokerSeat


def broker_with(*neighbours: str) -> ResproutBroker:
    broker = ResproutBroker(BrokerSeat("b", 1, None, ()), ResproutOptions(), random.Random(1))
    broker.start(0)
    broker.parts.neighbours.begin_links(dict.fromkeys(neighbours, 1), {})
    broker.parts.outbound.clear()
    return broker


def outbound(broker: ResproutBroker) -> Outbound:
    said = list(broker.parts.outbound)
    broker.parts.outbound.clear()
    return said


def test_a_life_is_announced_to_all_and_passed_on_to_all_others_once() -> None:
    broker = broker_with("m", "n")
    roll = broker.parts.client_book.roll
    roll.learn([Life("c", 5)])
    assert outbound(broker) == [("m", ClientBegan("c", 5)), ("n", ClientBegan("c", 5))]
    roll.heard(neighbour(broker, "m"), ClientBegan("c", 5))
    assert outbound(broker) == []
    roll.heard(neighbour(broker, "m"), ClientBegan("c", 7))
    assert outbound(broker) == [("n", ClientBegan("c", 7))] and roll.latest("c") == 7


def test_whoever_speaks_of_an_earlier_life_is_told_of_the_later_one() -> None:
    broker = broker_with("m", "n")
    broker.parts.client_book.roll.learn([Life("c", 7)])
    outbound(broker)
    broker.parts.client_book.roll.heard(neighbour(broker, "n"), ClientBegan("c", 5))
    assert outbound(broker) == [("n", ClientBegan("c", 7))]


def test_the_roll_forgets_names_that_were_quiet_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_book, "NAMES_KEPT", 10)
    roll = broker_with().parts.client_book.roll
    roll.learn([Life(f"c{n}", 1) for n in range(100)])
    assert len(list(roll.lives())) <= 21 and roll.latest("c99") == 1 and roll.latest("c0") == 0


def neighbour(broker: ResproutBroker, name: str) -> Link:
    return broker.parts.links[name]


def test_a_client_is_announced_when_every_neighbour_has_heard_of_it() -> None:
    broker = broker_with("m", "n")
    book = broker.parts.client_book.listeners
    guest = broker.parts.sessions.arrive("c", 1, 100)
    book.came("c")
    assert outbound(broker) == [(name, ListenersChanged(("c",), ())) for name in ("m", "n")]
    book.heard(neighbour(broker, "m"), ListenersHeard(("c", "stranger")))
    book.settle()
    told = [guest.announced]
    book.heard(neighbour(broker, "n"), ListenersHeard(("c",)))
    book.settle()
    book.came("c")
    assert [*told, guest.announced] == [False, True] and outbound(broker) == [], "once is enough"


def test_what_is_heard_of_clients_is_answered_and_handed_over_when_the_neighbour_dies() -> None:
    broker = broker_with("m", "n")
    book = broker.parts.client_book.listeners
    book.changed(neighbour(broker, "m"), ListenersChanged(("c", "d"), ()))
    assert outbound(broker) == [("m", ListenersHeard(("c", "d")))]
    book.changed(neighbour(broker, "m"), ListenersChanged((), ("d",)))
    assert outbound(broker) == []
    assert [row.listener for row in book.rows("m") if row.of_dead] == ["c"]
    assert book.lost("m") == {"c"}


def test_whom_an_expired_ghost_had_waited_for_is_told_in_an_order_that_every_process_has() -> None:
    broker = broker_with("m")
    awaited = [f"c{n}" for n in range(10, 40)]
    broker.parts.ghosts.add("~b9", frozenset({Life("b9", 1)}), (), [], awaited)
    broker.parts.client_book.listeners.check(awaited)
    assert outbound(broker) == [("m", ListenersChanged(tuple(awaited), ()))]
    broker.parts.ghost_expiry.end("~b9")
    assert outbound(broker) == [("m", ListenersChanged((), tuple(awaited)))]
