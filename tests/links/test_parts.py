"""Large messages: in parts, bounded in what is on its way, resumed in the middle, refused when they do not fit."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from resprout.core.contract import Close, LinkDown, Received, Send, Stirred, TimerFired, Transmit, Trickled
from resprout.core.errors import PeerError
from resprout.links.flight import LEAST_BYTES, PART_BYTES_MIN, START_BYTES
from resprout.links.frames import (
    BODY_BYTES_MAX,
    Assembly,
    Data,
    Express,
    Part,
    Parted,
    SessionWelcome,
    SharedBodies,
    Slice,
    WatchDue,
)
from resprout.links.links import STIRRED_US
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, Sign, data, frames

LARGE = Parcel(1, 800_000)
PLENTY = 1 << 40


def sender(options: LinkOptions | None = None) -> Desk:
    desk = Desk(options=options)
    desk.accept(5, "c1", grant=PLENTY)
    return desk


def part(at: int, end: int, *, size: int = 10_000, number: int = 1, hurry: bool = False) -> Part:
    chunk: Any = Slice(Parcel(number, size), at, end)
    return Part(number, at, size, hurry, chunk)


def weight(shipped: Sequence[Any]) -> int:
    """Bytes of messages, whole or in parts."""
    whole: int = sum(message.cost for frame in shipped if isinstance(frame, Data) for message in frame.messages)
    return whole + sum(len(frame.chunk) for frame in shipped if isinstance(frame, Part))


def test_a_large_message_leaves_in_parts_as_far_as_it_may_be_on_its_way() -> None:
    shipped = frames(sender().ask(Send("c1", LARGE)))
    assert all(isinstance(frame, Part) for frame in shipped)
    assert sum(len(frame.chunk) for frame in shipped) == START_BYTES
    assert [frame.at for frame in shipped] == list(range(0, START_BYTES, START_BYTES // 4))
    assert shipped[-1].hurry, "the rest waits for the acknowledgement"


def test_what_is_acknowledged_makes_way_for_the_next_parts() -> None:
    desk = sender()
    desk.ask(Send("c1", LARGE))
    desk.now_us = 100_000
    shipped = frames(desk.arrive(5, Parted(0, PLENTY, START_BYTES)))
    assert shipped[0].at == START_BYTES
    assert shipped[-1].hurry


def test_the_faster_the_acknowledgements_the_more_is_on_its_way() -> None:
    def on_its_way(round_trip_us: int, rounds: int = 1) -> int:
        desk = sender()
        desk.ask(Send("c1", Parcel(1, 4_000_000)))
        come = START_BYTES
        for _ in range(rounds):
            desk.now_us += round_trip_us
            shipped = frames(desk.arrive(5, Parted(0, PLENTY, come)))
            come += weight(shipped)
        return weight(shipped)

    assert on_its_way(2_000) > 4 * on_its_way(100_000)
    assert on_its_way(30_000_000, rounds=20) == LEAST_BYTES, "a link that carries next to nothing"


def test_signs_of_life_leave_while_a_large_message_waits() -> None:
    desk = sender()
    desk.ask(Send("c1", LARGE))
    desk.ask(Send("c1", Parcel(2)))
    assert desk.ask(Send("c1", Sign(3))) == [Transmit(5, Express(1, 0, (Sign(3),)))]


def test_what_is_said_after_a_large_message_comes_after_it() -> None:
    desk = sender()
    desk.ask(Send("c1", LARGE))
    assert desk.ask(Send("c1", Parcel(2))) == []
    come = START_BYTES
    shipped: list[Any] = []
    while not (shipped and isinstance(shipped[-1], Data)):
        desk.now_us += 10_000
        shipped = frames(desk.arrive(5, Parted(0, PLENTY, come)))
        come += sum(len(frame.chunk) for frame in shipped if isinstance(frame, Part))
    assert shipped[-1].messages == (Parcel(2),)
    assert come == LARGE.size


def test_a_new_connection_goes_on_in_the_middle_of_a_message() -> None:
    desk = sender()
    desk.ask(Send("c1", LARGE))
    desk.lose(5)
    _welcome, *shipped = frames(desk.accept(6, "c1", peer_incarnation=1, grant=PLENTY, part=3_000))
    assert shipped[0].at == 3_000


def test_a_message_that_came_in_part_is_asked_for_from_there_on() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.arrive(5, part(0, 4_000))
    desk.lose(5)
    [welcome] = frames(desk.accept(6, "c1", peer_incarnation=1))
    assert isinstance(welcome, SessionWelcome)
    assert welcome.part == 4_000
    desk.arrive(6, part(4_000, 10_000))
    assert desk.puppet.heard(Received) == [Received("c1", Parcel(1, 10_000))]


def test_parts_that_have_come_before_are_passed_over() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    for begin, end in ((0, 4_000), (2_000, 4_000), (0, 6_000), (6_000, 10_000), (8_000, 10_000)):
        desk.arrive(5, part(begin, end))
    assert desk.puppet.heard(Received) == [Received("c1", Parcel(1, 10_000))]


def test_a_part_is_acknowledged_when_its_sender_waits_for_that() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    assert frames(desk.arrive(5, part(0, 4_000))) == []
    assert frames(desk.arrive(5, part(4_000, 8_000, hurry=True))) == [Parted(0, desk.options.window_bytes, 8_000)]
    [answer] = frames(desk.arrive(5, part(8_000, 10_000, hurry=True)))
    assert answer.received == 1


def test_a_message_that_comes_whole_after_all_is_taken_once() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.arrive(5, part(0, 4_000))
    desk.arrive(5, data(1, Parcel(1, 10_000)))
    desk.arrive(5, part(4_000, 10_000))
    assert desk.puppet.heard(Received) == [Received("c1", Parcel(1, 10_000))]


@pytest.mark.parametrize(
    "wrong",
    [
        part(0, 4_000, number=2),
        part(2_000, 4_000),
        part(0, PART_BYTES_MIN - 1),
        part(0, 4_000, size=BODY_BYTES_MAX + 1),
        Part(1, 0, 10, False, bytes(11)),
        Part(1, 0, 0, False, b""),
        Part(1, 0, 3, False, b"abc"),
        Parted(0, 1000, 1),
        Parted(1, 1000, 0),
        Express(2, 0, (Sign(1),)),
        Express(1, 1, (Sign(1),)),
        Express(1, 0, (Parcel(1),)),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_does_not_fit_ends_the_session(wrong: Any) -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.arrive(5, wrong)
    assert len(desk.puppet.heard(LinkDown)) == 1


def test_a_message_that_changes_its_size_on_the_way_ends_the_session() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.arrive(5, part(0, 4_000))
    desk.arrive(5, part(4_000, 8_000, size=20_000))
    assert len(desk.puppet.heard(LinkDown)) == 1


@pytest.mark.parametrize("claimed", [LARGE.size, 1 << 30])
def test_a_peer_that_claims_more_of_a_message_than_there_is_is_refused(claimed: int) -> None:
    desk = sender()
    desk.ask(Send("c1", LARGE))
    desk.lose(5)
    desk.accept(6, "c1", peer_incarnation=1, grant=PLENTY, part=claimed)
    assert len(desk.puppet.heard(LinkDown)) == 1


def test_the_stack_is_told_now_and_then_that_a_large_message_gets_on() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    for at in range(0, 8 * PART_BYTES_MIN, PART_BYTES_MIN):
        desk.now_us += STIRRED_US // 2
        desk.arrive(5, part(at, at + PART_BYTES_MIN))
    assert desk.puppet.heard(Stirred) == [Stirred("c1")] * 4
    desk.now_us += STIRRED_US
    desk.step(Trickled(5))
    assert len(desk.puppet.heard(Stirred)) == 5


def test_a_stack_may_close_the_session_while_a_large_message_gets_on() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    desk.puppet.replies[Stirred] = [Close("c1", "enough")]
    desk.now_us = STIRRED_US
    assert [type(frame).__name__ for frame in frames(desk.arrive(5, part(0, 10_000)))] == ["Goodbye"]
    assert desk.puppet.heard(Received) == []


def test_bytes_that_move_keep_a_connection_from_being_suspected() -> None:
    desk = Desk(options=LinkOptions(heartbeat_us=100, silence_us=400))
    desk.accept(5, "c1")
    for _ in range(20):
        desk.now_us += 50
        desk.step(Trickled(5))
        desk.step(TimerFired(WatchDue()))
    assert desk.links.sessions()[0].connected
    for _ in range(20):
        desk.now_us += 50
        desk.step(TimerFired(WatchDue()))
    assert not desk.links.sessions()[0].connected


def test_signs_of_life_that_nobody_acknowledges_are_bounded() -> None:
    desk = sender()
    for number in range(2_000):
        desk.ask(Send("c1", Sign(number)))
    assert len(desk.puppet.heard(LinkDown)) == 1


def test_signs_of_life_are_acknowledged_without_an_answer() -> None:
    desk = Desk()
    desk.accept(5, "c1")
    shipped = [frame for n in range(1, 17) for frame in frames(desk.arrive(5, Express(n, 0, (Sign(n),))))]
    assert shipped == [Express(1, 16, ())]


def test_a_session_that_ends_says_everything_first() -> None:
    desk = sender()
    desk.ask(Send("c1", LARGE))
    desk.ask(Send("c1", Parcel(2)))
    shipped = frames(desk.ask(Close("c1", "enough")))
    assert sum(len(frame.chunk) for frame in shipped if isinstance(frame, Part)) == LARGE.size - START_BYTES
    assert [type(frame).__name__ for frame in shipped[-2:]] == ["Data", "Goodbye"]


def test_a_message_too_large_for_parts_is_left_to_the_connection_to_refuse() -> None:
    huge = Parcel(1, BODY_BYTES_MAX + 1)
    assert frames(sender().ask(Send("c1", huge)))[0].messages == (huge,)


def test_bodies_may_be_as_large_as_a_node_is_configured_for() -> None:
    larger = BODY_BYTES_MAX + (8 << 20)
    usual, large = Assembly(SharedBodies()), Assembly(SharedBodies(larger))
    first = Part(1, 0, larger, False, Slice(Parcel(1, larger), 0, PART_BYTES_MIN))  # type: ignore[arg-type]
    assert not large.add(first)
    with pytest.raises(PeerError, match="of a message of"):
        usual.add(first)
    with pytest.raises(PeerError, match="of a message of"):
        large.add(msgspec.structs.replace(first, size=larger + 1))


def test_a_link_that_was_idle_begins_again_with_little() -> None:
    desk = sender(LinkOptions(heartbeat_us=1_000_000))
    desk.ask(Send("c1", LARGE))
    come = START_BYTES
    while come < LARGE.size:
        desk.now_us += 1_000
        come += weight(frames(desk.arrive(5, Parted(0, PLENTY, come))))
    desk.arrive(5, data(1, received=1, grant=PLENTY))
    desk.step(TimerFired(WatchDue()))
    assert weight(frames(desk.ask(Send("c1", LARGE)))) == LARGE.size
    desk.arrive(5, data(1, received=2, grant=PLENTY))
    for _ in range(2):
        desk.step(TimerFired(WatchDue()))
    assert weight(frames(desk.ask(Send("c1", LARGE)))) == START_BYTES


def test_a_peer_that_acknowledges_what_is_still_leaving_harms_nobody() -> None:
    """It lies, or has it from an earlier connection; either way there is nothing more to send of it."""
    desk = sender()
    desk.ask(Send("c1", LARGE))
    desk.arrive(5, data(1, received=1, grant=PLENTY))
    assert frames(desk.ask(Send("c1", Parcel(2, 10))))
