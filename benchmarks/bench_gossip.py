"""Reliability of the stack `gossip`, with and without failures, and what a publication costs, eager and lazy.

Curves over the share of brokers that die at once, in the middle of a workload: which share of what was owed came, at
correct subscribers. `survivors`: of clients whose brokers lived; `all`: those of the dead as well, who go on elsewhere
and are told that they may have missed something. Copies are those of a publication between brokers; a tree would be one
for each broker but the first. Virtual time, so every figure is exact; each is a mean over some seeds.

The overlay alone, in a larger network: the share of survivors in the largest piece that hangs together, and their
degrees.
"""

from statistics import mean
from typing import Final, NamedTuple

from tests.overlay.hyparview_net import Members

from benchmarks.measure import Measure
from resprout.audit.judge import judge
from resprout.core.guarantee import Promises
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import RunResult, run_scenario
from resprout.trace import kinds
from resprout_lab.gossip import GOSSIP

BROKERS: Final = 40
SHARES: Final = (0.1, 0.2, 0.3, 0.5)
OVERLAY_SHARES: Final = (*SHARES, 0.7)
MEMBERS: Final = 1_000


def scenario(seed: int, share: float, lazy: bool, brokers: int, operations: int) -> Scenario:
    fault = f'[[fault]]\nat = "2500ms"\nkind = "crash"\nshare = {share}\n' if share else ""
    return parse_scenario(f"""
stack = "gossip"
seed = {seed}
time_limit = "300s"
[options]
lazy = {"true" if lazy else "false"}
[topology]
kind = "flat"
brokers = {brokers}
latency = "5ms"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = {operations}
interval = "200ms"
mix = {{ eventual = 1.0 }}
start = "2s"
{fault}""")


class Point(NamedTuple):
    everybody: float
    """The share of what was owed that came."""
    survivors: float
    """The same, of clients whose brokers lived."""
    copies: float
    latency_ms: float
    """Of a delivery, the median."""


def point(share: float, lazy: bool, seeds: range, brokers: int, operations: int) -> Point:
    found = [_run(scenario(seed, share, lazy, brokers, operations)) for seed in seeds]
    return Point(*(mean(column) for column in zip(*found, strict=True)))


def _run(made: Scenario) -> Point:
    result = run_scenario(made)
    assert result.ended == "quiescent"
    verdict = judge(result.rows, promise=GOSSIP.promise())
    assert not verdict.violated and verdict.reliability is not None
    published = {(row.publisher, row.seq): row.time_us for row in result.rows if row.kind == kinds.PUBLISH}
    took = sorted(row.time_us - published[row.publisher, row.seq] for row in result.rows if row.kind == kinds.DELIVER)
    sent = [(row.attributes or {}).get(kinds.SENT + "Gossiped", "0") for row in result.rows if row.kind == kinds.LOAD]
    copies = sum(map(int, sent)) / len(published)
    return Point(verdict.reliability, _of_survivors(made, result), copies, took[len(took) // 2] / 1_000)


def _of_survivors(made: Scenario, result: RunResult) -> float:
    """By a judge to whom it is a loss: whatever a client misses of which it was not told. Few of those are clients of
    the dead."""
    dead = {name for fault in made.faults for name in fault.nodes}
    homes = {client.name: client.broker for client in made.clients}
    missing = judge(result.rows, promise=Promises(receipts=GOSSIP.promise().receipts)).check("lost").anomalies
    came = sum(row.kind == kinds.DELIVER and homes[row.node] not in dead for row in result.rows)
    return came / (came + missing)


def overlay(share: float, seed: int, members: int) -> tuple[float, float, float]:
    """Survivors that hang together, those with all the neighbours that they may have, and messages of each while they
    were found."""
    net = Members(seed)
    net.grow(members, every_us=4_000)
    net.pass_time(4_000_000)
    before = net.said.total()
    net.kill(net.rng.sample(list(net.living), round(share * members)))
    net.pass_time(4_000_000)
    net.rest()
    living = len(net.living)
    assert not net.one_sided()
    return net.components()[0] / living, net.degrees()[5] / living, (net.said.total() - before) / living


def run(quick: bool = False) -> list[Measure]:
    brokers, operations, seeds = (20, 10, range(1, 3)) if quick else (BROKERS, 10, range(1, 4))
    measures = []
    for lazy in (False, True):
        word = "lazy" if lazy else "eager"
        calm = point(0.0, lazy, seeds, brokers, operations)
        measures += [
            Measure(f"{word}: reliability without failures", calm.everybody, "of the owed", "all of it", 1.0, "1"),
            Measure(f"{word}: copies of a publication", calm.copies, "between brokers", "a tree", brokers - 1.0),
            Measure(f"{word}: latency of a delivery", calm.latency_ms, "ms, median", "two links", 10.0),
        ]
        for share in SHARES:
            struck = point(share, lazy, seeds, brokers, operations)
            measures += [
                Measure(
                    f"{word}: {share:.0%} die, everybody", struck.everybody, "of the owed", "none die", calm.everybody
                ),
                Measure(
                    f"{word}: {share:.0%} die, the others", struck.survivors, "of the owed", "none die", calm.survivors
                ),
            ]
    members = MEMBERS // 4 if quick else MEMBERS
    for share in OVERLAY_SHARES:
        together, full, said = overlay(share, 1, members)
        name = f"overlay of {members}: {share:.0%} die at once"
        measures += [
            Measure(f"{name}, in one piece", together, "of the others", "all of them", 1.0, "1 up to 30%"),
            Measure(f"{name}, with 5 neighbours", full, "of the others", "all of them", 1.0),
            Measure(f"{name}, messages in 4 s", said, "of each", "neighbours", 5.0),
        ]
    return measures


if __name__ == "__main__":
    for measure in run(quick=True):
        print(f"{measure.name}: {measure.value:.4f} {measure.unit}")
