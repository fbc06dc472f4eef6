"""A swarm: scenarios drawn from seeds, run and judged. A seed is all it takes to see a failure again."""

import traceback
from collections.abc import Iterable, Iterator
from multiprocessing import Pool

import msgspec

from resprout.audit.judge import judge
from resprout.audit.report import lines
from resprout.scenario.describe import describe
from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import FaultSpec, Scenario
from resprout.sim.mishaps import with_mishaps
from resprout.sim.run import RunResult
from resprout.sim.trial import Trial


class Outcome(msgspec.Struct, frozen=True):
    seed: int
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
        again = f"python -m tests.swarm --first {self.seed} --seeds 1 --write seed-{self.seed}.toml"
        return f"{self.description}\n{self.complaint}\nto see it again: {again}"


def swarm_trial(seed: int) -> Trial:
    """What is tried with a seed, mishaps included. Equal seeds give equal trials as long as the stack is the same:
    faults are put where a rehearsal shows that the stack is at work."""
    return with_mishaps(draw_scenario(seed))


def try_seed(seed: int) -> Outcome:
    """Draw, run, judge. Whatever goes wrong in the run is a complaint, not an exception."""
    description = f"seed {seed}, whose rehearsal failed"
    try:
        trial = swarm_trial(seed)
        description = _describe(trial)
        result = trial.run()
        return Outcome(seed, description, result.digest, complaint_about(trial.scenario, result))
    except Exception:  # a failure of any kind is what a swarm is looking for
        return Outcome(seed, description, "", traceback.format_exc().rstrip())


def try_seeds(seeds: Iterable[int], workers: int = 1) -> Iterator[Outcome]:
    """The outcome of each seed, in order."""
    if workers <= 1:
        yield from map(try_seed, seeds)
    else:
        with Pool(workers) as pool:
            yield from pool.imap(try_seed, seeds)


def complaint_about(scenario: Scenario, result: RunResult) -> str:
    """What the judge finds wrong with a run, or that it got stuck; empty when all is well."""
    verdict = judge(result.rows, bank_initial=scenario.bank_initial)
    complaints = lines(verdict) if verdict.violated else []
    if result.ended != "quiescent":
        complaints.append(f"STUCK: the run was not quiescent after {result.stats.time_us / 1e6:g} s of virtual time")
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
