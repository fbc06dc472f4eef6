"""Runs a scenario in the virtual world: same scenario, same trace, to the last byte.

A `Trial` is a scenario with faults at events, which a swarm draws. A run is the same up to its first new fault, so a
run without it (`rehearse`) tells what happens when, and at which events it can strike.

`FaultModel` follows what the stack says that it survives (`stacks.stack`). A broker is down, too, while it is
frozen, cut off or leaving, until the network has grown together without it. In a tree whose dead and leaders are
decided by a majority of the root's list, the 2f + 1 brokers nearest to the root, fewer than f may fall silent where
there are fewer brokers than that. Processes that crash are another matter: their hosts say that they are gone, and a
voter that is certainly gone has no vote.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import combinations
from random import Random
from typing import ClassVar

import msgspec

from resprout.core.contract import Note
from resprout.edge.requests import DRAIN_US, LeaveRequest
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Scenario
from resprout.scenario.observe import note_row
from resprout.scenario.observe_logs import declared_rows
from resprout.sim.cast import Cast
from resprout.sim.checking import CHECKED_STACK, PERIOD, Checking, broker_of
from resprout.sim.clients import TRACE_KINDS
from resprout.sim.faults import VirtualFaults
from resprout.sim.invariants import InvariantError
from resprout.sim.nodes import Process
from resprout.sim.world import Ended, World
from resprout.stacks.stack import Survival, find_stack
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.trace.store import Recorder

WORLD = "world"
"""Stands as the node of rows that no node observed."""


class RunStats(msgspec.Struct, frozen=True):
    time_us: int
    """Virtual time at the end."""
    events: int
    """What happened in the world, for comparing runs and for faults at an event."""
    nodes: int


class RunResult(msgspec.Struct, frozen=True):
    recorder: Recorder
    ended: Ended
    stats: RunStats
    traffic: dict[str, int]
    """Totals over all nodes, in the words of `load` rows; `frames_compared`: how many were really encoded."""

    @property
    def rows(self) -> list[Row]:
        return self.recorder.rows

    @property
    def digest(self) -> str:
        """Taken when somebody asks: nobody does after a rehearsal."""
        return self.recorder.digest


class FaultAtEvent(msgspec.Struct, frozen=True):
    """A fault right after an event, by its number in the run; the time of the fault is not looked at."""

    event: int
    fault: FaultSpec


NODE_FAULTS: dict[FaultKind, Callable[[VirtualFaults, str, FaultSpec], object]] = {
    FaultKind.CRASH: lambda faults, name, fault: faults.crash(name, fault.host),
    FaultKind.RECOVER: lambda faults, name, fault: faults.recover(name, fault.disk, fault.first, fault.found),
    FaultKind.FREEZE: lambda faults, name, fault: faults.freeze(name),
    FaultKind.UNFREEZE: lambda faults, name, fault: faults.unfreeze(name),
    FaultKind.SUSPEND: lambda faults, name, fault: faults.suspend(name),
    FaultKind.RESUME: lambda faults, name, fault: faults.resume(name),
    FaultKind.LEAP: lambda faults, name, fault: faults.leap(name, fault.by_us),
    FaultKind.HANG: lambda faults, name, fault: faults.hang(name),
    FaultKind.UNHANG: lambda faults, name, fault: faults.unhang(name),
    FaultKind.DISK_LOW: lambda faults, name, fault: faults.disk(name, fault.kind),
    FaultKind.DISK_FULL: lambda faults, name, fault: faults.disk(name, fault.kind),
    FaultKind.DISK_FREE: lambda faults, name, fault: faults.disk(name, fault.kind),
    FaultKind.UNRESOLVE: lambda faults, name, fault: faults.name(name, False),
    FaultKind.RESOLVE: lambda faults, name, fault: faults.name(name, True),
}
"""Faults that strike one node at a time."""


class Run:
    """One run of a scenario; `finish` ends it."""

    check_period: ClassVar[int] = 0
    """For runs that do not say how often brokers are checked (`sim.checking`); 0: never. Tests set it."""

    def __init__(
        self,
        scenario: Scenario,
        recorder: Recorder | None,
        at_events: Sequence[FaultAtEvent],
        check_period: int | None = None,
    ) -> None:
        """`check_period`: how often the invariants of each broker are checked, in its steps; None: `Run.check_period`.
        A broker that breaks one ends the run with an `InvariantError`."""
        self._scenario = scenario
        self._at_events = at_events
        self._recorder = recorder if recorder is not None else Recorder()
        # Without faults nobody waits for anything that is not pending, and a calm run is over.
        faults = [*scenario.faults, *[late.fault for late in at_events]]
        has_doubles = any(fault.kind is FaultKind.DOUBLE for fault in faults)
        self._cast = Cast(scenario, self._recorder.record, self._note, bool(faults), has_doubles)
        self.world = self._cast.world
        self.logs = self._cast.logs
        self._repeating = {client.name for client in scenario.clients if client.repeats}
        self._faults = VirtualFaults(self.world, self._tell)
        period = self.check_period if check_period is None else check_period
        self._checking = Checking(self.world, period) if period and scenario.stack == CHECKED_STACK else None

    def finish(self) -> RunResult:
        for row in declared_rows(0, WORLD, self._scenario.logs):
            self._recorder.record(row)
        for fault in self._scenario.faults:
            self.world.at(fault.at_us, self._strike, fault)
        for late in self._at_events:
            self.world.at_event(late.event, partial(self._strike, late.fault, None))
        self._cast.start()
        ended = self.world.run(self._scenario.time_limit_us)
        if self._checking is not None:
            self._checking.check_all()
        for mqtt in self._cast.mqtt.values():
            mqtt.end()
        for row in self.logs.rows() if self._cast.counts is None else ():
            self._recorder.record(row)
        for node in self.world.nodes.values():
            if node.inside is not None:
                continue
            node.stop_sending(self.world.now_us)
            self._recorder.record(node.load.row(self.world.now_us, node.name))
        if self._cast.counts is not None:
            for row in self._cast.counts.rows(self.world.now_us, WORLD):
                self._recorder.record(row)
        self._tell(ended, WORLD, None)
        stats = RunStats(self.world.now_us, self.world.events, len(self.world.nodes))
        return RunResult(self._recorder, ended, stats, self._traffic())

    def _traffic(self) -> dict[str, int]:
        """Of all nodes, as far as it is known."""
        total: Counter[str] = Counter()
        for node in self.world.nodes.values():
            total.update(node.load.counts())
        if self._cast.scales is not None:
            total["frames_compared"] = self._cast.scales.compared
        return dict(total)

    def _strike(self, fault: FaultSpec, _: None) -> None:
        """Apply a fault: to each of its nodes or links, or to the whole network."""
        faults = self._faults
        if (apply := NODE_FAULTS.get(fault.kind)) is not None:
            for name in fault.nodes:
                apply(faults, name, fault)
            return
        match fault.kind:
            case FaultKind.CUT:
                for one, other in fault.links:
                    faults.cut(one, other)
            case FaultKind.HEAL if fault.links:
                for one, other in fault.links:
                    faults.heal(one, other)
            case FaultKind.HEAL:
                faults.heal_all()
            case FaultKind.PARTITION:
                faults.partition(self._scenario.side(fault))
            case FaultKind.JOIN:
                for broker in self._scenario.joining(fault):
                    faults.join(broker.name, partial(self._cast.seat, broker))
            case FaultKind.DOUBLE:
                for name in fault.nodes:
                    faults.double(self._cast.seat_double(name, fault), name)
            case FaultKind.LEAVE:
                for name in fault.nodes:
                    is_broker = self._cast.is_broker(name)
                    faults.leave(name, LeaveRequest(DRAIN_US if is_broker else 0), retires=is_broker)
            case FaultKind.RESTART:
                faults.restart(fault.nodes, LeaveRequest(DRAIN_US))

    def _tell(self, kind: str, node: str, detail: str | None) -> None:
        if node in self._repeating and kind in TRACE_KINDS:
            kind, detail = TRACE_KINDS[kind], f"{kind} of a process that the next one repeats"
        self._recorder.record(Row(time_us=self.world.now_us, node=node, kind=kind, detail=detail))

    def _note(self, process: Process, note: Note) -> None:
        self._recorder.record(note_row(self.world.now_us, process.name, note.kind, note.columns))
        if note.kind == "joined":
            placed = partial(self._faults.placed, process.name)
            if (mqtt := self._cast.mqtt.get(process.name)) is not None:
                mqtt.when_serving(placed)
            else:
                placed()


def run_scenario(
    scenario: Scenario, recorder: Recorder | None = None, at_events: Sequence[FaultAtEvent] = ()
) -> RunResult:
    """Runs it to quiescence or to its time limit. Rows go to the recorder, in memory unless one is given.

    UsageError when the stack or one of its options does not exist.
    """
    return Run(scenario, recorder, at_events).finish()


ATTEMPTS = 6
"""To find one more broker that may fall together with others."""

WAVES_US = 1_500_000
"""After a broker has its place, those around it hear of it and of each other."""
LOOK_US = 50_000
"""How often a run without faults is looked at to see whether its voters are decided."""
REST_US = 3_000_000
"""After a repair; the lists of who follows the root are brought up to date meanwhile."""

EVENTS_MAX = 400_000
"""A hundred times what is usual for what swarms draw: no run has reason for so many within `EVENTS_US`. One that takes
longer may have: where a round trip takes seconds, little crosses in each, and the heartbeats of a dozen brokers and
their clients are some 300 events per second. Such a run ends at its time limit."""
EVENTS_US = 300_000_000

_RESTLESS = frozenset((kinds.REPAIR_BEGIN, kinds.REPAIR_END, "joined", "fenced", "moved", *FaultKind))
_OF_CLIENTS = frozenset((FaultKind.FREEZE, FaultKind.UNFREEZE))
"""What clients undergo as well, and the tree need not care for."""
_BUSY = frozenset((kinds.PUBLISH, kinds.DELIVER, kinds.RECEIPT, kinds.SUBSCRIBED, kinds.UNSUBSCRIBED))


def survival_of(scenario: Scenario) -> Survival:
    """What the scenario's stack survives with its options."""
    stack = find_stack(scenario.stack)
    return stack.survives(stack.parse_options(scenario.options))


