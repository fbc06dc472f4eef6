"""What is kept beside the runs of an archive."""

import threading
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resprout.audit.verdict import RULES, Anomaly, verdict_of
from resprout.pipeline import results
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import RunPlace
from resprout.pipeline.python_judge import anomaly_rows, verdict_row
from resprout.pipeline.results import (
    ANOMALIES_MAX,
    JUDGED,
    MEASURED,
    AnomalyRow,
    LatencyRow,
    RepairRow,
    RunRow,
    TrafficRow,
    VerdictRow,
    schema_of,
)
from resprout.trace.store import RunInfo


def place(run: str, digest: str = "d1", experiment: str = "e") -> RunPlace:
    return RunPlace(experiment, run, "", RunInfo(digest=digest), ())


def verdict(run: str, status: str = "clean", digest: str = "d1", experiment: str = "e") -> VerdictRow:
    return VerdictRow(experiment=experiment, run=run, digest=digest, status=status)


def anomaly(run: str, text: str) -> AnomalyRow:
    return AnomalyRow(experiment="e", run=run, digest="d1", rule="lost", time_us=1, node="c0", messages=(), text=text)


def test_rows_come_back_as_they_were_in_the_order_of_the_runs(tmp_path: Path) -> None:
    first = VerdictRow(
        experiment="e",
        run="r1",
        digest="d1",
        status="violated",
        rules_violated=("lost", "twice"),
        anomalies=3,
        notes={"total": "no order is claimed", "causal": "ünïcode"},
        skipped={},
    )
    results.append(tmp_path, VerdictRow, [first, verdict("r0")])
    assert results.read(tmp_path, VerdictRow, [place("r0"), place("r1")]) == [verdict("r0"), first]


def test_what_is_missing_in_a_row_stays_missing(tmp_path: Path) -> None:
    row = TrafficRow(
        experiment="e", run="r", digest="d1", throughput=0.1, hops_mean=None, metadata_bytes_mean=2.5,
        metadata_bytes_max=None, payload_bytes_mean=None, frames=1 << 40, frame_bytes=None, messages=None,
        messages_per_publication=None, messages_per_delivery=None,
    )  # fmt: skip
    full = msgspec.structs.replace(row, run="s", messages={"reports": 5, "clients": 7})
    results.append(tmp_path, TrafficRow, [row, full])
    assert results.read(tmp_path, TrafficRow, [place("r"), place("s")]) == [row, full]


def test_nothing_is_known_of_an_archive_without_results(tmp_path: Path) -> None:
    places = [place("r0"), place("r1")]
    assert results.read(tmp_path, RunRow, places) == []
    assert results.missing(tmp_path, [RunRow], places) == places
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_single_row_is_known_all_the_same(tmp_path: Path) -> None:
    results.append(tmp_path, AnomalyRow, [anomaly("r0", "a")], [place("r0"), place("r1")])
    assert results.missing(tmp_path, [AnomalyRow], [place("r0"), place("r1"), place("r2")]) == [place("r2")]
    assert results.read(tmp_path, AnomalyRow, [place("r1")]) == []


def test_the_same_name_in_another_experiment_is_another_run(tmp_path: Path) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r")])
    other = place("r", experiment="f")
    assert results.missing(tmp_path, [VerdictRow], [place("r"), other]) == [other]


def test_results_of_another_digest_are_stale(tmp_path: Path) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r", digest="old")])
    assert results.read(tmp_path, VerdictRow, [place("r", "new")]) == []
    assert results.missing(tmp_path, [VerdictRow], [place("r", "new")]) == [place("r", "new")]
    results.append(tmp_path, VerdictRow, [verdict("r", "violated", digest="new")])
    assert results.read(tmp_path, VerdictRow, [place("r", "new")]) == [verdict("r", "violated", digest="new")]
    assert results.read(tmp_path, VerdictRow, [place("r", "old")]) == [verdict("r", digest="old")]


