"""Files and folders on the command line are paths of this machine; what is none is refused in one line, and nothing is
made of it."""

from pathlib import Path

import pytest

from resprout.cli.arguments import local_path
from resprout.cli.main import run
from tests.cli.archives import make_runs

TAKES_A_PATH = (
    ("audit", "{}"),
    ("archive", "{}", "t"),
    ("archive", "a", "{}"),
    ("report", "{}", "--out", "o.html"),
    ("report", "t", "--out", "{}"),
    ("conclude", "{}", "--archive", "a", "--out", "o.html"),
    ("conclude", "t", "--archive", "{}", "--out", "o.html"),
    ("conclude", "t", "--archive", "a", "--out", "{}"),
    ("sweep", "{}", "--out", "a"),
    ("sweep", "s.toml", "--out", "{}"),
    ("watch", "{}"),
    ("watch", ".", "--out", "{}"),
    ("watch", ".", "--checkpoint", "{}"),
    ("sim", "{}"),
    ("sim", "s.toml", "--trace", "{}"),
    ("run", "{}"),
    ("run", "s.toml", "--live", "{}"),
    ("up", "{}"),
    ("up", "--data", "{}"),
    ("broker", "--name", "b0", "--data", "{}"),
    ("broker", "--config", "{}"),
    ("broker", "--name", "b0", "--announce", "{}"),
)


def refused(capfd: pytest.CaptureFixture[str], words: tuple[str, ...], path: str) -> str:
    assert run([word.format(path) for word in words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


@pytest.mark.parametrize("words", TAKES_A_PATH, ids=" ".join)
def test_an_empty_text_is_no_folder(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "'' names no file or folder" in refused(capfd, words, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", TAKES_A_PATH, ids=" ".join)
def test_an_address_of_another_store_is_refused_and_makes_no_folder_of_that_name(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "'hdfs://bucket/arch' is no path of this machine" in refused(capfd, words, "hdfs://bucket/arch")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["hdfs://name/a", "file://elsewhere/a", "file://", "https://h/x", "S3://", " "])
def test_what_is_no_path_is_told_from_what_is_one(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert repr(text) in refused(capfd, ("audit", "{}"), text)


def test_addresses_of_local_files_are_their_paths() -> None:
    assert local_path("file:///out/a%20b") == Path("/out/a b")
    assert local_path("file://localhost/out") == Path("/out")
    assert local_path("a: b/c") == Path("a: b/c")


def test_an_empty_data_folder_in_a_file_is_refused_with_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "b0.toml"
    file.write_text('name = "b0"\ndata = ""\n')
    line = refused(capfd, ("broker", "--config", "{}"), str(file))
    assert f"{file}:2" in line and "'' names no file or folder" in line


def test_a_colon_in_a_relative_path_is_part_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Arrow takes `a:b` for an address of a kind that it does not know, and a sound trace was called damaged."""
    monkeypatch.chdir(tmp_path)
    make_runs(Path("a:b"))
    assert run(["audit", "a:b"]) == 1
    assert "3 runs, 47 deliveries" in capfd.readouterr().out


def test_a_store_without_a_bucket_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert "'s3://' names no bucket: one is s3://BUCKET/FOLDER" in refused(capfd, ("audit", "{}"), "s3://")