class FaultModel:
    def __init__(self, brokers: Sequence[BrokerSpec], survival: Survival) -> None:
        self.survival = survival
        self.faults = faults = survival.faults
        self.names = tuple(broker.name for broker in brokers)
        self.root = next(broker.name for broker in brokers if broker.parent is None)
        self.parents = {broker.name: broker.parent for broker in brokers}
        self._site_of = {broker.name: broker.site for broker in brokers}
        self._ways = {name: _ways_up(name, self.parents) for name in self.names}
        by_depth = sorted(self.names, key=lambda name: len(self._ways[name]))
        last = by_depth[: 2 * faults + 1][-1]
        self._list = [name for name in by_depth if len(self._ways[name]) <= len(self._ways[last])]
        """Everybody who may be on the root's list; among equally distant ones it is anyone's guess."""

    def neighbours(self, name: str) -> list[str]:
        return [other for other in self.names if self.parents[other] == name or other == self.parents[name]]

    def path(self, one: str, other: str) -> list[str]:
        """From one to the other, both included."""
        up, down = self._ways[one], self._ways[other]
        meeting = next(name for name in up if name in down)
        return up[: up.index(meeting) + 1] + down[: down.index(meeting)][::-1]

    def bears(self, victims: Collection[str]) -> bool:
        """May all these be down at once, and say nothing?"""
        falling = sum(name in victims for name in self._list)
        left = not self.survival.majority or majority_left(len(self.names), falling, self.faults)
        return left and self.bears_crashes(victims)

    def bears_crashes(self, victims: Collection[str]) -> bool:
        """May the processes of all these crash at once?"""
        if victims and len(self.names) < self.survival.least:
            return False
        if self.survival.each_site:
            return max(Counter(self._site_of[name] for name in victims).values(), default=0) <= self.faults
        span = self.survival.span
        if span is None:
            return len(victims) <= self.faults
        paths = (self.path(one, other) for one, other in combinations(victims, 2))
        return all(sum(name in victims for name in path) <= self.faults for path in paths if len(path) <= span)

    def draw_victims(self, rng: Random) -> list[str]:
        """Some that may fall at once, the first of them the root more often than by chance; the others near or far."""
        victims = [self.root if rng.random() < 0.25 else rng.choice(self.names)]
        for _ in range(rng.choice((0, self.faults - 1, self.faults, ATTEMPTS))):
            near = self.neighbours(rng.choice(victims)) if rng.random() < 0.6 else []
            name = rng.choice(near or self.names)
            if name not in victims and self.bears([*victims, name]):
                victims.append(name)
        return victims if self.bears(victims) else []

    def draw_again(self, rng: Random, living: Sequence[str]) -> list[str]:
        """Some that may fall when the repair of those before is complete, by sites: the dead count as long as they are
        dead."""
        dead = [name for name in self.names if name not in living]
        victims: list[str] = []
        for name in rng.sample(living, min(len(living), ATTEMPTS)):
            if self.bears_crashes([*dead, *victims, name]):
                victims.append(name)
        return victims[: rng.randint(1, ATTEMPTS)]

    def draw_crashes(self, rng: Random, living: Sequence[str]) -> list[str]:
        """Up to f whose processes may crash at once; the majority of the root's list may be among them."""
        victims: list[str] = []
        if len(living) < self.survival.least:
            return victims
        for name in rng.sample(living, min(len(living) - 1, self.faults)):
            if self.bears_crashes([*victims, name]):
                victims.append(name)
        return victims

    def draw_piece(self, rng: Random) -> list[str]:
        """More than f brokers that hang together: nobody can take them for crashed."""
        piece = [rng.choice(self.names)]
        size = rng.randint(self.faults + 1, len(self.names) - 1)
        while len(piece) < size:
            around = [name for inside in piece for name in self.neighbours(inside) if name not in piece]
            piece.append(rng.choice(around))
        return piece


