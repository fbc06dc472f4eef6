"""Ours next to other brokers that Python programs use: throughput, latency, and what a message costs.

Publishers, brokers and subscribers are processes on the loopback, with Python clients at both ends. Publishers publish
1, 64 or 256 messages between two turns of their event loop, from 1, 50 or 500 clients: bundles make the throughput, and
most programs do not publish in bundles. Every message that was sent has arrived, in order, or the one concerned is left
out.
"""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.measure import Measure
from benchmarks.net import works
from benchmarks.net.in_turns import FULL, QUICK, Effort
from benchmarks.net.peers import OURS, Peer, find_peers
from benchmarks.net.works import BATCHES, FloodWork
from resprout.cli.load.team import FloodResult

TWICE: Final = "at least 2"
_ONE_TO_ONE: Final = {
    (256, "zenoh"): TWICE, (256, "pyzmq proxy"): "at least 0.9",
    (64, "zenoh"): TWICE, (64, "pyzmq proxy"): "at least 0.9",
    (1, "zenoh"): "at least 0.8",
}  # fmt: skip

FLOODS: Final = (
    FloodWork("1 to 1, 32 B", 1, 1, 1, 32, (256, 64, 1), _ONE_TO_ONE),
    FloodWork("1 to 1, 1 KiB", 1, 1, 1, 1024, (256,), _ONE_TO_ONE),
    FloodWork("1 to 8, 32 B", 1, 8, 1, 32, (256, 64), {(256, "zenoh"): TWICE, (64, "zenoh"): TWICE}),
    FloodWork("3 brokers in a row, 32 B", 3, 1, 1, 32, (256, 64), {(256, "zenoh"): TWICE, (64, "zenoh"): TWICE}),
    FloodWork("50 to 1, 32 B", 1, 1, 50, 32, (256, 64, 1), {(1, "zenoh"): "at least 0.5"}),
    FloodWork("500 to 1, 32 B", 1, 1, 500, 32, (256, 64, 1)),
)

_ROW: Final = 3
"""Brokers in a row."""
_CPU_UNIT: Final = "µs/message (less is better)"
_LATENCY_UNIT: Final = "µs (less is better)"
_BROKER_GOALS: Final = {("500 to 1, 32 B", 1): "at most 40 µs"}


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(QUICK if quick else FULL, find_peers()))


async def _run(effort: Effort, peers: Sequence[Peer]) -> list[Measure]:
    measures: list[Measure] = []
    for work in FLOODS:
        measures += _floods(work, await works.flood(effort, peers, work))
    for brokers, name, goals in (
        (1, "median latency at 1,000/s", {"mosquitto": "at most 1"}),
        (_ROW, f"the same through {_ROW} brokers", {"zenoh": "at most 1"}),
    ):
        measures += _compare(name, _medians(await works.pace(effort, peers, brokers)), _LATENCY_UNIT, goals)
    settled = await works.settle(effort, peers)
    measures += _compare("until safe, one at a time", _medians(settled[1]), "messages/s", {"redis": "at least 0.7"})
    many = _medians(settled[works.IN_FLIGHT])
    measures += _compare(f"until safe, {works.IN_FLIGHT} in flight", many, "messages/s", {"redis": "at least 3"})
    return measures + _totals(await works.pace_totals(effort, _ROW))


def _floods(work: FloodWork, found: Mapping[int, Mapping[str, Sequence[FloodResult]]]) -> list[Measure]:
    measures: list[Measure] = []
    for per_turn in work.per_turn:
        rounds = found[per_turn]
        name = f"{work.name}, {per_turn} per turn"
        rates = {who: statistics.median(each.deliveries_per_s for each in done) for who, done in rounds.items()}
        goals = {who: goal for (turn, who), goal in work.goals.items() if turn == per_turn}
        measures += _compare(name, rates, "deliveries/s", goals)
        measures += _costs(name, rounds, _BROKER_GOALS.get((work.name, per_turn), ""))
    batches = statistics.median(each.deliveries_per_s for each in found[BATCHES][OURS])
    most = max(work.per_turn)
    each = statistics.median(each.deliveries_per_s for each in found[most][OURS])
    return [*measures, Measure(f"{work.name}, in batches", batches, "deliveries/s", "message by message", each)]


def _totals(found: Mapping[str, Sequence[Sequence[int]]]) -> list[Measure]:
    """Medians over the rounds, of the median and of what 99 of 100 do not exceed."""
    measures: list[Measure] = []
    for part, share, goal in (("median", 0.5, "at most 1,000 µs"), ("99 %", 0.99, "at most 5,000 µs")):
        values = {who: statistics.median(_at(share, each) for each in rounds) for who, rounds in found.items()}
        name = f"total through {_ROW} brokers at 1,000/s, {part}"
        measures.append(Measure(name, values["total"], _LATENCY_UNIT, "causal", values["causal"], goal))
    return measures


def _at(share: float, latencies_us: Sequence[int]) -> int:
    return sorted(latencies_us)[min(len(latencies_us) - 1, int(share * len(latencies_us)))]


def _medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {who: statistics.median(rounds) for who, rounds in found.items()}


def _compare(name: str, values: Mapping[str, float], unit: str, goals: Mapping[str, str]) -> list[Measure]:
    """Ours with each of the others; with itself when there is nobody else, so that it is at least shown."""
    others = {who: value for who, value in values.items() if who != OURS} or {"nobody else is here": values[OURS]}
    return [Measure(name, values[OURS], unit, who, value, goals.get(who, "")) for who, value in others.items()]


def _costs(name: str, found: Mapping[str, Sequence[FloodResult]], broker_goal: str) -> list[Measure]:
    """Processor time per message: by whom ours is spent, and how much it is next to others."""
    totals = {who: _total_us(rounds) for who, rounds in found.items()}
    ours = found[OURS]
    parts = {
        "publisher": statistics.median(each.publisher_us for each in ours),
        "broker": statistics.median(sum(us or 0.0 for us in each.brokers_us) for each in ours),
        "subscriber": statistics.median(each.subscriber_us for each in ours),
    }
    goals = {"broker": broker_goal}
    measures = [
        Measure(f"{name}: CPU, {part}", us, _CPU_UNIT, "all three", totals[OURS], goals.get(part, ""))
        for part, us in parts.items()
    ]
    return measures + _compare(f"{name}: CPU, all three", totals, _CPU_UNIT, {})


def _total_us(rounds: Sequence[FloodResult]) -> float:
    return statistics.median(
        each.publisher_us + sum(us or 0.0 for us in each.brokers_us) + each.subscriber_us for each in rounds
    )
