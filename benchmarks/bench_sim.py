"""The virtual world: how many frames cross links per second, bare, with a trivial machine and with the real protocol.

The yardstick is the least that any event loop in this language does: a heap of (time, counter, ...) tuples and a call
per event. A link delivery is one publication that crosses one link between two brokers.
"""

import heapq
from collections.abc import Sequence
from typing import Any

from benchmarks.measure import Measure, interleaved
from resprout.core.contract import Arrived, Connect, Connected, Effect, Event, Request, Transmit
from resprout.scenario.load import load_scenario
from resprout.scenario.model import Scenario
from resprout.sim.network import Distances
from resprout.sim.run import run_scenario
from resprout.sim.world import World

BROKERS = 511
DEGREE = 3
LATENCY_US = 1_000
FLOOD = "flood"


class Flooder:
    """Passes every frame on to all its links but the one it came from."""

    def __init__(self, parent: str | None) -> None:
        self._parent = parent
        self._links: list[int] = []

    def start(self, now_us: int) -> Sequence[Effect]:
        return [Connect(self._parent)] if self._parent is not None else []

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if type(event) is Arrived:
            came = event.connection
            return [Transmit(link, event.frame) for link in self._links if link != came]
        if type(event) is Connected:
            self._links.append(event.connection)
        elif type(event) is Request:
            return [Transmit(link, event.body) for link in self._links]
        return []


def flood_bare(frames: int) -> int:
    """The yardstick: as many events as the flood has frames, with the same number pending at a time."""
    heap: list[tuple[int, int, Any, int, int]] = []
    push, pop = heapq.heappush, heapq.heappop

    def happen(first: int, second: int) -> None:
        pass

    for counter in range(BROKERS):
        push(heap, (LATENCY_US, counter, happen, counter, counter))
    for counter in range(BROKERS, BROKERS + frames):
        time_us, _, action, first, second = pop(heap)
        action(first, second)
        push(heap, (time_us + LATENCY_US, counter, happen, first, second))
    return frames


def flood_toy(floods: int) -> int:
    distances = Distances()
    world = World(1, distances)
    for index in range(BROKERS):
        parent = f"b{(index - 1) // DEGREE}" if index else None
        distances.place(f"b{index}", parent, LATENCY_US)
        world.add(f"b{index}", lambda incarnation, rng, parent=parent: Flooder(parent))  # type: ignore[misc]
    for node in world.nodes.values():
        world.boot(node)
    world.run(1_000_000)
    origins = [node.process for node in world.nodes.values() if node.process is not None]
    for number in range(floods):
        world.at(world.now_us + number * 100, world.request, origins[number * 37 % BROKERS], number)
    before = world.events
    ended = world.run(10**12)
    assert ended == "quiescent"
    return world.events - before - floods


def flood_real(flood: Scenario) -> int:
    """The default stack, with sessions, sizes, clients and rows; counts publications that cross links of brokers."""
    result = run_scenario(flood)
    assert result.ended == "quiescent"
    published = sum(row.kind == "publish" for row in result.rows)
    return published * (len(flood.brokers) - 1)  # everybody listens, and a tree has one link less than brokers


def run(quick: bool = False) -> list[Measure]:
    rounds = 3 if quick else 5
    floods = 40 if quick else 400
    frames = floods * (BROKERS - 1)
    operations = 400 if quick else 1_000
    size = f"topology.brokers={BROKERS}"
    bundled = load_scenario(FLOOD, [size, f"workload.0.operations={operations}"])
    alone = ["workload.0.burst=1", "workload.0.interval=1ms", "workload.0.window=0"]
    single = load_scenario(FLOOD, [size, f"workload.0.operations={operations // 20}", *alone])
    bare, toy, real, real_single = interleaved(
        rounds,
        lambda: flood_bare(frames),
        lambda: flood_toy(floods),
        lambda: flood_real(bundled),
        lambda: flood_real(single),
    )
    goal = "150,000 link deliveries/s"
    return [
        Measure("a frame through the world, trivial machine", toy, "frames/s", "a bare heap of events", bare),
        Measure("flood of 511 brokers, bursts of 20", real, "link deliveries/s", "trivial machine", toy, goal),
        Measure("flood of 511 brokers, one at a time", real_single, "link deliveries/s", "trivial machine", toy),
    ]


if __name__ == "__main__":
    for measure in run():
        print(
            f"{measure.name}: {measure.value:,.0f} {measure.unit}; {measure.yardstick}: {measure.yardstick_value:,.0f}"
        )
