"""Sessions of brokers that have no right to their names yet, or have lost it; and numbers that nobody believes."""

import pytest

from resprout.core.contract import Adopt, Connected, EndCause, LinkDown, LinkUp, Open, Received, Send, Transmit
from resprout.core.limits import newcomer_key, newcomer_name
from resprout.links.frames import Goodbye, Hello, SessionWelcome
from resprout.links.links import Links
from tests.links.puppet import Desk, Parcel, data, frames

MOST = 1000
"""A node that is told so believes in no life beyond this number."""


def test_a_newcomer_never_ends_the_session_of_the_one_whose_name_it_wants() -> None:
    desk = Desk("b0")
    desk.accept(5, "b1", role="broker", incarnation=3)
    desk.accept(6, "b1", role="newcomer", incarnation=9, epoch=4)
    key = newcomer_key("b1", 9, 4)
    assert desk.puppet.events == [LinkUp("b1", "broker", 3, 1000), LinkUp(key, "newcomer", 9, 1000)]
    desk.arrive(5, data(1, Parcel(1)))
    desk.arrive(6, data(1, Parcel(2)))
    assert desk.puppet.heard(Received) == [Received("b1", Parcel(1)), Received(key, Parcel(2))]
    assert (newcomer_name(key), newcomer_name("b1")) == ("b1", None)


def test_a_newcomer_that_is_adopted_goes_on_in_its_session_under_its_name() -> None:
    desk = Desk("b0")
    desk.accept(6, "b1", role="newcomer", incarnation=9, epoch=4)
    key = newcomer_key("b1", 9, 4)
    desk.ask(Adopt(key, "b1"))
    desk.puppet.current["b1"] = desk.puppet.current.pop(key)
    assert frames(desk.ask(Send("b1", Parcel(7)))) == [data(1, Parcel(7), grant=4 << 20)]
    desk.arrive(6, data(1, Parcel(8)))
    assert desk.puppet.heard(Received) == [Received("b1", Parcel(8))]
    assert desk.links.latest_incarnation("b1") == 9
    desk.lose(6)
    desk.step(Connected(7, None))  # it may not have heard yet that it was adopted
    again = desk.hello("b1", role="newcomer", incarnation=9, epoch=4, peer_incarnation=1, received=1)
    assert isinstance(frames(desk.arrive(7, again))[0], SessionWelcome)


def test_an_opener_says_that_it_is_a_newcomer_until_it_opens_the_session_as_itself() -> None:
    desk = Desk("b1")
    desk.ask(Open("b0", newcomer=True))
    first = frames(desk.step(Connected(5, "b0")))[0]
    desk.arrive(5, desk.welcome("b0"))
    desk.ask(Open("b0"))
    desk.lose(5, "b0")
    second = frames(desk.step(Connected(6, "b0")))[0]
    assert isinstance(first, Hello) and isinstance(second, Hello)
    assert (first.role, second.role, second.epoch) == ("newcomer", "broker", first.epoch)


def test_a_broker_whose_name_went_to_a_later_life_gets_a_session_in_which_it_can_be_told() -> None:
    desk = Desk("b0")
    desk.accept(5, "b1", role="broker", incarnation=9)
    desk.accept(6, "b1", role="broker", incarnation=3)
    assert desk.puppet.heard(LinkUp)[-1] == LinkUp(newcomer_key("b1", 3, 1), "newcomer", 3, 1000)
    assert desk.puppet.heard(LinkDown) == []
    desk.step(Connected(7, None))
    resumed = desk.arrive(7, desk.hello("b1", role="broker", incarnation=3, epoch=2, peer_incarnation=1))
    assert [frame.reason for frame in frames(resumed)] == ["incarnation 3 of b1 is over: 9 has been here"]


def test_a_later_life_that_is_reached_in_the_place_of_the_earlier_one_ends_the_session_with_that() -> None:
    desk = Desk("b0")
    desk.accept(5, "b1", role="broker", incarnation=3)
    desk.ask(Open("b1"))
    desk.lose(5)
    desk.step(Connected(6, "b1"))
    desk.arrive(6, Goodbye("b1 has opened a session with b0 itself", 4))
    assert desk.puppet.heard(LinkDown) == [LinkDown("b1", "b1 restarted", EndCause.RESTARTED)]


@pytest.mark.parametrize("role", ["client", "broker", "newcomer"])
def test_a_life_far_beyond_the_clock_is_refused_and_the_name_stays_free(role: str) -> None:
    desk = Desk("b0", incarnation_max=MOST)
    refused = frames(desk.accept(5, "x1", role=role, incarnation=(1 << 63) - 1))
    assert [type(frame) for frame in refused] == [Goodbye] and "far beyond the clock here" in refused[0].reason
    assert desk.links.latest_incarnation("x1") == 0
    assert isinstance(frames(desk.accept(6, "x1", role=role, incarnation=MOST))[0], SessionWelcome)


def test_a_welcome_from_far_beyond_the_clock_is_refused_too() -> None:
    desk = Desk("b1", incarnation_max=MOST)
    told = desk.reach(5, "b0", incarnation=MOST + 1)
    assert any(isinstance(x, Transmit) and isinstance(x.frame, Goodbye) for x in told)
    assert desk.puppet.heard(LinkUp) == [] and isinstance(desk.links, Links)
