"""Connections break, sessions stay; and when they do end, everybody hears why."""

from random import Random

from resprout.core.contract import (
    CancelTimer,
    Close,
    Congested,
    Connect,
    Connected,
    Disconnect,
    EndCause,
    LinkDown,
    Open,
    Persist,
    Send,
    SetTimer,
    TimerFired,
    Transmit,
)
from resprout.links.flight import START_BYTES
from resprout.links.frames import Data, Goodbye, LingerOver, ReconnectDue, SessionWelcome
from resprout.links.handshake import Dial, Dialer
from resprout.links.options import LinkOptions
from resprout.links.session import MESSAGES_PER_FRAME
from tests.links.puppet import Desk, Parcel, data, frames


def test_the_opener_connects_again_and_ships_what_was_not_received() -> None:
    desk = Desk()
    desk.reach(5, "b0")
    for number in (1, 2, 3):
        desk.ask(("b0", Parcel(number)))
    assert desk.lose(5) == [Connect("b0")]
    assert frames(desk.ask(("b0", Parcel(4)))) == []

    [hello] = frames(desk.step(Connected(6, "b0")))
    assert (hello.epoch, hello.peer_incarnation, hello.received) == (1, 1, 0)
    assert frames(desk.arrive(6, desk.welcome(received=2))) == [
        Data(3, 0, desk.options.window_bytes, (Parcel(3), Parcel(4)))
    ]
    assert desk.puppet.heard(LinkDown) == []


def test_the_acceptor_resumes_and_ships_what_was_not_received() -> None:
    desk = Desk(options=LinkOptions(window_bytes=100))
    desk.accept(5, "c1")
    desk.arrive(5, data(1, Parcel(1, 10)))
    desk.ask([("c1", Parcel(7)), ("c1", Parcel(8))])
    [linger] = desk.lose(5)
    assert linger == SetTimer(LingerOver("c1"), desk.options.session_linger_us)

    effects = desk.accept(6, "c1", received=1, peer_incarnation=1)
    assert effects == [
        Transmit(6, SessionWelcome(1, "b1", "broker", 1, 1, 1, 110)),
        CancelTimer(LingerOver("c1")),
        Transmit(6, Data(2, 1, 110, (Parcel(8),))),
    ]
    assert len(desk.puppet.heard(LinkDown)) == 0


def test_a_newer_connection_of_a_session_replaces_the_older() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.ask(("c1", Parcel(1)))
    effects = desk.accept(6, "c1", peer_incarnation=1)
    assert Disconnect(5, "replaced by a newer connection") in effects
    assert [type(frame) for frame in frames(effects, 6)] == [SessionWelcome, Data]
    assert desk.arrive(5, data(1, Parcel(1))) == []
    assert desk.lose(5) == []
    assert desk.links.sessions()[0].connected


def test_what_was_received_twice_is_shown_once() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.arrive(5, data(1, Parcel(1), Parcel(2)))
    desk.arrive(5, data(1, Parcel(1), Parcel(2), Parcel(3)))
    desk.arrive(5, data(2, Parcel(2)))
    assert desk.puppet.current["c1"].received == [Parcel(1), Parcel(2), Parcel(3)]


def test_an_accepted_session_is_given_up_when_nobody_comes_back() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.lose(5)
    assert desk.step(TimerFired(LingerOver("c1"))) == []
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", "c1 did not come back")]
    assert desk.links.sessions() == []
    assert frames(desk.accept(6, "c1", peer_incarnation=1)) == [Goodbye("session 1 of c1 is over", 1)]


def test_a_linger_that_fires_late_harms_nobody() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.lose(5)
    desk.accept(6, "c1", peer_incarnation=1)
    assert desk.step(TimerFired(LingerOver("c1"))) == []
    assert desk.step(TimerFired(LingerOver("c9"))) == []
    assert desk.puppet.heard(LinkDown) == []


def test_a_session_whose_peer_acknowledges_nothing_is_given_up_at_the_bound() -> None:
    desk = Desk(options=LinkOptions(outbox_messages_max=3))
    desk.accept(5, "c1")
    assert desk.ask([("c1", Parcel(number)) for number in range(3)])
    effects = desk.ask(("c1", Parcel(3)))
    reason = "c1 acknowledges too little"
    assert effects[-2:] == [Transmit(5, Goodbye(reason)), Disconnect(5, reason)]
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", reason)]


def test_a_session_without_a_connection_keeps_no_more_bytes_than_the_bound() -> None:
    desk = Desk(options=LinkOptions(outbox_bytes_max=100))
    desk.accept(5, "c1")
    desk.lose(5)
    desk.ask(Send("c1", Parcel(1, 100)))
    assert desk.puppet.heard(LinkDown) == []
    desk.ask(Send("c1", Parcel(2, 1)))
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", "c1 acknowledges too little")]


