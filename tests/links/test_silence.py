"""Peers that are not heard, peers that are heard again, and how sessions survive or end meanwhile."""

import pytest

from resprout.core.contract import (
    Close,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    EndCause,
    Heard,
    LinkDown,
    LinkUp,
    Note,
    Open,
    SetTimer,
    Silent,
    TimerFired,
    Transmit,
)
from resprout.links.flight import START_BYTES
from resprout.links.frames import Goodbye, LingerOver, ReconnectDue, WatchDue
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, frames


def refused(desk: Desk, peer: str, by_host: bool = True) -> list[Effect]:
    return desk.step(Disconnected(0, peer, "no", refused=by_host))


def pair(wanted_by_both: bool = True) -> tuple[Desk, Desk]:
    """A session between two brokers on connection 5, opened by the first."""
    opener, acceptor = Desk("b1"), Desk("b2")
    opener.ask(Open("b2"))
    [hello] = frames(opener.step(Connected(5, "b2")))
    acceptor.step(Connected(5, None))
    [welcome] = frames(acceptor.arrive(5, hello))
    opener.arrive(5, welcome)
    if wanted_by_both:
        assert acceptor.ask(Open("b1")) == []
    return opener, acceptor


def greet(caller: Desk, called: Desk, connection: int) -> list[Effect]:
    """A connection that was asked for stands, and the called side answers what the caller says on it."""
    called.step(Connected(connection, None))
    [hello] = frames(caller.step(Connected(connection, called.name)))
    [answer, *_] = frames(called.arrive(connection, hello), connection)
    return caller.arrive(connection, answer)


# -- what the stack hears ---------------------------------------------------------------------------------------------


def test_a_broken_connection_is_told_once_and_so_is_the_next_one() -> None:
    opener, acceptor = pair(wanted_by_both=False)
    opener.lose(5)
    acceptor.lose(5)
    assert opener.puppet.heard(Heard) == []
    greet(opener, acceptor, 6)
    assert opener.puppet.events[-2:] == [Silent("b2", False), Heard("b2")]
    assert acceptor.puppet.events[-2:] == [Silent("b1", False), Heard("b1")]
    assert opener.puppet.heard(LinkDown) == acceptor.puppet.heard(LinkDown) == []


def test_a_connection_that_is_replaced_before_its_loss_was_noticed_is_not_worth_a_word() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.accept(6, "c1", peer_incarnation=1)
    assert [type(event) for event in desk.puppet.events] == [LinkUp]


def test_a_peer_on_whose_connection_nothing_comes_is_silent() -> None:
    desk = Desk(options=LinkOptions(silence_us=400))
    desk.accept(5, "b0", role="broker")
    desk.now_us = 400
    desk.step(TimerFired(WatchDue()))
    assert desk.puppet.heard(Silent) == [Silent("b0", False, True)]
    assert len(desk.links.sessions()) == 1


@pytest.mark.parametrize("by_host", [True, False])
def test_every_attempt_that_fails_is_told_and_whether_the_host_refused_it(by_host: bool) -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    for count in (1, 2, 3):
        [retry] = refused(desk, "b0", by_host)
        assert isinstance(retry, SetTimer)
        assert desk.puppet.events[1:] == [Silent("b0", by_host)] * count
        desk.step(TimerFired(ReconnectDue("b0")))


def test_a_greeting_that_breaks_or_is_never_answered_is_silence_and_a_refusal_in_words_is_not() -> None:
    desk = Desk(options=LinkOptions(silence_us=400))
    desk.ask(Open("b0"))
    desk.step(Connected(5, "b0"))
    desk.lose(5)
    assert desk.puppet.heard(Silent) == [Silent("b0", False)]
    desk.step(TimerFired(ReconnectDue("b0")))
    desk.step(Connected(6, "b0"))
    desk.now_us = 400
    desk.step(TimerFired(WatchDue()))
    assert desk.puppet.heard(Silent) == [Silent("b0", False)] * 2
    desk.step(TimerFired(ReconnectDue("b0")))
    desk.step(Connected(7, "b0"))
    desk.arrive(7, Goodbye("closed on Sundays", 1))
    assert len(desk.puppet.heard(Silent)) == 2


def test_an_attempt_that_fails_when_the_peer_has_long_come_by_itself_says_nothing() -> None:
    desk = Desk("b2")
    desk.ask(Open("b1"))
    desk.accept(5, "b1", role="broker")
    assert refused(desk, "b1") == []
    assert desk.puppet.heard(Silent) == []


def test_a_refused_peer_keeps_its_session_until_the_stack_closes_it() -> None:
    opener, acceptor = pair()
    for desk, peer in ((opener, "b2"), (acceptor, "b1")):
        assert desk.lose(5) == [Connect(peer)]
        refused(desk, peer)
        assert desk.puppet.heard(Silent) == [Silent(peer, False), Silent(peer, True)]
        assert [session.connected for session in desk.links.sessions()] == [False]
        desk.ask(Close(peer, "declared dead"))
        assert desk.links.sessions() == []
        assert desk.step(TimerFired(ReconnectDue(peer))) == []
        assert desk.puppet.heard(LinkDown) == []


