"""Runs of Ginger in the virtual world, with a look inside: what its brokers said, and how its tree ended."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Anomaly, Verdict
from resprout.core.contract import Effect, Event, Hold, Send
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
)  # fmt: skip
from resprout.sim.run import FaultAtEvent, Run, RunResult
from resprout_lab.ginger.broker import GingerBroker

WORK_BEGINS_US = 1_000_000
"""By then every broker has joined and every subscription is confirmed."""

EXCUSED = frozenset(("barrier", "bank_balance", "bank_outcome", "bank_replay"))
"""G13, and what it does to a bank's books."""

ALL_FOUR = Mix(eventual=0.25, fifo=0.25, causal=0.25, total=0.25)


class Played:
    """A run that is over."""

    def __init__(self, run: Run, result: RunResult, said: list[tuple[str, str, Any]], held: list[str]) -> None:
        self.result = result
        self.said = said
        """(broker, peer, message), in the order it was sent."""
        self.held = held
        """Brokers that pushed somebody back."""
        self.verdict: Verdict = judge(result.rows)
        machines = ((name, node.process) for name, node in run.world.nodes.items())
        self.brokers: dict[str, GingerBroker] = {
            name: process.machine.machine  # type: ignore[attr-defined]
            for name, process in machines
            if process is not None and isinstance(getattr(process.machine, "machine", None), GingerBroker)
        }
        """Those that live, by name."""

    @property
    def anomalies(self) -> list[Anomaly]:
        """All that is not excused."""
        return [anomaly for anomaly in self.verdict.anomalies if anomaly.rule not in EXCUSED]

    def parents(self) -> dict[str, str | None]:
        return {name: b.core.parent.name if b.core.parent else None for name, b in self.brokers.items()}

    def degrees(self) -> dict[str, int]:
        return {name: len(broker.core.links) for name, broker in self.brokers.items()}

    def messages(self, kind: type) -> list[Any]:
        return [message for _, _, message in self.said if isinstance(message, kind)]

    def check_tree(self) -> None:
        """One root, and everybody under it; the two ends of every link agree."""
        parents = self.parents()
        assert sum(parent is None for parent in parents.values()) == 1, parents
        for name in parents:
            way = [name]
            while (above := parents[way[-1]]) is not None:
                assert above in self.brokers, f"{way[-1]} hangs on {above}, which is dead"
                assert above not in way, f"a cycle: {way}"
                assert way[-1] in self.brokers[above].core.links
                way.append(above)
            assert self.brokers[way[-1]].core.is_root

    def check_clean(self) -> None:
        """Everything but the barrier is kept, the tree is one, and nothing is left over."""
        assert self.result.ended == "quiescent"
        assert not self.anomalies, [anomaly.explanation for anomaly in self.anomalies[:5]]
        self.check_tree()
        for broker in self.brokers.values():
            core = broker.core
            assert not core.log and not core.held_back and not broker.totals.in_progress and not broker.totals.requested
            assert not any(
                link.sent.entries or link.received.entries or core.outbox.waiting(link.name)
                for link in core.links.values()
            )


@contextmanager
def listening() -> Iterator[tuple[list[tuple[str, str, Any]], list[str]]]:
    said: list[tuple[str, str, Any]] = []
    held: list[str] = []
    step = GingerBroker.step

    def overheard(self: GingerBroker, event: Event, now_us: int) -> Sequence[Effect]:
        effects = step(self, event, now_us)
        for effect in effects:
            if isinstance(effect, Send):
                said.append((self.seat.name, effect.peer, effect.message))
            elif isinstance(effect, Hold):
                held.append(self.seat.name)
        return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GingerBroker, "step", overheard)
        yield said, held


def play(scenario: Scenario, at_events: Sequence[FaultAtEvent] = ()) -> Played:
    with listening() as (said, held):
        run = Run(scenario, None, at_events)
        result = run.finish()
    return Played(run, result, said, held)


def crash_points(scenario: Scenario, victim: str, count: int, *, host: bool = False) -> list[FaultAtEvent]:
    """Moments to let a broker crash, evenly spread over the time in which clients publish."""
    calm = Run(scenario, None, ())
    begun: list[int] = []
    calm.world.at(WORK_BEGINS_US, lambda *_: begun.append(calm.world.events))
    calm.finish()
    first, last = begun[0], calm.world.events
    fault = FaultSpec(0, FaultKind.CRASH, nodes=(victim,), host=host)
    step = max(1, (last - first) // count)
    return [FaultAtEvent(event, fault) for event in range(first, last, step)]


def crash(at_us: int, *names: str) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.CRASH, nodes=names)


def tree(parents: dict[str, str | None], latency_us: int = 1_000) -> tuple[BrokerSpec, ...]:
    """Latencies differ a little, so that not everything happens in the same instant."""
    return tuple(BrokerSpec(name, parent, latency_us + 37 * no) for no, (name, parent) in enumerate(parents.items()))


def clients(homes: dict[str, str], *filters: str) -> tuple[ClientSpec, ...]:
    return tuple(ClientSpec(name, home, 100, tuple(map(SubscriptionSpec, filters))) for name, home in homes.items())


def work(
    names: Sequence[str],
    *topics: str,
    mix: Mix = ALL_FOUR,
    keys: int = 2,
    operations: int = 15,
    interval_us: int = 1_500,
    keys_max: int = 2,
    foreign_keys: float = 0.0,
) -> WorkloadSpec:
    return WorkloadSpec(
        "random",
        tuple(names),
        topics,
        keys=keys,
        operations=operations,
        mix=mix,
        interval_us=interval_us,
        payload=8,
        start_us=WORK_BEGINS_US,
        options=RandomOptions(keys_max=keys_max, foreign_keys=foreign_keys, attributes=False),
    )


def scenario(
    brokers: tuple[BrokerSpec, ...],
    clients: tuple[ClientSpec, ...],
    *workloads: WorkloadSpec,
    faults: tuple[FaultSpec, ...] = (),
    seed: int = 1,
    time_limit_us: int = 120_000_000,
    **options: OptionValue,
) -> Scenario:
    return Scenario(
        name="ginger",
        stack="ginger",
        seed=seed,
        brokers=brokers,
        clients=clients,
        workloads=workloads,
        faults=faults,
        time_limit_us=time_limit_us,
        options=options,
    )


def notes(played: Played, kind: str) -> list[tuple[str, str | None]]:
    return [(row.node, row.detail) for row in played.result.rows if row.kind == kind]
