"""Faults done to real processes, and what is left of a run that fails: nothing."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict, lines
from resprout.cli import run as cli_run
from resprout.cli.main import run as cli
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.net.run.exchange import ClientsProgress
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.trace.schema import Row
from resprout.trace.store import read_info
from tests.cli.processes import ctrl_c
from tests.patience import PATIENCE_S

TREE = """
name = "a small tree"
seed = 3
time_limit = "100s"
[topology]
kind = "chain"
brokers = 2
latency = "2ms"
clients_per_broker = 2
subscribe = ["a/#"]
[[workload]]
kind = "random"
clients = ["c0", "c1", "c2", "c3"]
topics = ["a/x", "a/y"]
operations = 60
mix = { eventual = 0.2, fifo = 0.3, causal = 0.5 }
interval = "20ms"
start = "300ms"
"""


RUN = ["run", "--set", "workload.0.operations=10000"]

LINKS = {
    "heartbeat_us": 500_000, "silence_us": 2_000_000, "session_linger_us": 2_000_000, "reconnect_us_max": 500_000,
}  # fmt: skip
"""Impatient: a dead client is given up soon."""


def fault(at: str, kind: str, nodes: str, more: str = "") -> str:
    return f'[[fault]]\nat = "{at}"\nkind = "{kind}"\nnodes = {nodes}\n{more}\n'


def run(*faults: str, more: str = "") -> tuple[ProcessRunResult, Verdict]:
    scenario: Scenario = parse_scenario(TREE + more + "".join(faults))
    result = asyncio.run(RealRun(scenario, links=LINKS).finish())
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    return result, verdict


def seen(result: ProcessRunResult, kind: str) -> list[str]:
    return [row.node for row in result.rows if row.kind == kind]


def of(result: ProcessRunResult, kind: str, node: str, incarnation: int | None = None) -> list[Row]:
    return [
        row for row in result.rows if row.kind == kind and row.node == node and incarnation in (None, row.incarnation)
    ]


def test_stopped_processes_cut_clients_and_cut_brokers_go_on_without_loss() -> None:
    result, verdict = run(
        fault("500ms", "freeze", '["c3"]'), fault("1300ms", "unfreeze", '["c3"]'),
        fault("600ms", "freeze", '["b1"]'), fault("1000ms", "unfreeze", '["b1"]'),
        fault("700ms", "cut", '["c0", "b0"]'), fault("1700ms", "heal", '["c0", "b0"]'),
        fault("1800ms", "cut", '["b0", "b1"]'), fault("2800ms", "heal", '["b1", "b0"]'),
    )  # fmt: skip
    assert seen(result, "freeze") == ["c3", "b1"]
    assert verdict.counts["publications"] == 240
    assert verdict.counts["deliveries"] == verdict.counts["owed"] == 4 * 240
    frozen_us, woken_us = of(result, "freeze", "c3")[0].time_us, of(result, "unfreeze", "c3")[0].time_us
    # A process that was stopped for real saw nothing; what it was doing at the very moment may still be written down.
    while_stopped = [row for row in result.rows if row.node == "c3" and frozen_us + 50_000 < row.time_us < woken_us]
    assert [row.kind for row in while_stopped] == []
    cut_us, healed_us = of(result, "cut", "c0")[0].time_us, of(result, "heal", "c0")[0].time_us
    assert not [r for r in of(result, "deliver", "c0") if (cut_us + healed_us) // 2 < r.time_us < healed_us]
    cut_us, healed_us = of(result, "cut", "b0")[0].time_us, of(result, "heal", "b1")[0].time_us
    crossed = [row for row in of(result, "deliver", "c2") if row.hops]
    assert crossed and not [row for row in crossed if (cut_us + healed_us) // 2 < row.time_us < healed_us]


def test_a_client_that_is_away_for_too_long_is_told_of_its_loss() -> None:
    away = fault("700ms", "cut", '["c0", "b0"]') + fault("9s", "heal", '["c0", "b0"]')
    result = asyncio.run(RealRun(parse_scenario(TREE + away), links=LINKS).finish())
    assert seen(result, "session_lost") == ["c0"]
    verdict = judge(result.rows)
    assert verdict.check("lost").anomalies == 0 and verdict.check("lost_told").anomalies > 0


def test_a_killed_client_is_not_correct_any_more_and_breaks_no_promise() -> None:
    result, verdict = run(fault("800ms", "crash", '["c3"]'))
    assert seen(result, "crash") == ["c3"]
    assert verdict.counts["correct_subscribers"] == 3
    assert len(of(result, "publish", "c3")) < 60
    crash = result.rows.index(of(result, "crash", "c3")[0])
    assert not [row for row in result.rows[crash + 1 :] if row.node == "c3"]
    for name in ("c0", "c1", "c2"):
        assert len(of(result, "publish", name)) == 60
        told = [row for row in of(result, "receipt", name) if row.receipt == "delivered"]
        assert len(told) == 60, "its broker gives the dead one up, and owes it nothing any more"


def test_clients_return_and_leave_and_brokers_join() -> None:
    late = '[[client]]\nname = "late"\nbroker = "b2"\nsubscribe = ["a/#"]\n'
    result, _ = run(
        fault("600ms", "crash", '["c3"]'), fault("700ms", "recover", '["c3"]'),
        fault("800ms", "crash", '["c2"]', "host = true"),
        fault("900ms", "leave", '["c1"]'),
        fault("400ms", "join", '["b2"]', 'parent = "b1"'),
        more=late,
    )  # fmt: skip
    assert len(of(result, "publish", "c3", 2)) == 60, "its second life works from the beginning"
    assert of(result, "subscribed", "late")
    assert len(of(result, "publish", "c1")) < 60
    gone = result.rows.index(of(result, "leave", "c1")[0])
    assert not [row for row in result.rows[gone + 1 :] if row.node == "c1"]
    assert of(result, "crash", "c2")[0].detail == "host"
    silent = result.rows.index(of(result, "crash", "c2")[0])
    assert not [row for row in result.rows[silent + 1 :] if row.node == "c2"]


# -- the command, from outside -----------------------------------------------------------------------------------------


@contextmanager
def command(folder: Path, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """The command on a scenario that does not end soon; stopped at the end, whatever the test did."""
    file = folder / "tree.toml"
    file.write_text(TREE)
    words = [sys.executable, "-m", "resprout", "run", str(file), "--trace", str(folder / "trace")]
    with ctrl_c():
        process = subprocess.Popen(
            [*words, "--set", "workload.0.operations=10000", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def children_of(pid: int) -> dict[int, str]:
    """By process id, the command line."""
    found: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            words = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, IndexError):
            continue
        if parent == pid:
            found[int(stat.parent.name)] = words
    return found


def started(process: "subprocess.Popen[str]") -> dict[int, str]:
    """Its two brokers and four clients, when all of them are there and lead a group of their own."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        children = children_of(process.pid)
        if (
            sum("run.worker" in words for words in children.values()) == 4
            and len(children) == 6
            and all(map(_leads, children))
        ):
            return children
        time.sleep(0.05)
    raise AssertionError("the processes did not start")


