"""An archive in an object store: nothing is renamed, locked or changed, and a run is there when its manifest is."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from resprout.audit.judge import judge
from resprout.pipeline import results, stores
from resprout.pipeline.archive import LEFT_SECONDS, ObjectStaging, count_rows, staging_in, verify, write_manifest
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.judging.runs import detect
from resprout.pipeline.metrics import measure
from resprout.pipeline.places import check_archive, find_runs, make_archive, run_folder
from resprout.pipeline.python_judge import judge_here, trace_of
from resprout.pipeline.results import MEASURED, RunRow
from resprout.pipeline.stores import StorePath, location
from resprout.trace.schema import TraceError
from resprout.trace.store import RunInfo, TraceWriter, read_trace
from tests.cli.archives import rows_of, without_last_delivery
from tests.pipeline.object_store import ObjectStore, object_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StorePath, ObjectStore]]:
    with object_store(tmp_path / "store", monkeypatch) as (bucket, behind):
        yield make_archive(bucket / "kept" / "runs of may"), behind


def written(stage: ObjectStaging, seed: int, spoiled: bool = False) -> Path:
    """A whole run of two parts, where a task has it."""
    rows = without_last_delivery(rows_of(seed)) if spoiled else rows_of(seed)
    folder = stage.new_folder()
    writer = TraceWriter(folder)
    writer.write(rows[: len(rows) // 2])
    writer.write(rows[len(rows) // 2 :])
    info = writer.finish(RunInfo(scenario={"name": "small"}, seed=seed, ended="quiescent"))
    write_manifest(folder, info, count_rows(folder))
    return folder


def add(archive: StorePath, run: str, seed: int = 1, replace: bool = False, spoiled: bool = False) -> bool:
    with staging_in(archive) as stage:
        assert isinstance(stage, ObjectStaging)
        return stage.publish(stage.bring(written(stage, seed, spoiled), "e", run), "e", run, replace)


def test_a_run_is_there_from_the_moment_its_manifest_is_written_last(store: tuple[StorePath, ObjectStore]) -> None:
    archive, behind = store
    with staging_in(archive) as stage:
        assert isinstance(stage, ObjectStaging)
        brought = stage.bring(written(stage, 1), "e", "r")
        assert find_runs([archive]) == [] and len(behind.written) == 5  # with archive.json
        assert stage.publish(brought, "e", "r")
    assert behind.written[-1].endswith("kept/runs of may/runs/experiment=e/run=r/manifest.json")
    [place] = find_runs([str(archive)])
    assert place.name == "e/r" and trace_of(place).rows == rows_of(1)
    assert verify(place)


def test_whoever_dies_before_that_has_added_nothing_and_the_next_one_does(
    store: tuple[StorePath, ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, behind = store
    for fatal in ("part-00001", "run.json", "version=", "run=r/manifest"):
        behind.fails_at = fatal
        with pytest.raises(PipelineError, match=r"cannot be reached: .*the connection is gone"):
            add(archive, "r")
        assert find_runs([archive]) == []
    behind.fails_at = ""
    assert add(archive, "r")
    assert [place.name for place in find_runs([archive])] == ["e/r"]
    versions = list(run_folder(archive, "e", "r").glob("version=*"))
    assert len(versions) > 1
    monkeypatch.setattr("resprout.pipeline.archive.LEFT_SECONDS", -LEFT_SECONDS)  # as if a day later
    assert add(archive, "r", seed=2, replace=True)
    assert len(list(run_folder(archive, "e", "r").glob("version=*"))) == 1


def test_the_same_run_is_taken_once_and_another_of_its_name_replaces_it_whole(
    store: tuple[StorePath, ObjectStore],
) -> None:
    archive, behind = store
    assert add(archive, "r") and not add(archive, "r")
    with pytest.raises(PipelineError, match="e/r: in the archive with another digest; --replace exchanges it"):
        add(archive, "r", seed=2)
    assert len(list(run_folder(archive, "e", "r").glob("version=*"))) == 1
    [before] = find_runs([archive])
    behind.written.clear()
    assert add(archive, "r", seed=2, replace=True)
    [after] = find_runs([archive])
    assert after.folder != before.folder and after.info.seed == 2 and verify(after)
    assert not any(before.folder.rpartition("/")[2] in path for path in behind.written)
    with pytest.raises(TraceError, match="replaced by another version of the run"):
        verify(before)


def test_a_damaged_run_is_noticed_and_can_be_replaced_by_the_same_one(store: tuple[StorePath, ObjectStore]) -> None:
    archive, _ = store
    add(archive, "r")
    [place] = find_runs([archive])
    location(place.parts[1].path).write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"part-00001.parquet: damaged: its bytes are not those that were archived"):
        verify(place)
    assert add(archive, "r", replace=True) and verify(find_runs([archive])[0])


def test_runs_are_judged_and_measured_where_they_lie_and_what_is_found_is_kept_there(
    store: tuple[StorePath, ObjectStore],
) -> None:
    archive, _ = store
    add(archive, "good")
    add(archive, "spoiled", 2, spoiled=True)
    check_archive(archive)
    places = find_runs([archive])
    assert judge_here(places) == [judge(trace_of(place)) for place in places]
    assert [detect(place, is_sealed=True).broken for place in places] == [set(), {"lost", "receipt"}]
    assert measure(archive, None) == 2 and results.missing(archive, MEASURED, places) == []
    assert [row.run for row in results.read(archive, RunRow, places)] == ["good", "spoiled"]


def test_no_part_of_an_archived_run_is_opened_to_find_it(
    store: tuple[StorePath, ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: the manifest says how many rows each holds."""
    archive, _ = store
    add(archive, "r")
    monkeypatch.setattr(pq, "read_metadata", lambda *_: pytest.fail("a footer was read"))
    [place] = find_runs([archive])
    assert [part.rows for part in place.parts] == [len(rows_of(1)) // 2, len(rows_of(1)) - len(rows_of(1)) // 2]


def test_a_copy_of_it_on_a_file_system_is_the_same_archive(
    store: tuple[StorePath, ObjectStore], tmp_path: Path
) -> None:
    archive, _ = store
    add(archive, "r")
    [place] = find_runs([tmp_path / "store" / "bucket" / "kept" / "runs of may"])
    assert place.name == "e/r" and verify(place) and read_trace(place.folder).rows == rows_of(1)


def test_what_others_call_the_same_store_is_the_same() -> None:
    assert location("s3a://bucket/runs/") == location("S3://bucket/runs") == StorePath("s3://bucket/runs")
    assert location("a:b/c") == Path("a:b/c")


def test_a_store_that_nobody_knows_is_said_in_one_line() -> None:
    stores.system_of.cache_clear()
    with pytest.raises(PipelineError, match="nowhere://bucket: cannot be reached: "):
        find_runs(["nowhere://bucket/runs"])
