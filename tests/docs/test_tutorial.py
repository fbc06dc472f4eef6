"""The tutorial does what it says: its commands and its program run as printed, and a broker is killed meanwhile."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import resprout, running, subscriber
from tests.patience import PATIENCE_S

TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
PROGRAM = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = re.findall(r"^\$ (.*)$", TEXT, re.MULTILINE)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    assert PROGRAM is not None
    path = tmp_path / "store.py"
    path.write_text(PROGRAM[1])
    return path


def words(start: str, at: dict[str, str]) -> list[str]:
    """The command that begins like this, for the ports that the brokers got here."""
    [command] = [one for one in COMMANDS if one.startswith(start)]
    for usual, here in at.items():
        command = command.replace(usual, here)
    return shlex.split(command)[1:]


def test_the_tutorial_works_as_it_is_printed(program: Path, tmp_path: Path) -> None:
    with running(*words("resprout up", {}), "--port", "0") as brokers:
        brokers.line()
        rows = [brokers.line().split() for _ in range(3)]
        at = {f"localhost:{7450 + number}": row[2] for number, row in enumerate(rows)}
        sub = words("resprout sub", at)
        with subscriber(at["localhost:7451"], sub[1]) as reader:
            assert resprout(*words("resprout pub", at)).returncode == 0
            assert reader.line() == "store/greeting hello"
        for kills in (False, True):
            printed = _run_replicas(program, at, pid=int(rows[1][3]) if kills else None)
            assert printed[0] == printed[1] and "k4" in printed[0], printed
    trace = str(tmp_path / "out")
    assert resprout(*[word.replace("out", trace) for word in words("resprout sim", {})]).returncode == 0
    assert resprout("audit", trace).stdout.decode().splitlines()[-1] == "clean"


def _run_replicas(program: Path, at: dict[str, str], pid: int | None) -> list[str]:
    """What the two replicas print after their names. The broker `pid` of the left one is killed."""
    started = [
        subprocess.Popen(
            [sys.executable, str(program), *words(f"python store.py {side}", at)[1:]], stdout=subprocess.PIPE, text=True
        )
        for side in ("left", "right")
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline().endswith(" writes\n")
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        said = [process.communicate(timeout=PATIENCE_S)[0].strip() for process in started]
        assert [process.returncode for process in started] == [0, 0], said
        return [line.partition(" ")[2] for line in said]
    finally:
        for process in started:
            process.kill()
            process.wait()
