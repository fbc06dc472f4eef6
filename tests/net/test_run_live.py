"""A run hands out its rows while it happens, and they are the rows of its trace."""

import asyncio
import os
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from resprout.audit.live.judge import LiveJudge
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.net.run.crew import Crew
from resprout.net.run.exchange import LiveRows, RowReader, RowWriter
from resprout.scenario.load import parse_scenario
from resprout.trace.columns import rows_of
from resprout.trace.schema import Row, TraceError, digest_of
from resprout.trace.store import FILES, LiveFolder

SCENARIO = """
name = "watched"
seed = 3
time_limit = "{limit}"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a/#"]
[[client]]
name = "c1"
broker = "b1"
subscribe = ["a/#"]
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
operations = 60
mix = {{ fifo = 0.3, causal = 0.5, total = 0.2 }}
keys = 3
interval = "20ms"
"""


def handed_out(limit: str, folder: Path, operations: int = 60) -> ProcessRunResult:
    async def play() -> ProcessRunResult:
        text = SCENARIO.replace("operations = 60", f"operations = {operations}").format(limit=limit)
        return await RealRun(parse_scenario(text, "test"), live=LiveFolder(folder)).finish()

    return asyncio.run(play())


def files_of(folder: Path) -> list[list[Row]]:
    return [rows_of(pq.read_table(path)) for path in sorted(folder.glob(FILES))]


def as_texts(rows: list[Row]) -> "Counter[str]":
    return Counter(map(repr, rows))


@pytest.mark.parametrize(("limit", "operations", "ended"), [("100s", 60, "quiescent"), ("2s", 6000, "timeout")])
def test_live_rows_are_those_of_the_trace(tmp_path: Path, limit: str, operations: int, ended: str) -> None:
    result = handed_out(limit, tmp_path / "live", operations)
    assert result.ended == ended
    files = files_of(tmp_path / "live")
    rows = [row for part in files for row in part]
    assert len(files) > 1
    assert as_texts(rows) == as_texts(result.rows)
    assert rows[-1] == result.rows[-1]
    assert digest_of(result.rows) == result.digest
    for node in sorted({row.node for row in rows}):
        observed = [row for row in rows if row.node == node]
        assert observed == [row for row in result.rows if row.node == node]
    for part in files:
        assert [row.time_us for row in part] == sorted(row.time_us for row in part)


def test_a_live_judge_that_reads_along_finds_a_real_run_clean(tmp_path: Path) -> None:
    result = handed_out("100s", tmp_path / "live")
    judge = LiveJudge()
    for part in files_of(tmp_path / "live"):
        assert judge.take(part) == []
    assert judge.ended == "quiescent"
    assert judge.counts["rows"] == len(result.rows)
    assert "late" not in judge.counts


def test_an_interrupted_run_says_so_in_its_last_row(tmp_path: Path) -> None:
    async def interrupted() -> None:
        endless = SCENARIO.replace("operations = 60", "operations = 6000")
        scenario = parse_scenario(endless.format(limit="200s"), "test")
        task = asyncio.create_task(RealRun(scenario, live=LiveFolder(tmp_path / "live")).finish())
        while not files_of(tmp_path / "live"):
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait((task,))

    asyncio.run(interrupted())
    last = files_of(tmp_path / "live")[-1][-1]
    assert (last.kind, last.detail) == ("aborted", "interrupted")


def test_a_run_that_is_interrupted_after_it_came_to_rest_does_not_say_that_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Crew.stop

    async def interrupted(crew: Crew) -> None:
        monkeypatch.setattr(Crew, "stop", stop)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    monkeypatch.setattr(Crew, "stop", interrupted)
    with pytest.raises(asyncio.CancelledError):
        handed_out("100s", tmp_path / "live")
    last = files_of(tmp_path / "live")[-1][-1]
    assert (last.kind, last.detail) == ("aborted", "interrupted")


def test_trouble_with_the_folder_is_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    async def troubled() -> LiveRows:
        folder = LiveFolder(tmp_path / "live")
        (tmp_path / "live" / "rows-000000.parquet").write_text("somebody else's")
        live = LiveRows(folder, 10**9, lambda: [lambda: [Row(time_us=1, node="a", kind="note")]])
        live.start()
        while live.trouble is None:
            await asyncio.sleep(0.05)
        await live.end(Row(time_us=2, node="world", kind="quiescent"))
        return live

    live = asyncio.run(troubled())
    assert isinstance(live.trouble, TraceError)
    assert [path.read_text() for path in (tmp_path / "live").glob(FILES)] == ["somebody else's"]


def test_rows_are_read_while_they_are_written() -> None:
    rows = [Row(time_us=n, node="c", kind="note", detail="x" * n) for n in range(6)]
    with tempfile.TemporaryFile(buffering=0) as file:
        writer, reader = RowWriter(file.fileno()), RowReader(file.fileno())
        assert reader.read_new() == []
        for pair in (rows[:2], rows[2:3]):
            for row in pair:
                writer.record(row)
            writer.save()
            assert reader.read_new() == pair
        before = os.fstat(file.fileno()).st_size
        for row in rows[3:]:
            writer.record(row)
        writer.save()
        whole = os.pread(file.fileno(), 1 << 20, before)
        os.ftruncate(file.fileno(), before + len(whole) - 1)
        assert reader.read_new() == []  # a part of a batch is no row of anybody's
        os.pwrite(file.fileno(), whole, before)
        assert reader.read_new() == rows[3:]
        assert reader.read_new() == []
