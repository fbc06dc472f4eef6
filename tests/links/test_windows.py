"""Acknowledgements and room: who may send how much, and when it is told."""

from resprout.core.contract import (
    Close,
    Connected,
    Hold,
    LinkDown,
    LinkUp,
    Received,
    Release,
    Send,
    SetTimer,
    TimerFired,
    Transmit,
    Writable,
)
from resprout.links.frames import AcknowledgeDue, Data, LingerOver, ReconnectDue, WatchDue
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, data, frames

WINDOW_100 = LinkOptions(window_bytes=100)


def test_an_acknowledgement_waits_for_data_to_ride_on() -> None:
    desk = Desk(options=LinkOptions(window_bytes=100, ack_delay_us=20))
    desk.accept(5, "c1")
    desk.now_us = 7
    assert desk.arrive(5, data(1, Parcel(1, 10))) == [SetTimer(AcknowledgeDue(), 27)]
    assert desk.ask(("c1", Parcel(1))) == [Transmit(5, Data(1, 1, 110, (Parcel(1),)))]
    assert desk.step(TimerFired(AcknowledgeDue())) == []


def test_one_timer_acknowledges_every_session_that_found_nothing_to_ride_on() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1")
    desk.accept(6, "c2")
    assert len(desk.arrive(5, data(1, Parcel(1)))) == 1
    assert desk.arrive(5, data(2, Parcel(2))) == []
    assert desk.arrive(6, data(1, Parcel(1))) == []
    assert desk.step(TimerFired(AcknowledgeDue())) == [
        Transmit(5, Data(1, 2, 100, ())),
        Transmit(6, Data(1, 1, 100, ())),
    ]
    assert desk.step(TimerFired(AcknowledgeDue())) == []
    assert [type(effect) for effect in desk.arrive(6, data(2, Parcel(2)))] == [SetTimer]


def test_a_reply_to_the_message_itself_is_the_acknowledgement() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1")
    desk.puppet.replies[Received] = [Send("c1", Parcel(9))]
    assert desk.arrive(5, data(1, Parcel(1, 10))) == [Transmit(5, Data(1, 1, 110, (Parcel(9),)))]


def test_many_messages_are_acknowledged_at_once() -> None:
    desk = Desk(options=LinkOptions(ack_messages_max=3))
    desk.accept(5, "c1")
    desk.arrive(5, data(1, Parcel(1), Parcel(2)))
    assert frames(desk.arrive(5, data(3, Parcel(3)))) == [Data(1, 3, desk.options.window_bytes, ())]


def test_half_a_window_is_acknowledged_at_once() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1")
    assert frames(desk.arrive(5, data(1, Parcel(1, 49)))) == []
    assert frames(desk.arrive(5, data(2, Parcel(2, 1)))) == [Data(1, 2, 150, ())]


def test_a_connection_that_broke_meanwhile_is_not_acknowledged_on() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.arrive(5, data(1, Parcel(1)))
    desk.lose(5)
    assert desk.step(TimerFired(AcknowledgeDue())) == []
    [welcome] = frames(desk.accept(6, "c1", peer_incarnation=1))
    assert welcome.received == 1


def test_the_stack_hears_of_room_when_little_was_left_and_much_is_free_again() -> None:
    desk = Desk()
    desk.accept(5, "c1", grant=100)
    desk.ask(Send("c1", Parcel(1, 50)))
    desk.arrive(5, data(1, received=1, grant=150))
    assert desk.puppet.heard(Writable) == []  # half of the window was left
    desk.ask(Send("c1", Parcel(2, 1)))
    desk.arrive(5, data(1, received=2, grant=151))
    assert desk.puppet.heard(Writable) == [Writable("c1", 100)]
    desk.ask(Send("c1", Parcel(3, 90)))
    desk.arrive(5, data(1, received=2, grant=190))
    assert len(desk.puppet.heard(Writable)) == 1  # 49 bytes are not half
    desk.arrive(5, data(1, received=2, grant=192))
    assert desk.puppet.heard(Writable)[1:] == [Writable("c1", 51)]


