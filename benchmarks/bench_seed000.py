"""Figures 5.3, 5.4 and 5.5 of the tree system that the default stack descends from, for both: the sweeps `seed000-*`.

At the rate of these experiments clients publish faster than their own totals are delivered. `ginger` keeps what a
client publishes behind its undelivered total, so its latencies are mostly the wait in that queue; the default stack
carries it.
"""

import statistics
from collections.abc import Iterator

import msgspec

from benchmarks.measure import Measure
from benchmarks.seed000.latency import deliveries
from benchmarks.seed000.repair import Repair, repair_of
from benchmarks.seed000.stage import STACKS, play
from resprout.scenario.load import Sweep, load_sweep
from resprout.scenario.model import Scenario

QUICK_SEEDS = (1,)
QUICK_OPERATIONS = 200
"""Enough that clients still publish when brokers die."""

Found = dict[tuple[str, ...], dict[str, list["Summary"]]]
"""Labels of a point without its stack -> stack -> one summary for each seed."""


class Summary(msgspec.Struct, frozen=True):
    """Of one run."""

    latency_us: dict[str, float]
    """Median by guarantee, over all subscribers but the publisher."""
    mean_us: dict[str, float]
    repair: Repair | None


def run(quick: bool = False) -> list[Measure]:
    known: dict[bytes, Summary] = {}
    return [
        *_repair_figure(_run_sweep(_load("5.3", quick), known)),
        *_latency_figure("5.4", _run_sweep(_load("5.4", quick), known)),
        *_latency_figure("5.5", _run_sweep(_load("5.5", quick), known)),
        *_latency_figure("crash sets", _run_sweep(_load("crashes", quick), known)),
    ]


def _load(figure: str, quick: bool) -> Sweep:
    sweep = load_sweep(f"seed000-{figure}")
    if not quick:
        return sweep
    base = sweep.base.overridden([f"workload.0.operations={QUICK_OPERATIONS}"])
    return msgspec.structs.replace(sweep, base=base, seeds=QUICK_SEEDS)


def _run_sweep(sweep: Sweep, known: dict[bytes, Summary]) -> Found:
    """Figures share some runs; those are run once."""
    found: Found = {}
    for run in sweep.runs():
        point = tuple(f"{axis} {label}" for axis, label in run.labels.items() if axis != "stack")
        identity = msgspec.json.encode(msgspec.structs.replace(run.scenario, name=""))
        if identity not in known:
            known[identity] = _summarize(run.scenario)
        found.setdefault(point, {}).setdefault(run.labels["stack"], []).append(known[identity])
    return found


def _summarize(scenario: Scenario) -> Summary:
    played = play(scenario)
    samples: dict[str, list[int]] = {}
    for one in deliveries(played.rows):
        if not one.is_own:
            samples.setdefault(one.guarantee, []).append(one.latency_us)
    medians = {guarantee: statistics.median(sample) for guarantee, sample in sorted(samples.items())}
    means = {guarantee: statistics.fmean(sample) for guarantee, sample in samples.items()}
    return Summary(medians, means, repair_of(played) if scenario.faults else None)


def _repair_figure(found: Found) -> Iterator[Measure]:
    for point, stacks in found.items():
        ours, theirs = ([one.repair for one in stacks[stack] if one.repair is not None] for stack in STACKS)
        if not ours or not theirs:
            continue  # nobody died
        title = f"5.3, {', '.join(point)}"
        rounds = statistics.median(one.rounds for one in theirs)
        for what, attribute in (
            ("repair", "last_end_us"),
            ("from the crash to its end", "whole_us"),
            ("an orphan, from its own beginning, mean", "orphan_us"),
            ("the same for each round of it", "round_us"),
        ):
            mine, other = (
                statistics.median(getattr(one, attribute) for one in repairs) / 1_000 for repairs in (ours, theirs)
            )
            yield Measure(f"{title}: {what}", mine, "ms", f"ginger, {rounds:g} requests for a parent", other)


def _latency_figure(figure: str, found: Found) -> Iterator[Measure]:
    for point, stacks in found.items():
        for guarantee in stacks["resprout"][0].latency_us:
            for what, attribute in (("median", "latency_us"), ("mean", "mean_us")):
                ours, theirs = (
                    statistics.median(getattr(one, attribute)[guarantee] for one in stacks[stack]) / 1_000
                    for stack in STACKS
                )
                yield Measure(f"{figure}, {', '.join(point)}: {guarantee}, {what}", ours, "ms", "ginger", theirs)
