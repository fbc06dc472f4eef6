"""A small tree in the simulator, what goes wrong in it, and what the brokers are like afterwards.

Brokers of this stage can be asked to accuse another one, whatever they hear from it: wrong suspicion on demand.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from unittest import mock

import msgspec

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.core.contract import Request
from resprout.edge.client.machine import ClientMachine
from resprout.links.links import Links
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import FaultAtEvent, Run, RunResult
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.stack import REPLACED, BrokerSeat, Stack
from resprout.trace.schema import Row
from resprout.trace.store import Recorder

MIX = "mix = { eventual = 0.2, fifo = 0.3, causal = 0.3, total = 0.2 }"
CHAIN: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b2", "b4": "b3"}
FORK: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b1", "b4": "b0"}


class Accuse(msgspec.Struct, frozen=True):
    """To a broker: treat this one as dead."""

    name: str


class Accuser(ResproutBroker):
    def _request(self, event: Request) -> None:
        if isinstance(event.body, Accuse):
            self.parts.council.suspect(event.body.name, self.life.now_us, force=True)
        else:
            super()._request(event)


Make = Callable[[BrokerSeat, ResproutOptions, random.Random], ResproutBroker]


def scenario(
    parents: dict[str, str | None],
    *,
    faults: int = 1,
    operations: int = 30,
    mix: str = MIX,
    clients_per_broker: int = 1,
    seed: int = 7,
    more: str = "",
    options: str = "",
) -> Scenario:
    """Every client subscribes to everything and publishes every 10 ms or so from 0.5 s on, for `operations` times."""
    lines = [
        f'stack = "resprout"\nseed = {seed}\ntime_limit = "200s"',
        f"[options]\nfaults_tolerated = {faults}\nghost_us = 6_000_000\n{options}",
    ]
    for number, (name, parent) in enumerate(parents.items()):
        above = "" if parent is None else f'parent = "{parent}"\n'
        lines.append(f'[[broker]]\nname = "{name}"\n{above}latency = "{3 + number}ms"')
        lines += [
            f'[[client]]\nname = "c{number}{letter}"\nbroker = "{name}"\nlatency = "2ms"\nsubscribe = ["a/#"]'
            for letter in "abcdef"[:clients_per_broker]
        ]
    lines.append(
        f'[[workload]]\nkind = "random"\ntopics = ["a/x", "a/y"]\nkeys = 3\noperations = {operations}\n{mix}\n'
        f'interval = "10ms"\nstart = "500ms"'
    )
    return parse_scenario("\n".join([*lines, more]))


class Watch(Recorder):
    """Remembers at which event of the run each row was recorded."""

    run: Run | None = None

    def __init__(self) -> None:
        super().__init__()
        self.events: list[int] = []

    def __bool__(self) -> bool:
        return True

    def record(self, row: Row) -> None:
        super().record(row)
        self.events.append(self.run.world.events if self.run is not None else 0)


class Played:
    """A run that is over."""

    def __init__(self, scene: Scenario, run: Run, watch: Watch, result: RunResult) -> None:
        self._scene = scene
        self._run = run
        self._watch = watch
        self.result = result
        self.rows = result.rows

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.rows)

    def broker(self, name: str) -> ResproutBroker:
        """As it is at the end."""
        process = self._run.world.nodes[name].process
        assert process is not None, f"{name} does not run"
        assert isinstance(process.machine, Links)
        machine = process.machine.machine
        assert isinstance(machine, ResproutBroker)
        return machine

    def runs(self, name: str) -> bool:
        return self._run.world.nodes[name].process is not None

    def incarnation(self, name: str) -> int:
        return self._run.world.nodes[name].incarnation

    def home(self, client: str) -> str:
        """Who serves a client at the end."""
        process = self._run.world.nodes[client].process
        assert process is not None and isinstance(process.machine, Links)
        machine = process.machine.machine
        assert isinstance(machine, ClientMachine)
        return machine.broker

    def notes(self, kind: str, node: str | None = None) -> list[Row]:
        return [row for row in self.rows if row.kind == kind and node in (None, row.node)]

    def event_of(self, wanted: Callable[[Row], bool]) -> int:
        """The number of the event in which the first such row was recorded."""
        return next(event for row, event in zip(self.rows, self._watch.events, strict=True) if wanted(row))

    def parents(self) -> dict[str, str | None]:
        """The tree as those who run see it."""
        nodes = self._run.world.nodes.values()
        names = [node.name for node in nodes if node.process is not None and self._is_broker(node.name)]
        return {name: self.broker(name).life.view.parent for name in names}

    def _is_broker(self, name: str) -> bool:
        return name in {broker.name for broker in self._scene.brokers} or name.startswith("b")


def at_event(event: int, kind: FaultKind, *nodes: str, host: bool = False) -> FaultAtEvent:
    return FaultAtEvent(event, FaultSpec(0, kind, nodes=nodes, host=host))


def crash(event: int, *nodes: str, host: bool = False) -> FaultAtEvent:
    return at_event(event, FaultKind.CRASH, *nodes, host=host)


def play(
    scene: Scenario,
    at_events: Sequence[FaultAtEvent] = (),
    accusations: Sequence[tuple[int, str, str]] = (),
    make: Make = Accuser,
    is_checked: bool = True,
) -> Played:
    """`accusations`: (event, who accuses, whom). `is_checked`: whether brokers keep the invariants (`sim.checking`);
    those that are broken on purpose do not."""
    with brokers_of(make):
        watch = Watch()
        run = Run(scene, watch, at_events, None if is_checked else 0)
        watch.run = run
        for event, name, accused in accusations:
            run.world.at_event(event, partial(_ask, run, name, accused))
        if accusations and not at_events:
            run.world.settle_us = 20_000_000  # as if there were a fault: nobody knows yet that it was no crash
        return Played(scene, run, watch, run.finish())


def _ask(run: Run, name: str, accused: str) -> None:
    process = run.world.nodes[name].process
    assert process is not None
    run.world.request(process, Accuse(accused))


@contextmanager
def brokers_of(make: Make) -> Iterator[None]:
    """The default stack is one of these brokers."""
    stack = Stack("resprout", RESPROUT.guarantees, ResproutOptions, RESPROUT.messages, make)
    with mock.patch.dict(REPLACED, {"resprout": stack}):
        yield


def check_sound(played: Played) -> None:
    """Everybody came to rest, nobody was wronged, and the living form one tree without anything left to repair."""
    assert played.result.ended == "quiescent"
    verdict = played.verdict
    assert verdict.anomalies == [], verdict.anomalies[:3]
    assert verdict.counts["deliveries"] > 0
    check_tree(played)
    check_forgotten(played)


def check_tree(played: Played) -> None:
    parents = played.parents()
    roots = [name for name, parent in parents.items() if parent is None]
    assert len(roots) == 1, parents
    for name, parent in parents.items():
        assert parent is None or parent in parents, f"{name} hangs under {parent}, who is gone"
        neighbours = {other for other, above in parents.items() if above == name} | ({parent} - {None})
        view = played.broker(name).life.view
        assert set(view.neighbours) == neighbours and all(view.neighbours.values())
        assert view.configuration.root == roots[0]


def check_forgotten(played: Played) -> None:
    """Nothing is kept for anybody once everything is delivered."""
    for name in played.parents():
        parts = played.broker(name).parts
        assert parts.log.entries == {} and not parts.log.held_back, (
            f"{name} keeps {list(parts.log.entries.values())[:5]}"
        )
        assert parts.log.bytes_held == parts.log.local_bytes == 0
        assert not parts.pressure.holding
        assert len(parts.total_acks) == 0 and parts.totals.pending == 0
        for link in parts.links.values():
            assert link.held_bytes == 0 and link.cursor is None
            assert not link.sent.entries and not link.arrived.entries


def receipts(played: Played, receipt: str) -> dict[tuple[str | None, str | None, int | None], int]:
    """Publications -> when they got this receipt."""
    return {
        (row.publisher, row.stream, row.seq): row.time_us
        for row in played.rows
        if row.kind == "receipt" and row.receipt == receipt
    }


def publications(played: Played) -> list[Row]:
    return [row for row in played.rows if row.kind == "publish"]


_PLAYED: dict[str, Played] = {}


def once(scene: Scenario, *faults: FaultAtEvent) -> Played:
    """A run that several tests begin with."""
    key = repr((scene, faults))
    if key not in _PLAYED:
        _PLAYED[key] = play(scene, faults)
    return _PLAYED[key]


def middle(scene: Scenario, time_us: int = 620_000) -> int:
    """An event in the middle of the traffic."""
    return once(scene).event_of(lambda row: row.kind == "publish" and row.time_us > time_us)


def check_all_receipts(played: Played, publisher: str | None = None) -> None:
    """Every publication that was made is in the end delivered, and its publisher was told so."""
    told = receipts(played, "delivered")
    for row in publications(played):
        if publisher in (None, row.publisher):
            assert (row.publisher, row.stream, row.seq) in told, row