def test_a_stack_that_closes_a_peer_need_not_hear_that_it_is_silent() -> None:
    desk = Desk(options=LinkOptions(silence_us=400))
    desk.accept(5, "b0", role="broker")
    desk.accept(6, "b9", role="broker")
    desk.puppet.replies[Silent] = [Close("b9", "not needed")]
    desk.puppet.current.pop("b9")
    desk.now_us = 400
    desk.step(TimerFired(WatchDue()))
    assert desk.puppet.heard(Silent) == [Silent("b0", False, True)]


# -- attempts ---------------------------------------------------------------------------------------------------------


def test_both_sides_of_a_session_that_both_want_try_at_once_and_then_back_off() -> None:
    for desk, peer in zip(pair(), ("b2", "b1"), strict=True):
        desk.now_us = 10**9
        assert desk.lose(5) == [Connect(peer)]
        for expected_us in (50_000, 100_000, 200_000):
            [retry] = refused(desk, peer)
            assert isinstance(retry, SetTimer)
            assert retry.timer == ReconnectDue(peer)
            assert expected_us / 2 <= retry.at_us - desk.now_us <= expected_us
            assert desk.step(TimerFired(ReconnectDue(peer))) == [Connect(peer)]


def test_a_side_that_does_not_want_the_session_only_waits() -> None:
    _, acceptor = pair(wanted_by_both=False)
    assert acceptor.lose(5) == []


def test_connections_that_break_over_and_over_are_made_again_ever_more_slowly() -> None:
    desk = Desk(options=LinkOptions(reconnect_us_min=100, reconnect_us_max=1000))
    desk.reach(5, "b0")
    for connection, expected_us in enumerate((0, 100, 200, 400, 800, 1000, 1000), 6):
        [again] = desk.lose(connection - 1)
        if expected_us:
            assert isinstance(again, SetTimer)
            assert expected_us / 2 <= again.at_us - desk.now_us <= expected_us
            desk.now_us = again.at_us
            [again] = desk.step(TimerFired(ReconnectDue("b0")))
        assert again == Connect("b0")
        desk.step(Connected(connection, "b0"))
        desk.arrive(connection, desk.welcome())
    desk.now_us += 1000
    assert desk.lose(12) == [Connect("b0")]


def test_a_connection_that_comes_from_the_other_side_ends_the_attempts_of_this_one() -> None:
    opener, acceptor = pair()
    acceptor.lose(5)
    refused(acceptor, "b1", by_host=False)
    opener.lose(5)
    greet(opener, acceptor, 6)
    assert acceptor.step(TimerFired(ReconnectDue("b1"))) == []
    assert acceptor.step(Connected(7, "b1")) == [Disconnect(7, "not needed any more")]
    assert [session.connected for session in acceptor.links.sessions()] == [True]


def test_a_stack_that_wants_a_session_while_it_lacks_its_connection_has_it_tried_at_once() -> None:
    _, acceptor = pair(wanted_by_both=False)
    acceptor.lose(5)
    assert acceptor.ask(Open("b1")) == [Connect("b1")]


# -- a peer that did not open the session asks for it -----------------------------------------------------------------


def test_an_opener_that_still_has_the_session_says_so_and_nothing_is_lost() -> None:
    opener, acceptor = pair()
    opener.ask(("b2", Parcel(1)))
    acceptor.lose(5)
    opener.lose(5)
    effects = greet(acceptor, opener, 6)
    assert [type(effect) for effect in effects] == [Disconnect, SetTimer]
    assert acceptor.puppet.heard(LinkDown) == opener.puppet.heard(LinkDown) == []
    greet(opener, acceptor, 7)
    assert opener.puppet.events[-1] == Heard("b2")
    assert acceptor.puppet.events[-1] == Heard("b1")


def test_an_opener_that_has_restarted_is_found_out_and_a_session_with_its_next_life_begins() -> None:
    _, acceptor = pair()
    acceptor.ask(("b1", Parcel(1)))
    acceptor.lose(5)
    greet(acceptor, Desk("b1", incarnation=2), 6)
    assert acceptor.puppet.events[-2:] == [
        LinkDown("b1", "b1 restarted", EndCause.RESTARTED),
        LinkUp("b1", "broker", 2, START_BYTES),
    ]
    assert acceptor.puppet.current["b1"].sent == []
    acceptor.now_us = 10**6
    assert acceptor.lose(6) == [Connect("b1")]


