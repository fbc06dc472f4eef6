"""How long it takes to be told what is wrong with a run: `resprout audit`, from its start to its last line.

A generated run of four million rows with one early delivery dropped: tens of thousands of later deliveries depend on
it. Beside it stands the same run without a fault. Each measure is a process of its own, taken once.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.measure import Measure
from benchmarks.net.environment import worker_environment
from benchmarks.spark.archive import generate, write_run
from benchmarks.spark.processes import output_and_peak
from benchmarks.spark.spoiled import write_with_a_delivery_dropped

DELIVERIES: Final = 3_030_000
"""Which is four million rows."""
_SEED: Final = 7
_AUDIT: Final = (sys.executable, "-m", "benchmarks.spark.audited")


class Taken(NamedTuple):
    seconds: float
    processor: float
    peak_gb: float
    anomalies: int


def run(quick: bool = False) -> list[Measure]:
    generated = generate(_SEED, DELIVERIES // 10 if quick else DELIVERIES)
    with tempfile.TemporaryDirectory(prefix="resprout-bench-") as temporary:
        clean, spoiled = Path(temporary) / "clean", Path(temporary) / "spoiled"
        rows = write_run(clean, generated, _SEED).rows
        write_with_a_delivery_dropped(spoiled, generated)
        measures = []
        for engine in ("python", "spark"):
            whole, broken = _taken(engine, clean), _taken(engine, spoiled)
            if whole.anomalies or not broken.anomalies:
                raise AssertionError(f"{engine} finds {whole.anomalies} anomalies, and {broken.anomalies} where one is")
            name = f"{engine}, {rows / 1e6:.2g} M rows, {broken.anomalies} anomalies"
            measures += [
                Measure(f"{name}: time", broken.seconds, "s (less is better)", "without fault", whole.seconds),
                Measure(f"{name}: processor", broken.processor, "s (less is better)", "without fault", whole.processor),
                Measure(f"{name}: memory", broken.peak_gb, "GB (less is better)", "without fault", whole.peak_gb),
            ]
    return measures


def _taken(engine: str, folder: Path) -> Taken:
    command: Sequence[str] = [*_AUDIT, engine, str(folder)]
    began = time.perf_counter()
    output, peak = output_and_peak(command, {**os.environ, **worker_environment()})
    seconds = time.perf_counter() - began
    said = json.loads(output)
    return Taken(seconds, said["processor"], peak / 1e9, said["anomalies"])
