"""A process of the fork server behaves like one that was executed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fork_server import executed
from tests.patience import PATIENCE_S

COMMAND = [sys.executable, "-m", "resprout"]
BROKER = ["broker", "--name", "b0", "--listen", "127.0.0.1:0", "--json"]


def is_forked(pid: int) -> bool:
    return "fork_server.py" in Path(f"/proc/{pid}/cmdline").read_text()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "RESPROUT_EXEC" in os.environ, reason="every process is executed"
)


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("pub",),
        ("pub", "a", "b", "--server", "127.0.0.1:1"),
        ("secret", "teller", "--out", "no/such/folder"),
        ("sim", "here.toml"),
    ],
    ids=" ".join,
)
def test_output_and_status_are_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    def run() -> tuple[int, bytes, bytes]:
        done = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
        return done.returncode, done.stdout, done.stderr

    with executed():
        expected = run()
    assert run() == expected


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_forked_process_is_a_child_of_the_test_and_obeys_signals(number: signal.Signals, status: int) -> None:
    with subprocess.Popen([*COMMAND, *BROKER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and b"listening" in process.stdout.readline()
        assert is_forked(process.pid) and parent_of(process.pid) == os.getpid()
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == status


@pytest.mark.parametrize(
    "changed", [{"PYTHONHASHSEED": "1"}, {"PYTHONPATH": "/no/such/folder"}, {"LC_ALL": "POSIX"}], ids=str
)
def test_variables_that_act_at_the_start_of_the_interpreter_lead_to_an_executed_process(
    changed: dict[str, str],
) -> None:
    environment = {**os.environ, **changed}
    with subprocess.Popen([*COMMAND, *BROKER], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and b"listening" in process.stdout.readline()
        assert not is_forked(process.pid)
        process.kill()


def test_variables_and_descriptors_reach_a_forked_process(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    environment = {**os.environ, "RESPROUT_TESTED": "yes"}
    try:
        with subprocess.Popen(
            [*COMMAND, *BROKER], stdout=subprocess.PIPE, env=environment, cwd=tmp_path, pass_fds=[writing]
        ) as process:
            assert process.stdout is not None and b"listening" in process.stdout.readline()
            there = Path(f"/proc/{process.pid}")
            assert is_forked(process.pid) and (there / "cwd").readlink() == tmp_path
            open_there = {one.name: one.readlink() for one in (there / "fd").iterdir()}
            pipe = Path(f"/proc/self/fd/{writing}").readlink()
            assert [name for name, file in open_there.items() if file == pipe] == [str(writing)]
            process.kill()
    finally:
        os.close(reading)
        os.close(writing)
