"""Ours next to other brokers that Python programs use: throughput, latency, and what a message costs.

Publisher, brokers and subscribers are processes of their own on the loopback, with Python clients at both ends. Every
message that was sent has arrived, in order, or the one concerned is left out.
"""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.measure import Measure
from benchmarks.net import works
from benchmarks.net.peers import OURS, Peer, find_peers
from benchmarks.net.works import BATCHES, FULL, QUICK, Effort
from resprout.cli.load.team import FloodResult

TWICE: Final = "at least 2"

_ONE_TO_ONE_GOALS: Final = {"zenoh": TWICE, "pyzmq proxy": "at least 0.9"}
_FLOODS: Final = (
    ("1 to 1, 32 B", 1, 1, 32, _ONE_TO_ONE_GOALS),
    ("1 to 1, 1 KiB", 1, 1, 1024, _ONE_TO_ONE_GOALS),
    ("1 to 8, 32 B", 1, 8, 32, {"zenoh": TWICE}),
    ("3 brokers in a row, 32 B", 3, 1, 32, {"zenoh": TWICE}),
)
"""Name, brokers, subscribers, bytes, goals."""

_CPU_UNIT: Final = "µs/message (less is better)"


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(QUICK if quick else FULL, find_peers()))


async def _run(effort: Effort, peers: Sequence[Peer]) -> list[Measure]:
    measures: list[Measure] = []
    costs: list[Measure] = []
    for name, brokers, subscribers, size, goals in _FLOODS:
        found = await works.flood(effort, peers, brokers, subscribers, size)
        rates = {who: statistics.median(each.deliveries_per_s for each in rounds) for who, rounds in found.items()}
        batches = rates.pop(BATCHES)
        measures += _compare(name, rates, "deliveries/s", goals)
        measures.append(Measure(f"{name}, in batches", batches, "deliveries/s", "message by message", rates[OURS]))
        if not costs:  # of the first one, the smallest messages
            costs = _costs(name, found)
    latencies = _medians(await works.pace(effort, peers))
    measures += _compare("median latency at 1,000/s", latencies, "µs (less is better)", {"mosquitto": "at most 1"})
    settled = _medians(await works.settle(effort, peers))
    measures += _compare(f"until safe, {works.IN_FLIGHT} in flight", settled, "messages/s", {"redis": "at least 3"})
    return measures + costs


def _medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {who: statistics.median(rounds) for who, rounds in found.items()}


def _compare(name: str, values: Mapping[str, float], unit: str, goals: Mapping[str, str]) -> list[Measure]:
    """Ours with each of the others; with itself when there is nobody else, so that it is at least shown."""
    others = {who: value for who, value in values.items() if who != OURS} or {"nobody else is here": values[OURS]}
    return [Measure(name, values[OURS], unit, who, value, goals.get(who, "")) for who, value in others.items()]


def _costs(name: str, found: Mapping[str, Sequence[FloodResult]]) -> list[Measure]:
    """Processor time per message: by whom ours is spent, and how much it is next to others."""
    totals = {who: _total_us(rounds) for who, rounds in found.items()}
    ours = found[OURS]
    parts = {
        "publisher": statistics.median(each.publisher_us for each in ours),
        "broker": statistics.median(sum(us or 0.0 for us in each.brokers_us) for each in ours),
        "subscriber": statistics.median(each.subscriber_us for each in ours),
        "subscriber, in batches": statistics.median(each.subscriber_us for each in found[BATCHES]),
    }
    del totals[BATCHES]
    whole = totals[OURS]
    measures = [Measure(f"{name}: CPU, {part}", us, _CPU_UNIT, "all three", whole) for part, us in parts.items()]
    return measures + _compare(f"{name}: CPU, all three", totals, _CPU_UNIT, {})


def _total_us(rounds: Sequence[FloodResult]) -> float:
    return statistics.median(
        each.publisher_us + sum(us or 0.0 for us in each.brokers_us) + each.subscriber_us for each in rounds
    )
