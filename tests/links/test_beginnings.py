"""Connections of which nothing is known begin with little together, and with much where only one of them speaks."""

from collections.abc import Sequence
from typing import Any, ClassVar

from resprout.core.contract import Send
from resprout.links.flight import START_BYTES, START_BYTES_SHARED
from resprout.links.frames import Part
from tests.links.puppet import Desk, Parcel, data, frames


class Pressing(Parcel, frozen=True, tag=251):
    """A part of what a repair says."""

    pressing: ClassVar[bool] = True


LARGE = Parcel(1, 300_000)
THIN_LINE_BYTES = 225_000
"""What 1 Mbit carries in 1.8 s: a lease is two."""


def busy_desk(links: int) -> Desk:
    desk = Desk()
    for connection in range(5, 5 + links):
        desk.accept(connection, f"c{connection}", grant=1 << 20)
    return desk


def weight(shipped: Sequence[Any]) -> int:
    return sum(len(frame.chunk) for frame in shipped if isinstance(frame, Part))


def test_what_is_pressing_begins_with_much_however_many_links_there_are() -> None:
    left = weight(frames(busy_desk(7).ask(Send("c11", Pressing(1, 300_000)))))
    assert START_BYTES <= left < START_BYTES + START_BYTES // 8
    assert weight(frames(busy_desk(7).ask(Send("c11", LARGE)))) < START_BYTES // 3, "anything else with its share"


def test_what_follows_a_repair_does_not_wait_until_the_repair_is_acknowledged() -> None:
    """What the repair said had taken the share of its connection, so publications waited for a round trip behind it."""
    desk = busy_desk(7)
    desk.ask(Send("c11", Pressing(1, START_BYTES_SHARED // 8)))
    desk.ask(Send("c11", Pressing(2, START_BYTES_SHARED // 8)))
    follows = Parcel(3, START_BYTES_SHARED // 8)  # the share of one of eight
    assert weight(frames(desk.ask(Send("c11", follows)))) == follows.size


def test_whatever_takes_of_what_all_have_in_common_is_acknowledged_at_once_and_gives_it_back() -> None:
    """However little it is: on a connection that never rests nobody would ask."""
    shipped = frames(busy_desk(7).ask([Send("c11", Pressing(number, 3_500)) for number in (1, 2)]))
    assert any(frame.hurry for frame in shipped)
    desk = busy_desk(7)
    desk.ask(Send("c11", Pressing(1, 100_000)))
    assert weight(frames(desk.ask(Send("c10", Pressing(1, 300_000))))) < START_BYTES
    desk.lose(10)
    desk.arrive(11, data(1, received=1, grant=1 << 20))
    assert weight(frames(desk.ask(Send("c9", Pressing(1, 300_000))))) >= START_BYTES


def test_all_that_speak_at_once_begin_with_what_a_thin_line_carries_in_a_lease() -> None:
    desk = busy_desk(7)
    left = sum(weight(frames(desk.ask(Send(f"c{connection}", LARGE)))) for connection in range(5, 12))
    assert START_BYTES_SHARED // 2 < left < THIN_LINE_BYTES


def test_what_one_took_others_have_when_its_connection_is_gone() -> None:
    desk = busy_desk(7)
    desk.ask(Send("c11", Pressing(1, 300_000)))
    desk.ask(Send("c10", Pressing(1, 300_000)))
    desk.lose(11)
    desk.lose(10)
    assert weight(frames(desk.ask(Send("c9", Pressing(1, 300_000))))) >= START_BYTES
