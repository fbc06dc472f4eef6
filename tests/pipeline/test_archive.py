"""Traces come into an archive verified, once, and exactly as they were; or it is said why not, and nothing changed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resprout.core.errors import UsageError
from resprout.pipeline import ingest
from resprout.pipeline.archive import check_trace, verify
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.ingest import Added, add_runs
from resprout.pipeline.places import HEAD_NAME, check_archive, find_runs, run_folder
from resprout.pipeline.python_judge import judge_here
from resprout.trace.schema import TraceError
from resprout.trace.store import read_trace
from tests.pipeline.small import a_trace, files, spoil

pytestmark = pytest.mark.usefixtures("spark")


def test_an_archived_run_is_the_trace_to_the_byte_and_reads_back_with_its_digest(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "t")
    assert add_runs(tmp_path / "a", [trace]) == Added(added=("storm/t",), replaced=(), there=())
    [place] = find_runs([tmp_path / "a"])
    archived = files(Path(place.folder))
    assert archived.pop("manifest.json") and archived == files(trace)
    assert read_trace(place.folder) == read_trace(trace)
    assert verify(place)


def test_folders_of_traces_and_other_archives_can_be_added_whole(tmp_path: Path) -> None:
    for name in ("x", "y/z"):
        a_trace(tmp_path / "many" / name, node=name)
    told: list[tuple[int, int]] = []
    add_runs(tmp_path / "a", [tmp_path / "many"], experiment="e", on_progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]
    add_runs(tmp_path / "b", [tmp_path / "a", a_trace(tmp_path / "t")])
    assert [place.name for place in find_runs([tmp_path / "b"])] == ["e/x", "e/y/z", "storm/t"]
    add_runs(tmp_path / "c", [tmp_path])
    assert [place.name for place in find_runs([tmp_path / "c"])] == [
        "e/x",
        "e/y/z",
        "storm/many/x",
        "storm/many/y/z",
        "storm/t",
    ]


def test_adding_again_changes_nothing_and_says_so(tmp_path: Path) -> None:
    traces = [a_trace(tmp_path / "t"), a_trace(tmp_path / "u", 7)]
    add_runs(tmp_path / "a", traces[:1])
    assert add_runs(tmp_path / "a", traces) == Added(added=("storm/u",), replaced=(), there=("storm/t",))
    before = files(tmp_path / "a")
    assert add_runs(tmp_path / "a", traces).there == ("storm/t", "storm/u")
    assert files(tmp_path / "a") == before


def test_another_run_of_the_same_name_is_refused_unless_it_is_to_replace_the_old_one(tmp_path: Path) -> None:
    add_runs(tmp_path / "a", [a_trace(tmp_path / "t")])
    before = files(tmp_path / "a")
    traces = [a_trace(tmp_path / "t", 8), a_trace(tmp_path / "u")]
    with pytest.raises(PipelineError, match="storm/t: in the archive with another digest; --replace exchanges it"):
        add_runs(tmp_path / "a", traces)
    assert files(tmp_path / "a") == before
    assert add_runs(tmp_path / "a", traces, replace=True) == Added(("storm/u",), ("storm/t",), ())
    [place, _] = find_runs([tmp_path / "a"])
    assert place.info.rows == 16 and verify(place)


def test_a_damaged_run_can_be_replaced_by_the_same_one(tmp_path: Path) -> None:
    traces = [a_trace(tmp_path / "t"), a_trace(tmp_path / "u", 7)]
    add_runs(tmp_path / "a", traces)
    before = files(tmp_path / "a")
    spoil(run_folder(tmp_path / "a", "storm", "t") / "part-00000.parquet")
    assert add_runs(tmp_path / "a", traces).there == ("storm/t", "storm/u")
    assert add_runs(tmp_path / "a", traces, replace=True) == Added((), ("storm/t",), ("storm/u",))
    assert files(tmp_path / "a") == before


def test_two_traces_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    one, other = a_trace(tmp_path / "1" / "t"), a_trace(tmp_path / "2" / "t", 9)
    with pytest.raises(PipelineError, match=r"1/t and .*2/t are different runs and would both be called storm/t"):
        add_runs(tmp_path / "a", [one, other])
    assert add_runs(tmp_path / "a", [one, a_trace(tmp_path / "3" / "t")]).added == ("storm/t",)


def test_a_name_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "t", name="ü" * 60)
    with pytest.raises(PipelineError, match="name it with --experiment"):
        add_runs(tmp_path / "a", [trace])
    assert add_runs(tmp_path / "a", [trace], experiment="short").added == ("short/t",)


# -- traces that will not do ---------------------------------------------------------------------------------------


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    def rewrite(folder: Path) -> None:
        path = folder / "part-00001.parquet"
        pq.write_table(change(pq.read_table(path)), path)

    return rewrite


def of_version_2(folder: Path) -> None:
    path = folder / "run.json"
    info = msgspec.json.decode(path.read_bytes()) | {"schema_version": 2}
    path.write_bytes(msgspec.json.encode(info))


def narrow(table: pa.Table) -> pa.Table:
    return table.set_column(0, "time_us", table["time_us"].cast(pa.int32()))


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "flipped bytes": (lambda t: spoil(t / "part-00001.parquet"), "part-00001.parquet: |the rows are not those of"),
    "truncated": (lambda t: (t / "part-00001.parquet").write_bytes(b"PAR1"), "part-00001.parquet: damaged or not"),
    "a part is gone": (lambda t: (t / "part-00000.parquet").unlink(), "the part files hold 5 rows, run.json says 10"),
    "exchanged parts": (
        lambda t: shutil.copyfile(t / "part-00000.parquet", t / "part-00001.parquet"),
        "the rows are not those of the run",
    ),
    "schema version": (of_version_2, "run.json: schema version 2; this program reads version 1"),
    "missing column": (rewritten(lambda table: table.drop_columns(["hops"])), "column hops is missing"),
    "changed column": (rewritten(narrow), "column time_us is int32, not int64"),
    "extra column": (
        rewritten(lambda table: table.append_column("epoch", table["seq"])),
        "column epoch is none of a trace of this version",
    ),
    "no run.json": (lambda t: (t / "run.json").unlink(), "holds no trace"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_trace_that_is_not_whole_is_refused_and_nothing_comes_in(tmp_path: Path, damage: str) -> None:
    change, said = DAMAGE[damage]
    add_runs(tmp_path / "a", [a_trace(tmp_path / "old")])
    before = files(tmp_path / "a")
    bad = a_trace(tmp_path / "bad")
    change(bad)
    with pytest.raises(UsageError, match=said) as raised:
        add_runs(tmp_path / "a", [a_trace(tmp_path / "good"), bad])
    assert str(bad) in str(raised.value) and "\n" not in str(raised.value)
    assert files(tmp_path / "a") == before


def test_a_trace_is_checked_in_the_words_of_the_reader(tmp_path: Path) -> None:
    shutil.copyfile(a_trace(tmp_path / "t") / "part-00000.parquet", tmp_path / "t" / "part-00001.parquet")
    with pytest.raises(TraceError) as read:
        read_trace(tmp_path / "t")
    with pytest.raises(TraceError) as checked:
        check_trace(tmp_path / "t")
    assert str(read.value) == str(checked.value)


# -- archives that will not do -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{"format": "resprout archive", "version": 2, "schema_version": 1}',
            "version 2; this program reads version 1",
        ),
        ('{"format": "resprout archive", "version": 1, "schema_version": 2}', "schema version 2; this program reads 1"),
        ('{"format": "zip", "version": 1, "schema_version": 1}', "format 'zip'; this program reads 'resprout archive'"),
        ("{}", "archive.json: damaged: "),
        ("half a li", "archive.json: damaged: "),
    ],
)
def test_an_archive_of_another_kind_is_refused_and_left_alone(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / HEAD_NAME).write_text(content)
    before = files(tmp_path / "a")
    with pytest.raises(PipelineError, match=said):
        add_runs(tmp_path / "a", [a_trace(tmp_path / "t")])
    assert files(tmp_path / "a") == before


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "t")
    before = files(tmp_path)
    with pytest.raises(PipelineError, match=r"not an archive, and not empty: it holds 'part-00000.parquet'"):
        add_runs(trace, [trace])
    with pytest.raises(PipelineError, match="cannot hold an archive: not a directory"):
        add_runs(trace / "run.json", [trace])
    with pytest.raises(PipelineError, match="holds no trace"):
        add_runs(tmp_path / "a", [empty_folder(tmp_path / "empty")])
    assert files(tmp_path) == before
    with pytest.raises(PipelineError, match=r"not an archive, archive.json is missing"):
        check_archive(trace)


def empty_folder(path: Path) -> Path:
    path.mkdir()
    return path


# -- later -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda run: spoil(run / "part-00001.parquet"),
            "part-00001.parquet: damaged: its bytes are not those that were",
        ),
        (lambda run: (run / "part-00001.parquet").unlink(), "part-00001.parquet: missing"),
        (
            lambda run: shutil.copyfile(run / "run.json", run / "part-00002.parquet"),
            "not there when the run was archived",
        ),
        (lambda run: (run / "run.json").write_bytes((run / "run.json").read_bytes() + b" "), "run.json: damaged: its"),
        (lambda run: (run / "manifest.json").write_text("{"), "manifest.json: damaged: "),
    ],
)
def test_a_run_that_was_changed_in_the_archive_is_noticed_by_its_bytes(
    tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    add_runs(tmp_path / "a", [a_trace(tmp_path / "t")])
    [place] = find_runs([tmp_path / "a"])
    change(Path(place.folder))
    with pytest.raises(TraceError, match=said):
        verify(place)


def test_a_trace_outside_of_an_archive_has_no_manifest_to_verify_it_by(tmp_path: Path) -> None:
    [place] = find_runs([a_trace(tmp_path / "t")])
    assert not verify(place)


def test_files_of_other_columns_that_got_among_the_runs_are_never_read(tmp_path: Path) -> None:
    """Not even one part among many: whoever reads a run compares it with its manifest."""
    add_runs(tmp_path / "a", [a_trace(tmp_path / "t")])
    part = run_folder(tmp_path / "a", "storm", "t") / "part-00001.parquet"
    pq.write_table(pq.read_table(part, partitioning=None).drop_columns(["hops"]), part)
    [place] = find_runs([tmp_path / "a"])
    with pytest.raises(TraceError, match=r"part-00001.parquet: damaged: its bytes are not those that were archived"):
        judge_here([place])


def test_spark_is_not_started_for_runs_that_are_there_or_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_runs(tmp_path / "a", [a_trace(tmp_path / "t")])
    monkeypatch.setattr(ingest, "session", None)
    assert add_runs(tmp_path / "a", [tmp_path / "t"]).there == ("storm/t",)
    (a_trace(tmp_path / "u") / "part-00000.parquet").write_text("no table")
    with pytest.raises(TraceError, match="damaged or not Parquet"):
        add_runs(tmp_path / "a", [tmp_path / "u"])
    with pytest.raises(TypeError):
        add_runs(tmp_path / "a", [a_trace(tmp_path / "v")])