def majority_left(living: int, falling: int, faults: int) -> bool:
    """Of a list of the root that is as long as it can be, when these fall."""
    voters = min(living, 2 * faults + 1)
    return falling <= voters - (voters // 2 + 1)


def _ways_up(name: str, parents: Mapping[str, str | None]) -> list[str]:
    way = [name]
    while (parent := parents[way[-1]]) is not None:
        way.append(parent)
    return way


class EndlessError(Exception):
    """A run of a swarm does more than it can have reason to."""


class Trial(msgspec.Struct, frozen=True):
    scenario: Scenario
    at_events: tuple[FaultAtEvent, ...] = ()
    """In the order in which they strike. The time in each is that of its event as far as it is known beforehand: good
    enough to read, and to write the trial down as a scenario that is nearly the same."""

    @property
    def timed(self) -> Scenario:
        """With faults at times only; exact unless something else happens at the very time of a fault."""
        faults = [*self.scenario.faults, *(strike.fault for strike in self.at_events)]
        return msgspec.structs.replace(self.scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at_us)))

    def prepare(self, check_period: int | None = None) -> Run:
        """A run that gives up when it does more in a time than any drawn scenario can need: time may stand still in it.
        `check_period` as in `Run`."""
        run = Run(self.scenario, None, self.at_events, check_period)
        _limit_events(run.world, since_us=0)
        return run

    def run(self, check_period: int = PERIOD) -> RunResult:
        """Run it, and check the invariants of its brokers on the way, unless the period is 0. A run that breaks one is
        repeated with a check after every step, so the error names the step."""
        try:
            return self.prepare(check_period).finish()
        except InvariantError:
            if check_period > 1:
                self.prepare(1).finish()
            raise

    def complaints(self, result: RunResult) -> list[str]:
        """What is wrong with the run besides what the judge finds; a class of trials may know more."""
        return []


