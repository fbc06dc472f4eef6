"""A client states numbers over TCP that no client can know: it is told so and counted, and nobody else notices."""

from typing import Any

import pytest

from resprout.core.contract import EndCode
from resprout.core.message_fields import STAMP_MAX
from resprout.edge.messages import Attend, StreamMark, Taken
from resprout.links.frames import Data, Goodbye
from resprout.stacks.resprout.account import OUT_OF_BOUNDS
from tests.net.hostile_scenes import scene
from tests.net.pages import refusals
from tests.net.stage import Bare, bare, run


async def goodbye(peer: Bare) -> Goodbye:
    while True:
        frame = await peer.hear()
        if isinstance(frame, Goodbye):
            return frame
        assert isinstance(frame, Data)


async def attack(*messages: Any) -> tuple[EndCode, str, dict[str, int]]:
    """What a client of b0 that says this is told, and what b0 counts. Three brokers go on in their lives."""
    async with scene(None) as stage:
        async with bare(stage.brokers[0].address) as peer:
            await peer.greet("teller")
            peer.say_messages(1, *messages)
            told = await goodbye(peer)
        counted = await refusals(stage.brokers[0])
        await stage.goes_on()
        assert max(running.machine.parts.clock.now for running in stage.brokers) < 1_000
        return told.code, told.reason, counted


@pytest.mark.parametrize("clock", [STAMP_MAX - 3, STAMP_MAX])
def test_a_clock_that_no_broker_gave_it_costs_a_client_its_session_and_stops_nobody(clock: int) -> None:
    """Attack 1 of issue 27: with 2^62 - 3, three brokers stopped for good; with 2^62, neighbours refused the broker."""
    code, reason, counted = run(attack(Attend(clock)))
    assert code is EndCode.OUT_OF_BOUNDS and "is ahead of all clocks" in reason
    assert counted == {OUT_OF_BOUNDS: 1}


def test_a_client_that_takes_what_it_was_not_given_is_told_so() -> None:
    code, reason, counted = run(attack(Attend(0), Taken(1)))
    assert code is EndCode.OUT_OF_BOUNDS and "1 deliveries taken of 0 given" in reason
    assert counted == {OUT_OF_BOUNDS: 1}


def test_a_number_beyond_what_a_field_may_hold_ends_the_connection() -> None:
    """Attack 2 of issue 27, as it was made: the range is refused before anybody looks at it."""
    attend = Attend(0, ("b0",), safe=(StreamMark("ordered", 1 << 61),), home=1)
    code, reason, counted = run(attack(attend))
    assert code is EndCode.NONE and "Expected `int` <= 9007199254740992" in reason
    assert sum(counted.values()) == 1 and OUT_OF_BOUNDS not in counted
