"""The works, each done by everybody in turns, round after round.

Ours must do every work; somebody else who cannot is left out, and a line says why. How many messages a round takes is
found out for each, so that a round takes everybody about as long.
"""

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, TypeVar

import msgspec

from benchmarks.net.peers import OURS, Peer, left_out, our_team
from resprout.cli.load.orders import Flood, Pace, Settle
from resprout.cli.load.process import LoadError
from resprout.cli.load.team import FloodResult, Team

T = TypeVar("T")

FIRST_COUNT: Final = 500
COUNT_MIN: Final = 200
COUNT_MAX: Final = 2_000_000
PACED_INTERVAL_US: Final = 1_000
IN_FLIGHT: Final = 256
SETTLE_SIZE: Final = 32
PACED_SIZE: Final = 32


class Effort(msgspec.Struct, frozen=True):
    """How much is done."""

    rounds: int
    seconds: float
    """Of one round of one of them, about."""


FULL: Final = Effort(rounds=7, seconds=1.0)
QUICK: Final = Effort(rounds=3, seconds=0.3)

BATCHES: Final = f"{OURS}, batches"
"""Ours again, with a subscriber that takes messages as they come together."""


async def flood(
    effort: Effort, peers: Sequence[Peer], brokers: int, subscribers: int, size: int
) -> dict[str, list[FloodResult]]:
    """As fast as it goes; ours twice, message by message and in batches."""
    teams = {OURS: our_team(brokers, subscribers)}
    for peer in peers:
        if peer.chains or brokers == 1:
            teams[peer.name] = peer.team(brokers, subscribers)
        else:
            left_out(peer.name, f"its servers are not put in a row ({brokers} brokers)")

    async def once(team: Team, count: int) -> FloodResult:
        return await team.flood(Flood(size, count))

    async def batches(team: Team, count: int) -> FloodResult:
        return await team.flood(Flood(size, count), batches=True)

    def rate(flooded: FloodResult) -> float:
        return flooded.messages_per_s

    return await _in_turns(effort, teams, once, rate, {BATCHES: batches})


async def settle(effort: Effort, peers: Sequence[Peer]) -> dict[str, list[float]]:
    """Until it is safe, with `IN_FLIGHT` under way. Ours has two brokers and a subscriber behind the second; others
    have one server that stores, and nobody who reads."""
    teams = {OURS: our_team(2, 1)}
    teams |= {peer.name: peer.team(1, 0, settle=True) for peer in peers if peer.settles}

    async def once(team: Team, count: int) -> float:
        return await team.settle(Settle(SETTLE_SIZE, count, IN_FLIGHT))

    return await _in_turns(effort, teams, once, lambda rate: rate, {})


async def pace(effort: Effort, peers: Sequence[Peer]) -> dict[str, list[float]]:
    """The median latency at a thousand messages a second, in microseconds."""
    teams = {OURS: our_team(1, 1)}
    teams |= {peer.name: peer.team(1, 1) for peer in peers}
    count = max(COUNT_MIN, round(effort.seconds * 1e6 / PACED_INTERVAL_US))

    async def once(team: Team, _: int) -> float:
        return statistics.median(await team.pace(Pace(PACED_SIZE, count, PACED_INTERVAL_US)))

    return await _in_turns(effort, teams, once, lambda _: 1e6 / PACED_INTERVAL_US, {})


# -- in turns ----------------------------------------------------------------------------------------------------------


Once = Callable[[Team, int], Awaitable[T]]


async def _in_turns(
    effort: Effort,
    teams: Mapping[str, Team],
    once: Once[T],
    rate: Callable[[T], float],
    ours_again: Mapping[str, Once[T]],
) -> dict[str, list[T]]:
    """What each round of each came to. Nobody's processes are started or stopped while others are measured."""
    counts: dict[str, int] = {}
    results: dict[str, list[T]] = {name: [] for name in (*teams, *ours_again)}
    async with AsyncExitStack() as stack:
        for name, team in teams.items():
            try:
                await stack.enter_async_context(team)
                counts[name] = await _suitable_count(effort, team, once, rate)
            except LoadError as error:
                _give_up(name, error)
        for _ in range(effort.rounds):
            for name in list(counts):
                try:
                    results[name].append(await once(teams[name], counts[name]))
                except LoadError as error:
                    _give_up(name, error)
                    del counts[name]
            for name, again in ours_again.items():
                results[name].append(await again(teams[OURS], counts[OURS]))
    return {name: found for name, found in results.items() if len(found) == effort.rounds}


async def _suitable_count(effort: Effort, team: Team, once: Once[T], rate: Callable[[T], float]) -> int:
    """Found in steps, as the first messages are slow; they also warm everything up."""
    count = FIRST_COUNT
    for share in (0.2, 0.5, 1.0):
        found = rate(await once(team, count)) * effort.seconds * share
        count = max(COUNT_MIN, min(COUNT_MAX, round(found)))
    return count


def _give_up(name: str, error: LoadError) -> None:
    if name == OURS:
        raise error
    left_out(name, str(error))
