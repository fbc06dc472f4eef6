"""Timers of a machine in an event loop: none comes before its time, whatever the loop does."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from resprout.core.contract import Timer
from resprout.net.event_loop import EARLY_US_MAX, LoopAlarms, now_us


class Due(Timer, frozen=True):
    """When to do what number `number` stands for."""

    number: int


class EarlyLoop:
    """Calls everything `early_us` too early."""

    def __init__(self, early_us: int) -> None:
        self._early_us = early_us
        self.calls = 0

    def call_later(self, delay_s: float, call: Callable[..., None], *words: object) -> asyncio.TimerHandle:
        self.calls += 1
        loop = asyncio.get_running_loop()
        return loop.call_later(max(0.0, delay_s - self._early_us / 1e6), call, *words)


@pytest.mark.parametrize("early_us", [0, EARLY_US_MAX // 2, 20 * EARLY_US_MAX])
def test_a_machine_never_steps_before_the_time_of_its_timer(early_us: int) -> None:
    """A durable subscription that waited for its consumers looked once, too early, and handed out nothing more."""

    async def work() -> None:
        fired: list[tuple[int, int]] = []
        is_over = asyncio.Event()
        planned: dict[int, int] = {}

        def fire(timer: Timer) -> None:
            assert isinstance(timer, Due)
            fired.append((timer.number, alarms.now_us()))
            if len(fired) == len(planned):
                is_over.set()

        alarms = LoopAlarms(cast(Any, EarlyLoop(early_us)), fire)
        for number in range(50):
            planned[number] = now_us() + 50_000 + 317 * number
            alarms.set(Due(number), planned[number])
        await is_over.wait()
        assert all(at_us >= planned[number] for number, at_us in fired)
        times = [at_us for _, at_us in fired]
        assert times == sorted(times), "the clock of a machine never goes back"

    for runner in (asyncio.run, uvloop.run):
        runner(work())


def test_a_timer_that_is_set_again_or_cancelled_comes_at_its_last_time_or_never() -> None:
    async def work() -> None:
        fired: list[Timer] = []
        alarms = LoopAlarms(asyncio.get_running_loop(), fired.append)
        for number in range(3):
            alarms.set(Due(number), now_us() + 1_000)
        alarms.cancel(Due(1))
        alarms.set(Due(2), now_us() + 60_000_000)
        while not fired:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert fired == [Due(0)]
        alarms.cancel_all()

    asyncio.run(work())
