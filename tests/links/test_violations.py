"""A peer that breaks the rules loses its session, hears why, and harms nobody else."""

from typing import Any

import pytest

from resprout.core.contract import Disconnect, LinkDown, Send, Transmit
from resprout.links.frames import Data, Goodbye
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, data


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (data(3, Parcel(1)), "message 1 is missing: the next is 3"),
        (data(2), "message 1 is missing: the next is 2"),
        (data(0, Parcel(1)), "messages are numbered from 1, not 0"),
        (data(-4, Parcel(1)), "messages are numbered from 1, not -4"),
        (data(1, received=2), "acknowledged 2 messages, but 1 were sent"),
        (data(1, received=-1), "acknowledged 0 messages before, now -1"),
        (data(1, grant=999), "granted 1000 bytes before, now 999"),
        (data(1, Parcel(1, 100), Parcel(2, 1)), "101 bytes were sent, 100 were granted"),
        (Desk().hello(), "Hello within a session"),
        (Desk().welcome(), "SessionWelcome within a session"),
        ("noise", "str within a session"),
    ],
)
def test_a_frame_that_breaks_the_rules_ends_the_session(frame: Any, reason: str) -> None:
    desk = Desk(options=LinkOptions(window_bytes=100))
    desk.accept(5, "c1")
    desk.accept(6, "c2")
    desk.ask(Send("c1", Parcel(1)))
    assert desk.arrive(5, frame) == [Transmit(5, Goodbye(reason)), Disconnect(5, reason)]
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", reason)]
    assert desk.puppet.episodes["c1"][0].received == []
    assert [session.peer for session in desk.links.sessions()] == ["c2"]


def test_an_acknowledgement_may_not_go_back() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.ask([Send("c1", Parcel(1)), Send("c1", Parcel(2))])
    desk.arrive(5, data(1, received=2))
    desk.arrive(5, data(1, received=1))
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", "acknowledged 2 messages before, now 1")]


def test_a_hello_that_claims_what_was_never_sent_ends_the_session_on_both_connections() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    effects = desk.accept(6, "c1", peer_incarnation=1, received=3)
    reason = "acknowledged 3 messages, but 0 were sent"
    assert effects == [
        Transmit(6, Goodbye(reason)),
        Disconnect(6, reason),
        Transmit(5, Goodbye(reason)),
        Disconnect(5, reason),
    ]
    assert desk.puppet.heard(LinkDown) == [LinkDown("c1", reason)]


def test_old_news_in_a_hello_are_no_fault() -> None:
    desk = Desk()
    desk.accept(5, "c1", grant=1000)
    desk.ask([Send("c1", Parcel(1)), Send("c1", Parcel(2))])
    desk.arrive(5, data(1, received=1, grant=2000))
    effects = desk.accept(6, "c1", peer_incarnation=None, received=0, grant=1000)
    assert effects[-1] == Transmit(6, Data(2, 0, desk.options.window_bytes, (Parcel(2),)))
    assert desk.puppet.heard(LinkDown) == []


def test_frames_on_connections_that_nobody_knows_are_ignored() -> None:
    desk = Desk()
    for frame in (data(1, Parcel(1)), desk.hello(), desk.welcome(), Goodbye("x"), None):
        assert desk.arrive(99, frame) == []
    assert desk.lose(99) == []