class Rehearsal(msgspec.Struct, frozen=True):
    times_us: list[int]
    """Of every event, the first one first."""
    busy_until_us: int
    """When clients asked or were given something for the last time."""
    rest_us: int
    """From here on the tree stands."""

    def event_from(self, time_us: int) -> int:
        """The first event that is not before a time, or the last of all."""
        return min(bisect_left(self.times_us, time_us) + 1, len(self.times_us))

    def time_of(self, event: int) -> int:
        return self.times_us[event - 1]


def rehearse(trial: Trial) -> Rehearsal:
    run = trial.prepare(0)
    moments = run.world.moments = []
    rows = run.finish().rows
    times_us: list[int] = []
    for time_us, events in moments:
        times_us.extend([time_us] * (events - len(times_us)))
    busy_until_us = max((row.time_us for row in rows if row.kind in _BUSY), default=0)
    brokers = {broker.name for broker in trial.scenario.brokers}
    restless = [row for row in rows if row.kind in _RESTLESS and (row.node in brokers or row.kind not in _OF_CLIENTS)]
    rest_us = max((row.time_us for row in restless), default=0) + REST_US
    return Rehearsal(times_us, busy_until_us, rest_us)


def _limit_events(world: World, since_us: int) -> None:
    """Raise EndlessError in the run if its next `EVENTS_MAX` events take less than `EVENTS_US`, and so on."""

    def look() -> None:
        took_us = world.now_us - since_us
        if took_us < EVENTS_US:
            raise EndlessError(f"the run goes on and on: {EVENTS_MAX} events in {took_us / 1e6:g} s of virtual time")
        _limit_events(world, world.now_us)

    world.at_event(world.events + EVENTS_MAX, look)


