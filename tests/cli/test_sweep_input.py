"""What is wrong with a sweep or the place for its runs is one line, before anything runs."""

from pathlib import Path

import pytest

from resprout.cli.main import run

SWEEP = """\
base = "base.toml"
seeds = [1]
[[axis]]
name = "keys"
path = "workload.0.keys"
values = [1, 2]
"""
BASE = """\
[[broker]]
name = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = 3
interval = "1ms"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text(SWEEP)
    Path("base.toml").write_text(BASE)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("good.toml",), "Missing option '--out'."),
        (("none.toml", "--out", "o"), "none.toml: No such file or directory"),
        (("base.toml", "--out", "o"), "base.toml:1: unknown key 'broker'"),
        (("good.toml", "--out", "o", "--set", "seed"), "--set seed: write path.to.option=value"),
        (("good.toml", "--out", "o", "--set", "workload.0.keys=-1"), "--set workload.0.keys=-1: "),
        (("good.toml", "--out", "o", "--seeds", "0"), "Invalid value for '--seeds'"),
        (("good.toml", "--out", "."), ".: not an archive, and not empty: it holds 'base.toml'"),
        (("good.toml", "--out", "good.toml"), "good.toml: cannot hold an archive: not a directory"),
        (("good.toml", "--out", "o", "--conf", "x"), "--conf 'x': use spark.NAME=VALUE"),
    ],
)
def test_it_is_said_in_one_line_and_nothing_is_made(
    words: tuple[str, ...], said: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *words]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith(f"resprout: {said}") and err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["base.toml", "good.toml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a",), "Missing argument 'TRACE...'."),
        (("a", "t"), "t: there is no such folder"),
        (("a", "."), ".: holds no trace (run.json)"),
        ((".", "."), ".: not an archive, and not empty: it holds 'base.toml'"),
    ],
)
def test_so_is_what_cannot_be_archived(
    words: tuple[str, ...], said: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["archive", *words]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err == f"resprout: {said}\n"
    assert sorted(path.name for path in folder.iterdir()) == ["base.toml", "good.toml"]
