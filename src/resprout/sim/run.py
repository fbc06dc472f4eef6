"""Runs a scenario in the virtual world: same scenario, same trace, to the last byte."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import msgspec

from resprout.core.contract import Note
from resprout.edge.requests import DRAIN_US, LeaveRequest
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.observe import note_row
from resprout.sim.cast import Cast
from resprout.sim.checking import CHECKED_STACK, Checking
from resprout.sim.clients import TRACE_KINDS
from resprout.sim.faults import VirtualFaults
from resprout.sim.nodes import Process
from resprout.sim.world import Ended
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
        for fault in self._scenario.faults:
            self.world.at(fault.at_us, self._strike, fault)
        for late in self._at_events:
            self.world.at_event(late.event, partial(self._strike, late.fault, None))
        self._cast.start()
        ended = self.world.run(self._scenario.time_limit_us)
        if self._checking is not None:
            self._checking.check_all()
        for node in self.world.nodes.values():
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
            self._faults.placed(process.name)


def run_scenario(
    scenario: Scenario, recorder: Recorder | None = None, at_events: Sequence[FaultAtEvent] = ()
) -> RunResult:
    """Runs it to quiescence or to its time limit. Rows go to the recorder, in memory unless one is given.

    UsageError when the stack or one of its options does not exist.
    """
    return Run(scenario, recorder, at_events).finish()
