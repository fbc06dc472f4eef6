"""A scenario with faults at events, and its rehearsal: a run is the same up to its first new fault, so a run without it
tells what happens when, and at which events it can strike."""

from bisect import bisect_left

import msgspec

from resprout.scenario.model import FaultKind, Scenario
from resprout.sim.checking import PERIOD
from resprout.sim.invariants import InvariantError
from resprout.sim.run import FaultAtEvent, Run, RunResult, run_scenario
from resprout.trace import kinds

WAVES_US = 1_500_000
"""After a broker has its place, those around it hear of it and of each other."""
REST_US = 3_000_000
"""After a repair; the lists of who follows the root are brought up to date meanwhile."""

EVENTS_MAX = 400_000
"""A hundred times what is usual for what swarms draw."""

_RESTLESS = frozenset((kinds.REPAIR_BEGIN, kinds.REPAIR_END, "joined", "fenced", "moved", *FaultKind))
_OF_CLIENTS = frozenset((FaultKind.FREEZE, FaultKind.UNFREEZE))
"""What clients undergo as well, and the tree need not care for."""
_BUSY = frozenset((kinds.PUBLISH, kinds.DELIVER, kinds.RECEIPT, kinds.SUBSCRIBED, kinds.UNSUBSCRIBED))


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
        """A run that gives up when it does more than any drawn scenario can need: time may stand still in it.
        `check_period` as in `Run`."""
        run = Run(self.scenario, None, self.at_events, check_period)
        run.world.at_event(EVENTS_MAX, _give_up)
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


def _give_up() -> None:
    raise EndlessError(f"the run goes on and on: {EVENTS_MAX} events")


def formed_us(scenario: Scenario) -> int:
    """When all brokers of the start have found their places, and everybody knows."""
    bare = msgspec.structs.replace(scenario, clients=(), workloads=(), faults=())
    return max((row.time_us for row in run_scenario(bare).rows if row.kind == "joined"), default=0) + WAVES_US
