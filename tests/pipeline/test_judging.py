"""Runs judged on Spark: in shards, senseless, damaged. The same is said as by the judge in Python."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.audit.judge import judge
from resprout.pipeline.judging import judge_runs
from resprout.pipeline.judging.runs import Limits
from resprout.trace.schema import TraceError
from resprout.trace.store import read_trace
from tests.audit.bank_model import bank_trace
from tests.audit.model import good_trace
from tests.pipeline.judging_cases import Case, mutants, senseless_cases, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_no_runs_have_no_verdicts(spark: "SparkSession") -> None:
    assert judge_runs(spark, []) == []


def test_a_run_in_shards_has_the_same_verdict(tmp_path: Path, spark: "SparkSession") -> None:
    """A clean one, a bank, and one that needs to be explained, each of many part files."""
    spoiled = next(case for case in mutants(1) if case.name.startswith("invert_across_topics"))
    cases = [Case("good", good_trace(5, 220)), Case("bank", bank_trace(7)), spoiled]
    places = [write(tmp_path, case, part_rows=60) for case in cases]
    limits = Limits(run_rows=50, shard_deliveries=60, task_rows=300)
    assert judge_runs(spark, places, limits) == [case.verdict for case in cases]


def test_a_run_that_is_explained_alone_has_the_same_verdict(tmp_path: Path, spark: "SparkSession") -> None:
    cases = [Case("good", good_trace(5, 220)), *list(mutants(1))[:2]]
    places = [write(tmp_path, case) for case in cases]
    assert judge_runs(spark, places, Limits(explained_rows=10)) == [case.verdict for case in cases]


def test_rows_that_make_no_sense_are_refused_in_the_same_words(tmp_path: Path, spark: "SparkSession") -> None:
    cases = list(senseless_cases())
    good = write(tmp_path, Case("good", good_trace(1, 220)))
    for case in (cases[1], cases[-1]):
        with pytest.raises(TraceError) as python:
            judge(case.rows)
        with pytest.raises(TraceError) as on_spark:
            judge_runs(spark, [good, bad := write(tmp_path, case)])
        assert str(on_spark.value) == f"{bad.folder}: {python.value}"
    with pytest.raises(TraceError, match="position"):
        judge_runs(spark, [write(tmp_path, cases[1], part_rows=60)], Limits(run_rows=50, task_rows=100))


@pytest.mark.parametrize("limits", [Limits(), Limits(run_rows=50)])
def test_damaged_part_files_are_refused_in_the_same_words(
    tmp_path: Path, spark: "SparkSession", limits: Limits
) -> None:
    place = write(tmp_path, Case("one", good_trace(1, 220)), part_rows=400)
    path = Path(place.parts[0].path)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(TraceError) as python:
        read_trace(place.folder)
    with pytest.raises(TraceError) as on_spark:
        judge_runs(spark, [place], limits)
    assert str(on_spark.value) == str(python.value)
