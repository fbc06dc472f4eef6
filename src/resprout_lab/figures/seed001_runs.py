"""The runs behind the windows and groups of docs/experiments/seed001.md: each point with two lengths.

`python -m resprout_lab.figures.seed001_runs FILE` runs what the file of results does not hold yet, one after the other,
and writes each result as it comes. Words behind that choose parts. The page is made from the file
(`resprout_lab.figures.seed001_page`).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from resprout.pipeline.metrics import measure_run
from resprout.pipeline.places import place_of
from resprout.pipeline.python_judge import judge_here, verdict_row
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.measures import MEASURES
from resprout.scenario.load import load_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.store import write_trace

OPTIONS: Final = {
    "resprout": "options={ faults_tolerated = 1 }",
    "locamu": "options={ f = 1 }",
    "delta": "options={ delta = 1, window = 1, return_us = 0 }",
    "cbcast": "options={}",
    "causal-barriers": "options={}",
}
CAUSAL: Final = ("resprout", "locamu", "cbcast", "causal-barriers")
SIZES: Final = {15: 960, 63: 480, 255: 192, 511: 192}
"""Messages of the one publisher by number of brokers, for 5.1a. The first run has half as many."""
LONGER: Final = (1_920, 3_840, 7_680)
"""Messages of longer runs of `locamu` with 15 brokers."""
DELTA_MESSAGES: Final = 192
SATURATING: Final = {1: 192, 8: 32, 32: 8}
"""Messages of each publisher by number of publishers, for 5.1b with as many brokers as the thesis has."""
LARGE: Final = 511
"""Number of brokers in the thesis."""
BROKERS: Final = 31
"""Number of brokers in 5.2 and 5.3."""
PUBLISHERS: Final = {1: 48, 8: 16, 31: 8}
"""Messages of each publisher in the first run by number of publishers. The second run has twice as many."""


class Measured(msgspec.Struct, frozen=True):
    """The results of one run."""

    part: str
    """`5.1a`, `5.1b`, `5.2` or `5.3`."""
    stack: str
    brokers: int
    bandwidth: str
    publishers: int
    messages: int
    """Messages of each publisher."""
    ended: str = ""
    violated: tuple[str, ...] = ()
    individual: float = 0.0
    """Deliveries per second at a subscriber, in the middle half of its messages; the mean over subscribers."""
    header: float = 0.0
    """Mean size of a header in bytes, by the formula of the stack's paper."""
    header_most: float = 0.0
    link_bytes: float = 0.0
    """Encoded bytes for each publication and link between brokers."""

    @property
    def point(self) -> "Point":
        """Return the parameters of the run, without its results."""
        return (self.part, self.stack, self.brokers, self.bandwidth, self.publishers, self.messages)


Point = tuple[str, str, int, str, int, int]


def points() -> Iterator[Measured]:
    for brokers, messages in SIZES.items():
        for stack in ("locamu", "delta", "resprout"):
            most = DELTA_MESSAGES if stack == "delta" else messages
            for count in (most // 2, most):
                yield Measured("5.1a", stack, brokers, "100Mbit", 1, count)
    for count in LONGER:
        yield Measured("5.1a", "locamu", 15, "100Mbit", 1, count)
    for publishers, messages in SATURATING.items():
        for stack in ("resprout", "locamu", "delta"):
            yield Measured("5.1b", stack, LARGE, "100Mbit", publishers, messages)
    for part in ("5.3", "5.2"):
        for bandwidth in ("10Mbit", "100Mbit"):
            for publishers, messages in PUBLISHERS.items():
                for stack in CAUSAL:
                    for count in (messages, 2 * messages):
                        yield Measured(part, stack, BROKERS, bandwidth, publishers, count)


def scenario_of(point: Measured) -> Scenario:
    changes = [f"topology.brokers={point.brokers}", f"topology.bandwidth={point.bandwidth}"]
    changes += [f"stack={point.stack}", OPTIONS[point.stack], f"workload.0.operations={point.messages}"]
    if point.part in ("5.1a", "5.1b"):
        changes += ["workload.0.bundle_max=1"]
        if point.part == "5.1b":
            changes += [f"workload.0.clients={point.publishers}", f"workload.0.burst={min(16, point.messages)}"]
        if point.stack == "delta":
            changes += ["workload.0.mix={ fifo = 1.0 }", "workload.1.mix={ fifo = 1.0 }"]
        return load_scenario("seed001", changes)
    changes += [f"workload.0.clients={point.publishers}"]
    if point.part == "5.3":
        changes += ["topology.subtree_groups=true", "topology.subscribe=[]"]
    return load_scenario("seed001-publishers", changes)


def measure(point: Measured) -> Measured:
    scenario = scenario_of(point)
    result = run_scenario(scenario)
    with TemporaryDirectory() as folder:
        write_trace(Path(folder) / "t", result.rows, run_info(scenario, result.ended))
        place = place_of(Path(folder) / "t", "seed001", "run")
        found, (judged,) = measure_run(place), judge_here([place])
    facts = RunFacts(run=found.runs[0], traffic=found.traffic[0])
    return msgspec.structs.replace(
        point,
        ended=str(result.ended),
        violated=tuple(verdict_row(place, judged).rules_violated),
        individual=_number(facts, "steady_throughput") / point.brokers,
        header=_number(facts, "header_bytes"),
        header_most=_number(facts, "largest_header"),
        link_bytes=_number(facts, "link_bytes"),
    )


def _number(facts: RunFacts, measure: str) -> float:
    return next((round(float(number), 3) for _, number in MEASURES[measure].numbers(facts)), 0.0)


def read(file: Path) -> dict[Point, Measured]:
    """Return the measured results by point."""
    if not file.exists():
        return {}
    return {one.point: one for one in msgspec.json.decode(file.read_bytes(), type=list[Measured])}


def main(file: Path, parts: Sequence[str]) -> None:
    found = read(file)
    for one in points():
        if one.point not in found and one.part in (parts or ("5.1a", "5.1b", "5.2", "5.3")):
            done = found[one.point] = measure(one)
            file.write_text("[\n" + ",\n".join(msgspec.json.encode(each).decode() for each in found.values()) + "\n]\n")
            sys.stdout.write(f"{one.point} {done.ended} {done.violated} {done.individual:,.1f} {done.header:,.0f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
