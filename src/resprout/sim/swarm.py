"""A swarm: scenarios drawn from seeds, run and judged. A seed is all it takes to see a failure again."""

import traceback
from collections.abc import Iterable, Iterator
from multiprocessing import Pool

import msgspec

from resprout.audit.judge import judge
from resprout.audit.report import lines
from resprout.scenario.describe import describe
from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import Scenario
from resprout.sim.mishaps import with_mishaps
from resprout.sim.run import RunResult, run_scenario


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


def swarm_scenario(seed: int) -> Scenario:
    """The scenario of a seed, mishaps included: equal seeds give equal scenarios."""
    return with_mishaps(draw_scenario(seed))


def try_seed(seed: int) -> Outcome:
    """Draw, run, judge. Whatever goes wrong in the run is a complaint, not an exception."""
    scenario = swarm_scenario(seed)
    try:
        result = run_scenario(scenario)
        return Outcome(seed, _describe(scenario), result.digest, complaint_about(scenario, result))
    except Exception:  # a failure of any kind is what a swarm is looking for
        return Outcome(seed, _describe(scenario), "", traceback.format_exc().rstrip())


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


def _describe(scenario: Scenario) -> str:
    faults = [
        f"  {fault.at_us / 1e6:.6f} s {fault.kind} {' '.join(fault.nodes or map('-'.join, fault.links))}"
        for fault in scenario.faults
    ]
    return "\n".join([describe(scenario), *faults])