def test_later_rows_of_a_run_replace_all_earlier_ones_and_leave_other_runs_alone(tmp_path: Path) -> None:
    earlier = [anomaly("r0", "a"), anomaly("r0", "b"), anomaly("r1", "c")]
    results.append(tmp_path, AnomalyRow, earlier)
    results.append(tmp_path, AnomalyRow, [anomaly("r0", "z")])
    places = [place("r0"), place("r1")]
    assert [row.text for row in results.read(tmp_path, AnomalyRow, places)] == ["z", "c"]
    results.append(tmp_path, AnomalyRow, [], [place("r1")])
    assert [row.text for row in results.read(tmp_path, AnomalyRow, places)] == ["z"]


def test_appending_nothing_about_nobody_writes_nothing(tmp_path: Path) -> None:
    results.append(tmp_path, AnomalyRow, [])
    assert list(tmp_path.iterdir()) == []


def test_writers_at_the_same_time_do_not_harm_each_other(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        for number in range(5):
            results.append(tmp_path, VerdictRow, [verdict(f"{writer}-{number}")])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    places = [place(f"{writer}-{number}") for writer in range(4) for number in range(5)]
    assert len(results.read(tmp_path, VerdictRow, places)) == 20


def test_what_a_writer_left_behind_that_was_stopped_is_passed_over(tmp_path: Path) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r")])
    (tmp_path / "results" / "verdicts" / "2026.parquet.partial").write_bytes(b"PAR1 and no more")
    assert results.read(tmp_path, VerdictRow, [place("r")]) == [verdict("r")]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.parquet", b"PAR1 nonsense", "damaged or not Parquet"),
        ("x.parquet", b"", "damaged or not Parquet"),
        ("notes.txt", b"mine", "does not belong among results"),
    ],
)
def test_a_damaged_or_foreign_file_is_named_in_one_line(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r")])
    (tmp_path / "results" / "verdicts" / name).write_bytes(content)
    with pytest.raises(PipelineError, match=says) as error:
        results.read(tmp_path, VerdictRow, [place("r")])
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_text_that_is_none_any_more_is_said_in_one_line(tmp_path: Path) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r")])
    [path] = (tmp_path / "results" / "verdicts").iterdir()
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table, path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"clean", b"cl\xecan"))
    with pytest.raises(PipelineError, match="damaged: 'utf-8' codec"):
        results.read(tmp_path, VerdictRow, [place("r")])


def test_a_run_that_one_of_several_tables_does_not_know_is_missing(tmp_path: Path) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r")])
    assert results.missing(tmp_path, [VerdictRow, AnomalyRow], [place("r")]) == [place("r")]
    results.append(tmp_path, AnomalyRow, [], [place("r")])
    assert results.missing(tmp_path, [VerdictRow, AnomalyRow], [place("r")]) == []


def test_a_table_that_somebody_else_wrote_is_no_file_of_results(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "verdicts"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"run": ["r"]}), folder / "other.parquet")
    with pytest.raises(PipelineError, match=r"other\.parquet: not a file of results"):
        results.missing(tmp_path, [VerdictRow], [place("r")])


def test_a_file_of_another_table_is_refused(tmp_path: Path) -> None:
    results.append(tmp_path, VerdictRow, [verdict("r")])
    results_folder = tmp_path / "results"
    (results_folder / "verdicts").rename(results_folder / "anomalies")
    with pytest.raises(PipelineError, match="holds the table 'verdicts', not 'anomalies'"):
        results.read(tmp_path, AnomalyRow, [place("r")])


def test_results_of_another_version_are_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "TABLES_VERSION", 99)
    results.append(tmp_path, VerdictRow, [verdict("r")])
    monkeypatch.undo()
    with pytest.raises(PipelineError, match=r"results of version 99, not 4; delete .*verdicts to have them made again"):
        results.read(tmp_path, VerdictRow, [place("r")])


