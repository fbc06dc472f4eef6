"""A swarm: scenarios drawn from seeds, run and judged. A seed and its class are enough to see a failure again.

`homeless` finds brokers that run at the end of a run and have no place in the tree. The judge does not report them:
what their clients would have received or published was never promised to anybody.

Losses that clients were told of are counted, and bounded by their cause (`told_losses`).
"""

import signal
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from multiprocessing import Pool
from typing import Any, Final

import msgspec

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.core.errors import UsageError
from resprout.scenario.draw import LATENCIES_US, draw_scenario, with_conversation, with_groups
from resprout.scenario.model import FaultKind, FaultSpec, Scenario, random_for
from resprout.scenario.write import describe
from resprout.sim.checking import PERIOD
from resprout.sim.classes import ANY, CLASSES, FAULTS, class_of
from resprout.sim.mishaps import with_mishaps, with_rest
from resprout.sim.run import RunResult, Trial
from resprout.sim.told_losses import find_told, without_cause
from resprout.stacks.stack import find_stack
from resprout.trace import kinds
from resprout.trace.schema import Row

_BEGINS = frozenset((kinds.RECOVER, kinds.JOIN, "fenced", "moved"))
"""A life without a place begins, or will at once."""
_ENDS = frozenset((kinds.CRASH, kinds.LEAVE, "name_refused"))
"""Whoever is refused because its name is taken has been answered, and runs no more."""

DEFAULT_STACK: Final = "resprout"
GROUPS: Final = "groups"
"""The class of other stacks than the default one: faults, and small groups that overlap."""
NOTHING_SET: Final[Mapping[str, Any]] = {}


def homeless(scenario: Scenario, rows: Iterable[Row]) -> list[str]:
    """In the order of the scenario."""
    if scenario.stack != "resprout":
        return []  # only this one tells when a broker has found its place
    later = [name for fault in scenario.faults if fault.kind is FaultKind.JOIN for name in fault.nodes]
    places = {broker.name: broker.parent is None for broker in scenario.brokers}
    places.update({name: True for name in later if name not in places})
    for row in rows:
        if row.kind == kinds.DOUBLE:
            places[row.node] = False  # a second broker of a name: it takes its place, or it is refused
        elif row.node in places:
            if row.kind in _BEGINS:
                places[row.node] = row.detail is not None and kinds.ANEW in row.detail
            elif row.kind in ("joined", "reunited") or row.kind in _ENDS:
                places[row.node] = True
    return [name for name, has_place in places.items() if not has_place]


class TrialOutcome(msgspec.Struct, frozen=True):
    seed: int
    drawn: str
    """The class of trials that it was drawn from."""
    description: str
    """What was drawn."""
    digest: str
    """Of the trace; empty when there is none."""
    complaint: str
    """What is wrong, in lines for people; empty when all is well."""
    stack: str = DEFAULT_STACK
    fixed: Mapping[str, Any] = {}
    """Options that were set, not drawn."""
    told: int = 0
    """Messages that clients missed and were told of."""

    @property
    def failed(self) -> bool:
        return bool(self.complaint)

    @property
    def report(self) -> str:
        """What was drawn, what is wrong, and how to see it again."""
        stack = "" if self.stack == DEFAULT_STACK else f"--stack {self.stack} "
        stack += "".join(f"--set {name}={msgspec.json.encode(value).decode()} " for name, value in self.fixed.items())
        again = (
            f"resprout swarm {stack}--first {self.seed} --seeds 1 --class {self.drawn} --write seed-{self.seed}.toml"
        )
        return f"{self.description}\n{self.complaint}\nto see it again: {again}"


def check_drawn(wanted: str, stack: str, fixed: Mapping[str, Any] = NOTHING_SET) -> None:
    """UsageError unless there is such a stack, such a class for it, and such options. Other stacks than the default one
    are tried with faults only, as far as they say that they survive them, and with groups: the other classes are about
    what only that one does. They draw its options, too, so none of them can be set."""
    tried = find_stack(stack)
    tried.parse_options(fixed)
    if fixed and stack == DEFAULT_STACK:
        raise UsageError(f"the classes of the stack {stack!r} draw its options: none can be set")
    known = (ANY, *CLASSES) if stack == DEFAULT_STACK else (ANY, FAULTS, GROUPS)
    if wanted not in known:
        raise UsageError(f"there is no class {wanted!r} for the stack {stack!r}; there is {', '.join(known)}")


def class_for(seed: int, wanted: str, stack: str) -> str:
    """The class that a seed is tried in."""
    if stack == DEFAULT_STACK:
        return class_of(seed, wanted)
    return (GROUPS if seed % 2 else FAULTS) if wanted == ANY else wanted