def test_a_stack_is_never_offered_more_room_than_the_outbox_can_keep() -> None:
    desk = Desk(options=LinkOptions(outbox_bytes_max=100))
    desk.accept(5, "c1", grant=10**9)
    assert desk.puppet.current["c1"].room == 50
    desk.ask(Send("c1", Parcel(1, 40)))
    desk.arrive(5, data(1, received=1, grant=10**9 + 40))
    assert desk.puppet.current["c1"].room == 50


def test_an_opener_whose_session_overflows_begins_another() -> None:
    desk = Desk(options=LinkOptions(broker_messages_max=1))
    desk.reach(5, "b0")
    desk.lose(5)
    desk.ask([("b0", Parcel(1)), ("b0", Parcel(2))])
    assert len(desk.puppet.heard(LinkDown)) == 1
    [hello] = frames(desk.step(Connected(6, "b0")))
    assert (hello.epoch, hello.peer_incarnation) == (2, None)


def test_a_session_that_overflows_during_its_greeting_hangs_up() -> None:
    desk = Desk(options=LinkOptions(broker_messages_max=1))
    desk.reach(5, "b0")
    desk.lose(5)
    desk.step(Connected(6, "b0"))
    effects = desk.ask([("b0", Parcel(1)), ("b0", Parcel(2))])
    assert frames(effects, 6) == [Goodbye("b0 acknowledges too little")]
    assert desk.arrive(6, desk.welcome()) == []
    assert desk.links.sessions() == []


def test_close_ships_what_was_sent_says_goodbye_and_the_stack_hears_nothing_more() -> None:
    desk = Desk()
    desk.reach(5, "b0")
    effects = desk.ask([("b0", Parcel(1)), Close("b0", "moving"), Send("b0", Parcel(2))])
    assert effects == [
        Transmit(5, Data(1, 0, desk.options.window_bytes, (Parcel(1),))),
        Transmit(5, Goodbye("moving")),
        Disconnect(5, "moving"),
    ]
    assert desk.puppet.heard(LinkDown) == []
    assert desk.links.sessions() == []
    assert desk.arrive(5, data(1, Parcel(1))) == []
    assert desk.lose(5) == []


def test_the_other_side_of_a_close_hears_the_reason() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    assert desk.arrive(5, Goodbye("moving")) == [Disconnect(5, "moving")]
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", "moving", EndCause.CLOSED)]


def test_a_stack_that_closes_what_has_just_overflowed_does_not_hear_of_it() -> None:
    desk = Desk(options=LinkOptions(broker_messages_max=1))
    desk.accept(5, "c1")
    desk.ask([Send("c1", Parcel(1)), Send("c1", Parcel(2)), Persist(b"record"), Close("c1", "bye")])
    assert desk.puppet.heard(LinkDown) == []
    assert desk.links.sessions() == []


def test_close_ends_attempts_in_every_state() -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    assert desk.ask(Close("b0", "no")) == []
    assert desk.step(Connected(5, "b0")) == [Disconnect(5, "not needed any more")]

    desk.ask(Open("b0"))
    desk.step(Connected(6, "b0"))
    assert desk.ask(Close("b0", "no")) == [Transmit(6, Goodbye("no")), Disconnect(6, "no")]
    assert desk.arrive(6, desk.welcome()) == []

    desk.ask(Open("b0"))
    desk.lose(0, "b0")
    assert desk.ask(Close("b0", "no")) == [CancelTimer(ReconnectDue("b0"))]
    assert desk.step(TimerFired(ReconnectDue("b0"))) == []
    assert desk.ask(Close("nobody", "no")) == []
    assert desk.puppet.heard(LinkDown) == []


def test_open_again_after_close_is_another_session() -> None:
    desk = Desk()
    desk.reach(5, "b0")
    effects = desk.ask([Close("b0", "fresh start"), Open("b0")])
    assert effects[-1] == Connect("b0")
    [hello] = frames(desk.step(Connected(6, "b0")))
    assert (hello.epoch, hello.peer_incarnation) == (2, None)


def test_open_twice_is_open_once() -> None:
    desk = Desk()
    assert desk.ask([Open("b0"), Open("b0")]) == [Connect("b0")]


def test_a_connection_that_could_not_be_made_is_tried_again() -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    [retry] = desk.lose(0, "b0")
    assert isinstance(retry, SetTimer)
    assert desk.lose(0, "b0") == []  # answered already
    assert desk.lose(0, "b9") == []
    assert desk.step(TimerFired(ReconnectDue("b0"))) == [Connect("b0")]


def test_a_connection_that_comes_while_waiting_for_the_next_attempt_is_used() -> None:
    desk = Desk()
    desk.ask(Open("b0"))
    desk.lose(0, "b0")
    effects = desk.step(Connected(5, "b0"))
    assert effects[0] == CancelTimer(ReconnectDue("b0"))
    assert len(frames(effects)) == 1
    assert desk.step(TimerFired(ReconnectDue("b0"))) == []


