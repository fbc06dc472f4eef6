"""Result rows that nobody measured, for tests of what is made of them."""

from pathlib import Path

import msgspec

from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.output import GivenCommand
from resprout.pipeline.report.sweep_report import SweepReport, load_report
from resprout.pipeline.results import (
    AnomalyRow,
    LatencyRow,
    LoadRow,
    RepairRow,
    RunRow,
    TrafficRow,
    VerdictRow,
)
from resprout.scenario.source import shipped

ASKED = GivenCommand((Path("out/archive"),), Path("out/page.html"))
GUARANTEES = ("eventual", "causal", "total")


def reports_of(prefix: str) -> list[SweepReport]:
    """Return the reports of the ready-made sweeps that have figures."""
    found = map(load_report, sorted(name for name in shipped("sweeps") if name.startswith(prefix)))
    return [report for report in found if not report.is_empty]


class Key(dict[str, str]):
    def __init__(self, experiment: str, run: str) -> None:
        super().__init__(experiment=experiment, run=run, digest="d" * 64)


def run_row(experiment: str = "e", run: str = "r", **changes: object) -> RunRow:
    values: dict[str, object] = {
        "stack": "resprout",
        "seed": 1,
        "scenario": run,
        "labels": {},
        "faults": 0,
        "keys": 100,
        "faults_tolerated": 1,
        "brokers": 8,
        "clients": 5,
        "ended": "quiescent",
        "duration_us": 30_000_000,
        "publications": 1000,
        "deliveries": 5000,
        "rows": 7000,
    }
    return RunRow(**Key(experiment, run), **{**values, **changes})  # type: ignore[arg-type]


def latency(experiment: str, run: str, guarantee: str, median_us: int, phase: str = "all") -> LatencyRow:
    return LatencyRow(
        **Key(experiment, run),
        guarantee=guarantee,
        phase=phase,
        count=100,
        mean_us=median_us * 1.1,
        median_us=median_us,
        p90_us=median_us * 3 // 2,
        p95_us=median_us * 2,
        p99_us=median_us * 3,
        p999_us=median_us * 7 // 2,
        max_us=median_us * 4,
    )


def repair(experiment: str, run: str, began_us: int, took_us: int | None, **changes: object) -> RepairRow:
    values: dict[str, object] = {
        "node": "b0",
        "dead": ("b1",),
        "cause": "crash",
        "placed_us": None,
        "ended_us": None if took_us is None else began_us + took_us,
        "duration_us": took_us,
        "detection_us": 300_000,
        "rounds": None,
        "round_trip_us": 200_000,
    }
    return RepairRow(**Key(experiment, run), began_us=began_us, **{**values, **changes})  # type: ignore[arg-type]


def traffic(experiment: str, run: str, **changes: object) -> TrafficRow:
    values: dict[str, object] = {
        "throughput": 125.5,
        "hops_mean": 2.5,
        "metadata_bytes_mean": 7.25,
        "metadata_bytes_max": 9,
        "payload_bytes_mean": 32.0,
        "frames": 40_000,
        "frame_bytes": 4_000_000,
        "messages": {"publications": 7000, "reports": 14_500, "repair": 3},
        "messages_per_publication": 21.5,
        "messages_per_delivery": 4.3,
    }
    return TrafficRow(**Key(experiment, run), **{**values, **changes})  # type: ignore[arg-type]


def load(experiment: str, run: str, node: str, frames: int | None, role: str = "broker") -> LoadRow:
    sent = None if frames is None else 100 * frames
    return LoadRow(
        **Key(experiment, run),  # type: ignore[arg-type]
        node=node,
        role=role,
        frames_sent=frames,
        bytes_sent=sent,
        frames_received=frames,
        bytes_received=sent,
        published=0 if role == "broker" else 10,
        delivered=0 if role == "broker" else 50,
    )


def verdict(experiment: str, run: str, *violated: str, **changes: object) -> VerdictRow:
    status = "violated" if violated else "clean"
    values: dict[str, object] = {"status": status, "rules_violated": violated, "anomalies": len(violated)}
    return VerdictRow(**Key(experiment, run), **{**values, **changes})  # type: ignore[arg-type]


def anomaly(experiment: str, run: str, rule: str, text: str) -> AnomalyRow:
    return AnomalyRow(**Key(experiment, run), rule=rule, time_us=1_234_567, node="c0", messages=("c1:1",), text=text)