def test_latencies_that_were_kept_before_there_were_curves_by_percentile_are_read_without_them(tmp_path: Path) -> None:
    row = LatencyRow(
        experiment="e", run="r", digest="d1", guarantee="fifo", phase="all", count=3, mean_us=2.0, median_us=2,
        p90_us=3, p95_us=3, p99_us=3, p999_us=3, max_us=3,
    )  # fmt: skip
    results.append(tmp_path, LatencyRow, [row])
    (path,) = tmp_path.rglob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["p90_us", "p999_us"]), path)
    (found,) = results.read(tmp_path, LatencyRow, [place("r")])
    assert found == msgspec.structs.replace(row, p90_us=None, p999_us=None)


def test_rows_that_do_not_fit_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be written"):
        results.append(tmp_path, AnomalyRow, [msgspec.structs.replace(anomaly("r", "x"), time_us="soon")])
    assert not list(tmp_path.rglob("*.parquet*"))


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(PipelineError, match="cannot be written: not a directory"):
        results.append(tmp_path, VerdictRow, [verdict("r")])


def test_every_table_has_a_schema_that_begins_with_the_run() -> None:
    tables = [*MEASURED, *JUDGED]
    assert len({table.TABLE for table in tables}) == 7
    for table in tables:
        schema = schema_of(table)
        assert schema.names[:3] == ["experiment", "run", "digest"]
        assert schema.names == list(table.__struct_fields__)
    assert schema_of(LatencyRow).field("mean_us").type == pa.float64()
    assert schema_of(RepairRow).field("ended_us").nullable
    assert not schema_of(RepairRow).field("began_us").nullable


def test_a_verdict_becomes_a_row_with_what_was_left_out() -> None:
    found = [Anomaly("lost", n, "c0", ("c1 ordered:1",), "it never came") for n in range(ANOMALIES_MAX + 20)]
    judged = verdict_of(found, {"total": "no order is claimed"}, {"bank_replay": "there is no bank"}, {})
    row = verdict_row(place("r"), judged)
    assert (row.status, row.rules_violated, row.anomalies) == ("violated", ("lost",), ANOMALIES_MAX + 20)
    assert row.notes == {"total": "no order is claimed"}
    assert row.skipped == {"bank_replay": "there is no bank"}
    kept = anomaly_rows(place("r"), judged)
    assert len(kept) == ANOMALIES_MAX
    assert kept[0].messages == ("c1 ordered:1",)


def test_a_row_tells_what_was_owed_and_came_of_a_run_that_came_to_rest() -> None:
    counts = {"owed": 10, "came": 7, "told": 2}
    row = verdict_row(place("r"), verdict_of([], {}, {}, counts))
    assert (row.owed, row.came, row.told) == (10, 7, 2)
    row = verdict_row(place("r"), verdict_of([], {}, {"lost": "the run met its time limit"}, counts))
    assert (row.owed, row.came, row.told) == (None, None, None)


def test_a_run_is_clean_only_when_something_was_judged() -> None:
    assert verdict_row(place("r"), verdict_of([], {}, {}, {})).status == "clean"
    assert verdict_row(place("r"), verdict_of([], {}, dict.fromkeys(RULES, "no rows"), {})).status == "not judged"


def test_many_anomalies_of_one_rule_leave_room_for_the_others() -> None:
    many = [Anomaly("barrier", n, "c0", ("c1:1",), f"barrier {n}") for n in range(150)]
    few = [Anomaly("bank_balance", n, "c0", ("c1:1",), f"balance {n}") for n in range(7)]
    judged = verdict_of([*many, *few], {}, {}, {})
    rows = anomaly_rows(place("r"), judged)
    assert len(rows) == ANOMALIES_MAX
    assert [row.text for row in rows if row.rule == "bank_balance"] == [f"balance {n}" for n in range(5)]
    assert [row.text for row in rows if row.rule == "barrier"] == [f"barrier {n}" for n in range(95)]
