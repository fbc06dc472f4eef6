"""Runs of Ginger in the virtual world: the thesis' scenario, small trees, and what brokers logged."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.scenario.load import load_scenario
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    OptionValue,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)
from resprout.sim.run import FaultAtEvent, Run, RunResult
from resprout_lab.ginger import GINGER
from resprout_lab.ginger.broker import GingerBroker
from resprout_lab.ginger.state import State

SEED000 = "seed000"
CRASH_CASES = (("b1",), ("b0",), ("b1", "b4"), ("b0", "b1"), ("b1", "b2", "b3"))
"""The five of section 5.2; the second names broker 2 and describes the root."""
WORK_BEGINS_US = 1_000_000
"""By then every broker of a small tree has joined and every subscription is confirmed."""


class Played:
    """A run that is over."""

    def __init__(self, run: Run, result: RunResult, bank_initial: int | None, log: list[tuple[int, str, str]]) -> None:
        self.result = result
        self.log = log
        """(time, broker, line)."""
        self.verdict: Verdict = judge(result.rows, bank_initial, GINGER.promise())
        machines = ((name, node.process) for name, node in run.world.nodes.items())
        self.brokers: dict[str, GingerBroker] = {
            name: process.machine.machine  # type: ignore[attr-defined]
            for name, process in machines
            if process is not None and isinstance(getattr(process.machine, "machine", None), GingerBroker)
        }
        """Those that live, by name."""

    @property
    def anomalies(self) -> Counter[str]:
        """How many of each rule, those that the stack says of itself left out."""
        rules = Counter(anomaly.rule for anomaly in self.verdict.anomalies)
        return Counter({rule: count for rule, count in rules.items() if rule not in GINGER.known_anomalies})

    def parents(self) -> dict[str, str | None]:
        return {name: broker.state.parent for name, broker in self.brokers.items()}

    def check_tree(self) -> None:
        """One root, and everybody under it; the two ends of every link agree."""
        parents = self.parents()
        assert sum(parent is None for parent in parents.values()) == 1, parents
        for name in parents:
            way = [name]
            while (above := parents[way[-1]]) is not None:
                assert above in self.brokers, f"{way[-1]} hangs on {above}, which is dead"
                assert above not in way, f"a cycle: {way}"
                assert way[-1] in self.brokers[above].state.neighbors
                way.append(above)
            assert self.brokers[way[-1]].state.is_root

    def check_clean(self) -> None:
        assert not self.anomalies, [anomaly.explanation for anomaly in self.verdict.anomalies[:5]]
        assert self.result.ended == "quiescent"
        self.check_tree()
        for broker in self.brokers.values():
            assert not broker.totals.linear and not broker.reconfiguration.is_holding
            assert not any(neighbor.pool for neighbor in broker.state.neighbors.values())

    def lines(self, *brokers: str) -> list[str]:
        return [line for _, broker, line in self.log if broker in brokers]


@contextmanager
def logging() -> Iterator[list[tuple[int, str, str]]]:
    log: list[tuple[int, str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "log", lambda self, line: log.append((self.now_us, self.name, line)))
        yield log


def play(scenario: Scenario, at_events: Sequence[FaultAtEvent] = ()) -> Played:
    with logging() as log:
        run = Run(scenario, None, at_events)
        result = run.finish()
    return Played(run, result, scenario.bank_initial, log)


def seed000(corrected: str, *dead: str, operations: int = 150, at: str = "7s", changes: Sequence[str] = ()) -> Scenario:
    """The thesis' scenario, shortened; some brokers die."""
    work = [f"workload.{number}.operations={operations}" for number in (0, 1)]
    names = ", ".join(f'"{name}"' for name in dead)
    faults = [f'fault.0={{ at = "{at}", kind = "crash", nodes = [{names}] }}'] if dead else []
    return load_scenario(SEED000, [f'options.corrected="{corrected}"', "time_limit=300s", *work, *faults, *changes])


def small(
    parents: dict[str, str | None],
    homes: dict[str, str],
    *,
    topics: tuple[str, ...] = ("t",),
    reads: tuple[str, ...] = ("#",),
    mix: Mix | None = None,
    keys: int = 2,
    operations: int = 15,
    interval_us: int = 1_500,
    dead: Sequence[str] = (),
    seed: int = 1,
    latency_us: int = 1_000,
    **options: OptionValue,
) -> Scenario:
    """A tree by parents, clients by their brokers, and all of them publish."""
    brokers = [BrokerSpec(name, parent, latency_us + 37 * no) for no, (name, parent) in enumerate(parents.items())]
    clients = [ClientSpec(name, home, 100, tuple(map(SubscriptionSpec, reads))) for name, home in homes.items()]
    work = WorkloadSpec(
        "random",
        tuple(homes),
        topics,
        keys=keys,
        operations=operations,
        mix=mix or Mix(eventual=0.25, fifo=0.25, causal=0.25, total=0.25),
        interval_us=interval_us,
        payload=8,
        start_us=WORK_BEGINS_US,
        options=RandomOptions(keys_max=2, foreign_keys=0.0, attributes=False),
    )
    faults = (FaultSpec(WORK_BEGINS_US + 15_000, FaultKind.CRASH, nodes=tuple(dead)),) if dead else ()
    return Scenario(
        name="ginger",
        stack="ginger",
        seed=seed,
        brokers=tuple(brokers),
        clients=tuple(clients),
        workloads=(work,),
        faults=faults,
        time_limit_us=120_000_000,
        options=options,
    )
