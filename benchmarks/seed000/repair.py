"""How long a repair takes, by the notes that both stacks leave in the trace."""

from statistics import fmean

import msgspec

from benchmarks.seed000.stage import Played, distances_in
from resprout.scenario.model import Scenario
from resprout.trace import kinds
from resprout.trace.schema import Row

CRASHES = ("crash-b1", "crash-root", "crash-b1-b4", "crash-root-b1", "crash-b1-b2-b3")
ROUND = "repair_round"
JOINED = "joined"

STEP_US = 173_000
"""Crashes of different seeds come at different moments between two signs of life."""


class Repair(msgspec.Struct, frozen=True):
    """Microseconds; of several repairs at once, from the first beginning to the last end."""

    detection_us: int
    """From the crash to the first `repair_begin`."""
    first_end_us: int
    """From there to the first `repair_end`: at the coordinator, where the stack says so."""
    last_end_us: int
    """From there to the last one: every broker around the dead has its new place."""
    settled_us: int
    """From there until the last broker that was moved afterwards, to restore the degree, has its place."""
    rounds: int
    """Requests for a parent, where the stack makes any."""
    orphan_us: float
    """The mean over the brokers around the dead, each from its own `repair_begin` to its own `repair_end`."""
    orphan_rounds: float
    """Requests for a parent that each of them makes; one, where the stack makes none."""

    @property
    def round_us(self) -> float:
        return self.orphan_us / self.orphan_rounds

    @property
    def whole_us(self) -> int:
        return self.detection_us + self.last_end_us


def crash_at(scenario: Scenario, seed: int) -> Scenario:
    """The same crash with another seed, a little later for each."""
    faults = [msgspec.structs.replace(fault, at_us=fault.at_us + STEP_US * seed) for fault in scenario.faults]
    return msgspec.structs.replace(scenario, seed=seed, faults=tuple(faults))


def repair_of(played: Played) -> Repair:
    """Of the crash of this run. Repairs of brokers that did not crash belong to planned moves."""
    crashes = played.of(kinds.CRASH)
    dead = {row.node for row in crashes}
    crash_us = crashes[0].time_us

    def rows(kind: str) -> list[Row]:
        late = (row for row in played.of(kind) if row.time_us >= crash_us)
        return [row for row in late if set((row.detail or "").split()) <= dead]

    def times(kind: str) -> list[int]:
        return [row.time_us for row in rows(kind)]

    begin_us = min(times(kinds.REPAIR_BEGIN))
    ends_us = times(kinds.REPAIR_END)
    joins_us = [row.time_us for row in played.of(JOINED) if row.time_us >= crash_us]
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for row in rows(kinds.REPAIR_BEGIN):
        begins.setdefault(row.node, row.time_us)
    for row in rows(kinds.REPAIR_END):
        ends[row.node] = row.time_us
    orphans = [name for name in begins if name in ends]
    rounds = len(times(ROUND))
    return Repair(
        begin_us - crash_us,
        min(ends_us) - begin_us,
        max(ends_us) - begin_us,
        max([*ends_us, *joins_us]) - begin_us,
        rounds,
        fmean(ends[name] - begins[name] for name in orphans),
        max(1.0, rounds / len(orphans)),
    )


def star_of(scenario: Scenario) -> tuple[str, list[str]]:
    """Who leads the repair of this scenario's crash, and everybody else around the dead: by the tree alone."""
    dead = {name for fault in scenario.faults for name in fault.nodes}
    parents = {broker.name: broker.parent for broker in scenario.brokers}
    root = next(name for name, parent in parents.items() if parent is None)
    orphans = [name for name, parent in parents.items() if parent in dead and name not in dead]
    above = [parent for name, parent in parents.items() if name in dead and parent is not None and parent not in dead]
    if root in dead:
        places = distances_in(scenario)
        successors = [name for name in orphans if parents[name] == root]
        leader = min(successors, key=lambda name: places.between(root, name))
    else:
        leader = above[0]
    return leader, [name for name in dict.fromkeys((*orphans, *above)) if name != leader]


def round_trip_us(scenario: Scenario) -> int:
    """Over the slowest link of the star."""
    leader, members = star_of(scenario)
    places = distances_in(scenario)
    return 2 * max(places.between(leader, member) for member in members)
