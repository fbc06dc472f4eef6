"""Who is welcome, and who is told goodbye with which reason."""

from random import Random
from typing import Any

import pytest

from resprout.core.contract import (
    Close,
    Connect,
    Connected,
    Disconnect,
    EndCause,
    EndCode,
    LinkDown,
    LinkUp,
    Note,
    Open,
    Request,
    SetTimer,
    TimerFired,
    Transmit,
)
from resprout.core.errors import UsageError
from resprout.links.frames import PROTOCOL_VERSION, Goodbye, Hello, ReconnectDue, SessionWelcome
from resprout.links.handshake import Acquaintances, fault_of_version
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, Puppet, data, frames


def test_the_opener_says_who_it_is_whom_it_means_and_how_much_it_grants() -> None:
    desk = Desk(incarnation=3, options=LinkOptions(window_bytes=500))
    assert desk.ask(Open("b0")) == [Connect("b0")]
    assert desk.step(Connected(5, "b0")) == [
        Transmit(5, Hello(PROTOCOL_VERSION, "b1", "broker", 3, "b0", None, 1, 0, 500))
    ]


def test_the_acceptor_answers_and_both_stacks_hear_of_the_session() -> None:
    desk = Desk(options=LinkOptions(window_bytes=500))
    assert desk.accept(5, "c1", epoch=4, incarnation=2, grant=77) == [
        Transmit(5, SessionWelcome(PROTOCOL_VERSION, "b1", "broker", 1, 4, 0, 500))
    ]
    assert desk.puppet.events == [LinkUp("c1", "client", 2, 77)]

    opener = Desk("c1")
    assert opener.reach(9, "b1", incarnation=6, grant=500) == []
    assert opener.puppet.heard(LinkUp) == [LinkUp("b1", "broker", 6, 500)]


def test_a_release_works_with_the_one_before_and_the_one_after_and_no_other() -> None:
    assert [theirs for theirs in range(-1, 10) if not fault_of_version(theirs, 5)] == [4, 5, 6]
    assert not fault_of_version(2), "whoever is one release ahead"
    assert "protocol version 0" in fault_of_version(0), "there was none before the first"


