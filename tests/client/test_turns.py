"""When publications leave: alone at once, in company together, and never later than they may."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from resprout.client import publisher
from resprout.client.connect import connect
from resprout.client.publisher import GATHER_SECONDS, GATHER_TURNS, IDLE_SECONDS, Pulse, Turns
from resprout.client.receipts import LATELY, Receipt
from resprout.core.guarantee import ALL_LEVELS, ReceiptLevel
from resprout.edge.messages import Publish, Taken
from resprout.net.connection import TcpConnection
from tests.net.stage import broker, run


class Loop:
    """Turns of a loop and time, both by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self._ready: deque[Callable[[], None]] = deque()

    def call_soon(self, call: Callable[[], None]) -> object:
        self._ready.append(call)
        return call

    def turn(self, seconds: float = 0.000_01) -> bool:
        """False when there was nothing to do."""
        self.now += seconds
        ready, self._ready = self._ready, deque()
        for call in ready:
            call()
        return bool(ready)


class Speaker:
    """Says something, and notes when it leaves."""

    def __init__(self, loop: Any, sending_s: float = 0.0) -> None:
        self.loop = loop
        self.said = 0
        self.left: list[int] = []
        self._sending_s = sending_s
        self.turns = Turns(loop, lambda: self.said, self._leave, Pulse.of(loop).last_departure)

    def say(self, hurry: bool = False) -> None:
        self.said += 1
        if not self.turns.waiting:
            if self.turns.idle:
                self.turns.go()
            else:
                self.turns.wait(hurry)

    def _leave(self) -> None:
        self.loop.now += self._sending_s
        self.turns.over()
        self.left.append(self.said)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    for module, clock in ((publisher, "monotonic"), (publisher, "thread_time"), (publisher, "thread_time")):
        monkeypatch.setattr(module, clock, lambda: loop.now)
    return loop


def test_the_first_one_after_a_pause_leaves_at_once(loop: Loop) -> None:
    speaker = Speaker(loop)
    for number in range(1, 4):
        speaker.say()
        assert speaker.left[-1] == number
        while loop.turn():
            pass
        loop.now += 2 * IDLE_SECONDS


def test_one_in_each_turn_leave_together_after_a_fraction_of_a_millisecond(loop: Loop) -> None:
    speaker = Speaker(loop)
    for _ in range(300):
        speaker.say()
        loop.turn(0.000_01)
    assert speaker.left[0] == 1, "the first one is alone"
    most = round(GATHER_SECONDS / 0.000_01) + 2
    sizes = [after - before for before, after in zip(speaker.left, speaker.left[1:], strict=False)]
    assert len(sizes) > 3
    assert max(sizes) <= most
    assert min(sizes) > most // 2


def test_a_turn_that_brings_nothing_new_is_the_end_of_the_wait(loop: Loop) -> None:
    speaker = Speaker(loop)
    speaker.say()
    speaker.say()
    speaker.say()
    assert speaker.left == [1]
    loop.turn()
    loop.turn()
    assert speaker.left == [1, 3]


def test_turns_are_counted_while_somebody_waits_and_one_more(loop: Loop) -> None:
    speaker = Speaker(loop)
    speaker.say()
    assert not loop.turn(), "one that is alone costs no turn"
    speaker.say()
    assert [loop.turn() for _ in range(4)] == [True, True, True, False]
    assert speaker.left == [1, 2]


def test_where_somebody_waits_for_the_outcome_the_end_of_the_turn_is_not_exceeded(loop: Loop) -> None:
    speaker = Speaker(loop)
    speaker.say()
    speaker.say(hurry=True)
    loop.turn()
    assert speaker.left == [1, 2]


def test_a_loop_with_long_turns_of_its_own_keeps_nothing_longer_than_a_turn(loop: Loop) -> None:
    speaker = Speaker(loop)
    for _ in range(20):
        speaker.say()
        loop.turn(10 * GATHER_SECONDS)
    assert speaker.left == list(range(1, 21))


def test_where_many_clients_send_in_every_turn_they_gather_for_some_turns(loop: Loop) -> None:
    """Else each would send one in each, because of which each turn takes so long."""
    speakers = [Speaker(loop, sending_s=0.000_05) for _ in range(50)]
    for _ in range(40):
        for speaker in speakers:
            loop.now += 0.000_02
            speaker.say()
        loop.turn()
    for speaker in speakers:
        sizes = [after - before for before, after in zip(speaker.left, speaker.left[1:], strict=False)]
        assert max(sizes) <= GATHER_TURNS + 1
        assert sum(sizes) / len(sizes) >= 2


