"""Frames of one turn of the loop are one step: how many, when, and in which order with everything else."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.core.contract import Arrived, Effect, Event
from resprout.links.frames import Data
from resprout.net import event_loop
from resprout.net.event_loop import MESSAGES_MAX, TurnIntake, together
from tests.net.stage import broker, run


def put_all(quiet_s: float, pieces: Sequence[tuple[int, Sequence[Any]]], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames were handed on together each time, when all of it came in one turn of the loop."""
    monkeypatch.setattr(event_loop, "QUIET_SECONDS", quiet_s)
    taken: list[Sequence[Arrived]] = []

    async def turn() -> None:
        inlet = TurnIntake(asyncio.get_running_loop(), taken.append, lambda arrival: taken.append([arrival]))
        for connection, frames in pieces:
            inlet.put(connection, frames)
        await asyncio.sleep(0)

    asyncio.run(turn())
    came = [(connection, frame) for connection, frames in pieces for frame in frames]
    assert [(each.connection, each.frame) for group in taken for each in group] == came
    return [len(group) for group in taken]


def test_what_all_connections_bring_in_one_turn_is_taken_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert put_all(60.0 * 60 * 24 * 365, [(1, "a"), (2, "bc"), (1, "d")], monkeypatch) == [4]


def test_a_frame_that_comes_after_a_pause_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert put_all(-1.0, [(1, "a"), (2, "b")], monkeypatch) == [1, 1]


def test_a_flood_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    frame: Data[Any] = Data(1, 0, 0, (None,) * (MESSAGES_MAX // 2))
    pieces = [(number, (frame,)) for number in range(5)]
    assert put_all(60.0 * 60 * 24 * 365, pieces, monkeypatch) == [2, 2, 1]


def test_what_was_cleared_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "QUIET_SECONDS", 60.0 * 60 * 24 * 365)
    taken: list[Sequence[Arrived]] = []

    async def turn() -> None:
        inlet = TurnIntake(asyncio.get_running_loop(), taken.append, lambda arrival: taken.append([arrival]))
        inlet.put(1, "ab")
        inlet.clear()
        await asyncio.sleep(0)

    asyncio.run(turn())
    assert taken == []


def test_a_machine_that_knows_no_better_takes_them_one_by_one() -> None:
    class Plain:
        def __init__(self) -> None:
            self.seen: list[Event] = []

        def start(self, now_us: int) -> Sequence[Effect]:
            return []

        def step(self, event: Event, now_us: int) -> Sequence[Effect]:
            self.seen.append(event)
            return []

    machine = Plain()
    arrivals = [Arrived(1, "a"), Arrived(2, "b")]
    assert together(machine)(arrivals, 7) == []
    assert machine.seen == arrivals


@pytest.mark.parametrize("fast_loop", [False, True])
def test_what_many_publish_in_one_turn_comes_to_a_subscriber_whole(
    monkeypatch: pytest.MonkeyPatch, fast_loop: bool
) -> None:
    monkeypatch.setattr(event_loop, "QUIET_SECONDS", 60.0 * 60 * 24 * 365)  # everything is taken at the end of its turn

    async def scene() -> None:
        async with broker() as running:
            clients = [await connect(str(running), name=f"p{number}") for number in range(10)]
            async with connect(str(running)) as subscriber:
                inbox = await subscriber.subscribe("t")
                for number in range(20):
                    receipts = [await client.publish("t", b"%d" % number) for client in clients]
                await asyncio.gather(*(receipt.safe() for receipt in receipts))
                seen: dict[str, list[int]] = {}
                for _ in range(200):
                    message = await inbox.next()
                    seen.setdefault(message.publisher, []).append(int(message.payload))
                assert seen == {f"p{number}": list(range(20)) for number in range(10)}
            await asyncio.gather(*(client.close() for client in clients))

    run(scene(), fast_loop=fast_loop)
