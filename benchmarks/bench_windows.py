"""Ways to keep publications in flight until they are safe: a sliding window, tasks, and batches.

A sliding window is one task that waits for the oldest publication before it publishes the next. With tasks, each waits
for its own publication. A batch is published by one task, which then waits for its last publication. All ways are
measured in turns in one run, through one broker (one copy) and through three brokers in a row (two copies), each with a
subscriber at the end. Tasks are the yardstick.
"""

import asyncio
import statistics
from typing import Final

from benchmarks.measure import Measure
from benchmarks.net.in_turns import FULL, QUICK, Effort, in_turns, suitable
from benchmarks.net.peers import OURS, our_team
from benchmarks.net.works import SETTLE_SIZE
from resprout.cli.load.team import Team
from resprout.cli.load.worker import FlightWay, Settle

IN_FLIGHT: Final = (1, 16, 256, 1_024)
WAYS: Final[tuple[FlightWay, ...]] = ("window", "workers", "batches")
_VARIANTS: Final = tuple((way, in_flight) for in_flight in IN_FLIGHT for way in WAYS)
_TREES: Final = (("one broker", 1, 0), ("three brokers", 3, 1))
_GOALS: Final = {("window", 256): "at least 0.8", ("window", 1_024): "at least 0.8"}


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(QUICK if quick else FULL))


async def _run(effort: Effort) -> list[Measure]:
    measures: list[Measure] = []
    for tree, brokers, faults in _TREES:
        rates = await _rates(effort, our_team(brokers, 1, options={"faults_tolerated": faults}))
        for way, in_flight in _VARIANTS:
            name = f"{tree}, {way}, {in_flight} in flight"
            yardstick = rates["workers", in_flight]
            goal = _GOALS.get((way, in_flight), "")
            measures.append(Measure(name, rates[way, in_flight], "messages/s", "workers", yardstick, goal))
    return measures


async def _rates(effort: Effort, team: Team) -> dict[tuple[FlightWay, int], float]:
    async def once(team: Team, count: int, variant: int) -> float:
        way, in_flight = _VARIANTS[variant]
        return await team.settle(Settle(SETTLE_SIZE, max(count, 4 * in_flight), in_flight, way))

    found = await in_turns(effort, {OURS: team}, range(len(_VARIANTS)), once, suitable(lambda rate: rate))
    return {_VARIANTS[variant]: statistics.median(rounds[OURS]) for variant, rounds in found.items()}
