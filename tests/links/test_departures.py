"""Messages that wait for the end of the turn: when they leave, and that nothing overtakes anything."""

from typing import Any, ClassVar

from resprout.core.contract import Close, Connected, Departure, Effect, Persist, Retire, Send, SetTimer, TimerFired
from resprout.links.frames import AcknowledgeDue, Parted, TurnOver
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, data, frames

MANY = 1 << 30


class Rumour(Parcel, frozen=True, tag=251):
    """Told to everybody."""

    leaves: ClassVar[Departure] = Departure.TURN


def told(effects: list[Effect]) -> list[tuple[Any, ...]]:
    """The messages of each frame."""
    return [frame.messages for frame in frames(effects)]


def over(desk: Desk) -> list[Effect]:
    return desk.step(TimerFired(TurnOver()))


def meeting() -> Desk:
    desk = Desk()
    desk.accept(5, "c1", grant=MANY)
    desk.accept(6, "c2", grant=MANY)
    return desk


def test_what_is_told_in_several_steps_of_one_moment_shares_a_frame() -> None:
    desk = meeting()
    assert desk.ask([Send("c1", Rumour(1)), Send("c2", Rumour(1))]) == [SetTimer(TurnOver(), 0)]
    assert desk.ask(Send("c1", Rumour(2))) == [], "the timer is set"
    assert told(over(desk)) == [(Rumour(1), Rumour(2)), (Rumour(1),)]
    assert over(desk) == []


def test_the_next_moment_has_a_timer_of_its_own() -> None:
    desk = meeting()
    desk.ask(Send("c1", Rumour(1)))
    over(desk)
    desk.now_us = 700
    assert desk.ask(Send("c1", Rumour(2))) == [SetTimer(TurnOver(), 700)]


def test_whatever_leaves_with_its_step_takes_along_what_waits_and_overtakes_nothing() -> None:
    desk = meeting()
    desk.ask([Send("c1", Rumour(2)), Send("c2", Rumour(2))])
    assert told(desk.ask(Send("c1", Parcel(3)))) == [(Rumour(2), Parcel(3))]
    assert told(over(desk)) == [(Rumour(2),)], "nothing is left for c1"


def test_what_may_wait_leaves_with_its_own_step_where_that_sends_anyway() -> None:
    desk = meeting()
    assert told(desk.ask([Send("c1", Parcel(1)), Send("c1", Rumour(2))])) == [(Parcel(1), Rumour(2))]


def test_an_acknowledgement_takes_along_what_waits() -> None:
    desk = meeting()
    desk.arrive(5, data(1, Parcel(7), grant=MANY))
    desk.ask(Send("c1", Rumour(1)))
    shipped = frames(desk.step(TimerFired(AcknowledgeDue())))
    assert [(frame.received, frame.messages) for frame in shipped] == [(1, (Rumour(1),))]


def test_a_frame_that_comes_does_not_end_the_wait() -> None:
    desk = meeting()
    desk.ask(Send("c1", Rumour(1)))
    assert told(desk.arrive(5, data(1, Parcel(7), grant=MANY))) == []


def test_a_large_message_goes_on_while_something_waits_for_the_end_of_the_turn() -> None:
    desk = meeting()
    shipped = frames(desk.ask(("c1", Parcel(1, size=1 << 20))))
    weight = sum(len(frame.chunk) for frame in shipped)
    desk.ask(Send("c1", Rumour(2)))
    assert frames(desk.arrive(5, data(1, grant=MANY))) == [], "nothing has come yet"
    assert frames(desk.arrive(5, Parted(0, MANY, weight))), "its next parts leave at once"


def test_a_session_that_ends_says_first_what_waits() -> None:
    desk = meeting()
    desk.ask([Send("c1", Rumour(1)), Send("c2", Rumour(2))])
    first, *_ = frames(desk.ask(Close("c1", "enough")), 5)
    assert first.messages == (Rumour(1),)
    assert told(desk.ask(Retire("over", again=False))) == [(Rumour(2),)]


def test_the_end_of_the_wait_is_nothing_to_a_session_that_is_over() -> None:
    desk = meeting()
    desk.ask(Send("c1", Rumour(1)))
    desk.ask(Close("c1", "enough"))
    assert over(desk) == []


def test_what_waits_while_the_connection_breaks_leaves_on_the_next() -> None:
    desk = meeting()
    desk.ask([Send("c1", Rumour(1)), Send("c1", Rumour(2))])
    desk.lose(5)
    assert over(desk) == []
    desk.step(Connected(8, None))
    _welcome, *shipped = frames(desk.arrive(8, desk.hello("c1", peer_incarnation=1, grant=MANY)))
    assert [frame.messages for frame in shipped] == [(Rumour(1), Rumour(2))]


def test_nothing_that_waits_behind_a_record_is_shipped_by_the_step_that_writes_it() -> None:
    desk = meeting()
    effects = desk.ask([Persist(b"record"), Send("c1", Rumour(1))])
    assert [type(effect) for effect in effects] == [Persist, SetTimer]


def test_a_peer_that_acknowledges_nothing_is_given_up_for_what_waits_too() -> None:
    desk = Desk(options=LinkOptions(outbox_messages_max=3))
    desk.accept(5, "c1", grant=MANY)
    for number in range(4):
        desk.ask(Send("c1", Rumour(number)))
    over(desk)
    assert desk.puppet.episodes["c1"][0].down == "c1 acknowledges too little"


def test_many_that_wait_together_leave_in_frames_that_a_peer_accepts() -> None:
    desk = meeting()
    for number in range(300):
        desk.ask(Send("c1", Rumour(number)))
    assert [len(messages) for messages in told(over(desk))] == [256, 44]
