"""Ctrl-C on the real command, with its Java process and its workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resprout.pipeline.places import find_runs
from resprout.pipeline.sweep import load_plan, look, run_sweep
from tests.cli.processes import ctrl_c
from tests.patience import PATIENCE_S
from tests.pipeline.java import SHORT_LIVED
from tests.pipeline.small import a_sweep, files


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("spark")
def test_ctrl_c_stops_a_sweep_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path, out = a_sweep(tmp_path), tmp_path / "out"
    path.write_text(path.read_text().replace("[3, 6]", "[100]").replace("[1, 2]", "[1, 2, 3, 4, 5, 6, 7, 8]"))
    java = f"spark.driver.extraJavaOptions={SHORT_LIVED}"
    options = ["--conf", "spark.driver.memory=1g", "--conf", java, "--master", "local[1]"]
    with ctrl_c():
        sweep = subprocess.Popen(
            [sys.executable, "-m", "resprout", "sweep", str(path), "--out", str(out), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        while not list(out.glob("runs/*/*")) and sweep.poll() is None:
            time.sleep(0.05)
        os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: to everybody
        printed, said = sweep.communicate(timeout=PATIENCE_S)
    finally:
        sweep.kill()
    finished = find_runs([out])
    assert (sweep.returncode, printed) == (130, "") and 1 <= len(finished) < 8
    assert said == f"{len(finished)} of 8 runs are done; the same command goes on\n"
    before = files(out / "runs")
    plan = load_plan(path)
    standing = look(plan, out)
    assert len(standing.done) == len(finished) and len(run_sweep(plan, standing, out).rows) == 8
    assert before.items() <= files(out / "runs").items()
