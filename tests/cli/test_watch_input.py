"""`resprout watch` and `resprout run --live`: what is wrong with the input is said in one line."""

from pathlib import Path

import pytest

from resprout.cli.main import run
from resprout.pipeline.live import Record


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 2
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def test_there_must_be_something_to_watch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "there is no such folder" in refused(capfd, "watch", str(tmp_path / "nothing"))


@pytest.mark.parametrize("name", ["li*", "li?e", "{a,b}", "[1]", "a\\\\b"])
def test_a_name_that_spark_takes_for_a_pattern_is_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).mkdir()
    assert "for a pattern" in refused(capfd, "watch", str(tmp_path / name))


@pytest.mark.parametrize("value", ["nan", "inf", "1e300"])
@pytest.mark.parametrize("option", ["--lateness", "--horizon"])
def test_times_are_numbers_of_seconds(
    option: str, value: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "numbers of seconds" in refused(capfd, "watch", str(tmp_path), option, value)


@pytest.mark.parametrize("name", ["run.json", "archive.json"])
def test_runs_that_are_over_are_sent_to_the_audit(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text("{}")
    assert f"`resprout audit {tmp_path}` judges them" in refused(capfd, "watch", str(tmp_path))


@pytest.mark.parametrize("option", ["--checkpoint", "--out"])
def test_nothing_else_is_written_among_live_rows(
    option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "choose another folder" in refused(capfd, "watch", str(tmp_path), option, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_belongs_to_one_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "other", "checkpoint"):
        (tmp_path / name).mkdir()
    Record(tmp_path / "checkpoint", tmp_path / "one").tell(0, None)
    line = refused(capfd, "watch", str(tmp_path / "other"), "--checkpoint", str(tmp_path / "checkpoint"))
    assert "the checkpoint of" in line


def test_a_checkpoint_that_is_damaged_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "watched.json").write_text("{")
    assert "cannot be read" in refused(capfd, "watch", str(tmp_path), "--checkpoint", str(tmp_path / "checkpoint"))


def test_live_rows_are_not_mixed_with_other_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    line = refused(capfd, "run", "single", "--live", str(tmp_path))
    assert "the folder holds 'letter.txt'" in line
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_live_rows_need_a_folder_that_can_be_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    line = refused(capfd, "run", "single", "--live", str(tmp_path / "file" / "live"))
    assert "cannot be prepared for live rows" in line
