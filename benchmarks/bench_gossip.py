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

from benchmarks.measure import Measure
from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.core.promises import Promises
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import RunResult, run_scenario
from resprout.stacks.gossip import GOSSIP
from tests.overlay.hyparview_net import Members

BROKERS: Final = 50
SHARES: Final = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)
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
    survivors: float
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
    published = {(row.publisher, row.seq): row.time_us for row in result.rows if row.kind == "publish"}
    took = sorted(
        row.time_us - published[row.publisher, row.seq] for row in result.rows if row.kind == "deliver"
    )
    return Point(
        verdict.reliability, _of_survivors(made, result), _copies(result) / len(published), took[len(took) // 2] / 1_000
    )


def _of_survivors(made: Scenario, result: RunResult) -> float:
    """Whatever is missing there is lost, and nobody was told."""
    dead = {name for fault in made.faults for name in fault.nodes}
    homes = {client.name: client.broker for client in made.clients}
    verdict: Verdict = judge(result.rows, promise=Promises(receipts=GOSSIP.promise().receipts))
    missing = verdict.check("lost").anomalies
    came = sum(row.kind == "deliver" and homes[row.node] not in dead for row in result.rows)
    return came / (came + missing)


def _copies(result: RunResult) -> int:
    return result.traffic.get("messages", 0)


def run(quick: bool = False) -> list[Measure]:
    return []
