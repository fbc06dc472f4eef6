"""Measuring many runs on Spark, and those of an archive only once."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.pipeline import results
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.metrics import Measurements, measure, measure_run, measure_runs
from resprout.pipeline.places import archived_runs, find_runs, make_archive, run_folder
from resprout.pipeline.results import LatencyRow, LoadRow, RepairRow, RunRow, TrafficRow
from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, write_trace
from tests.pipeline.test_metrics import deliver, publish, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of(number: int) -> list[Row]:
    rows = [publish(n, n) for n in range(number + 1)] + [deliver(100 + n * n, "s", n) for n in range(number + 1)]
    if number % 2:
        rows += [row(900, "b1", "crash"), row(910, "b0", "repair_begin", "b1"), row(920, "b0", "repair_end", "b1")]
    return [*rows, row(1_000, "world", "quiescent")]


def an_archive(folder: Path, runs: int) -> Path:
    make_archive(folder)
    for number in range(runs):
        add(folder, f"x={number % 3},seed={number}", rows_of(number))
    return folder


def add(archive: Path, run: str, rows: list[Row]) -> None:
    write_trace(run_folder(archive, "storm", run), rows, RunInfo(ended="quiescent", scenario={"stack": "resprout"}))


def test_many_runs_are_measured_as_each_would_be_alone(spark: "SparkSession", tmp_path: Path) -> None:
    places = find_runs([an_archive(tmp_path / "a", 9)])
    found = measure_runs(spark, places)
    alone = [measure_run(place) for place in places]
    for table in Measurements.__struct_fields__:
        assert getattr(found, table) == [row for one in alone for row in getattr(one, table)]
    assert [run.labels for run in found.runs][:2] == [{"x": "0"}, {"x": "0"}]
    assert len(found.repairs) == 4


def test_a_trace_by_itself_has_the_labels_of_its_folder(tmp_path: Path) -> None:
    write_trace(tmp_path / "keys=10,seed=3", rows_of(1), RunInfo(ended="quiescent"))
    [place] = find_runs([tmp_path / "keys=10,seed=3"])
    assert measure_run(place).runs[0].labels == {"keys": "10"}


def test_no_runs_are_no_work(spark: "SparkSession") -> None:
    assert measure_runs(spark, []) == Measurements()


def test_an_archive_is_measured_once(spark: "SparkSession", tmp_path: Path) -> None:
    archive = an_archive(tmp_path / "a", 4)
    assert measure(archive, spark) == 4
    before = {path: path.stat().st_mtime_ns for path in (archive / "results").rglob("*.parquet")}
    assert measure(archive, spark) == 0
    assert {path: path.stat().st_mtime_ns for path in (archive / "results").rglob("*.parquet")} == before
    places = find_runs([archive])
    found = measure_runs(spark, places)
    assert results.read(archive, RunRow, places) == found.runs
    assert results.read(archive, LatencyRow, places) == found.latency
    assert results.read(archive, RepairRow, places) == found.repairs
    assert results.read(archive, TrafficRow, places) == found.traffic
    assert results.read(archive, LoadRow, places) == found.load
    assert results.missing(archive, [RepairRow], places) == []


def test_only_new_and_replaced_runs_are_measured_again(spark: "SparkSession", tmp_path: Path) -> None:
    archive = an_archive(tmp_path / "a", 3)
    measure(archive, spark)
    add(archive, "x=0,seed=0", rows_of(7))
    add(archive, "x=9,seed=9", rows_of(2))
    told: list[tuple[int, int]] = []
    assert measure(archive, spark, lambda done, total: told.append((done, total))) == 2
    assert told == [(0, 2), (2, 2)]
    runs = {row.run: row for row in results.read(archive, RunRow, list(archived_runs(archive)))}
    assert len(runs) == 4
    assert runs["x=0,seed=0"].deliveries == 8
    assert runs["x=9,seed=9"].labels == {"x": "9"}


def test_a_table_that_was_deleted_is_made_again(spark: "SparkSession", tmp_path: Path) -> None:
    archive = an_archive(tmp_path / "a", 2)
    measure(archive, spark)
    places = find_runs([archive])
    known = results.read(archive, LatencyRow, places)
    shutil.rmtree(archive / "results" / "latency")
    assert measure(archive, spark) == 2
    assert results.read(archive, LatencyRow, places) == known
    assert measure(archive, spark) == 0


def test_results_are_kept_only_beside_an_archive(spark: "SparkSession", tmp_path: Path) -> None:
    write_trace(tmp_path / "t", rows_of(2), RunInfo(ended="quiescent"))
    with pytest.raises(PipelineError, match="not an archive"):
        measure(tmp_path / "t", spark)
    assert measure_runs(spark, find_runs([tmp_path / "t"])).runs[0].deliveries == 3
