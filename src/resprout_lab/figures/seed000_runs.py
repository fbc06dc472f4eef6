"""The runs behind docs/experiments/seed000.md: the figures and crash cases of the thesis, measured and judged.

`python -m resprout_lab.figures.seed000_runs SCENARIO FILE` runs what the file of results does not hold yet, one after
the other, and writes each result as it comes. Words behind that choose parts; `processes` runs the crash cases with
real processes. The page, which has the whole commands, is made from the file (`resprout_lab.figures.seed000_page`).
"""

import asyncio
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from resprout.audit.judge import judge
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import load_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import Run
from resprout.stacks.stack import find_stack
from resprout.trace import kinds
from resprout.trace.schema import Row

SYSTEMS: Final = ("as published", "corrected", "default")
FAULTS: Final[dict[str, tuple[str, ...]]] = {"0": (), "1": ("b1",), "2": ("b1", "b2"), "3": ("b1", "b2", "b3")}
"""Sections 5.4.1 to 5.4.3: faults among the root's children, all at once; which ones is chosen."""
CRASHES: Final[tuple[tuple[str, ...], ...]] = (("b1",), ("b0",), ("b1", "b4"), ("b0", "b1"), ("b1", "b2", "b3"))
"""Section 5.2."""
KEYS: Final = (1, 10, 100, 1000)
DEGREES: Final = (2, 3, 4)
"""Figure 5.3: with other degrees more or fewer requests are refused."""


class Measured(msgspec.Struct, frozen=True):
    """One run."""

    part: str
    """`5.3`, `5.4`, `5.5`, `crashes` or `processes`."""
    system: str
    dead: tuple[str, ...]
    keys: int
    operations: int
    seed: int
    degree: int
    ended: str = ""
    mean_ms: dict[str, float] = {}
    """By guarantee: from `publish` to each `deliver`."""
    deliveries: int = 0
    owed: int = 0
    anomalies: dict[str, int] = {}
    """By rule of the judge."""
    repairs: tuple[tuple[int, float], ...] = ()
    """Of each orphan: rounds of ParentRequest, and milliseconds from the failure's detection to the last message that
    it missed."""

    @property
    def point(self) -> "Point":
        """What is run, without what came of it."""
        return (self.part, self.system, self.dead, self.keys, self.operations, self.seed, self.degree)


Point = tuple[str, str, tuple[str, ...], int, int, int, int]


def points() -> Iterator[Measured]:
    """All runs, the most wanted first."""
    for dead in CRASHES:
        for system in SYSTEMS:
            yield Measured("crashes", system, dead, 100, 200, 1, 3)
    for dead in FAULTS.values():
        for seed in (1, 2):
            for system in SYSTEMS:
                yield Measured("5.4", system, dead, 100, 500, seed, 3)
    for degree in DEGREES:
        for dead in [*CRASHES, ("b1", "b2")]:
            for system in SYSTEMS if degree == 3 else SYSTEMS[:2]:
                yield Measured("5.3", system, dead, 100, 150, 1, degree)
    for dead in FAULTS.values():
        for keys in KEYS:
            for system in SYSTEMS:
                yield Measured("5.5", system, dead, keys, 250, 1, 3)


def process_points() -> Iterator[Measured]:
    for dead in CRASHES:
        for system in SYSTEMS:
            yield Measured("processes", system, dead, 100, 100, 1, 3)


def scenario_of(base: str | Path, point: Measured) -> Scenario:
    """The thesis' network at one point of an experiment."""
    changes = [f"seed={point.seed}"]
    for number in (0, 1):
        changes += [f"workload.{number}.keys={point.keys}", f"workload.{number}.operations={point.operations}"]
    if point.system == "default":
        # With data folders, which processes have, more than f brokers that crash at once are waited for.
        tolerated = max(1, len(point.dead)) if point.part == "processes" else 2 if len(point.dead) > 1 else 1
        changes += ["stack=resprout", f"options={{ faults_tolerated = {tolerated}, total_degree = {point.degree} }}"]
    else:
        preset = "none" if point.system == "as published" else "all"
        changes += [f'options.corrected="{preset}"', f"options.total_degree={point.degree}"]
    if point.dead:
        names = ", ".join(f'"{name}"' for name in point.dead)
        at = "10s" if point.operations >= 300 else "8s" if point.operations >= 150 else "6s"
        changes.append(f'fault.0={{ at = "{at}", kind = "crash", nodes = [{names}] }}')
    return load_scenario(base, changes)


def measure(base: str | Path, point: Measured) -> Measured:
    scenario = scenario_of(base, point)
    if point.part == "processes":
        real = asyncio.run(RealRun(scenario).finish())
        rows: Sequence[Row] = real.rows
        ended = real.ended
    else:
        result = Run(scenario, None, ()).finish()
        rows, ended = result.rows, result.ended
    verdict = judge(rows, scenario.bank_initial, find_stack(scenario.stack).promise())
    return msgspec.structs.replace(
        point,
        ended=ended,
        mean_ms=_mean_ms(rows),
        deliveries=verdict.counts.get("deliveries", 0),
        owed=verdict.counts.get("owed", 0),
        anomalies={check.rule: check.anomalies for check in verdict.checks if check.anomalies},
        repairs=tuple(_repairs(rows)),
    )


def _mean_ms(rows: Sequence[Row]) -> dict[str, float]:
    published: dict[tuple[object, ...], int] = {}
    times: dict[str, list[int]] = {}
    for row in rows:
        identity = (row.publisher, row.incarnation, row.stream, row.seq)
        if row.kind == kinds.PUBLISH:
            published.setdefault(identity, row.time_us)
        elif row.kind == kinds.DELIVER and row.guarantee is not None and identity in published:
            times.setdefault(row.guarantee, []).append(row.time_us - published[identity])
    return {guarantee: round(statistics.fmean(found) / 1000, 1) for guarantee, found in sorted(times.items())}


def _repairs(rows: Sequence[Row]) -> Iterator[tuple[int, float]]:
    """Rounds and time of each orphan."""
    begun: dict[str, int] = {}
    rounds: dict[str, int] = {}
    for row in rows:
        if row.kind == kinds.REPAIR_BEGIN:
            begun[row.node], rounds[row.node] = row.time_us, 0
        elif row.kind == "repair_round":
            rounds[row.node] = rounds.get(row.node, 0) + 1
        elif row.kind == kinds.REPAIR_END and row.node in begun:
            yield rounds.get(row.node, 0), round((row.time_us - begun.pop(row.node)) / 1000, 1)


def read(file: Path) -> dict[Point, Measured]:
    """By point: what was measured."""
    if not file.exists():
        return {}
    found = msgspec.json.decode(file.read_bytes(), type=list[Measured])
    return {one.point: one for one in found}


def main(base: str, file: Path, parts: Sequence[str]) -> None:
    """`parts`: which to run; none for all that need no processes."""
    measured = read(file)
    for one in [*points(), *process_points()]:
        if one.point not in measured and one.part in (parts or ("crashes", "5.3", "5.4", "5.5")):
            found = measured[one.point] = measure(base, one)
            lines = [msgspec.json.encode(each).decode() for each in measured.values()]
            file.write_text("[\n" + ",\n".join(lines) + "\n]\n")
            sys.stdout.write(f"{one.point} {found.ended} {found.anomalies}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
