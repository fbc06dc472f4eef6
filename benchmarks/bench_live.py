"""How fast a run is judged while it happens, and how soon a violation is told.

The rate of the live judge is compared with that of the judge of whole traces, and its rate behind Spark with its rate
alone. The delay is that of a repeated delivery in a run that is written in real time, from the moment at which its file
is there to the moment at which it is told; by design it is the lateness that is allowed, and what Spark takes.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.bench_audit import make_trace
from benchmarks.measure import Measure, interleaved
from resprout.audit.judge import judge
from resprout.audit.live.judge import LiveJudge
from resprout.audit.live.memory import LiveOptions
from resprout.net.run.exchange import PERIOD_SECONDS
from resprout.pipeline.live import Finding, JudgeProgress, Violation, watching
from resprout.pipeline.session import session
from resprout.trace.schema import Row
from resprout.trace.store import LiveFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_SECOND: Final = 5_000
"""Of the run."""
PART_ROWS: Final = int(ROWS_PER_SECOND * PERIOD_SECONDS)
WAIT_SECONDS_MAX: Final = 300


def run(quick: bool = False) -> list[Measure]:
    rows = spread_out(make_trace(deliveries=30_000 if quick else 200_000))
    live, whole = interleaved(1 if quick else 3, lambda: judged_live(rows), lambda: judged(rows))
    with session() as spark, tempfile.TemporaryDirectory() as base:
        behind_spark = rate_behind_spark(spark, rows, Path(base) / "rate")
        delays = delays_of(spark, rows, Path(base) / "delay", seconds=10 if quick else 30)
    lateness_s = LiveOptions().lateness_us / 1e6
    return [
        Measure("live judge", live, "rows/s", "judge of whole traces", whole),
        Measure("live judge behind Spark", behind_spark, "rows/s", "live judge alone", live),
        Measure("delay, median", statistics.median(delays), "s", "lateness that is allowed", lateness_s),
        Measure("delay, longest", max(delays), "s", "lateness that is allowed", lateness_s),
    ]


def spread_out(rows: list[Row]) -> list[Row]:
    """So many a second."""
    return [
        msgspec.structs.replace(row, time_us=place * 1_000_000 // ROWS_PER_SECOND) for place, row in enumerate(rows)
    ]


def judged(rows: Sequence[Row]) -> int:
    assert not judge(rows).violated
    return len(rows)


def judged_live(rows: Sequence[Row]) -> int:
    live = LiveJudge()
    for begin in range(0, len(rows), PART_ROWS):
        assert not live.take(rows[begin : begin + PART_ROWS])
    return len(rows)


class Ear:
    """Keeps when what was told."""

    def __init__(self) -> None:
        self.told: list[tuple[float, Finding]] = []
        self.ended = threading.Event()

    def hear(self, batch: int, findings: Sequence[Finding]) -> None:
        now = time.monotonic()
        self.told += [(now, finding) for finding in findings]
        if any(isinstance(finding, JudgeProgress) and finding.ended for finding in findings):
            self.ended.set()

    def wait(self) -> None:
        if not self.ended.wait(WAIT_SECONDS_MAX):
            raise TimeoutError("the stream has not come to its end")


def rate_behind_spark(spark: "SparkSession", rows: list[Row], base: Path) -> float:
    """Of what was judged after the first micro-batch, in which Spark warms up."""
    live, ear = LiveFolder(base / "live"), Ear()
    for begin in range(0, len(rows), PART_ROWS):
        live.write(rows[begin : begin + PART_ROWS])
    with watching(spark, live.folder, base / "checkpoint", ear.hear, files_per_trigger=len(rows) // PART_ROWS // 4):
        ear.wait()
    standings = [(when, told.rows) for when, told in ear.told if isinstance(told, JudgeProgress)]
    (begin_s, first), (end_s, last) = standings[0], standings[-1]
    return (last - first) / (end_s - begin_s)


def delays_of(spark: "SparkSession", rows: list[Row], base: Path, seconds: int) -> list[float]:
    """One violation in every second part of a run in real time."""
    live, ear = LiveFolder(base / "live"), Ear()
    written: dict[int, float] = {}
    with watching(spark, live.folder, base / "checkpoint", ear.hear):
        live.write(rows[:PART_ROWS])
        while not ear.told:  # Spark has warmed up
            time.sleep(PERIOD_SECONDS)
        for number in range(1, int(seconds / PERIOD_SECONDS)):
            part = rows[number * PART_ROWS : (number + 1) * PART_ROWS]
            if not part:
                break
            if number % 2:
                last = next(row for row in reversed(part) if row.kind == "deliver")
                part.append(msgspec.structs.replace(last, time_us=part[-1].time_us))
            live.write(part)
            if number % 2:
                written[part[-1].time_us] = time.monotonic()
            time.sleep(PERIOD_SECONDS)
        live.write([Row(time_us=rows[-1].time_us, node="world", kind="quiescent")])
        ear.wait()
    found = [(when, told.anomaly) for when, told in ear.told if isinstance(told, Violation)]
    return [when - written[a.time_us] for when, a in found if a.rule == "twice"]


if __name__ == "__main__":
    for measure in run("--quick" in sys.argv):
        print(
            f"{measure.name}: {measure.value:,.2f} {measure.unit}; {measure.yardstick}: {measure.yardstick_value:,.2f}"
        )