def test_an_opener_that_has_ended_the_session_is_found_out_though_its_goodbye_was_lost() -> None:
    opener, acceptor = pair()
    opener.ask(Close("b2", "no more"))
    acceptor.lose(5)
    greet(acceptor, opener, 6)
    assert acceptor.puppet.heard(LinkDown) == [LinkDown("b1", "b1 began anew", EndCause.CLOSED)]
    assert len(acceptor.puppet.heard(LinkUp)) == 2
    assert len(opener.links.sessions()) == 1


def test_a_stack_that_closes_the_peer_when_the_old_session_ends_has_closed_the_new_one_it_was_opening() -> None:
    _, acceptor = pair()
    acceptor.lose(5)
    acceptor.puppet.replies[LinkDown] = [Close("b1", "no thanks")]
    effects = greet(acceptor, Desk("b1", incarnation=2), 6)
    assert Transmit(6, Goodbye("no thanks")) in effects
    assert len(acceptor.puppet.heard(LinkUp)) == 1
    assert acceptor.links.sessions() == []
    assert acceptor.lose(6) == []


def test_two_that_have_each_taken_the_session_of_the_other_agree_as_soon_as_they_can_talk() -> None:
    one, other = Desk("b1"), Desk("b2")
    one.ask(Open("b2"))
    other.ask(Open("b1"))
    [from_one] = frames(one.step(Connected(5, "b2")))
    [from_other] = frames(other.step(Connected(5, "b1")))
    for desk, hello in ((one, from_other), (other, from_one)):
        desk.lose(5)
        desk.step(Connected(6, None))
        desk.arrive(6, hello)
        desk.lose(6)
    greet(one, other, 7)
    for desk in (one, other):
        assert [session.connected for session in desk.links.sessions()] == [True]
        assert len(desk.puppet.heard(LinkDown)) == 1


def test_an_answer_that_was_long_under_way_does_not_disturb_a_session_that_the_peer_has_begun_meanwhile() -> None:
    _, acceptor = pair()
    acceptor.lose(5)
    acceptor.step(Connected(6, "b1"))
    acceptor.accept(7, "b1", role="broker", incarnation=2)
    assert acceptor.arrive(6, acceptor.welcome("b1", epoch=1)) == []
    assert [session.incarnation for session in acceptor.links.sessions()] == [2]


# -- why a session is over --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("incarnation", "cause"), [(7, EndCause.CLOSED), (8, EndCause.RESTARTED), (6, EndCause.LOST), (0, EndCause.LOST)]
)
def test_the_life_that_refuses_to_resume_tells_why_the_session_is_over(incarnation: int, cause: EndCause) -> None:
    desk = Desk()
    desk.reach(5, "b0", incarnation=7)
    desk.lose(5)
    desk.step(Connected(6, "b0"))
    effects = desk.arrive(6, Goodbye("over", incarnation))
    assert Note("link_refused", {"detail": "b0: over"}) in effects
    assert desk.puppet.heard(LinkDown) == [LinkDown("b0", "over", cause)]


def test_a_welcome_of_somebody_else_does_not_tell_that_the_peer_restarted() -> None:
    desk = Desk()
    desk.reach(5, "b0", incarnation=1)
    desk.lose(5)
    desk.step(Connected(6, "b0"))
    desk.arrive(6, desk.welcome("b9", incarnation=9))
    assert [down.cause for down in desk.puppet.heard(LinkDown)] == ["lost"]


def test_whoever_was_not_meant_does_not_tell_its_life() -> None:
    desk = Desk(incarnation=3)
    assert frames(desk.accept(5, "c1", peer="b7")) == [Goodbye("this is b1, not b7")]
    assert frames(desk.accept(6, "c1", peer_incarnation=3)) == [Goodbye("session 1 of c1 is over", 3)]
    assert frames(desk.accept(7, "c1", peer_incarnation=2)) == [Goodbye("b1 restarted: this is incarnation 3", 3)]


# -- how long a session waits -----------------------------------------------------------------------------------------


def test_a_session_between_brokers_waits_for_ever_and_that_of_a_client_does_not() -> None:
    desk = Desk(options=LinkOptions(session_linger_us=77))
    desk.accept(5, "b0", role="broker")
    desk.accept(6, "c1", role="client")
    assert desk.lose(5) == []
    assert desk.lose(6) == [SetTimer(LingerOver("c1"), 77)]


@pytest.mark.parametrize("linger_us", [0, 5, 10**18])
def test_a_session_between_brokers_waits_as_long_as_it_was_told(linger_us: int) -> None:
    desk = Desk(options=LinkOptions(broker_linger_us=linger_us))
    desk.now_us = 3
    desk.accept(5, "b0", role="broker")
    assert desk.lose(5) == [SetTimer(LingerOver("b0"), 3 + linger_us)]
    desk.step(TimerFired(LingerOver("b0")))
    assert desk.puppet.heard(LinkDown) == [LinkDown("b0", "b0 did not come back", EndCause.LOST)]
