"""A trace on disk comes back as it was, or not at all."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resprout.core.errors import UsageError
from resprout.trace.columns import ARROW_SCHEMA, rows_of, table_of
from resprout.trace.schema import COLUMNS, Row, TraceError, digest_of
from resprout.trace.store import Recorder, RunInfo, TraceWriter, read_info, read_trace, write_trace
from tests.trace.rows import rows

INFO = RunInfo(
    scenario={"name": "one dies", "broker": [{"name": "b0"}]},
    options={"faults_tolerated": 1},
    seed=7,
    versions={"python": "3.11"},
    ended="quiescent",
)
SAMPLE = [
    Row(time_us=0, node="c0", kind="subscribe", filter="bank/#", where="amount > 1"),
    Row(
        time_us=5, node="c1", kind="publish", publisher="c1", incarnation=0, stream="ordered", seq=1, topic="bank/pt",
        keys=("a", "b"), guarantee="total", attributes={"z": "'x'", "amount": "3"},
    ),
    Row(time_us=9, node="c0", kind="deliver", position=0, keys=(), attributes={}, tseq=2, hops=1, metadata_bytes=3),
    Row(time_us=9, node="world", kind="quiescent", detail="at rest"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "trace"
    write_trace(target, SAMPLE, INFO)
    return target


def refusal(folder: Path) -> str:
    with pytest.raises(TraceError) as error:
        read_trace(folder)
    text = str(error.value)
    assert "\n" not in text
    assert isinstance(error.value, UsageError)
    return text.replace(str(folder), "DIR")


def test_rows_and_info_come_back(folder: Path) -> None:
    trace = read_trace(folder)
    assert trace.rows == SAMPLE
    assert trace.info.scenario == INFO.scenario
    assert (trace.info.rows, trace.info.digest, trace.info.seed) == (4, digest_of(SAMPLE), 7)
    assert sorted(path.name for path in folder.iterdir()) == ["part-00000.parquet", "run.json"]


def test_run_json_is_readable_and_has_the_promised_names(folder: Path) -> None:
    data = json.loads((folder / "run.json").read_text())
    promised = {
        "schema_version",
        "scenario",
        "options",
        "seed",
        "versions",
        "ended",
        "promise",
        "traffic",
        "digest",
        "rows",
    }
    assert set(data) == promised


def test_the_table_has_the_promised_columns(folder: Path) -> None:
    schema = pq.read_schema(folder / "part-00000.parquet")
    assert schema.names == list(COLUMNS) == ARROW_SCHEMA.names
    assert str(schema.field("attributes").type) == "map<string, string ('attributes')>"


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(rows(), max_size=12))
def test_any_rows_survive_the_table(observed: list[Row]) -> None:
    assert rows_of(table_of(observed)) == observed


@settings(deadline=None, derandomize=True, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(observed=st.lists(rows(), max_size=8))
def test_any_rows_survive_the_disk(tmp_path: Path, observed: list[Row]) -> None:
    write_trace(tmp_path / "t", observed, INFO)
    assert read_trace(tmp_path / "t").rows == observed


def test_a_sliced_table_is_read_from_its_offset() -> None:
    assert rows_of(table_of(SAMPLE).slice(1, 2)) == SAMPLE[1:3]


def test_a_run_without_rows_is_a_trace(tmp_path: Path) -> None:
    write_trace(tmp_path / "t", [], INFO)
    assert read_trace(tmp_path / "t").rows == []
    assert pq.read_table(tmp_path / "t" / "part-00000.parquet").num_rows == 0


def test_the_digest_is_the_same_however_the_rows_are_split(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t")
    for row in SAMPLE:
        writer.write([row])
    info = writer.finish(INFO)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 4
    assert info.digest == digest_of(SAMPLE)
    assert read_trace(tmp_path / "t").rows == SAMPLE


def test_writing_again_replaces_the_old_trace_with_all_its_parts(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t")
    for row in SAMPLE:
        writer.write([row])
    writer.finish(INFO)
    write_trace(tmp_path / "t", SAMPLE[:1], INFO)
    assert read_trace(tmp_path / "t").rows == SAMPLE[:1]


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(TraceError, match=r"holds 'thesis.tex', which is no trace"):
        write_trace(tmp_path, SAMPLE, INFO)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    with pytest.raises(TraceError, match="cannot be prepared for a trace: file exists"):
        write_trace(tmp_path / "t", SAMPLE, INFO)


def test_an_interrupted_write_is_no_trace_even_over_an_old_one(folder: Path) -> None:
    writer = TraceWriter(folder)
    assert "run.json: missing" in refusal(folder)
    writer.write(SAMPLE[:2])
    assert "run.json: missing" in refusal(folder)
    (folder / "part-00001.parquet.partial").write_bytes(b"PAR1")
    write_trace(folder, SAMPLE, INFO)
    assert read_trace(folder).rows == SAMPLE


def test_info_that_is_no_json_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"run.json: not written"):
        write_trace(tmp_path / "t", SAMPLE, RunInfo(scenario={"x": object()}))
    with pytest.raises(TraceError, match="missing"):
        read_info(tmp_path / "t")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"hops": 2**31}, "column hops cannot be written"),
        ({"seq": 2**63}, "column seq cannot be written"),
        ({"detail": "\ud800"}, "column detail cannot be written"),
        ({"topic": 5}, "column topic cannot be written"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_named(tmp_path: Path, columns: dict[str, int], reason: str) -> None:
    row = Row(time_us=0, node="n", kind="note", **columns)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=reason):
        write_trace(tmp_path / "t", [row], INFO)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == "DIR: there is no such folder"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff", "damaged"),
        (b"[1]", "damaged"),
        (b'{"schema_version": 1, "seed": "seven"}', "damaged: Expected `int`, got `str` - at `$.seed`"),
        (b'{"schema_version": 99}', "schema version 99; this program reads version 1"),
        (b'{"schema_version": "1"}', "damaged"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_damaged_info_is_refused(folder: Path, content: bytes, reason: str) -> None:
    (folder / "run.json").write_bytes(content)
    assert refusal(folder).startswith(f"DIR/run.json: {reason}")


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_truncated_part_is_refused(folder: Path, keep: int) -> None:
    part = folder / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:keep])
    assert refusal(folder).startswith("DIR/part-00000.parquet: damaged or not Parquet")


def test_no_flipped_byte_goes_unnoticed(folder: Path) -> None:
    """Either the part cannot be read, or its rows are noticed to be others; unless nothing was changed at all."""
    part = folder / "part-00000.parquet"
    content = part.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 80)):
        part.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            assert read_trace(folder).rows == SAMPLE
        except TraceError as error:
            assert str(error).startswith(str(folder))


def test_a_text_that_is_none_any_more_is_refused(folder: Path) -> None:
    part = folder / "part-00000.parquet"
    pq.write_table(table_of(SAMPLE), part, compression="none")
    part.write_bytes(part.read_bytes().replace(b"quiescent", b"quiesc\xeent"))
    assert refusal(folder).startswith("DIR/part-00000.parquet: damaged or not Parquet")


def test_missing_rows_are_refused(folder: Path) -> None:
    (folder / "part-00000.parquet").unlink()
    assert refusal(folder) == "DIR: the part files hold 0 rows, run.json says 4"


def test_other_rows_are_refused(folder: Path) -> None:
    other = [*SAMPLE[:3], Row(time_us=9, node="world", kind="quiescent", detail="at last")]
    pq.write_table(table_of(other), folder / "part-00000.parquet")
    assert refusal(folder).startswith("DIR: the rows are not those of the run: digest ")


def test_wrong_columns_are_refused(folder: Path) -> None:
    part = folder / "part-00000.parquet"
    table = table_of(SAMPLE)
    pq.write_table(table.drop_columns(["tseq"]), part)
    assert refusal(folder) == "DIR/part-00000.parquet: column tseq is missing or there twice"
    texts = pa.array(["0", "5", "9", "9"])
    pq.write_table(table.set_column(0, "time_us", texts), part)
    assert refusal(folder) == "DIR/part-00000.parquet: column time_us is string, not int64"
    nulls = pa.array([None, "a", "b", "c"])
    pq.write_table(table.set_column(1, "node", nulls), part)
    assert refusal(folder) == "DIR/part-00000.parquet: column node is null in row 0"


def test_nulls_inside_keys_or_attributes_are_refused(folder: Path) -> None:
    part = folder / "part-00000.parquet"
    table = table_of(SAMPLE)
    place = table.schema.get_field_index("keys")
    pq.write_table(table.set_column(place, ARROW_SCHEMA.field("keys"), pa.array([None, ["a", None], [], None])), part)
    assert refusal(folder) == "DIR/part-00000.parquet: column keys holds a null"


# -- recorder and digest ----------------------------------------------------------------------------------------------


def test_a_recorder_keeps_rows_and_their_digest() -> None:
    recorder = Recorder()
    for row in SAMPLE[:2]:
        recorder.record(row)
    assert recorder.digest == digest_of(SAMPLE[:2])
    for row in SAMPLE[2:]:
        recorder.record(row)
    assert recorder.rows == SAMPLE
    assert recorder.digest == digest_of(SAMPLE)
    assert len(recorder) == 4
    with pytest.raises(TraceError, match="no folder to finish"):
        recorder.finish(INFO)


def test_a_recorder_that_spills_leaves_the_same_trace(tmp_path: Path) -> None:
    recorder = Recorder(TraceWriter(tmp_path / "t"), spill_rows=3)
    for row in SAMPLE:
        recorder.record(row)
    assert len(recorder) == 4
    assert recorder.digest == digest_of(SAMPLE)
    with pytest.raises(TraceError, match="3 rows have left memory"):
        _ = recorder.rows
    info = recorder.finish(INFO)
    assert (info.rows, info.digest, recorder.digest) == (4, digest_of(SAMPLE), digest_of(SAMPLE))
    assert read_trace(tmp_path / "t").rows == SAMPLE


def test_the_digest_is_what_it_always_was() -> None:
    """A change here makes every stored trace unreadable: it needs a new schema version."""
    assert digest_of([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_of(SAMPLE) == "2ba040d11b73fff888a3413c862c5ddcb4e567ef1cb0b1141fe644c89bf227dc"


def test_the_digest_knows_order_and_every_cell_but_not_how_attributes_were_put_in() -> None:
    row = SAMPLE[1]
    turned = Row(**{name: getattr(row, name) for name in COLUMNS} | {"attributes": {"amount": "3", "z": "'x'"}})
    assert digest_of([turned]) == digest_of([row])
    assert digest_of(SAMPLE[::-1]) != digest_of(SAMPLE)
    for name in COLUMNS[3:]:
        assert digest_of([Row(time_us=0, node="", kind="")]) != digest_of(
            [Row(time_us=0, node="", kind="", **{name: _something(name)})]  # type: ignore[arg-type]
        )


def test_a_row_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(TraceError, match="cannot be encoded"):
        digest_of([Row(time_us=0, node="\ud800", kind="note")])


def _something(name: str) -> object:
    kind = ARROW_SCHEMA.field(name).type
    if pa.types.is_integer(kind):
        return 0
    return "" if pa.types.is_string(kind) else {} if pa.types.is_map(kind) else ()