def swarm_trial(
    seed: int, drawn: str = FAULTS, stack: str = DEFAULT_STACK, fixed: Mapping[str, Any] = NOTHING_SET
) -> Trial:
    """What is tried with a seed of a class, mishaps included. `fixed`: options that are not drawn."""
    check_drawn(drawn, stack, fixed)
    if stack == DEFAULT_STACK:
        return CLASSES[drawn](seed)
    tried = find_stack(stack)
    rng = random_for(seed, "options")
    given = {name: rng.choice(values) for name, values in tried.drawn.items()} | dict(fixed)
    options = tried.parse_options(given)
    guarantees = tried.offered(options)
    scenario = draw_scenario(
        seed,
        stack=stack,
        guarantees=guarantees,
        options={name: (value,) for name, value in given.items()},
        site_brokers=tried.site_brokers(options),
        reach_us=tried.reach_us or LATENCIES_US[-1],
    )
    talks = with_groups if drawn == GROUPS else with_conversation
    return with_rest(with_mishaps(talks(scenario, guarantees)), tried.idle_us(options))


def try_seed(
    seed: int,
    wanted: str = FAULTS,
    stack: str = DEFAULT_STACK,
    check_period: int = PERIOD,
    fixed: Mapping[str, Any] = NOTHING_SET,
) -> TrialOutcome:
    """Draw, run, judge. Whatever goes wrong in the run is a complaint, not an exception. `check_period`: how often the
    invariants of each broker are checked, in its steps (`sim.checking`); 0: never. `fixed`: options that are not drawn.
    """
    drawn = class_for(seed, wanted, stack)
    description = f"seed {seed} of {drawn}, whose rehearsal failed"
    try:
        trial = swarm_trial(seed, drawn, stack, fixed)
        description = _describe(trial)
        result = trial.run(check_period)
        wrong, told = _judge(trial.scenario, result)
        complaint = "\n".join(filter(None, [wrong, *trial.complaints(result)]))
        return TrialOutcome(seed, drawn, description, result.digest, complaint, stack, fixed, told)
    except Exception:  # a failure of any kind is what a swarm is looking for
        return TrialOutcome(seed, drawn, description, "", traceback.format_exc().rstrip(), stack, fixed)


def try_seeds(
    seeds: Iterable[int],
    workers: int = 1,
    wanted: str = FAULTS,
    stack: str = DEFAULT_STACK,
    check_period: int = PERIOD,
    fixed: Mapping[str, Any] = NOTHING_SET,
) -> Iterator[TrialOutcome]:
    """The outcome of each seed, in order; `wanted` is a class, or `any`."""
    attempt = partial(try_seed, wanted=wanted, stack=stack, check_period=check_period, fixed=fixed)
    if workers <= 1:
        yield from map(attempt, seeds)
    else:
        with Pool(workers, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:  # Ctrl-C is for the one who asked
            yield from pool.imap(attempt, seeds)


def complaint_about(scenario: Scenario, result: RunResult) -> str:
    """Return what the judge finds wrong with a run, or that it got stuck; empty when all is well."""
    return _judge(scenario, result)[0]


def _judge(scenario: Scenario, result: RunResult) -> tuple[str, int]:
    """Return what the judge finds wrong with a run, or that it got stuck, empty when all is well; and how many messages
    clients missed and were told of."""
    stack = find_stack(scenario.stack)
    verdict = judge(result.rows, scenario.bank_initial, stack.promise(), clocks_us=0)
    passed_over = [*stack.known_anomalies]
    if stack.keeps_us(stack.parse_options(scenario.options)):
        passed_over.append("lost_told")
    broken = [check.rule for check in verdict.checks if check.anomalies and check.rule not in passed_over]
    complaints = lines(verdict) if broken else []
    told = find_told(stack, scenario, result.rows, verdict)
    complaints += without_cause(stack, scenario, result.rows, told)
    if result.ended != "quiescent":
        complaints.append(f"STUCK: the run was not quiescent after {result.stats.time_us / 1e6:g} s of virtual time")
    if lost := homeless(scenario, result.rows):
        complaints.append(f"HOMELESS: {', '.join(lost)} found no place in the tree")
    return "\n".join(complaints), len(told)


def _describe(trial: Trial) -> str:
    at_events = [
        f"  after event {strike.event}, {_when(strike.fault)} or later: {_what(strike.fault)}"
        for strike in trial.at_events
    ]
    return "\n".join(
        [describe(trial.scenario), *(f"  {_when(f)}: {_what(f)}" for f in trial.scenario.faults), *at_events]
    )


def _when(fault: FaultSpec) -> str:
    return f"{fault.at_us / 1e6:.6f} s"


def _what(fault: FaultSpec) -> str:
    nodes = " ".join(fault.nodes or map("-".join, fault.links)) or "all"
    host = ", its host silent" if fault.host else ""
    disk = "" if fault.disk else ", its disk empty"
    parent = f" below {fault.parent}" if fault.parent else ""
    return f"{fault.kind} {nodes}{host}{disk}{parent}"
