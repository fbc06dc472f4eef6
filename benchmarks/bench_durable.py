"""Publications that outlive a crash, next to streams on disk, with the same flush policy: one at a time, and many
under way, which share a flush.

Ours is `safe` with `durable = "journal"`: with f = 0 on the disk of one broker, with f = 1 on those of two. Redis keeps
a stream in its append-only file. JetStream has no policy that flushes each message (before 2.11), so it stands beside
`interval` only, and flushes every two minutes where ours does every 100 ms and Redis every second.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.measure import Measure
from benchmarks.net import rows
from benchmarks.net.environment import BENCH_PYTHON, find_server
from benchmarks.net.in_turns import FULL, QUICK, Effort, in_turns, suitable
from benchmarks.net.peers import OURS, Peer, left_out
from benchmarks.net.works import IN_FLIGHT, SETTLE_SIZE
from resprout.cli.load import ours
from resprout.cli.load.team import LoadProcess, Team
from resprout.cli.load.worker import Settle
from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, Scenario

POLICIES: Final = {"always": "always", "interval": "everysec"}
"""Ours, and what Redis calls it."""
TWO_COPIES: Final = f"{OURS}, two copies"


class DurableChain:
    """`Brokers` for a team: as many as there are copies, each with a journal."""

    def __init__(self, copies: int, flush: str) -> None:
        self._brokers = tuple(BrokerSpec(f"b{at}", f"b{at - 1}" if at else None) for at in range(copies))
        self._flush = flush
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._tree: LocalTree | None = None
        self.first = self.last = ""
        self.pids: Sequence[int] = ()

    async def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="resprout-bench-")
        options: dict[str, str | int] = {"durable": "journal", "faults_tolerated": len(self._brokers) - 1}
        scenario = Scenario(name="a chain with disks", brokers=self._brokers, options=options)
        self._tree = LocalTree(scenario, data=Path(self._folder.name), journal={"flush": self._flush})
        await self._tree.start()
        processes = list(self._tree.processes)
        self.first, self.last = str(processes[0].address), str(processes[-1].address)
        self.pids = [process.pid for process in processes]

    async def stop(self) -> None:
        if self._tree is not None:
            await self._tree.stop()
        if self._folder is not None:
            self._folder.cleanup()


def run(quick: bool = False) -> list[Measure]:
    return asyncio.run(_run(QUICK if quick else FULL))


async def _run(effort: Effort) -> list[Measure]:
    measures: list[Measure] = []
    for flush in POLICIES:
        found = await _settle(effort, flush)
        for in_flight, rounds in found.items():
            rates = {who: statistics.median(each) for who, each in rounds.items()}
            others = [who for who in rates if who not in (OURS, TWO_COPIES)] or [TWO_COPIES]
            under_way = "one at a time" if in_flight == 1 else f"{in_flight} in flight"
            for who in (OURS, TWO_COPIES):
                name = f"{'two copies' if who == TWO_COPIES else 'one copy'}, flush {flush}, {under_way}"
                measures += [Measure(name, rates[who], "messages/s", other, rates[other]) for other in others]
    return measures


async def _settle(effort: Effort, flush: str) -> dict[int, dict[str, list[float]]]:
    teams = {OURS: _our_team(1, flush), TWO_COPIES: _our_team(2, flush), **_others(flush)}

    async def once(team: Team, count: int, in_flight: int) -> float:
        return await team.settle(Settle(SETTLE_SIZE, count, in_flight))

    return await in_turns(effort, teams, (1, IN_FLIGHT), once, suitable(lambda rate: rate))


def _our_team(copies: int, flush: str) -> Team:
    """With a subscriber behind the last broker."""

    def worker(role: str, address: str) -> LoadProcess:
        return LoadProcess(f"{OURS}, the {role}", ours.command(role, address))

    return Team(DurableChain(copies, flush), worker, 1)


def _others(flush: str) -> dict[str, Team]:
    """Those that are here; a line on standard error for each that is not."""
    if not BENCH_PYTHON.exists():
        left_out("everybody else", "there is no environment .venv-bench (`make bench` makes it)")
        return {}
    peers = []
    if found := find_server("redis-server"):
        peers.append(Peer("redis", "redis_client", rows.redis(found, POLICIES[flush])))
    else:
        left_out("redis-server", "it is not installed")
    if flush == "interval" and (found := find_server("nats-server")):
        peers.append(Peer("jetstream", "nats_client", rows.nats(found)))
    return {peer.name: peer.team(1, 0, settle="file") for peer in peers}
