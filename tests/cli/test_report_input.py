"""What `resprout report` answers to input that will not do: one line, exit status 2, nothing written."""

from pathlib import Path
from typing import NoReturn

import pytest

from resprout.cli.main import run as command
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import make_archive
from resprout.pipeline.session import SparkChoice
from tests.pipeline.small import a_trace


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("resprout: ") and said.err.count("\n") == 1
    return said.err


def test_folders_that_hold_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    make_archive(tmp_path / "archive")
    assert "there is no such folder" in complaint(capsys, str(tmp_path / "none"), "--out", out)
    assert "neither a trace (run.json) nor an archive" in complaint(capsys, str(tmp_path / "empty"), "--out", out)
    assert "no runs there" in complaint(capsys, str(tmp_path / "archive"), "--out", out)
    assert not Path(out).exists()


def test_places_where_no_page_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(a_trace(tmp_path / "trace"))
    assert "that is a folder" in complaint(capsys, trace, "--out", str(tmp_path))
    assert "there is no folder" in complaint(capsys, trace, "--out", str(tmp_path / "none" / "page.html"))


def test_an_archive_of_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_archive(tmp_path / "archive")
    head = tmp_path / "archive" / "archive.json"
    head.write_text(head.read_text().replace('"version": 1', '"version": 9').replace('"version":1', '"version":9'))
    assert "version 9" in complaint(capsys, str(tmp_path / "archive"), "--out", str(tmp_path / "page.html"))


def test_a_damaged_trace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = a_trace(tmp_path / "trace")
    (trace / "part-00001.parquet").write_bytes(b"PAR1 and nothing else")
    said = complaint(capsys, str(trace), "--out", str(tmp_path / "page.html"))
    assert "part-00001.parquet: damaged or not Parquet" in said


def test_without_spark_there_is_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_session(choice: SparkChoice) -> NoReturn:
        raise PipelineError("Spark needs Java 17 or newer")

    monkeypatch.setattr("resprout.cli.archives.session", no_session)
    out = tmp_path / "page.html"
    out.write_text("the page of yesterday")
    trace = str(a_trace(tmp_path / "trace"))
    assert "needs Java 17" in complaint(capsys, trace, "--out", str(out), "--master", "local[1]")
    assert out.read_text() == "the page of yesterday"


def test_arguments_that_are_missing_or_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(a_trace(tmp_path / "trace"))
    assert "Missing option '--out'" in complaint(capsys, trace)
    assert "Missing argument 'DIR...'" in complaint(capsys, "--out", "page.html")
    assert "use spark.NAME=VALUE" in complaint(capsys, trace, "--out", "page.html", "--conf", "driver=1")