def test_the_processors_clock_is_asked_when_something_waits_long_and_not_in_every_turn(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs as much as a publication."""
    asked = 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        return loop.now

    for module in (publisher, publisher):
        monkeypatch.setattr(module, "thread_time", clock)
    speaker = Speaker(loop)
    for _ in range(300):
        speaker.say()
        loop.turn(0.000_01)
    assert asked <= 4 * len(speaker.left)


# -- a client ----------------------------------------------------------------------------------------------------------


def test_publications_of_turns_that_follow_closely_share_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "GATHER_SECONDS", 60.0)  # however long a turn takes here
    monkeypatch.setattr(publisher, "IDLE_SECONDS", 60.0)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as p, connect(str(running)) as s:
            inbox = await s.subscribe("t")
            for number in range(200):
                await p.publish("t", b"%d" % number)
                await asyncio.sleep(0)
            got: list[list[bytes]] = []
            async for batch in inbox.batches():
                got.append([message.payload for message in batch])
                if got[-1][-1] == b"199":
                    break
            assert [payload for batch in got for payload in batch] == [b"%d" % number for number in range(200)]
            assert len(got) < 20

    run(story())


def test_a_publication_that_is_alone_has_left_when_publish_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        left.append(frame)
        send(self, frame)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as client:
            await asyncio.sleep(0.05)
            left.clear()
            await client.publish("t", b"alone")
            assert any(isinstance(message, Publish) for frame in left for message in getattr(frame, "messages", ()))

    monkeypatch.setattr(TcpConnection, "send", note)
    run(story())


def test_a_publication_after_an_answer_is_alone_however_soon_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "IDLE_SECONDS", 60.0)
    left: list[Publish] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        left.extend(one for one in getattr(frame, "messages", ()) if isinstance(one, Publish))
        send(self, frame)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as client:
            for number in range(1, 2 * LATELY):
                receipt = await client.publish("t", b"x")
                assert number == 1 or len(left) == number, "it has left when publish returns"
                await receipt.safe()

    monkeypatch.setattr(TcpConnection, "send", note)
    run(story())
    assert left[0].awaits == ALL_LEVELS, "nobody knows yet what will be waited for"
    assert left[-1].awaits == ReceiptLevel.SAFE.bit


def test_those_who_were_answered_together_go_on_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "IDLE_SECONDS", 60.0)
    left: list[int] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        left.extend(one.bundle.count for one in getattr(frame, "messages", ()) if isinstance(one, Publish))
        send(self, frame)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as client:

            async def one_after_the_other() -> None:
                for _ in range(6):
                    receipt = await client.publish("t", b"x")
                    await receipt.safe()

            await asyncio.gather(*(one_after_the_other() for _ in range(10)))

    monkeypatch.setattr(TcpConnection, "send", note)
    run(story())
    assert sum(left) == 60
    assert max(left) == 10, left


@pytest.mark.parametrize("gives_way", [False, True])
def test_a_sliding_window_shares_bundles(monkeypatch: pytest.MonkeyPatch, gives_way: bool) -> None:
    """A publisher with publications that are not safe yet is not alone: what it publishes when the oldest of them is
    safe leaves together."""
    monkeypatch.setattr(publisher, "IDLE_SECONDS", 60.0)
    monkeypatch.setattr(publisher, "GATHER_SECONDS", 60.0)
    window, count = 64, 1280
    left: list[int] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        left.extend(one.bundle.count for one in getattr(frame, "messages", ()) if isinstance(one, Publish))
        send(self, frame)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as client:
            in_flight: deque[Receipt] = deque()
            for _ in range(count):
                in_flight.append(await client.publish("t", b"x"))
                if gives_way:
                    await asyncio.sleep(0)
                if len(in_flight) == window:
                    await in_flight.popleft().safe()
            await in_flight.pop().safe()

    monkeypatch.setattr(TcpConnection, "send", note)
    run(story())
    assert sum(left) == count
    assert len(left) <= count // 16, left


def test_a_window_whose_publications_are_all_safe_is_alone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "IDLE_SECONDS", 60.0)
    left: list[int] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        left.extend(one.bundle.count for one in getattr(frame, "messages", ()) if isinstance(one, Publish))
        send(self, frame)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as client:
            for turn in range(1, 6):
                receipts = [await client.publish("t", b"x") for _ in range(8)]
                await receipts[-1].safe()
                await receipts[0].safe()
                assert sum(left) == 8 * turn

            await client.publish("t", b"alone")
            assert left[-1] == 1 and sum(left) == 41, "it has left when publish returns"

    monkeypatch.setattr(TcpConnection, "send", note)
    run(story())
    assert max(left) == 7, left


def test_what_is_taken_in_one_turn_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    send = TcpConnection.send

    def note(self: TcpConnection, frame: Any) -> None:
        told = [one.deliveries for one in getattr(frame, "messages", ()) if isinstance(one, Taken)]
        said.extend(deliveries for deliveries in told if deliveries)
        send(self, frame)

    async def story() -> None:
        async with broker() as running, connect(str(running)) as p, connect(str(running)) as s:
            inbox = await s.subscribe("#")
            for number in range(40):
                await p.publish(f"t/{number}", b"x")  # topics differ: each is a bundle
            last = await p.publish("end", b"x")
            while len(inbox) < 41:
                await asyncio.sleep(0.001)
            for _ in range(41):
                await inbox.next()
            await last.delivered()
            assert said == [41]

    monkeypatch.setattr(TcpConnection, "send", note)
    run(story())


def test_each_loop_has_a_pulse_of_its_own() -> None:
    async def mine() -> Pulse:
        loop = asyncio.get_running_loop()
        assert Pulse.of(loop) is Pulse.of(loop)
        return Pulse.of(loop)

    assert asyncio.run(mine()) is not asyncio.run(mine())