def sweep_run(experiment: str, stack: str, seed: int, base_us: int, **labels: str) -> RunFacts:
    """A run of a sweep with everything that figures draw; its latencies are `base_us`, and twice and three times it."""
    name = ",".join(f"{axis}={label}" for axis, label in {**labels, "stack": stack, "seed": str(seed)}.items())
    faults = int(labels.get("faults", 0))
    row = run_row(
        experiment, name, stack=stack, seed=seed, labels={**labels, "stack": stack}, faults=faults,
        keys=int(labels.get("keys", 100)),
    )  # fmt: skip
    phases = ("all", "before", "during", "after") if faults else ("all",)
    broken = ("barrier",) if stack == "ginger" else ()
    return RunFacts(
        run=row,
        verdict=verdict(experiment, name, *broken),
        traffic=traffic(experiment, name),
        anomalies=tuple(anomaly(experiment, name, rule, "c0 got c1:1 after, c2 before total t") for rule in broken),
        latency=tuple(
            latency(experiment, name, guarantee, base_us * (place + 1), phase)
            for place, guarantee in enumerate(GUARANTEES)
            for phase in phases
        ),
        repairs=tuple(repair(experiment, name, 10_000_000, base_us + number) for number in range(faults)),
        load=tuple(load(experiment, name, f"b{number}", 1000 + number) for number in range(8)),
    )


def seed000(seeds: int = 5) -> list[RunFacts]:
    """As many runs as the sweeps of the first figures make."""
    runs = []
    for number, stack in enumerate(("resprout", "ginger")):
        for seed in range(1, seeds + 1):
            for faults in "0123":
                base_us = 100_000 * (number + 1) + 1_000 * seed + 10 * int(faults)
                runs += [
                    sweep_run(name, stack, seed, base_us, faults=faults) for name in ("seed000-5.3", "seed000-5.4")
                ]
                runs += [
                    sweep_run("seed000-5.5", stack, seed, base_us * int(keys), keys=keys, faults=faults)
                    for keys in ("1", "10", "100", "1000")
                ]
    return runs


def seed001() -> list[RunFacts]:
    """A run for each figure and stack, with what its labels are called."""
    axes = {
        "5.1a": {"brokers": "511"}, "5.1b": {"publishers": "8"}, "5.1c": {"bandwidth": "10Mbit"},
        "5.1d": {"payload": "32"}, "5.1e": {}, "5.1f": {"degree": "3"},
        "5.2": {"publishers": "8", "bandwidth": "10Mbit"},
        "5.3": {"publishers": "8", "bandwidth": "10Mbit"}, "5.4": {"brokers": "15"},
    }  # fmt: skip
    runs = []
    for figure, labels in axes.items():
        for number, stack in enumerate(("resprout", "locamu")):
            run = sweep_run(f"seed001-{figure}", stack, 1, 100, bundles="one", **labels)
            paper = {"paper_bytes": 5_400, "paper_messages": 10, "paper_bytes_max": 541} if number else {}
            row = traffic(run.run.experiment, run.run.run, steady_throughput=1000.0 * (number + 1), **paper)
            runs.append(msgspec.structs.replace(run, traffic=row))
    return runs


def gossip() -> list[RunFacts]:
    """With and without a failure."""
    runs = []
    for share in ("0.0", "0.3"):
        labels = {"share": share, "death": "told", "push": "eager", "view": "5-30"}
        run = sweep_run("gossip", "gossip", 1, 100, **labels)
        came = 1_000 - int(100 * float(share))
        judged = verdict("gossip", run.run.run, owed=1_000, came=came, told=(1_000 - came) // 3)
        runs.append(msgspec.structs.replace(run, verdict=judged))
    return runs


def seed004() -> list[RunFacts]:
    """A run for each figure and system, with what its labels are called."""
    axes = {
        "3": {"published": "10"}, "4": {"published": "10", "bandwidth": "10Mbit"}, "5": {"nodes": "20"},
        "6": {"nodes": "20"},
    }  # fmt: skip
    runs = []
    for figure, labels in axes.items():
        for system in ("gossip", "resprout"):
            run = sweep_run(f"seed004-{figure}", system, 1, 100, system=system, **labels)
            counted = {"Gossiped": 700, "Shuffle": 30} if system == "gossip" else {"Forward": 190, "Ping": 20}
            row = traffic(run.run.experiment, run.run.run, converged_us=1_000, messages_by_type=counted)
            runs.append(msgspec.structs.replace(run, traffic=row))
    return runs