def test_the_stack_hears_of_room_that_came_with_a_new_connection() -> None:
    desk = Desk()
    desk.accept(5, "c1", grant=100)
    desk.ask(Send("c1", Parcel(1, 100)))
    desk.lose(5)
    desk.accept(6, "c1", peer_incarnation=1, received=1, grant=200)
    assert desk.puppet.heard(Writable) == [Writable("c1", 100)]

    opener = Desk()
    opener.reach(5, "b0", grant=100)
    opener.ask(Send("b0", Parcel(1, 100)))
    opener.lose(5)
    opener.step(TimerFired(ReconnectDue("b0")))
    opener.step(Connected(6, "b0"))
    opener.arrive(6, opener.welcome(received=1, grant=200))
    assert opener.puppet.heard(Writable) == [Writable("b0", 100)]


def test_the_stack_hears_of_more_room_where_many_links_share_the_beginning() -> None:
    """It was told of less than the links believed it knew of, stopped there, and never heard of more."""
    desk = Desk()
    for connection in range(5, 25):
        desk.accept(connection, f"c{connection}", grant=1 << 20)
    [last] = [up for up in desk.puppet.heard(LinkUp) if up.peer == "c24"]
    for number in range(1, 17):
        desk.ask(Send("c24", Parcel(number, last.room // 16)))
        desk.arrive(24, data(1, received=number, grant=1 << 20))
    assert "c24" in [event.peer for event in desk.puppet.heard(Writable)]


def test_a_message_may_begin_in_the_last_byte_of_room_but_none_may_begin_without() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1")
    desk.ask(Hold("c1"))
    desk.arrive(5, data(1, Parcel(1, 99), Parcel(2, 5000), Parcel(3, 0)))
    assert len(desk.puppet.current["c1"].received) == 3
    desk.arrive(5, data(4, Parcel(4, 1)))
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", "5100 bytes were sent, 100 were granted")]


def test_hold_freezes_the_grant_and_release_tells_it_at_once() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1")
    desk.ask(Hold("c1"))
    assert frames(desk.arrive(5, data(1, Parcel(1, 100)))) == []
    assert frames(desk.step(TimerFired(AcknowledgeDue()))) == [Data(1, 1, 100, ())]
    assert desk.links.sessions()[0].held
    assert desk.ask(Release("c1")) == [Transmit(5, Data(1, 1, 200, ()))]
    assert desk.ask(Release("c1")) == []


def test_hold_outlives_a_connection() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1")
    desk.ask(Hold("c1"))
    desk.arrive(5, data(1, Parcel(1, 100)))
    desk.lose(5)
    [welcome] = frames(desk.accept(6, "c1", peer_incarnation=1))
    assert welcome.grant == 100
    desk.lose(6)
    assert desk.ask(Release("c1")) == []
    [welcome] = frames(desk.accept(7, "c1", peer_incarnation=1))
    assert welcome.grant == 200


def test_holding_or_releasing_nobody_does_nothing() -> None:
    assert Desk().ask([Hold("c1"), Release("c1")]) == []


def test_a_stack_may_close_the_session_while_it_hears_of_room() -> None:
    desk = Desk(options=WINDOW_100)
    desk.accept(5, "c1", grant=100)
    desk.ask(Send("c1", Parcel(1, 100)))
    desk.puppet.replies[Writable] = [Close("c1", "done")]
    effects = desk.arrive(5, data(1, Parcel(1, 60), received=1, grant=200))
    assert [type(frame).__name__ for frame in frames(effects)] == ["Goodbye"]


def test_a_stack_may_close_the_session_in_the_middle_of_a_frame() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.puppet.replies[Received] = [Close("c1", "enough")]
    desk.arrive(5, data(1, Parcel(1), Parcel(2)))
    assert desk.puppet.heard(Received) == [Received("c1", Parcel(1), more=True)]


def test_housekeeping_does_not_keep_a_run_from_being_quiescent() -> None:
    assert AcknowledgeDue().background
    assert WatchDue().background
    assert not ReconnectDue("b0").background
    assert not LingerOver("b0").background