def formed_us(scenario: Scenario) -> int:
    """Return when all brokers of the start have their places, know their surroundings, and the voters are decided."""
    run = Run(msgspec.structs.replace(scenario, clients=(), workloads=(), faults=()), None, (), 0)
    decided_us = 0

    def look(_: None, __: None) -> None:
        nonlocal decided_us
        decided_us = run.world.now_us
        if not _has_voters(run.world):
            run.world.at(decided_us + LOOK_US, look)

    run.world.at(0, look)
    joined_us = max((row.time_us for row in run.finish().rows if row.kind == "joined"), default=0)
    return max(joined_us + WAVES_US, decided_us)


def _has_voters(world: World) -> bool:
    """Whether 2f + 1 brokers, or all of a smaller tree, are voters, and each of them knows. On links of 700 ms one way
    that can be 4 s after the last one has joined, and so long a tree of three brokers does not survive that the host of
    its root falls silent. True in stacks without such voters."""
    brokers = [broker_of(node.process.machine) for node in world.nodes.values() if node.process is not None]
    lives = [broker.parts.life for broker in brokers if broker is not None]
    voters = max((life.view.decided for life in lives), key=lambda decided: decided.version, default=None)
    if voters is None:
        return True
    knowing = [life.seat.name for life in lives if life.view.decided == voters]
    enough = min(len(lives), 2 * lives[0].faults + 1)
    return len(voters.voters) == enough and all(voter.name in knowing for voter in voters.voters)
