"""What is little is done in Python: nobody waits for the start of Spark, unless it was asked for."""

from pathlib import Path
from typing import NoReturn

import pytest

from resprout.cli.main import run
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.session import SparkChoice
from tests.cli.archives import make_runs


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_runs(tmp_path / "archive")


@pytest.fixture(autouse=True)
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[SparkChoice]:
    """Whom a session was asked for. There is none to have."""
    choices: list[SparkChoice] = []

    def no_session(choice: SparkChoice) -> NoReturn:
        choices.append(choice)
        raise NoSparkError("Spark cannot be had here")

    monkeypatch.setattr("resprout.cli.audit.session", no_session)
    monkeypatch.setattr("resprout.cli.archives.session", no_session)
    return choices


def test_an_audit_of_a_few_runs_uses_python(archive: Path, asked_for: list[SparkChoice]) -> None:
    assert run(["audit", str(archive)]) == 1
    assert asked_for == []


@pytest.mark.parametrize("words", [("--engine", "spark"), ("--master", "local[1]"), ("--conf", "spark.x=1")])
def test_an_audit_that_is_told_to_use_spark_does(
    words: tuple[str, ...], archive: Path, asked_for: list[SparkChoice], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", str(archive), *words]) == 2
    assert capfd.readouterr() == ("", "resprout: Spark cannot be had here\n")
    assert len(asked_for) == 1


def test_many_rows_are_judged_on_spark_and_by_python_where_there_is_none(
    archive: Path, asked_for: list[SparkChoice], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("resprout.pipeline.session.ROWS_HERE_MAX", 50)
    assert run(["audit", str(archive)]) == 1
    out, err = capfd.readouterr()
    assert err == "resprout: Spark cannot be had here; judged without it\n"
    assert out.endswith("3 runs, 47 deliveries: VIOLATED in 1 of them\n")
    assert asked_for == [SparkChoice()]
    assert run(["audit", str(archive), "--engine", "python"]) == 1
    assert len(asked_for) == 1


def test_a_report_of_few_runs_is_made_without_spark(
    archive: Path, tmp_path: Path, asked_for: list[SparkChoice], capfd: pytest.CaptureFixture[str]
) -> None:
    trace = archive / "runs" / "experiment=small" / "run=seed%3D1"
    assert run(["report", str(trace), "--out", str(tmp_path / "page.html")]) == 0
    assert "kept every promise" in (tmp_path / "page.html").read_text()
    assert asked_for == []


def test_a_report_for_which_everything_is_kept_starts_no_spark_whatever_it_is_told(
    archive: Path, tmp_path: Path, asked_for: list[SparkChoice], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    assert run(["report", str(archive), "--out", str(first)]) == 0
    monkeypatch.setattr("resprout.pipeline.session.ROWS_HERE_MAX", 0)
    assert run(["report", str(archive), "--out", str(second), "--master", "spark://127.0.0.1:1"]) == 0
    assert asked_for == []
    assert second.read_text().replace(str(second), str(first)) == first.read_text()
