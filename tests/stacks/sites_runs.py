"""Runs of a tree of sites in the virtual world, with a look inside: what its brokers said, and how each site ended."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.core.contract import Effect, Event, Send
from resprout.replicas.proposer import Proposer
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
from resprout.stacks.stack import BrokerSeat, RosterEntry
from resprout_lab.sites import SITES
from resprout_lab.sites.broker import SitesBroker
from resprout_lab.sites.commands import SiteConfig
from resprout_lab.sites.membership import read_config
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import SiteState

WORK_BEGINS_US = 1_000_000
"""By then every site has formed and every subscription is confirmed."""

ALL_FOUR = Mix(eventual=0.25, fifo=0.25, causal=0.25, total=0.25)
ROW: Mapping[str, str | None] = {"s0": None, "s1": "s0", "s2": "s1"}
STAR: Mapping[str, str | None] = {"s0": None, "s1": "s0", "s2": "s0"}


class Played:
    """A run that is over."""

    def __init__(self, run: Run, result: RunResult, said: list[tuple[str, str, Any]]) -> None:
        self.result = result
        self.rows = result.rows
        self.said = said
        """(broker, peer, message), in the order it was sent."""
        self.verdict = judge(result.rows, promise=SITES.promise())
        self.brokers: dict[str, SitesBroker] = {}
        """Those that live, by name."""
        for name, node in run.world.nodes.items():
            machine = getattr(node.process.machine, "machine", None) if node.process is not None else None
            if isinstance(machine, SitesBroker):
                self.brokers[name] = machine

    def state(self, name: str) -> SiteState:
        return self.brokers[name].agreement.state

    def messages(self, kind: type) -> list[Any]:
        return [message for _, _, message in self.said if isinstance(message, kind)]

    def broken(self) -> set[str]:
        """Rules of the judge."""
        return {anomaly.rule for anomaly in self.verdict.anomalies}

    def delivered(self, client: str) -> list[tuple[str, str, int]]:
        return [
            (row.publisher or "", row.stream or "", row.seq or 0)
            for row in self.rows
            if row.kind == "deliver" and row.node == client
        ]

    def leaders(self, site: str) -> list[str]:
        """In the order in which they came."""
        notes = [row.detail or "" for row in self.rows if row.kind == "leader"]
        return [note.split()[0] for note in notes if f"the site {site} " in note]

    def check_clean(self) -> None:
        """All that is promised is kept, and the brokers of each site hold the same state."""
        assert self.result.ended == "quiescent"
        assert not self.verdict.anomalies, "\n".join(lines(self.verdict))
        sites: dict[str, dict[str, Any]] = {}
        for name, broker in self.brokers.items():
            state = broker.agreement.state
            held = (state.position, state.next_tseq, state.marks, state.leader, state.floors, state.wishes.holders)
            sites.setdefault(broker.site, {})[name] = held
        for site, states in sites.items():
            first, *others = states.values()
            assert all(other == first for other in others), f"the brokers of {site} differ"


def sites(parents: Mapping[str, str | None] = ROW, near_us: int = 500) -> tuple[BrokerSpec, ...]:
    """Three brokers each: `s0a`, `s0b`, `s0c`, ...; those of a site are so near to each other."""
    brokers: list[BrokerSpec] = []
    for site, parent in parents.items():
        first = f"{site}a"
        brokers.append(BrokerSpec(first, parent and f"{parent}a", 2_000, site=site))
        brokers += [BrokerSpec(f"{site}{letter}", first, near_us, site=site) for letter in "bc"]
    return tuple(brokers)


def config_of(brokers: Sequence[BrokerSpec], name: str) -> SiteConfig:
    roster = tuple([RosterEntry(one.name, one.site or "", one.parent) for one in brokers])
    return read_config(BrokerSeat(name, 1, None, roster=roster), SitesOptions())


def clients(homes: Mapping[str, str], *topics: str) -> tuple[ClientSpec, ...]:
    """All of them read these topics."""
    wanted = tuple(SubscriptionSpec(topic) for topic in topics)
    return tuple(ClientSpec(name, home, subscriptions=wanted) for name, home in homes.items())


def work(
    names: Sequence[str], *topics: str, operations: int = 40, mix: Mix = ALL_FOUR, interval_us: int = 5_000
) -> WorkloadSpec:
    return WorkloadSpec(
        "random", tuple(names), topics, keys=4, operations=operations, mix=mix, interval_us=interval_us,
        start_us=WORK_BEGINS_US, options=RandomOptions(),
    )  # fmt: skip


def scenario(
    brokers: Sequence[BrokerSpec],
    readers: Sequence[ClientSpec],
    *workloads: WorkloadSpec,
    faults: Sequence[FaultSpec] = (),
    seed: int = 1,
    **options: OptionValue,
) -> Scenario:
    return Scenario(
        "sites", tuple(brokers), "sites", seed, 120_000_000, options, tuple(readers), tuple(workloads), tuple(faults)
    )


def crash(at_us: int, *names: str, host: bool = False) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.CRASH, names, host=host)


def recover(at_us: int, *names: str) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.RECOVER, names, disk=False)


def freeze(at_us: int, until_us: int, name: str) -> tuple[FaultSpec, FaultSpec]:
    return FaultSpec(at_us, FaultKind.FREEZE, (name,)), FaultSpec(until_us, FaultKind.UNFREEZE, (name,))


@contextmanager
def overhearing() -> Iterator[list[tuple[str, str, Any]]]:
    """What brokers say meanwhile."""
    said: list[tuple[str, str, Any]] = []
    step = SitesBroker.step

    def overheard(self: SitesBroker, event: Event, now_us: int) -> Sequence[Effect]:
        effects = step(self, event, now_us)
        said.extend((self.name, effect.peer, effect.message) for effect in effects if isinstance(effect, Send))
        return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SitesBroker, "step", overheard)
        yield said


def play(played: Scenario, at_events: Sequence[FaultAtEvent] = ()) -> Played:
    with overhearing() as said:
        run = Run(played, None, at_events)
        result = run.finish()
    return Played(run, result, said)


def decide_alone(patch: pytest.MonkeyPatch) -> None:
    """A leader that waits for nobody: what it proposes it takes for decided."""

    def decided(self: Proposer) -> int:
        upto = self._ledger.chosen
        while upto + 1 in self.under_way:
            upto += 1
        return upto

    patch.setattr(Proposer, "decided", decided)
