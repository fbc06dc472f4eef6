"""The streaming audit: files of rows in, violations out, once each, also over a restart."""

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import Anomaly
from resprout.cli.main import run
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.live import SPARK_SCHEMA, Finding, JudgeProgress, LiveWatch, Violation, watching
from resprout.trace.columns import ARROW_SCHEMA
from resprout.trace.schema import Row
from resprout.trace.store import LiveFolder
from tests.audit.live_comparison import watched
from tests.audit.model import good_trace
from tests.audit.mutations import MUTATIONS
from tests.audit.test_live_memory import by_time, slowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.patience import PATIENCE_S

NEVER_MS = 10**9
OPTIONS = LiveOptions(lateness_us=30_000, grace_us=40_000, linger_us=100_000, horizon_us=1_000_000)


class Ear:
    """Hears what a stream finds."""

    def __init__(self, after: int = -1) -> None:
        self._after = after
        """The last micro-batch that was heard by somebody before; if it was interrupted there, it comes again."""
        self.anomalies: list[Anomaly] = []
        self.batches: list[int] = []
        self.standing = JudgeProgress(0, 0, 0, 0, {}, {})

    def hear(self, batch: int, findings: Sequence[Finding]) -> None:
        self.batches.append(batch)
        for finding in findings:
            if isinstance(finding, Violation):
                if batch <= self._after:
                    continue
                self.anomalies.append(finding.anomaly)
            else:
                self.standing = finding

    def wait(self, query: LiveWatch, rows: int | None = None) -> None:
        """Until so many rows have come in, or the run is over."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            query.check()
            if self.standing.ended or (rows is not None and self.standing.rows + self.standing.held >= rows):
                return
            time.sleep(0.05)
        raise AssertionError(f"only {self.standing} after {PATIENCE_S} s")


def spoiled(name: str) -> list[Row]:
    """The first of a number of good traces that can be spoiled in this way."""
    tried = (MUTATIONS[name][1](good_trace(seed, 220), random.Random(seed)) for seed in range(1000, 1040))
    return slowed(next(rows for rows in tried if rows is not None))


def parts(rows: list[Row], count: int) -> list[list[Row]]:
    size = -(-len(rows) // count)
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def test_a_stream_that_is_fed_file_by_file_is_judged_as_it_comes(spark: "SparkSession", tmp_path: Path) -> None:
    rows = spoiled("swap")
    live, ear = LiveFolder(tmp_path / "live"), Ear()
    with watching(spark, live.folder, tmp_path / "checkpoint", ear.hear, OPTIONS, pause_ms=NEVER_MS) as query:
        fed = 0
        for part in parts(rows, 3):
            live.write(part)
            fed += len(part)
            ear.wait(query, fed)
        early = len(ear.anomalies)
        ear.wait(query)
    assert ear.standing.ended == "quiescent"
    assert ear.standing.rows == len(rows)
    assert early > 0
    assert by_time(ear.anomalies) == by_time(watched(rows, OPTIONS))
    assert {anomaly.rule for anomaly in ear.anomalies} >= {"fifo"}


def test_a_colon_in_the_name_of_a_folder_is_part_of_the_name(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = slowed(good_trace(1000, 220))
    live, ear = LiveFolder(tmp_path / "live: 1"), Ear()
    live.write(rows)
    monkeypatch.chdir(tmp_path)
    with watching(spark, Path("live: 1"), Path("checkpoint: 1"), ear.hear, OPTIONS, pause_ms=NEVER_MS) as query:
        ear.wait(query)
    assert ear.standing.rows == len(rows)


def test_a_restart_in_the_middle_judges_nothing_twice_and_forgets_nothing(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rows = spoiled("disagree_on_totals")
    live, first = LiveFolder(tmp_path / "live"), Ear()
    begin, *rest = parts(rows, 3)
    live.write(begin)
    with watching(spark, live.folder, tmp_path / "checkpoint", first.hear, OPTIONS, pause_ms=NEVER_MS) as query:
        first.wait(query, len(begin))
    for part in rest:
        live.write(part)
    second = Ear(after=max(first.batches))
    with watching(spark, live.folder, tmp_path / "checkpoint", second.hear, OPTIONS, pause_ms=NEVER_MS) as query:
        second.wait(query)
    assert second.standing.rows == len(rows)
    assert by_time([*first.anomalies, *second.anomalies]) == by_time(watched(rows, OPTIONS))
    assert max(first.batches) <= min(second.batches)


def test_silence_is_no_reason_to_keep_a_violation_back(spark: "SparkSession", tmp_path: Path) -> None:
    rows = spoiled("duplicate")
    live, ear = LiveFolder(tmp_path / "live"), Ear()
    live.write(rows[:-1])
    patient = LiveOptions(lateness_us=10**12)
    with watching(spark, live.folder, tmp_path / "checkpoint", ear.hear, patient, pause_ms=100) as query:
        ear.wait(query, len(rows) - 1)
        while ear.standing.held:
            query.check()
            time.sleep(0.05)
    assert "twice" in {anomaly.rule for anomaly in ear.anomalies}
    assert not ear.standing.ended


def test_a_file_that_is_no_table_ends_the_stream_with_one_line(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "rows-000000.parquet").write_bytes(b"no table at all")
    ear = Ear()
    with (
        pytest.raises(PipelineError) as caught,
        watching(spark, tmp_path / "live", tmp_path / "checkpoint", ear.hear) as query,
    ):
        ear.wait(query)
    assert "\n" not in str(caught.value)
    assert "rows-000000.parquet" in str(caught.value)


def test_the_command_ends_with_the_run_and_can_be_asked_again(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = spoiled("duplicate")
    LiveFolder(tmp_path / "live").write(rows)
    words = ["watch", str(tmp_path / "live"), "--json", "--lateness", "0.03", "--out", str(tmp_path / "out")]
    words += ["--checkpoint", str(tmp_path / "checkpoint")]
    assert run(words) == 1
    *found, summary = map(json.loads, capfd.readouterr().out.splitlines())
    assert summary["verdict"] == "violated"
    assert summary["ended"] == "quiescent"
    assert summary["rules"]["twice"] == 1
    written = [line for path in sorted((tmp_path / "out").iterdir()) for line in path.read_text().splitlines()]
    assert [json.loads(line) for line in written] == found
    assert [violation["rule"] for violation in found].count("twice") == 1
    assert run(words) == 1
    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == [summary]


def test_the_command_says_that_a_clean_run_is_clean(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    LiveFolder(tmp_path / "live").write(slowed(good_trace(3, 220)))
    assert run(["watch", str(tmp_path / "live")]) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("clean")


def test_spark_reads_the_columns_of_a_trace(spark: "SparkSession") -> None:
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    del spark  # which is what knows how to read it
    read, written = StructType.fromDDL(SPARK_SCHEMA), from_arrow_schema(ARROW_SCHEMA)
    assert isinstance(read, StructType)
    assert [(field.name, field.dataType) for field in read] == [(field.name, field.dataType) for field in written]
