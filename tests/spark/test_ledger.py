"""What is about to be published is put down first, and what was published is known."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from resprout.core.errors import UsageError
from resprout.spark.ledger import BATCHES_KEPT, LedgerEntry, clear, identity, ledger_folder
from resprout.spark.options import SinkError


def batches(*values: bytes) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": [value], "n": [1]}) for value in values]


def values(entry: LedgerEntry) -> list[bytes]:
    return [value for batch in entry.rows() for value in batch.to_pydict()["value"]]


def test_the_rows_of_the_first_attempt_are_those_that_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = (LedgerEntry(tmp_path / "query", 3, 1) for _ in range(2))
    assert first.put_down(batches(b"a", b"b", b"c")) == 3 and not first.is_done
    assert second.put_down(batches(b"c", b"a", b"b")) == 3, "in another order"
    assert values(second) == [b"a", b"b", b"c"] and not caplog.records
    with caplog.at_level(logging.WARNING):
        assert second.put_down(batches(b"x", b"y", b"z")) == 3, "a query that draws random values"
    assert "other rows than before" in caplog.text and values(second) == [b"a", b"b", b"c"]
    first.done()
    second.done()
    assert second.is_done and second.put_down(batches(b"a", b"b", b"c")) == 3
    assert sorted(path.name for path in (tmp_path / "query").iterdir()) == ["3-1.done"]


@pytest.mark.parametrize("done", [False, True])
def test_another_number_of_rows_is_no_repeat(done: bool, tmp_path: Path) -> None:
    entry = LedgerEntry(tmp_path, 3, 1)
    entry.put_down(batches(b"a", b"b"))
    if done:
        entry.done()
    for brought in (batches(b"a"), batches()):
        with pytest.raises(
            SinkError, match=f"2 rows were put down to be published, and now the query brings {len(brought)}"
        ):
            entry.put_down(brought)


def test_nothing_is_put_down_of_nothing(tmp_path: Path) -> None:
    assert LedgerEntry(tmp_path, 0, 0).put_down(batches()) == 0 and list(tmp_path.iterdir()) == []


def test_what_was_published_long_ago_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    for batch in range(BATCHES_KEPT + 2):
        entry = LedgerEntry(tmp_path, batch, 0)
        entry.put_down(batches(b"a"))
        if batch != 1:
            entry.done()
    (tmp_path / ".3-0.0badcafe").touch()
    clear(tmp_path, BATCHES_KEPT + 1)
    left = {path.name for path in tmp_path.iterdir()}
    assert "0-0.done" not in left and "1-0.rows" in left and "2-0.done" in left and len(left) == BATCHES_KEPT + 1


def test_a_ledger_is_a_folder() -> None:
    assert ledger_folder("file:///a%20b/c") == Path("/a b/c") and ledger_folder("/x") == Path("/x")
    with pytest.raises(UsageError, match="set the option ledger"):
        ledger_folder("s3a://bucket/checkpoint")


def test_each_ledger_is_known_from_all_others(tmp_path: Path) -> None:
    assert identity(tmp_path / "a") == identity(tmp_path / "a") != identity(tmp_path / "b")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["identity"]
