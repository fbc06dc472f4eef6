"""Degrees and paths of the default stack before a crash, after its repair, and at rest, in virtual time.

A repair puts all brokers around the dead next to one broker, which may have too many neighbours then. Planned moves
bring it back within `total_degree`. The scenes are the five crashes of `bank`, and random trees in which one to five
brokers crash at the same moment, drawn so that every three brokers in a row keep two. All limits are those of the tree
before: degree 3. Each scene also runs with leaf children as the only brokers that move (`leaves`).

A *path* leads from one broker to another: all pairs count. The random trees are sums over their seeds, means of means,
and the worst of the worst. Its yardstick is the same before the crash.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from random import Random
from typing import Any, Final
from unittest import mock

import msgspec

from benchmarks.measure import Measure
from benchmarks.seed000.repair import CRASHES, crash_at
from benchmarks.seed000.stage import distances_in, load, on
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.checking import broker_of
from resprout.sim.network import Distances
from resprout.sim.run import Run
from resprout.stacks.resprout.joining.offers import Balance
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.trace.store import Recorder

DEGREE: Final = 3
CRASH_US: Final = 5_000_000
SIZES: Final = {31: 8, 127: 4}
"""Brokers of a tree -> how many trees."""
DRAWS_MAX: Final = 1_000

_TREE: Final = """
stack = "resprout"
seed = {seed}
time_limit = "1800s"
[options]
total_degree = {degree}
[topology]
kind = "random"
brokers = {brokers}
degree = {degree}
latency = "10ms"
clients_per_broker = 0
[[client]]
name = "writer"
broker = "b{writer}"
latency = "1ms"
[[client]]
name = "reader"
broker = "b{reader}"
latency = "1ms"
subscribe = ["x"]
[[workload]]
kind = "random"
topics = ["x"]
keys = 3
operations = 40
mix = {{ eventual = 0.2, fifo = 0.3, causal = 0.3, total = 0.2 }}
interval = "200ms"
start = "4s"
clients = ["writer"]
"""

Tree = Mapping[str, Sequence[str]]
"""Broker -> its neighbours, as it sees them."""


class Shape(msgspec.Struct, frozen=True):
    """A tree at one moment."""

    beyond: int
    """Links above the limit, at all brokers together."""
    degree: int
    """The greatest."""
    mean_hops: float
    worst_hops: int
    mean_ms: float
    worst_ms: float


class Told(msgspec.Struct, frozen=True):
    """What became of one scene."""

    before: Shape
    repaired: Shape
    """When the last broker around the dead had its place."""
    rest: Shape
    moves: int
    restored_us: int
    """From the crash until the last broker that moved had its place; 0 if none moved."""


def run(quick: bool = False) -> list[Measure]:
    measures: list[Measure] = []
    for crash in CRASHES:
        scenarios = [crash_at(on("resprout", load(crash)), seed) for seed in (1, 2, 3)[: 1 if quick else 3]]
        measures += _measures(crash, scenarios)
    for brokers, seeds in SIZES.items():
        for crashes in (1, 5) if quick else (1, 2, 3, 4, 5):
            scenarios = [_drawn(brokers, crashes, seed) for seed in range(1, 3 if quick else 1 + seeds)]
            measures += _measures(f"{brokers} brokers, {crashes} crashes", scenarios)
    return measures


def _measures(title: str, scenarios: Sequence[Scenario]) -> Iterator[Measure]:
    played = [play(scenario) for scenario in scenarios]
    with _leaves_only():
        leaves = [play(one) if told.moves else told for one, told in zip(scenarios, played, strict=True)]
    shapes = {
        "after the repair": [told.repaired for told in played],
        "at rest, leaves": [told.rest for told in leaves],
        "at rest": [told.rest for told in played],
    }
    befores = [told.before for told in played]
    figures: tuple[tuple[str, str, Callable[[Sequence[Shape]], float]], ...] = (
        ("links above the limit", "", lambda ones: sum(one.beyond for one in ones)),
        ("greatest degree", "", lambda ones: max(one.degree for one in ones)),
        ("mean path", "hops", lambda ones: statistics.fmean(one.mean_hops for one in ones)),
        ("worst path", "hops", lambda ones: max(one.worst_hops for one in ones)),
        ("mean path", "ms", lambda ones: statistics.fmean(one.mean_ms for one in ones)),
        ("worst path", "ms", lambda ones: max(one.worst_ms for one in ones)),
    )
    for what, unit, figure in figures:
        for when, ones in shapes.items():
            goal = "0" if when == "at rest" and what.startswith("links") else ""
            yield Measure(f"{title}: {what}, {when}", figure(ones), unit, "before", figure(befores), goal)
    for what, each in (("with leaves", leaves), ("all", played)):
        moves = sum(told.moves for told in each)
        yield Measure(f"{title}: brokers that moved, {what}", moves, "", "runs", len(each))
    longest_us = max(told.restored_us for told in played)
    yield Measure(f"{title}: from the crash to the last move", longest_us / 1e6, "s", "runs", len(played))


@contextmanager
def _leaves_only() -> Iterator[None]:
    with mock.patch.object(Balance, "_branch_move", lambda self: None):
        yield


# -- scenes ------------------------------------------------------------------------------------------------------------


def _drawn(brokers: int, crashes: int, seed: int) -> Scenario:
    """A random tree and the brokers that crash: of three in a row at most one, and no broker with a client."""
    rng = Random(f"{brokers} {crashes} {seed}")
    writer, reader = rng.sample(range(brokers), 2)
    text = _TREE.format(seed=seed, brokers=brokers, degree=DEGREE, writer=writer, reader=reader)
    scenario = parse_scenario(text, "<tree>")
    hops = _hops({broker.name: broker.parent for broker in scenario.brokers})
    homes = {client.broker for client in scenario.clients}
    names = sorted(set(hops) - homes)
    for _ in range(DRAWS_MAX):
        dead = rng.sample(names, crashes)
        if all(hops[one][other] > 2 for one, other in combinations(dead, 2)):
            fault = FaultSpec(CRASH_US, FaultKind.CRASH, tuple(dead))
            return msgspec.structs.replace(scenario, faults=(fault,))
    raise RuntimeError(f"no {crashes} of {brokers} brokers are far enough from each other")


def _hops(parents: Mapping[str, str | None]) -> dict[str, dict[str, int]]:
    tree: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent is not None:
            tree[name].append(parent)
            tree[parent].append(name)
    return {name: {other: hops for other, (hops, _) in _paths(tree, name, None).items()} for name in tree}


def _paths(tree: Tree, start: str, places: Distances | None) -> dict[str, tuple[int, int]]:
    """Broker -> hops and microseconds from `start` along the links of the tree."""
    found = {start: (0, 0)}
    line = [start]
    for here in line:
        hops, us = found[here]
        for other in tree[here]:
            if other not in found and other in tree:
                found[other] = (hops + 1, us + (places.between(here, other) if places is not None else 0))
                line.append(other)
    return found


# -- a run -------------------------------------------------------------------------------------------------------------


class Watch(Recorder):
    """Looks at the tree when the brokers crash, and when a broker around the dead has its place again."""

    def __init__(self, shape: Callable[[], Shape | None]) -> None:
        super().__init__()
        self._shape = shape
        self.before: Shape | None = None
        self.repaired: Shape | None = None
        self.moved: list[int] = []
        """When brokers left to move."""
        self.joined_us = 0
        self._dead: set[str] = set()

    def __bool__(self) -> bool:
        return True

    def record(self, row: Row) -> None:
        super().record(row)
        if row.kind == kinds.CRASH:
            self._dead.add(row.node)
        elif row.kind == kinds.REPAIR_END and not set((row.detail or "").split()).isdisjoint(self._dead):
            self.repaired = self._shape() or self.repaired
        elif row.kind == "moved":
            self.moved.append(row.time_us)
        elif row.kind == "joined" and self.moved:
            self.joined_us = row.time_us


def play(scenario: Scenario) -> Told:
    places = distances_in(scenario)
    run: Run | None = None

    def shape() -> Shape | None:
        assert run is not None
        return shape_of(tree_in(run), places)

    def look(*_: Any) -> None:
        watch.before = shape()

    watch = Watch(shape)
    run = Run(scenario, watch, ())
    crash_us = min(fault.at_us for fault in scenario.faults)
    run.world.at(crash_us - 1, look, None)
    result = run.finish()
    rest = shape()
    if result.ended != "quiescent" or watch.before is None or watch.repaired is None or rest is None:
        raise RuntimeError(f"{scenario.name}, seed {scenario.seed}: it did not come to rest as one tree")
    restored_us = watch.joined_us - crash_us if watch.moved else 0
    return Told(watch.before, watch.repaired, rest, len(watch.moved), restored_us)


def tree_in(run: Run) -> Tree:
    tree: dict[str, list[str]] = {}
    for node in run.world.nodes.values():
        broker = broker_of(node.process.machine) if node.process is not None else None
        if broker is not None:
            tree[node.name] = [name for name, link in broker.parts.links.items() if link.open]
    return tree


def shape_of(tree: Tree, places: Distances) -> Shape | None:
    """None if it is in pieces: a repair is not over, or a broker is on its way."""
    hops: list[int] = []
    times_us: list[int] = []
    for name in tree:
        paths = _paths(tree, name, places)
        if len(paths) < len(tree):
            return None
        hops += [far for other, (far, _) in paths.items() if other != name]
        times_us += [us for other, (_, us) in paths.items() if other != name]
    degrees = [len(neighbours) for neighbours in tree.values()]
    return Shape(
        sum(max(0, degree - DEGREE) for degree in degrees),
        max(degrees),
        statistics.fmean(hops),
        max(hops),
        statistics.fmean(times_us) / 1_000,
        max(times_us) / 1_000,
    )
