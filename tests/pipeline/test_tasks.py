"""A function over things, as Spark tasks: what it returns is there at once, and leaving the loop ends the rest."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.pipeline import tasks
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.session import session
from resprout.pipeline.tasks import handed_to_tasks, run_each
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_result_is_there_while_others_still_work(spark: "SparkSession", tmp_path: Path) -> None:
    """The second task waits for a file that is written when the first one's result has come."""
    sign = str(tmp_path / "sign")

    def work(number: int) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while number == 2 and not Path(sign).exists():
            if time.monotonic() > deadline:
                return -1
            time.sleep(0.01)
        return number

    results = run_each(spark, work, [1, 2])
    assert next(results) == 1
    Path(sign).touch()
    assert list(results) == [2]


@pytest.mark.parametrize(("together", "jobs"), [(False, 5), (True, 3)])
def test_everything_is_done_once_in_however_many_jobs(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, together: bool, jobs: int
) -> None:
    monkeypatch.setattr(tasks, "BATCH", 2)
    monkeypatch.setattr("resprout.pipeline.tasks.secrets.token_hex", lambda _: f"counted-{together}")
    assert sorted(run_each(spark, lambda number: number * number, range(5), together)) == [0, 1, 4, 9, 16]
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"resprout-counted-{together}")) == jobs
    assert list(run_each(spark, str, [], together)) == []


def test_what_is_handed_to_tasks_is_packed_once_however_many_functions_need_it(spark: "SparkSession") -> None:
    class Large:
        packed = 0

        def __reduce__(self) -> tuple[type[str], tuple[str]]:
            Large.packed += 1
            return str, ("unpacked",)

    with handed_to_tasks(spark, Large()) as handed:
        assert list(run_each(spark, lambda number: f"{number} {handed()}", [1])) == ["1 unpacked"]
        assert list(run_each(spark, lambda number: f"{handed()} {number}", [2])) == ["unpacked 2"]
    assert Large.packed == 1


def test_what_the_function_raises_ends_the_loop_in_one_line(spark: "SparkSession") -> None:
    def work(number: int) -> int:
        raise PipelineError(f"number {number} cannot be")

    with pytest.raises(PipelineError, match=r"^number 7 cannot be$"), session():
        list(run_each(spark, work, [7]))


def test_leaving_the_loop_cancels_what_is_under_way(spark: "SparkSession", tmp_path: Path) -> None:
    """The third task cannot begin before the second has given up its place, and never does."""
    folder = str(tmp_path)

    def work(number: int) -> int:
        (Path(folder) / str(number)).touch()
        while number > 0:
            time.sleep(0.01)
        return number

    cores = spark.sparkContext.defaultParallelism
    results = run_each(spark, work, range(cores + 2))
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert list(run_each(spark, str, [1])) == ["1"]
    assert not (tmp_path / str(cores + 1)).exists()
