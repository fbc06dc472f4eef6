"""Runs are found in traces and archives alike; what is missing or damaged is said before anything is read."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import find_runs, make_archive, run_folder
from resprout.trace.schema import Row, TraceError
from resprout.trace.store import RunInfo, TraceWriter, write_trace


def rows(count: int, node: str = "c0") -> list[Row]:
    return [Row(time_us=n, node=node, kind="note", detail=str(n)) for n in range(count)]


def a_trace(folder: Path, count: int = 5, name: str = "storm") -> Path:
    write_trace(folder, rows(count), RunInfo(scenario={"name": name}, ended="quiescent"))
    return folder


def test_a_trace_is_a_run_of_its_scenario(tmp_path: Path) -> None:
    [place] = find_runs([a_trace(tmp_path / "t")])
    assert (place.experiment, place.info.rows, [part.rows for part in place.parts]) == ("storm", 5, [5])


@pytest.mark.parametrize("run", ["faults=2,seed=1", "a/b", "100%", "ü [x] {y} *", ".."])
def test_an_archive_keeps_any_name_of_a_run(tmp_path: Path, run: str) -> None:
    make_archive(tmp_path)
    a_trace(run_folder(tmp_path, "seed/000", run))
    [place] = find_runs([tmp_path])
    assert (place.experiment, place.run) == ("seed/000", run)
    assert Path(place.folder).parent.parent.parent == tmp_path


def test_the_same_run_given_twice_is_read_once(tmp_path: Path) -> None:
    folder = a_trace(tmp_path / "t")
    assert len(find_runs([folder, tmp_path / "." / "t"])) == 1


def test_what_is_neither_trace_nor_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="neither a trace"):
        find_runs([tmp_path])
    with pytest.raises(TraceError, match="no such folder"):
        find_runs([tmp_path / "nowhere"])


def test_a_part_that_is_gone_is_noticed(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t")
    writer.write(rows(3))
    writer.write(rows(4))
    writer.finish(RunInfo())
    (tmp_path / "t" / "part-00000.parquet").unlink()
    with pytest.raises(TraceError, match=r"hold 4 rows, run\.json says 7"):
        find_runs([tmp_path / "t"])


def test_a_part_that_was_cut_short_is_noticed(tmp_path: Path) -> None:
    part = a_trace(tmp_path / "t") / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(TraceError, match=r"part-00000\.parquet: damaged or not Parquet"):
        find_runs([tmp_path / "t"])


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    info = a_trace(tmp_path / "t") / "run.json"
    info.write_bytes(msgspec.json.encode({**msgspec.json.decode(info.read_bytes()), "schema_version": 99}))
    with pytest.raises(TraceError, match="schema version 99"):
        find_runs([tmp_path / "t"])


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    part = a_trace(tmp_path / "t") / "part-00000.parquet"
    table = pq.read_table(part)
    place = table.schema.get_field_index("seq")
    pq.write_table(table.set_column(place, "seq", table["seq"].cast(pa.int32())), part)
    with pytest.raises(TraceError, match="column seq is int32, not int64"):
        find_runs([tmp_path / "t"])


def test_a_column_that_this_version_does_not_know_is_refused(tmp_path: Path) -> None:
    part = a_trace(tmp_path / "t") / "part-00000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.append_column("colour", table["node"]), part)
    with pytest.raises(TraceError, match="column colour is none of a trace of this version"):
        find_runs([tmp_path / "t"])


def test_an_archive_of_another_version_is_refused(tmp_path: Path) -> None:
    make_archive(tmp_path)
    head = tmp_path / "archive.json"
    head.write_bytes(msgspec.json.encode({**msgspec.json.decode(head.read_bytes()), "version": 7}))
    with pytest.raises(PipelineError, match="version 7"):
        find_runs([tmp_path])