def test_waiting_doubles_up_to_the_bound_and_is_cut_by_at_most_half() -> None:
    options = LinkOptions(reconnect_us_min=100, reconnect_us_max=1000)
    dial, dialer = Dial("b0"), Dialer(options, Random(3))
    for expected in (100, 200, 400, 800, 1000, 1000):
        dialer.call(dial, [])
        assert expected / 2 <= dialer.delay_us(dial) <= expected
    dial.attempts = 10**6
    assert dialer.delay_us(dial) <= 1000


def test_success_forgets_earlier_failures() -> None:
    desk = Desk(options=LinkOptions(reconnect_us_min=100, reconnect_us_max=10**9))
    desk.ask(Open("b0"))
    for _ in range(9):
        desk.lose(0, "b0")
        desk.step(TimerFired(ReconnectDue("b0")))
    desk.step(Connected(5, "b0"))
    desk.arrive(5, desk.welcome())
    assert desk.lose(5) == [Connect("b0")]


def test_what_is_shipped_again_keeps_the_limits_of_a_frame() -> None:
    desk = Desk()
    desk.accept(5, "c1", grant=1 << 40)
    desk.lose(5)
    many = [Parcel(number) for number in range(MESSAGES_PER_FRAME + 1)]
    large = [Parcel(number, START_BYTES // 8) for number in range(3)]
    for parcel in many + large:
        desk.ask(Send("c1", parcel))
    _welcome, *shipped = frames(desk.accept(6, "c1", peer_incarnation=1))
    assert [len(frame.messages) for frame in shipped] == [MESSAGES_PER_FRAME, 3, 1]
    assert [frame.first for frame in shipped] == [1, MESSAGES_PER_FRAME + 1, MESSAGES_PER_FRAME + 4]
    assert [message for frame in shipped for message in frame.messages] == many + large


def test_what_was_acknowledged_makes_place_for_more() -> None:
    desk = Desk(options=LinkOptions(outbox_messages_max=3, outbox_bytes_max=30))
    desk.accept(5, "c1")
    for number in range(1, 20):
        desk.ask([Send("c1", Parcel(number, 10)), Send("c1", Parcel(number, 10))])
        desk.arrive(5, data(1, received=2 * number, grant=1000))
    assert desk.puppet.heard(LinkDown) == []


def test_several_messages_follow_those_that_are_still_unacknowledged() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.ask([Send("c1", Parcel(1, 5)), Send("c1", Parcel(2, 5))])
    effects = desk.ask([Send("c1", Parcel(3, 5)), Send("c1", Parcel(4, 5))])
    assert frames(effects) == [Data(3, 0, desk.options.window_bytes, (Parcel(3, 5), Parcel(4, 5)))]


def test_a_session_that_ends_is_remembered_longer_than_those_that_were_met_before() -> None:
    desk = Desk(options=LinkOptions(acquaintances_max=2))
    desk.accept(5, "c1")
    desk.accept(6, "c2")
    desk.accept(7, "c3")
    desk.arrive(5, Goodbye("leaving"))
    assert frames(desk.accept(8, "c1")) == [Goodbye("session 1 of c1 is over", 1)]


def test_a_session_with_a_broker_holds_more_messages_and_has_a_bound_of_its_own() -> None:
    """A life ends with it, so what one client causes must not fill it."""
    desk = Desk(options=LinkOptions(outbox_messages_max=3, broker_messages_max=5))
    desk.reach(5, "b0")
    desk.ask([("b0", Parcel(number)) for number in range(5)])
    assert desk.puppet.heard(LinkDown) == []
    desk.ask(("b0", Parcel(5)))
    assert desk.puppet.heard(LinkDown) == [LinkDown("b0", "b0 acknowledges too little")]


def test_a_stack_is_told_when_a_broker_has_much_to_acknowledge_and_when_little_is_left() -> None:
    desk = Desk(options=LinkOptions(congested_messages=8))
    desk.reach(5, "b0")
    desk.accept(6, "c1")
    desk.ask([(peer, Parcel(number)) for number in range(7) for peer in ("b0", "c1")])
    assert desk.puppet.heard(Congested) == []
    desk.ask([(peer, Parcel(number)) for number in range(7, 20) for peer in ("b0", "c1")])
    assert desk.puppet.heard(Congested) == [Congested("b0", True)], "once, and not of clients"
    desk.arrive(5, data(1, received=17))
    assert desk.puppet.heard(Congested) == [Congested("b0", True)]
    desk.arrive(5, data(1, received=18))
    assert desk.puppet.heard(Congested) == [Congested("b0", True), Congested("b0", False)]
