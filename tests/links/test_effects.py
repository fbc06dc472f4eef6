"""What becomes of a stack's effects: order, frames, barriers, and what is none of the links' business."""

from resprout.core.contract import (
    Answer,
    Deliver,
    Effect,
    Forget,
    Note,
    Persist,
    Received,
    Recovered,
    Request,
    Retire,
    Send,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
)
from resprout.links.frames import Data
from tests.links.puppet import Desk, Parcel, data, frames


class Tea(Timer, frozen=True):
    """When to drink tea."""


def test_effects_that_are_not_about_links_pass_in_order() -> None:
    desk = Desk()
    effects: list[Effect] = [
        Note("thought", {"detail": "hm"}),
        Answer("yes", 3),
        Deliver(()),
        Forget(2),
        SetTimer(Tea(), 9),
        Persist(b"record"),
    ]
    assert desk.ask(effects) == effects


def test_events_that_are_not_about_links_reach_the_stack() -> None:
    desk = Desk()
    for event in (Recovered([b"x"]), TimerFired(Tea()), Request("wish", 4)):
        desk.step(event)
        assert desk.puppet.events[-1] is event


def test_messages_of_one_step_to_the_same_peer_share_a_frame() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.accept(6, "c2")
    window = desk.options.window_bytes
    effects = desk.ask([("c1", Parcel(1)), ("c2", Parcel(2)), ("c1", Parcel(3))])
    assert effects == [
        Transmit(5, Data(1, 0, window, (Parcel(1), Parcel(3)))),
        Transmit(6, Data(1, 0, window, (Parcel(2),))),
    ]


def test_nothing_that_was_sent_after_a_record_leaves_before_it() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    window = desk.options.window_bytes
    effects = desk.ask([("c1", Parcel(1)), Persist(b"a"), ("c1", Parcel(2)), Note("x", {}), Persist(b"b")])
    assert effects == [
        Transmit(5, Data(1, 0, window, (Parcel(1),))),
        Persist(b"a"),
        Note("x", {}),
        Transmit(5, Data(2, 0, window, (Parcel(2),))),
        Persist(b"b"),
    ]


def test_what_was_sent_before_a_node_retires_leaves_before_it_does() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    effects = desk.ask([("c1", Parcel(1)), Retire("fenced"), ("c1", Parcel(2))])
    assert effects[:2] == [Transmit(5, Data(1, 0, desk.options.window_bytes, (Parcel(1),))), Retire("fenced")]


def test_what_several_messages_of_one_frame_cause_shares_a_frame_too() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.accept(6, "c2")
    desk.puppet.replies[Received] = [Send("c2", Parcel(9))]
    effects = desk.arrive(5, data(1, Parcel(1), Parcel(2)))
    assert frames(effects, 6) == [Data(1, 0, desk.options.window_bytes, (Parcel(9), Parcel(9)))]


def test_a_message_to_nobody_is_lost_quietly() -> None:
    assert Desk().ask(Send("nobody", Parcel(1))) == []


def test_the_snapshot_tells_how_a_session_stands() -> None:
    desk = Desk()
    desk.accept(5, "c1", grant=100)
    desk.ask(("c1", Parcel(1, 30)))
    desk.arrive(5, data(1, Parcel(1), grant=100))
    [status] = desk.links.sessions()
    assert (status.peer, status.role, status.incarnation, status.epoch) == ("c1", "client", 1, 1)
    assert (status.connected, status.sent, status.received, status.held) == (True, 1, 1, False)
    assert (status.unconfirmed, status.unconfirmed_bytes, status.room) == (1, 30, 70)
