"""The works, each done by everybody in turns, round after round.

Ours must do every work; somebody else who cannot is left out, and a line says why. How many messages a round takes is
found out for each, so that a round takes everybody about as long.
"""

import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.net.in_turns import COUNT_MIN, Effort, in_turns, suitable
from benchmarks.net.peers import OURS, Peer, left_out, our_team
from resprout.cli.load.team import FloodResult, Team
from resprout.cli.load.worker import Flood, Pace, Settle
from resprout.core.guarantee import Guarantee

PACED_INTERVAL_US: Final = 1_000
IN_FLIGHT: Final = 256
SETTLE_SIZE: Final = 32
PACED_SIZE: Final = 32

EACH_LEAST: Final = 100
"""Messages of each publisher in a round."""

ONE_COPY: Final = "resprout with f = 0"

BATCHES: Final = 0
"""Beside numbers of messages per turn: as many as fit, with a subscriber that takes messages as they come together."""


class FloodWork(msgspec.Struct, frozen=True):
    """As fast as it goes."""

    name: str
    brokers: int
    subscribers: int
    publishers: int
    size: int
    per_turn: tuple[int, ...]
    """Messages that each publisher publishes between two turns of its event loop, in turns."""
    goals: dict[tuple[int, str], str] = {}
    """By messages per turn, and whom it is compared with."""


async def flood(effort: Effort, peers: Sequence[Peer], work: FloodWork) -> dict[int, dict[str, list[FloodResult]]]:
    """By messages per turn, and by who did it; ours also in batches."""
    teams = {OURS: our_team(work.brokers, work.subscribers, work.publishers)}
    for peer in peers:
        if work.brokers > 1 and not peer.chains:
            left_out(peer.name, f"its servers are not put in a row ({work.brokers} brokers)")
        elif work.publishers > peer.crowd_max:
            left_out(peer.name, f"{work.publishers} of its clients do not fit into one process")
        else:
            teams[peer.name] = peer.team(work.brokers, work.subscribers, work.publishers)

    async def once(team: Team, count: int, per_turn: int) -> FloodResult:
        batches = per_turn == BATCHES
        order = Flood(work.size, count) if batches else Flood(work.size, count, per_turn=per_turn)
        return await team.flood(order, batches=batches)

    def rate(flooded: FloodResult) -> float:
        return flooded.messages_per_s

    least = max(COUNT_MIN, EACH_LEAST * work.publishers)
    return await in_turns(effort, teams, work.per_turn, once, suitable(rate, least), ours_alone=(BATCHES,))


async def settle(effort: Effort, peers: Sequence[Peer]) -> dict[int, dict[str, list[float]]]:
    """Until it is safe, one at a time and with `IN_FLIGHT` under way. Ours has two brokers and a subscriber behind the
    second, and once more one broker that is enough; others have one server that stores, and nobody who reads."""
    teams = {OURS: our_team(2, 1), ONE_COPY: our_team(1, 1, options={"faults_tolerated": 0})}
    teams |= {peer.name: peer.team(1, 0, settle="memory") for peer in peers if peer.settles}

    async def once(team: Team, count: int, in_flight: int) -> float:
        return await team.settle(Settle(SETTLE_SIZE, count, in_flight))

    return await in_turns(effort, teams, (1, IN_FLIGHT), once, suitable(lambda rate: rate))


async def pace(effort: Effort, peers: Sequence[Peer], brokers: int) -> dict[str, list[float]]:
    """The median latency at a thousand messages a second, in microseconds."""
    teams = {OURS: our_team(brokers, 1)}
    teams |= {peer.name: peer.team(brokers, 1) for peer in peers if peer.chains or brokers == 1}

    async def once(team: Team, count: int, _: int) -> float:
        return statistics.median(await team.pace(Pace(PACED_SIZE, count, PACED_INTERVAL_US)))

    found = await in_turns(effort, teams, (brokers,), once, _paced_count)
    return found[brokers]


async def pace_totals(effort: Effort, brokers: int) -> dict[str, list[list[int]]]:
    """The latencies of totals at a thousand a second, and of what is causal beside them; each round by itself."""
    teams = {
        guarantee.label: our_team(brokers, 1, guarantee=guarantee) for guarantee in (Guarantee.TOTAL, Guarantee.CAUSAL)
    }

    async def once(team: Team, count: int, _: int) -> list[int]:
        return await team.pace(Pace(PACED_SIZE, count, PACED_INTERVAL_US))

    found = await in_turns(effort, teams, (brokers,), once, _paced_count)
    return found[brokers]


async def _paced_count(effort: Effort, _: object) -> int:
    return max(200, round(effort.seconds * 1e6 / PACED_INTERVAL_US))
