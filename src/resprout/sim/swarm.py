"""A swarm: scenarios drawn from seeds, run and judged. A seed and its class are all it takes to see a failure again."""

import traceback
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import Pool

import msgspec

from resprout.audit.judge import judge
from resprout.audit.report import lines
from resprout.scenario.describe import describe
from resprout.scenario.model import FaultSpec, Scenario
from resprout.sim.classes import CLASSES, FAULTS, class_of
from resprout.sim.homeless import homeless
from resprout.sim.run import RunResult
from resprout.sim.trial import Trial


class Outcome(msgspec.Struct, frozen=True):
    seed: int
    drawn: str
    """The class of trials that it was drawn from."""
    description: str
    """What was drawn."""
    digest: str
    """Of the trace; empty when there is none."""
    complaint: str
    """What is wrong, in lines for people; empty when all is well."""

    @property
    def failed(self) -> bool:
        return bool(self.complaint)

    @property
    def report(self) -> str:
        """What was drawn, what is wrong, and how to see it again."""
        again = (
            f"python -m tests.swarm --first {self.seed} --seeds 1 --class {self.drawn} --write seed-{self.seed}.toml"
        )
        return f"{self.description}\n{self.complaint}\nto see it again: {again}"


def swarm_trial(seed: int, drawn: str = FAULTS) -> Trial:
    """What is tried with a seed of a class, mishaps included."""
    return CLASSES[drawn](seed)


def try_seed(seed: int, wanted: str = FAULTS) -> Outcome:
    """Draw, run, judge. Whatever goes wrong in the run is a complaint, not an exception."""
    drawn = class_of(seed, wanted)
    description = f"seed {seed} of {drawn}, whose rehearsal failed"
    try:
        trial = swarm_trial(seed, drawn)
        description = _describe(trial)
        result = trial.run()
        complaints = [complaint_about(trial.scenario, result), *trial.complaints(result)]
        return Outcome(seed, drawn, description, result.digest, "\n".join(filter(None, complaints)))
    except Exception:  # a failure of any kind is what a swarm is looking for
        return Outcome(seed, drawn, description, "", traceback.format_exc().rstrip())


def try_seeds(seeds: Iterable[int], workers: int = 1, wanted: str = FAULTS) -> Iterator[Outcome]:
    """The outcome of each seed, in order; `wanted` is a class, or `any`."""
    attempt = partial(try_seed, wanted=wanted)
    if workers <= 1:
        yield from map(attempt, seeds)
    else:
        with Pool(workers) as pool:
            yield from pool.imap(attempt, seeds)


def complaint_about(scenario: Scenario, result: RunResult) -> str:
    """What the judge finds wrong with a run, or that it got stuck; empty when all is well."""
    verdict = judge(result.rows, bank_initial=scenario.bank_initial)
    complaints = lines(verdict) if verdict.violated else []
    if result.ended != "quiescent":
        complaints.append(f"STUCK: the run was not quiescent after {result.stats.time_us / 1e6:g} s of virtual time")
    if lost := homeless(scenario, result.rows):
        complaints.append(f"HOMELESS: {', '.join(lost)} found no place in the tree")
    return "\n".join(complaints)


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
