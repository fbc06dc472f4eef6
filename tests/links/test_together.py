"""Frames that are taken together: one step, the same outcome, and less to send."""

from random import Random
from typing import Any

import pytest

from resprout.core.contract import (
    Arrived,
    Connected,
    Effect,
    LinkUp,
    Open,
    Received,
    Send,
    SetTimer,
    TimerFired,
    Transmit,
)
from resprout.links.frames import AcknowledgeDue, FreeAcknowledgeDue
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, data, frames

MANY = 1 << 30


def take(desk: Desk, *arrivals: tuple[int, Any]) -> list[Effect]:
    return list(desk.links.steps([Arrived(connection, frame) for connection, frame in arrivals], desk.now_us))


def meeting(options: LinkOptions | None = None) -> Desk:
    desk = Desk(options=options)
    for connection, name in ((5, "c1"), (6, "c2"), (7, "c3")):
        desk.accept(connection, name, grant=MANY)
    return desk


def test_what_several_frames_make_the_stack_say_to_one_peer_shares_a_frame() -> None:
    desk = meeting()
    desk.puppet.replies[Received] = [Send("c3", Parcel(9))]
    shipped = take(desk, (5, data(1, Parcel(1), grant=MANY)), (6, data(1, Parcel(1), Parcel(2), grant=MANY)))
    assert [frame.messages for frame in frames(shipped, 7)] == [(Parcel(9),) * 3]


def test_each_session_is_acknowledged_once_and_only_if_there_is_need() -> None:
    desk = meeting(LinkOptions(ack_messages_max=2))
    effects = take(
        desk,
        (5, data(1, Parcel(1), grant=MANY)),
        (6, data(1, Parcel(1), grant=MANY)),
        (5, data(2, Parcel(2), grant=MANY)),
        (5, data(3, Parcel(3), grant=MANY)),
    )
    assert [frame.received for frame in frames(effects, 5)] == [3]
    assert frames(effects, 6) == []
    assert SetTimer(AcknowledgeDue(), desk.options.ack_delay_us) in effects


def test_a_session_that_begins_with_one_of_them_is_known_before_the_next_is_heard() -> None:
    desk = Desk()
    desk.step(Connected(5, None))
    take(desk, (5, desk.hello("c1", grant=MANY)), (5, data(1, Parcel(1), grant=MANY)))
    assert [type(event) for event in desk.puppet.events] == [LinkUp, Received]


def test_a_peer_that_breaks_the_rules_is_heard_no_further_and_costs_nobody_else_anything() -> None:
    desk = meeting()
    take(
        desk,
        (5, data(1, Parcel(1), grant=MANY)),
        (5, data(7, Parcel(7), grant=MANY)),
        (5, data(2, Parcel(2), grant=MANY)),
        (6, data(1, Parcel(1), grant=MANY)),
    )
    assert desk.puppet.episodes["c1"][0].received == [Parcel(1)]
    assert desk.puppet.episodes["c1"][0].down == "message 2 is missing: the next is 7"
    assert desk.puppet.current["c2"].received == [Parcel(1)]


@pytest.mark.parametrize("seed", range(20))
def test_frames_in_company_come_to_the_same_as_frames_one_by_one(seed: int) -> None:
    """Two nodes that answer each other, one of which takes what has come in pieces by chance."""
    rng = Random(seed)
    one, other = Desk("b1"), Desk("b0")
    one.ask(Open("b0"))
    opened = one.step(Connected(1, "b0"))
    other.step(Connected(1, None))
    here: list[Any] = []
    there = frames(opened)
    sent = 0
    for _ in range(200):
        while there:
            here += frames(other.arrive(1, there.pop(0)))
        if sent < 60:
            sent += 1
            here += frames(other.ask([Send("b1", Parcel(sent, rng.choice((0, 10))))] if other.puppet.current else []))
            there += frames(one.ask([Send("b0", Parcel(sent))] if one.puppet.current else []))
        count = rng.randrange(len(here) + 1)
        if count:
            there += frames(take(one, *((1, frame) for frame in here[:count])))
            del here[:count]
    for desk, peer in ((one, "b0"), (other, "b1")):
        numbers = [parcel.number for parcel in desk.puppet.current[peer].received]
        assert numbers == list(range(numbers[0], 61)), "nothing is lost, doubled or out of order"
        assert len(desk.puppet.episodes[peer]) == 1


# -- who is written to first -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [False, True])
def test_where_it_takes_time_to_write_publishers_and_neighbours_hear_before_those_who_read(last: bool) -> None:
    desk = Desk(deliveries_last=last)
    for connection, name in ((5, "reader"), (6, "publisher"), (7, "second-reader")):
        desk.accept(connection, name, grant=MANY)
    desk.accept(8, "b2", role="broker", grant=MANY)
    given, receipt, report = Parcel(1, 10), Parcel(2), Parcel(3)
    desk.puppet.replies[Received] = [
        Send("reader", given), Send("publisher", receipt), Send("second-reader", given), Send("b2", report),
        Send("reader", receipt),
    ]  # fmt: skip
    shipped = [effect for effect in desk.arrive(6, data(1, Parcel(1), grant=MANY)) if isinstance(effect, Transmit)]
    assert [effect.connection for effect in shipped] == ([6, 8, 5, 7] if last else [5, 6, 7, 8])
    assert [effect.frame.messages for effect in shipped if effect.connection == 5] == [(given, receipt)]


# -- what costs nothing ------------------------------------------------------------------------------------------------

PATIENT = LinkOptions(ack_delay_us=20_000, free_ack_delay_us=250_000)


def test_what_costs_nothing_is_acknowledged_late_between_a_client_and_its_broker() -> None:
    desk = meeting(PATIENT)
    assert desk.arrive(5, data(1, Parcel(1), grant=MANY)) == [SetTimer(FreeAcknowledgeDue(), 250_000)]
    assert desk.arrive(6, data(1, Parcel(1), grant=MANY)) == [], "one timer serves all of them"
    assert [frame.received for frame in frames(desk.step(TimerFired(FreeAcknowledgeDue())))] == [1, 1]


def test_what_takes_room_is_acknowledged_as_soon_as_ever_whatever_came_before() -> None:
    desk = meeting(PATIENT)
    desk.arrive(5, data(1, Parcel(1), grant=MANY))
    assert desk.arrive(5, data(2, Parcel(2, 10), grant=MANY)) == [SetTimer(AcknowledgeDue(), 20_000)]
    assert [frame.received for frame in frames(desk.step(TimerFired(AcknowledgeDue())))] == [2]
    assert frames(desk.step(TimerFired(FreeAcknowledgeDue()))) == [], "it has heard everything"


def test_brokers_do_not_wait_longer_with_each_other() -> None:
    desk = Desk(options=PATIENT)
    desk.accept(5, "b2", role="broker", grant=MANY)
    assert desk.arrive(5, data(1, Parcel(1), grant=MANY)) == [SetTimer(AcknowledgeDue(), 20_000)]
