"""How fast the judge on Spark judges, how that grows, and how much memory it takes.

Generated archives of clean runs (`benchmarks.spark.archive`) of 200,000 deliveries each, the same runs for everybody.
Next to Spark stand the judge in Python, which takes one run after the other, and an audit in DuckDB, whose task is
easier (`benchmarks.spark.yardstick`). Each measure is a process of its own, taken once: a session of Spark and its
workers stand when the clock begins. Whoever finds a violation in a clean run ends the benchmark.

Archives are made anew in a temporary folder, unless RESPROUT_BENCH_ARCHIVES names one to keep them in: 20 million
deliveries take 0.4 GB and some minutes.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.measure import Measure
from benchmarks.net.environment import BENCH_PYTHON, worker_environment
from benchmarks.spark.archive import write_archive
from benchmarks.spark.processes import output_and_peak
from resprout.pipeline.judging.runs import Limits
from resprout.pipeline.places import find_runs

ARCHIVES: Final = "RESPROUT_BENCH_ARCHIVES"
RUN_DELIVERIES: Final = 200_000
MEMORY_LIMIT_GB: Final = 6.0
_SPARK: Final = (sys.executable, "-m", "benchmarks.spark.engines", "spark")
_PYTHON: Final = (sys.executable, "-m", "benchmarks.spark.engines", "python")
_DUCKDB: Final = (str(BENCH_PYTHON), "-m", "benchmarks.spark.yardstick")


class Taken(msgspec.Struct, frozen=True):
    """What one engine said about one archive."""

    seconds: float
    processor: float
    """Seconds of processor time, of all cores together."""
    rows: int
    deliveries: int
    runs: int
    peak_gb: float
    """Of the whole tree of processes."""
    start: float = 0.0
    """Seconds until a session stands; Spark only."""
    first: float = 0.0
    """Seconds for the first question to a new session: one run, twice for each core; Spark only."""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def cost(self) -> float:
        return self.processor / self.rows * 1e6

    @property
    def size(self) -> str:
        return f"{self.deliveries / 1e6:.2g} M deliveries"

    @property
    def pieces(self) -> str:
        """The one run of --quick is no large one: it is judged by one task."""
        if self.runs > 1:
            return f"{self.runs} runs"
        return "1 run in shards" if self.rows > Limits().run_rows else "1 run in one task"


def run(quick: bool = False) -> list[Measure]:
    sizes = (1, 5) if quick else (5, 25, 100)
    with tempfile.TemporaryDirectory(prefix="resprout-bench-") as temporary:
        base = Path(os.environ.get(ARCHIVES) or temporary)
        many = _archive(base / "many", sizes[-1], RUN_DELIVERIES)
        one = _archive(base / f"one-of-{sizes[1]}", 1, sizes[1] * RUN_DELIVERIES)
        spark = [_taken(_SPARK, many[:size]) for size in sizes]
        in_one_run = _taken((*_SPARK, "--first", many[0]), one)
        python = _taken(_PYTHON, many[: sizes[0]])
        duckdb = _taken(_DUCKDB, many[: sizes[1]]) if _has_duckdb() else None
    small, middle, large = spark[0], spark[1], spark[-1]
    measures = _compared(small, "the judge in Python, run by run", python)
    if duckdb is not None:
        measures += _compared(middle, "an easier audit in DuckDB", duckdb)
    if large is not middle:
        measures += _compared(large, f"Spark, {small.size}", small)
    return [
        *measures,
        *_alone(small, large),
        *_compared(in_one_run, f"Spark, {middle.size} in {middle.runs} runs", middle),
    ]


def _compared(taken: Taken, name: str, other: Taken) -> list[Measure]:
    pieces = f"{taken.size}, {taken.pieces}"
    measures = [
        Measure(f"{pieces}: rate", taken.rate, "rows/s", name, other.rate),
        Measure(f"{pieces}: processor time", taken.cost, "µs/row (less is better)", name, other.cost),
        Measure(f"{pieces}: memory", taken.peak_gb, "GB (less is better)", name, other.peak_gb),
    ]
    if taken.rows == other.rows:
        measures.insert(0, Measure(f"{pieces}: time", taken.seconds, "s (less is better)", name, other.seconds))
    return measures


def _alone(small: Taken, large: Taken) -> list[Measure]:
    growth = small.rate / large.rate
    return [
        Measure(f"{large.size}: time", large.seconds, "s (less is better)", f"Spark, {small.size}", small.seconds),
        Measure(f"time per row, {large.size} over {small.size}", growth, "", "linear", 1.0, "at most 1.1"),
        Measure(
            f"{large.size}: memory", large.peak_gb, "GB (less is better)", "the limit", MEMORY_LIMIT_GB, "at most 1"
        ),
        Measure("session: until it stands", small.start, "s (less is better)", f"judging {small.size}", small.seconds),
        Measure(
            "session: its first question", small.first, "s (less is better)", f"judging {small.size}", small.seconds
        ),
    ]


def _archive(folder: Path, runs: int, deliveries: int) -> list[str]:
    """Folders of so many runs; an archive that is there already may hold more."""
    write_archive(folder, runs, deliveries)
    places = sorted(find_runs([folder]), key=lambda place: place.info.seed)
    return [place.folder for place in places[:runs]]


def _taken(engine: Sequence[str], folders: Sequence[str]) -> Taken:
    output, peak = output_and_peak([*engine, *folders], worker_environment())
    said = json.loads(output)
    if said["violations"]:
        raise AssertionError(f"{' '.join(engine[1:])} finds violations in clean runs: {said['violations']}")
    return msgspec.convert({**said, "runs": len(folders), "peak_gb": peak / 1e9}, Taken)


def _has_duckdb() -> bool:
    """Without it, it is left out: `make bench` sets its environment up."""
    if not BENCH_PYTHON.exists():
        return False
    return subprocess.run([BENCH_PYTHON, "-c", "import duckdb"], capture_output=True, check=False).returncode == 0
