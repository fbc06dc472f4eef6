"""`resprout up`: a tree that leaves nothing behind."""

import json
import os
import signal
from pathlib import Path

from tests.cli.processes import Running, eventually_gone, eventually_stopped, resprout, running, subscriber

SCENARIO = """
name = "a chain"
[options]
faults_tolerated = 0
[topology]
kind = "chain"
brokers = 3
latency = "40ms"
"""


def _brokers(process: Running) -> dict[str, tuple[str, str, int]]:
    """Parent, address and pid by broker, from the table."""
    assert process.line().split() == ["broker", "parent", "address", "pid"]
    rows = [process.line().split() for _ in range(3)]
    return {name: (parent, address, int(pid)) for name, parent, address, pid in rows}


def test_without_a_scenario_three_brokers_stand_until_interrupted() -> None:
    with running("up", "--port", "0") as process:
        brokers = _brokers(process)
        assert [(name, parent) for name, (parent, _, _) in brokers.items()] == [("b0", "-"), ("b1", "b0"), ("b2", "b0")]
        with subscriber(brokers["b2"][1], "t", "--count", "1") as client:
            assert resprout("pub", "t", "x", "--server", brokers["b1"][1]).returncode == 0
            assert client.rest()[0] == b"t x\n"
        assert process.end(signal.SIGINT) == 0
        out, err = process.rest()
        assert out == b"" and err.startswith(b"resprout: not protected: every program on this machine can publish")
        assert err.count(b"\n") == 1 and b"join as any broker" not in err, "its brokers have a key of their own"
    assert all(eventually_gone(pid) for _, _, pid in brokers.values())


def test_a_scenario_gives_the_tree_its_options_and_its_latencies(tmp_path: Path) -> None:
    file = tmp_path / "chain.toml"
    file.write_text(SCENARIO)
    with running("up", str(file), "--port", "0", "--json", "--emulate-latency") as process:
        rows = json.loads(process.line())
        assert [(row["broker"], row["parent"]) for row in rows] == [("b0", None), ("b1", "b0"), ("b2", "b1")]
        for row in rows:
            words = Path(f"/proc/{row['pid']}/cmdline").read_text().split("\0")
            assert "options.faults_tolerated=0" in words
            others = {"b0": {"b1=40000us", "b2=80000us"}, "b1": {"b0=40000us", "b2=40000us"}}
            assert others.get(row["broker"], {"b1=40000us"}) <= set(words)
        assert process.end() == 0


def test_a_broker_that_dies_is_told_loudly_and_the_others_go_on_until_none_is_left() -> None:
    with running("up", "--port", "0", "--insecure") as process:
        pids = {name: pid for name, (_, _, pid) in _brokers(process).items()}
        for name in ("b1", "b0"):
            os.kill(pids[name], signal.SIGKILL)
            told = process.error_line()
            while not told.startswith("resprout: "):  # what the others do about it
                told = process.error_line()
            assert told == f"resprout: broker {name} (pid {pids[name]}) was killed by SIGKILL; the others go on"
        os.kill(pids["b2"], signal.SIGKILL)
        _, err = process.rest()
        assert process.process.returncode == 1
    last = err.decode().splitlines()[-1]
    assert last == f"resprout: broker b2 (pid {pids['b2']}) was killed by SIGKILL; none is left"
    assert all(eventually_gone(pid) for pid in pids.values())


def test_brokers_do_not_outlive_a_killed_parent_even_when_frozen() -> None:
    with running("up", "--port", "0") as process:
        pids = [pid for _, _, pid in _brokers(process).values()]
        os.kill(pids[2], signal.SIGSTOP)
        assert eventually_stopped(pids[2])
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    assert all(eventually_gone(pid) for pid in pids)
