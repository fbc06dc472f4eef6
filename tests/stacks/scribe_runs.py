"""Runs of Scribe on a ring in the virtual world, with a look inside: who holds and leads which topic."""

from collections.abc import Sequence

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import FaultAtEvent, Run, RunResult
from resprout_lab.scribe import SCRIBE
from resprout_lab.scribe.broker import ScribeBroker
from resprout_lab.scribe.held import HeldTopic
from resprout_lab.scribe.messages import name_of

WORK_US = 3_000_000
"""By then the ring stands and every subscription is confirmed."""


def ring(
    brokers: int = 5, *, operations: int = 30, seed: int = 1, topics: str = '"t"', subscribe: str = '"t"',
    options: str = "", mix: str = "eventual = 0.3, total = 0.7", more: str = "", interval: str = "20ms",
    latency: str = "2ms", clients: str = "",
) -> Scenario:  # fmt: skip
    """A client at each broker, which reads and publishes."""
    return parse_scenario(f"""
stack = "scribe"
seed = {seed}
time_limit = "200s"
[options]
{options}
[topology]
kind = "flat"
brokers = {brokers}
contacts = 2
latency = "{latency}"
subscribe = [{subscribe}]
{clients}
[[workload]]
kind = "random"
topics = [{topics}]
operations = {operations}
interval = "{interval}"
start = "3s"
keys = 3
mix = {{ {mix} }}
{more}
""")


def fault(at: str, kind: str, *names: str, host: bool = False) -> str:
    nodes = ", ".join(f'"{name}"' for name in names)
    return f'[[fault]]\nat = "{at}"\nkind = "{kind}"\nnodes = [{nodes}]\n' + ("host = true\n" if host else "")


class ScribePlayed:
    """A run that is over."""

    def __init__(self, run: Run, result: RunResult) -> None:
        self.result = result
        self.rows = result.rows
        self.verdict = judge(result.rows, promise=SCRIBE.promise())
        self.brokers: dict[str, ScribeBroker] = {}
        """Those that live, by name."""
        for name, node in run.world.nodes.items():
            machine = getattr(node.process.machine, "machine", None) if node.process is not None else None
            if isinstance(machine, ScribeBroker):
                self.brokers[name] = machine

    def broken(self) -> set[str]:
        """Rules of the judge, but for what the stack admits."""
        return {anomaly.rule for anomaly in self.verdict.anomalies} - set(SCRIBE.known_anomalies)

    def holding(self, topic: str) -> dict[str, HeldTopic]:
        """By name of the broker: those who hold it."""
        found = {name: broker.owners.held.get(topic) for name, broker in self.brokers.items()}
        return {name: held for name, held in found.items() if held is not None and held.is_member}

    def leader(self, topic: str) -> str:
        (leader,) = [name for name, held in self.holding(topic).items() if held.is_leading]
        return leader

    def delivered(self, client: str) -> list[tuple[str, str, int]]:
        return [
            (row.publisher or "", row.stream or "", row.seq or 0)
            for row in self.rows
            if row.kind == "deliver" and row.node == client
        ]

    def check_clean(self) -> None:
        """All that is promised is kept; each topic is held by whom it should be, who agree on its log."""
        assert self.result.ended == "quiescent"
        assert not self.broken(), "\n".join(lines(self.verdict))
        ring = sorted(self.brokers.values(), key=lambda broker: broker.sessions.ring.number)
        topics = dict.fromkeys(topic for broker in ring for topic in broker.owners.held)
        for topic in topics:
            (owner,) = [place for place, broker in enumerate(ring) if broker.owners.owns(topic)]
            holders = [ring[(owner + steps) % len(ring)].owners.me for steps in range(min(3, len(ring)))]
            holding = self.holding(topic)
            leader = holding[self.leader(topic)]
            assert sorted(leader.holders) == sorted(holders), f"{topic} is held by {leader.holders}"
            assert sorted(map(name_of, leader.holders)) == sorted(holding)


def play(scenario: Scenario, at_events: Sequence[FaultAtEvent] = ()) -> ScribePlayed:
    run = Run(scenario, None, at_events)
    return ScribePlayed(run, run.finish())
