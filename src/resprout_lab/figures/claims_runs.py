"""The runs behind docs/experiments/claims.md: the sweeps `seed003` and `seed004-7`, measured and judged.

`python -m resprout_lab.figures.claims_runs FILE` runs what the file of results does not hold yet, one after the other,
and writes each result as it comes. Words behind that choose sweeps. The page is made from the file
(`resprout_lab.figures.claims_page`).
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
from resprout.pipeline.report.measures import MEASURES, messages_by_layer
from resprout.pipeline.sweep import load_plan
from resprout.scenario.load import SweepRun
from resprout.scenario.write import run_info
from resprout.sim.run import run_scenario
from resprout.trace.schema import Row
from resprout.trace.store import write_trace

SWEEPS: Final = ("seed004-7", "seed003")


class Counted(msgspec.Struct, frozen=True):
    """One run."""

    sweep: str
    name: str
    labels: dict[str, str]
    ended: str
    owed: int
    """Deliveries that were due; 0 when the run did not come to rest."""
    came: int
    told: int
    """Of the others: those whose clients were told that they may be missing."""
    violated: tuple[str, ...]
    """Rules of the judge, without the losses that are counted here."""
    layers: dict[str, int]
    """Messages between brokers."""
    copies: float
    """Messages that carry publications, for each publication."""
    converged_ms: float
    """From the first publication until everybody has everything."""
    median_ms: float
    """From publication to delivery."""
    busiest: float
    """Frames that the busiest broker sends, as a multiple of the mean."""
    limit_s: int
    """Virtual time after which the run was given up."""
    seen: int = 0
    """Of a run that was given up: deliveries until then, ..."""
    published: int = 0
    """... and publications for each of its readers. Nobody knows which of these are owed."""

    @property
    def share(self) -> float:
        """Return the share of what was owed that came; of a run that was given up, the share of everything."""
        return self.came / self.owed if self.owed else self.seen / max(1, self.published)

    @property
    def lost(self) -> int:
        """Missing without a word."""
        return self.owed - self.came - self.told


def points() -> Iterator[tuple[str, SweepRun]]:
    """All runs of the first seed. Where no node dies, it does not matter whether its host would say so."""
    for sweep in SWEEPS:
        for run in load_plan(sweep, (), seeds=1).sweep.runs():
            if (run.labels.get("share"), run.labels.get("death")) != ("0.0", "silent"):
                yield sweep, run


def _number(facts: RunFacts, measure: str, **labels: str) -> float:
    found = [number for own, number in MEASURES[measure].numbers(facts) if labels.items() <= own.items()]
    return round(float(found[0]), 3) if found else 0.0


def measure(sweep: str, run: SweepRun) -> Counted:
    result = run_scenario(run.scenario)
    with TemporaryDirectory() as folder:
        write_trace(Path(folder) / "t", result.rows, run_info(run.scenario, result.ended))
        place = place_of(Path(folder) / "t", sweep, run.name)
        found, (judged,) = measure_run(place), judge_here([place])
        verdict = verdict_row(place, judged)
    facts = RunFacts(
        run=found.runs[0], verdict=verdict, traffic=found.traffic[0], latency=tuple(found.latency),
        load=tuple(found.load),
    )  # fmt: skip
    mean = _number(facts, "broker_loads", of="mean")
    seen, published = (0, 0) if verdict.owed else _until_given_up(result.rows, len(run.scenario.clients))
    return Counted(
        sweep, run.name, dict(run.labels), str(result.ended),
        verdict.owed or 0, verdict.came or 0, verdict.told or 0,
        tuple([rule for rule in verdict.rules_violated if rule not in ("lost", "lost_told")]),
        messages_by_layer(facts), _number(facts, "copies"), _number(facts, "convergence") / 1000,
        _number(facts, "latency_percentiles", percentile="50") / 1000,
        round(_number(facts, "broker_loads", of="most") / mean, 2) if mean else 0.0,
        run.scenario.time_limit_us // 1_000_000, seen, published,
    )  # fmt: skip


def _until_given_up(rows: Sequence[Row], readers: int) -> tuple[int, int]:
    """Return the deliveries in a run, and how many there would be if every client read every publication."""
    seen = {(row.node, row.publisher, row.stream, row.seq) for row in rows if row.kind == "deliver"}
    published = {(row.publisher, row.stream, row.seq) for row in rows if row.kind == "publish"}
    return len(seen), len(published) * readers


def read(file: Path) -> dict[tuple[str, str], Counted]:
    """By sweep and name of the run."""
    if not file.exists():
        return {}
    return {(one.sweep, one.name): one for one in msgspec.json.decode(file.read_bytes(), type=list[Counted])}


def _is_due(before: Counted | None, run: SweepRun) -> bool:
    """It was not run, or was given up earlier than it would be now."""
    is_given_up = before is not None and before.ended != "quiescent"
    is_short = before is not None and before.limit_s < run.scenario.time_limit_us // 1_000_000
    return before is None or (is_given_up and (is_short or not before.published))


def main(file: Path, sweeps: Sequence[str]) -> None:
    found = read(file)
    for sweep, run in points():
        if _is_due(found.get((sweep, run.name)), run) and sweep in (sweeps or SWEEPS):
            one = found[sweep, run.name] = measure(sweep, run)
            file.write_text("[\n" + ",\n".join(msgspec.json.encode(each).decode() for each in found.values()) + "\n]\n")
            sys.stdout.write(f"{sweep} {run.name} {one.ended} {one.came}/{one.owed} told {one.told} {one.violated}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