def _leads(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def wait_until_stopped(pid: int) -> None:
    """It takes the signal when it is given the processor; the system wakes only those that were stopped by then."""
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, "it did not stop"
        time.sleep(0.01)


def all_end(pids: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    waiting = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.05)
        waiting = [pid for pid in waiting if Path(f"/proc/{pid}").exists()]
    return not waiting


def test_nothing_is_left_when_the_coordinator_is_killed_not_even_a_stopped_process(tmp_path: Path) -> None:
    with command(tmp_path) as process:
        children = started(process)
        stopped = next(pid for pid, words in children.items() if "run.worker" in words)
        os.kill(stopped, signal.SIGSTOP)
        wait_until_stopped(stopped)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        assert all_end(list(children))


def test_nothing_is_left_after_ctrl_c(tmp_path: Path) -> None:
    with command(tmp_path) as process:
        children = started(process)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert complaint == ""
        assert all_end(list(children))


@pytest.mark.parametrize(
    ("victim", "name"), [("--name b1 ", "broker b1 "), ("run.worker", "the process of c")], ids=["broker", "client"]
)
def test_a_process_that_dies_by_itself_ends_the_run_and_is_named(
    victim: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    children: dict[int, str] = {}

    def kill_one(time_us: int, progress: ClientsProgress) -> None:
        if progress.published and not children:
            found = children_of(os.getpid())  # among them is the fork server of the tests
            children.update({pid: words for pid, words in found.items() if "-m resprout" in words})
            os.kill(next(pid for pid, words in children.items() if victim in words), signal.SIGKILL)

    monkeypatch.setattr(cli_run, "_shown", lambda scenario: nullcontext(kill_one))
    (tmp_path / "tree.toml").write_text(TREE)
    assert cli([*RUN, str(tmp_path / "tree.toml"), "--trace", str(tmp_path / "trace")]) == 1
    said, complaint = capfd.readouterr()
    told = (" s  repair begins: ", " repaired in ", " s  world: all subscriptions are confirmed")
    assert all(any(part in line for part in told) for line in said.splitlines()), said
    assert complaint.count("\n") == 1 and name in complaint and "killed by" in complaint
    assert name in read_info(tmp_path / "trace").ended
    assert children and all_end(list(children))


def test_a_run_that_hits_its_time_limit_says_so(tmp_path: Path) -> None:
    with command(tmp_path, "--set", "time_limit=1500ms", "--json") as process:
        said, complaint = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complaint) == (1, "")
        assert json.loads(said)["ended"] == "timeout"
        assert json.loads(said)["summary"]["duration_us"] <= 1_500_000
