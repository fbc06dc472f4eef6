"""How many totals a second, and what one costs: by the number of brokers, from one publisher and from many, on one key
and on a hundred.

In the virtual world links take a millisecond and brokers no time, so what is measured is the protocol: how many totals
it lets be under way, and how many frames each takes. Over TCP brokers are processes on this machine, so what is
measured is mostly what a total costs the processor. The yardstick is the same work with `causal`.

Publishers publish as fast as they are let: in the virtual world with 200 that are not safe yet, over TCP one message in
each turn of the event loop. The brokers are a tree of degree 3, f = 1; in the virtual world all clients read, one at
each broker (three at each of three), over TCP one, at the last broker.
"""

import asyncio
import statistics
from typing import Final, NamedTuple

import msgspec

from benchmarks.measure import Measure
from benchmarks.net.in_turns import COUNT_MIN, FULL, QUICK, Effort, in_turns, suitable
from benchmarks.net.works import EACH_LEAST
from benchmarks.seed000.stage import Played, play
from resprout.cli.load import ours
from resprout.cli.load.team import FloodResult, LoadProcess, OurChain, Team
from resprout.cli.load.worker import Flood
from resprout.core.guarantee import Guarantee
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.trace import kinds

SIZES: Final = (3, 8, 31, 127)
SIZES_OVER_TCP: Final = (3, 8)
KEYS: Final = {"one key": 1, "100 keys": 100}
MANY: Final = 8
MANY_OVER_TCP: Final = 50
_MESSAGES: Final = 400
_PAYLOAD: Final = 32
_ROUNDS_MAX: Final = 3

_TREE: Final = """
name = "totals as fast as it goes"
time_limit = "600s"

[options]
faults_tolerated = 1

[topology]
kind = "tree"
brokers = {brokers}
degree = 3
latency = "1ms"
clients_per_broker = {clients}
subscribe = ["t"]

[[workload]]
kind = "random"
clients = [{writers}]
topics = ["t"]
keys = {keys}
keys_max = 1
operations = {operations}
mix = {{ {guarantee} = 1.0 }}
interval = "0s"
window = 200
payload = 32
attributes = false
start = "10s"
"""


class Rate(NamedTuple):
    per_s: float
    frames: float
    """Between brokers, for each total."""


def run(quick: bool = False) -> list[Measure]:
    measures = [measure for brokers in SIZES[: 2 if quick else None] for measure in _virtual(brokers, quick)]
    effort = QUICK if quick else msgspec.structs.replace(FULL, rounds=_ROUNDS_MAX)
    return measures + asyncio.run(_over_tcp(effort))


# -- the virtual world -------------------------------------------------------------------------------------------------


def _virtual(brokers: int, quick: bool) -> list[Measure]:
    measures: list[Measure] = []
    for publishers in (1, MANY):
        for name, keys in KEYS.items():
            total, causal = [
                _rate(play(_scenario(brokers, publishers, keys, guarantee, _MESSAGES // (4 if quick else 1))))
                for guarantee in (Guarantee.TOTAL, Guarantee.CAUSAL)
            ]
            what = f"{brokers} brokers, {publishers} publishers, {name}"
            measures.append(Measure(f"{what}: totals", total.per_s, "1/s (virtual)", "causal", causal.per_s))
            measures.append(Measure(f"{what}: of a total", total.frames, "frames", "causal", causal.frames))
    return measures


def _scenario(brokers: int, publishers: int, keys: int, guarantee: Guarantee, messages: int) -> Scenario:
    """Publishers are spread over the tree, from the root on; one alone is at the last broker."""
    clients = -(-MANY // brokers)
    count = brokers * clients
    places = [count - 1] if publishers == 1 else [at * count // publishers for at in range(publishers)]
    text = _TREE.format(
        brokers=brokers,
        clients=clients,
        writers=", ".join(f'"c{at}"' for at in places),
        keys=keys,
        operations=messages // publishers,
        guarantee=guarantee.label,
    )
    return parse_scenario(text, "<total rates>")


def _rate(played: Played) -> Rate:
    published, delivered = played.of(kinds.PUBLISH), played.of(kinds.DELIVER)
    took_us = max(row.time_us for row in delivered) - min(row.time_us for row in published)
    return Rate(len(published) * 1e6 / took_us, played.traffic.frames / len(published))


# -- processes ---------------------------------------------------------------------------------------------------------


async def _over_tcp(effort: Effort) -> list[Measure]:
    measures: list[Measure] = []
    for brokers in SIZES_OVER_TCP:
        for publishers in (1, MANY_OVER_TCP):
            for name, keys in KEYS.items():
                found = await _flood(effort, brokers, publishers, keys)
                total, causal = found[Guarantee.TOTAL.label], found[Guarantee.CAUSAL.label]
                what = f"{brokers} brokers over TCP, {publishers} publishers, {name}"
                measures.append(Measure(f"{what}: totals", _per_s(total), "1/s", "causal", _per_s(causal)))
                unit = "µs/message (less is better)"
                measures.append(Measure(f"{what}: CPU, all brokers", _cost(total), unit, "causal", _cost(causal)))
    return measures


async def _flood(effort: Effort, brokers: int, publishers: int, keys: int) -> dict[str, list[FloodResult]]:
    async def once(team: Team, count: int, per_turn: int) -> FloodResult:
        return await team.flood(Flood(_PAYLOAD, count, per_turn=per_turn))

    def rate(flooded: FloodResult) -> float:
        return flooded.messages_per_s

    teams = {guarantee.label: _team(brokers, publishers, guarantee, keys) for guarantee in _BOTH}
    return (await in_turns(effort, teams, (1,), once, suitable(rate, max(COUNT_MIN, EACH_LEAST * publishers))))[1]


_BOTH: Final = (Guarantee.TOTAL, Guarantee.CAUSAL)


def _team(brokers: int, publishers: int, guarantee: Guarantee, keys: int) -> Team:
    def worker(role: str, address: str) -> LoadProcess:
        return LoadProcess(f"the {role}", ours.command(role, address, guarantee, keys))

    return Team(OurChain(brokers, children=2), worker, 1, publishers)


def _per_s(rounds: list[FloodResult]) -> float:
    return statistics.median(each.messages_per_s for each in rounds)


def _cost(rounds: list[FloodResult]) -> float:
    return statistics.median(sum(us or 0.0 for us in each.brokers_us) for each in rounds)