def test_a_session_begins_between_neighbouring_releases() -> None:
    desk = Desk()
    desk.accept(5, "c1", version=PROTOCOL_VERSION + 1)
    assert [up.peer for up in desk.puppet.heard(LinkUp)] == ["c1"]
    opener = Desk("c1")
    opener.ask(Open("b0"))
    opener.step(Connected(5, "b0"))
    opener.arrive(5, opener.welcome(version=PROTOCOL_VERSION + 1))
    assert [up.peer for up in opener.puppet.heard(LinkUp)] == ["b0"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 3}, "protocol version 3; this side speaks 1, and works with the one before and the one after"),
        ({"peer": "b2"}, "this is b1, not b2"),
        ({"name": "b1"}, "b1 is the name of this side"),
        ({"name": "a name"}, "a name is not a name"),
        ({"name": ""}, " is not a name"),
        ({"role": "king"}, "there is no role king"),
        ({"incarnation": 0}, "incarnations and sessions are numbered from 1"),
        ({"epoch": 0}, "incarnations and sessions are numbered from 1"),
        ({"peer_incarnation": 9}, "b1 restarted: this is incarnation 1"),
        ({"peer_incarnation": 1}, "session 1 of c1 is over"),
        ({"received": 1}, "acknowledged 1 messages, but 0 were sent"),
        ({"received": -1}, "acknowledged 0 messages before, now -1"),
        ({"grant": -1}, "granted 0 bytes before, now -1"),
    ],
)
def test_a_hello_that_cannot_be_is_refused_with_a_reason(changes: dict[str, Any], reason: str) -> None:
    desk = Desk()
    [transmit, disconnect] = desk.accept(**({"name": "c1"} | changes))
    assert isinstance(transmit, Transmit)
    assert transmit.frame.reason == reason
    assert disconnect == Disconnect(5, reason)
    assert desk.puppet.events == []
    assert desk.links.sessions() == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 3}, "protocol version 3; this side speaks 1, and works with the one before and the one after"),
        ({"name": "b9"}, "reached b9 instead of b0"),
        ({"role": "king"}, "there is no role king"),
        ({"epoch": 2}, "session 1 was asked for, not 2"),
        ({"incarnation": 0}, "incarnations are numbered from 1"),
        ({"received": 1}, "acknowledged 1 messages, but 0 were sent"),
        ({"grant": -5}, "granted 0 bytes before, now -5"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_and_another_session_is_tried(changes: dict[str, Any], reason: str) -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    desk.step(Connected(5, "b0"))
    effects = desk.arrive(5, desk.welcome(**changes))
    assert effects[:3] == [
        Transmit(5, Goodbye(reason)),
        Disconnect(5, reason),
        Note("link_refused", {"detail": f"b0: {reason}"}),
    ]
    assert isinstance(effects[3], SetTimer)
    assert desk.step(TimerFired(ReconnectDue("b0"))) == [Connect("b0")]
    [hello] = frames(desk.step(Connected(6, "b0")))
    assert hello.epoch == 2
    assert desk.puppet.heard(LinkUp) == []


def test_a_refused_opener_notes_the_reason_and_tries_again_later() -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    desk.step(Connected(5, "b0"))
    effects = desk.arrive(5, Goodbye("go away" + "!" * 9999))
    assert frames(effects) == []
    [note] = [effect for effect in effects if isinstance(effect, Note)]
    assert note.columns["detail"].startswith("b0: go away")
    assert len(note.columns["detail"]) < 600
    assert [effect.timer for effect in effects if isinstance(effect, SetTimer)] == [ReconnectDue("b0")]


def test_a_lost_welcome_does_not_begin_a_second_session() -> None:
    opener, acceptor = Desk("c1"), Desk("b1")
    opener.ask(Open("b1"))
    [hello] = frames(opener.step(Connected(5, "b1")))
    acceptor.step(Connected(7, None))
    acceptor.arrive(7, hello)
    acceptor.ask(("c1", Parcel(1)))
    acceptor.lose(7)
    opener.lose(5)

    opener.step(TimerFired(ReconnectDue("b1")))
    [again] = frames(opener.step(Connected(6, "b1")))
    assert again == hello
    acceptor.step(Connected(8, None))
    welcome, parcels = frames(acceptor.arrive(8, again))
    opener.arrive(6, welcome)
    opener.arrive(6, parcels)
    assert len(acceptor.puppet.heard(LinkUp)) == 1
    assert opener.puppet.episodes["b1"][0].received == [Parcel(1)]


def test_an_older_incarnation_is_refused_even_after_the_session_of_the_newer_has_ended() -> None:
    desk = Desk()
    desk.accept(5, "c1", incarnation=4)
    [goodbye] = frames(desk.accept(6, "c1", incarnation=3, epoch=9))
    assert goodbye == Goodbye("incarnation 3 of c1 is over: 4 has been here", 1, EndCode.OUTLIVED)
    assert desk.puppet.heard(LinkDown) == []

    desk.ask(Close("c1", "enough"))
    assert frames(desk.accept(7, "c1", incarnation=3, epoch=9)) == [goodbye]


def test_an_opener_does_not_accept_an_older_incarnation_than_it_has_met() -> None:
    desk = Desk()
    desk.reach(5, "b0", incarnation=4)
    desk.arrive(5, Goodbye("maintenance"))
    desk.step(TimerFired(ReconnectDue("b0")))
    desk.step(Connected(6, "b0"))
    [goodbye] = frames(desk.arrive(6, desk.welcome(epoch=2, incarnation=3)))
    assert goodbye == Goodbye("incarnation 3 of b0 is over: 4 has been here")


def test_a_peer_that_restarted_ends_its_old_session_before_the_new_one_begins() -> None:
    desk = Desk()
    desk.accept(5, "c1", incarnation=1)
    effects = desk.accept(6, "c1", incarnation=2)
    assert effects[:2] == [Transmit(5, Goodbye("c1 restarted", code=EndCode.REPLACED)), Disconnect(5, "c1 restarted")]
    assert desk.puppet.events[1:] == [
        LinkDown("c1", "c1 restarted", EndCause.RESTARTED),
        LinkUp("c1", "client", 2, 1000),
    ]


def test_a_peer_that_begins_a_later_session_ends_the_earlier_one() -> None:
    desk = Desk()
    desk.accept(5, "c1", epoch=1)
    desk.accept(6, "c1", epoch=2)
    assert desk.puppet.events[1:] == [LinkDown("c1", "c1 began anew", EndCause.CLOSED), LinkUp("c1", "client", 1, 1000)]
    assert frames(desk.accept(7, "c1", epoch=1)) == [Goodbye("session 1 of c1 is over", 1)]
    assert [session.epoch for session in desk.links.sessions()] == [2]


def test_what_a_stack_does_about_the_end_of_a_session_does_not_touch_the_one_that_replaces_it() -> None:
    desk = Desk()
    desk.accept(5, "c1", incarnation=1)
    desk.puppet.replies[LinkDown] = [Close("c1", "tidying up"), Open("c1")]
    desk.accept(6, "c1", incarnation=2)
    assert [type(event) for event in desk.puppet.events] == [LinkUp, LinkDown, LinkUp]
    [session] = desk.links.sessions()
    assert (session.incarnation, session.connected) == (2, True)


def test_a_session_that_has_ended_is_never_begun_again_by_a_hello_that_was_long_under_way() -> None:
    desk = Desk()
    desk.accept(5, "c1", epoch=3)
    desk.arrive(5, Goodbye("leaving"))
    assert frames(desk.accept(6, "c1", epoch=3)) == [Goodbye("session 3 of c1 is over", 1)]
    assert frames(desk.accept(7, "c1", epoch=2)) == [Goodbye("session 2 of c1 is over", 1)]
    assert len(desk.puppet.heard(LinkUp)) == 1


def test_an_opener_whose_peer_restarted_hears_so_and_begins_anew() -> None:
    opener, acceptor = Desk("c1"), Desk("b1", incarnation=2)
    opener.reach(5, "b1", incarnation=1)
    opener.ask(("b1", Parcel(1)))
    opener.lose(5)
    [hello] = frames(opener.step(Connected(6, "b1")))
    assert hello.peer_incarnation == 1
    acceptor.step(Connected(7, None))
    [goodbye] = frames(acceptor.arrive(7, hello))
    assert acceptor.puppet.events == []

    opener.arrive(6, goodbye)
    assert opener.puppet.heard(LinkDown) == [LinkDown("b1", "b1 restarted: this is incarnation 2", EndCause.RESTARTED)]
    opener.step(TimerFired(ReconnectDue("b1")))
    [hello] = frames(opener.step(Connected(8, "b1")))
    acceptor.step(Connected(9, None))
    [welcome] = frames(acceptor.arrive(9, hello))
    opener.arrive(8, welcome)
    assert [up.incarnation for up in opener.puppet.heard(LinkUp)] == [1, 2]
    assert opener.puppet.current["b1"].sent == []


def test_a_welcome_from_another_life_does_not_resume_a_session() -> None:
    desk = Desk()
    desk.reach(5, "b0", incarnation=1)
    desk.lose(5)
    desk.step(Connected(6, "b0"))
    desk.arrive(6, desk.welcome(incarnation=2))
    assert desk.puppet.heard(LinkDown) == [LinkDown("b0", "b0 restarted: incarnation 2 after 1", EndCause.RESTARTED)]


@pytest.mark.parametrize("frame", [data(1, Parcel(1)), Goodbye("bye"), Desk().welcome()])
def test_only_hello_may_come_first_on_a_connection_that_others_opened(frame: Any) -> None:
    desk = Desk()
    desk.step(Connected(5, None))
    reason = f"{type(frame).__name__} before Hello"
    assert desk.arrive(5, frame) == [Transmit(5, Goodbye(reason)), Disconnect(5, reason)]
    assert desk.arrive(5, desk.hello()) == []


@pytest.mark.parametrize("frame", [data(1, Parcel(1)), Desk().hello(), "noise"])
def test_only_welcome_or_goodbye_may_answer_a_hello(frame: Any) -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    desk.step(Connected(5, "b0"))
    assert frames(desk.arrive(5, frame)) == [Goodbye(f"{type(frame).__name__} instead of Welcome")]
    assert desk.puppet.heard(LinkUp) == []


def test_when_both_open_at_once_the_attempt_of_the_smaller_name_wins() -> None:
    small, large = Desk("b1"), Desk("b2")
    small.ask(Open("b2"))
    large.ask(Open("b1"))
    [from_small] = frames(small.step(Connected(5, "b2")))
    [from_large] = frames(large.step(Connected(5, "b1")))

    small.step(Connected(6, None))
    [goodbye] = frames(small.arrive(6, from_large))
    assert goodbye == Goodbye("b1 is opening a session with b2 itself", 1)
    large.step(Connected(6, None))
    effects = large.arrive(6, from_small)
    assert Disconnect(5, "b2 takes the session that b1 opened") in effects
    [welcome] = frames(effects, 6)
    small.arrive(5, welcome)
    large.arrive(5, goodbye)
    assert len(small.puppet.heard(LinkUp)) == len(large.puppet.heard(LinkUp)) == 1
    assert small.puppet.heard(LinkDown) == large.puppet.heard(LinkDown) == []


def test_a_session_that_the_peer_opened_serves_a_stack_that_wants_one_and_is_opened_again_when_it_ends() -> None:
    desk = Desk("b2")
    assert desk.ask(Open("b1")) == [Connect("b1")]
    desk.accept(5, "b1", role="broker")
    assert desk.step(Connected(6, "b1")) == [Disconnect(6, "not needed any more")]
    effects = desk.arrive(5, Goodbye("moving house"))
    assert [effect.timer for effect in effects if isinstance(effect, SetTimer)] == [ReconnectDue("b1")]
    assert desk.step(TimerFired(ReconnectDue("b1"))) == [Connect("b1")]


def test_a_hello_against_a_session_that_this_side_opened_is_refused() -> None:
    desk = Desk("b1")
    desk.reach(5, "b0")
    assert frames(desk.accept(6, "b0", role="broker")) == [Goodbye("b1 has opened a session with b0 itself", 1)]
    assert desk.puppet.heard(LinkDown) == []


def test_a_restarted_peer_may_open_what_this_side_had_opened() -> None:
    desk = Desk("b1")
    desk.reach(5, "b0")
    desk.accept(6, "b0", incarnation=2, role="broker")
    assert [type(event) for event in desk.puppet.events][1:] == [LinkUp, LinkDown, LinkUp]
    assert desk.step(TimerFired(ReconnectDue("b0"))) == []
    assert desk.links.sessions()[0].incarnation == 2


def test_a_second_connection_to_the_same_peer_is_not_needed() -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    desk.step(Connected(5, "b0"))
    assert desk.step(Connected(6, "b0")) == [Disconnect(6, "not needed any more")]
    desk.arrive(5, desk.welcome())
    assert desk.step(Connected(7, "b0")) == [Disconnect(7, "not needed any more")]
    assert desk.step(Connected(8, "b9")) == [Disconnect(8, "not needed any more")]


def test_more_sessions_than_allowed_are_refused_but_replacing_one_is_not() -> None:
    desk = Desk(options=LinkOptions(sessions_max=1))
    desk.accept(5, "c1")
    assert frames(desk.accept(6, "c2")) == [Goodbye("too many sessions")]
    assert [type(frame) for frame in frames(desk.accept(7, "c1", epoch=2), 7)] == [SessionWelcome]


def test_of_more_strangers_than_allowed_the_one_who_was_silent_for_longest_goes_and_that_is_said_once() -> None:
    desk = Desk(options=LinkOptions(greetings_max=2))
    assert desk.step(Connected(5, None)) == desk.step(Connected(6, None)) == []
    gone, said = desk.step(Connected(7, None))
    assert gone == Disconnect(5, "it has not said who it is, and others want to")
    assert isinstance(said, Note) and "(greetings_max)" in said.columns["detail"]
    assert desk.step(Connected(8, None)) == [Disconnect(6, "it has not said who it is, and others want to")]
    desk.lose(7)
    assert desk.step(Connected(9, None)) == []


def test_connections_of_ones_own_that_wait_for_an_answer_do_not_make_room_for_strangers() -> None:
    desk = Desk(options=LinkOptions(greetings_max=1))
    desk.ask(Open("b0"))
    desk.step(Connected(5, "b0"))
    assert desk.step(Connected(6, None)) == [Disconnect(6, "too many connections")]


def test_whom_the_limit_of_sessions_turns_away_is_said_with_the_limit() -> None:
    desk = Desk(options=LinkOptions(sessions_max=1))
    desk.accept(5, "c1")
    [said] = [effect for effect in desk.accept(6, "c2") if isinstance(effect, Note)]
    assert said.columns["detail"] == "c2 was turned away: 1 sessions is the limit (sessions_max)"
    assert not [effect for effect in desk.accept(7, "c3") if isinstance(effect, Note)], "not for each of thousands"


def test_acquaintances_forget_whom_they_have_not_met_for_longest() -> None:
    met = Acquaintances(2)
    met.meet("a", False, 1, 1)
    met.meet("b", False, 5, 2)
    met.meet("a", False, 1, 7)
    met.meet("c", False, 1, 1)
    assert [met.latest(name, False) for name in "abc"] == [(1, 7), (0, 0), (1, 1)]
    met.meet("a", False, 1)
    assert met.latest("a", False) == (1, 7)
    met.meet("a", True, 9, 9)
    assert (met.latest("a", False), met.latest("a", True)) == ((1, 7), (9, 9)), "a client is not a broker"


def test_a_node_needs_a_role_an_incarnation_and_a_name_that_can_be() -> None:
    for role, incarnation, name in (("king", 1, "b1"), ("broker", 0, "b1"), ("broker", 1, "b 1")):
        with pytest.raises(UsageError):
            Links(Puppet(), name=name, role=role, incarnation=incarnation, rng=Random(1))


def test_a_life_may_begin_to_number_its_sessions_anywhere() -> None:
    links = Links(Puppet(), name="b1", role="broker", incarnation=1, rng=Random(1), first_epoch=77)
    links.step(Request(Open("b0")), 0)
    [hello] = frames(links.step(Connected(5, "b0"), 0))
    assert hello.epoch == 77


def test_the_latest_life_of_a_peer_is_known_while_its_session_stands_and_after() -> None:
    desk = Desk(options=LinkOptions(acquaintances_max=1))
    assert desk.links.latest_incarnation("c1") == 0
    desk.accept(5, "c1", incarnation=4)
    desk.accept(6, "c2", incarnation=2)
    assert desk.links.latest_incarnation("c1") == 4
    desk.arrive(5, Goodbye("leaving"))
    assert desk.links.latest_incarnation("c1") == 4
