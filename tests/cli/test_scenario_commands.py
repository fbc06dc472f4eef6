"""`resprout sim` and `resprout audit`: what they print, how they end, and that the same run is the same everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resprout.audit.verdict import RULES
from resprout.cli.main import run
from resprout.trace.store import read_trace, write_trace
from tests.patience import PATIENCE_S

SCENARIO = """
name = "a small tree"
seed = 5
time_limit = "60s"
[topology]
kind = "tree"
brokers = 3
degree = 3
latency = "5ms"
clients_per_broker = 1
subscribe = ["a/#"]
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
operations = 20
mix = { eventual = 0.2, fifo = 0.3, causal = 0.5 }
interval = "10ms"
start = "200ms"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def printed(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run(list(words)) == status
    out, err = capfd.readouterr()
    assert err == ""
    return out


def as_json(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    data = json.loads(printed(capfd, *words, "--json", status=status))
    assert isinstance(data, dict)
    return data


def real(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "resprout", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | environment,
        check=False,
    )


# -- sim -----------------------------------------------------------------------------------------------------------


def test_a_run_is_summed_up_for_people(scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = printed(capfd, "sim", str(scenario), "--trace", str(tmp_path / "t")).splitlines()
    assert lines[0] == "a small tree: 3 brokers, 3 clients, stack resprout, seed 5"
    assert lines[1].startswith("60 published, 180 delivered in ") and lines[1].endswith("; the run came to rest")
    assert lines[-1] == f"trace  {tmp_path / 't'}"
    assert lines[-2] == f"digest {read_trace(tmp_path / 't').info.digest}"


def test_a_run_is_summed_up_for_programs(scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = as_json(capfd, "sim", str(scenario), "--trace", str(tmp_path / "t"))
    assert list(data) == ["scenario", "stack", "seed", "ended", "digest", "trace", "summary"]
    assert (data["scenario"], data["stack"], data["seed"], data["ended"]) == (
        "a small tree",
        "resprout",
        5,
        "quiescent",
    )
    assert data["trace"] == str(tmp_path / "t")
    summary = data["summary"]
    assert sum(summary["published"].values()) == 60 and sum(summary["delivered"].values()) == 180
    assert {"published", "delivered", "refused", "latency", "receipts", "duration_us"} <= summary.keys()
    assert {"count", "median_us", "p95_us", "p99_us", "max_us"} <= summary["latency"]["causal"].keys()
    assert as_json(capfd, "sim", str(scenario))["trace"] is None


def test_a_trace_holds_what_was_run_and_replaces_an_earlier_one(
    scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "t"
    first = as_json(capfd, "sim", str(scenario), "--trace", str(folder))
    second = as_json(capfd, "sim", str(scenario), "--trace", str(folder), "--seed", "6")
    info = read_trace(folder).info
    assert info.digest == second["digest"] != first["digest"]
    assert (info.seed, info.ended, info.scenario["name"]) == (6, "quiescent", "a small tree")


def test_overrides_change_the_run(scenario: Path, capfd: pytest.CaptureFixture[str]) -> None:
    more = ("--set", "workload.0.operations=3", "--set", "options.faults_tolerated=0", "--set", "name=tiny")
    data = as_json(capfd, "sim", str(scenario), *more)
    assert data["scenario"] == "tiny" and sum(data["summary"]["published"].values()) == 9


def test_a_scenario_can_be_drawn_from_a_seed(capfd: pytest.CaptureFixture[str]) -> None:
    data = as_json(capfd, "sim", "--draw", "12")
    assert data["scenario"] == "drawn from seed 12" and data["seed"] == 12
    assert as_json(capfd, "sim", "--draw", "12") == data
    assert printed(capfd, "sim", "--draw", "12").splitlines()[-1] == f"digest {data['digest']}"


def test_a_run_that_meets_its_time_limit_ends_with_1_and_is_never_called_clean(
    scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "t")
    out = printed(capfd, "sim", str(scenario), "--set", "time_limit=300ms", "--trace", folder, status=1)
    assert "the run hit its time limit" in out
    verdict = as_json(capfd, "audit", folder, status=1)
    assert verdict["verdict"] == "unfinished"
    assert (
        printed(capfd, "audit", folder, status=1).splitlines()[-1].startswith("UNFINISHED: the run met its time limit")
    )
    lost = next(check for check in verdict["checks"] if check["rule"] == "lost")
    assert lost["status"] == "not judged" and "time limit" in lost["reason"]


def test_names_are_printed_as_they_are_written(
    scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "[red]t[/]"
    out = printed(capfd, "sim", str(scenario), "--set", 'name="[/bold] [x] ü"', "--trace", str(folder))
    assert out.startswith("[/bold] [x] ü: 3 brokers") and out.rstrip().endswith("[red]t[/]")
    assert "clean" in printed(capfd, "audit", str(folder))


# -- audit ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def trace(scenario: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    printed(capfd, "sim", str(scenario), "--trace", str(tmp_path / "trace"))
    return tmp_path / "trace"


def test_a_clean_trace_is_judged_rule_by_rule(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = printed(capfd, "audit", str(trace)).splitlines()
    assert lines[0].startswith("60 publications, 180 deliveries to 3 subscribers")
    assert [line.split()[0] for line in lines[1:-1]] == list(RULES)
    assert lines[-1].startswith("clean")


def test_a_verdict_for_programs_has_stable_keys(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = as_json(capfd, "audit", str(trace), "--engine", "python")
    assert list(data) == ["verdict", "counts", "checks", "anomalies"]
    assert data["verdict"] == "clean" and data["anomalies"] == []
    assert [check["rule"] for check in data["checks"]] == list(RULES)
    assert all(list(check) == ["rule", "status", "anomalies", "reason"] for check in data["checks"])


def test_a_trace_with_a_delivery_missing_is_violated_and_ends_with_1(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Dropped from the end of a subscriber's deliveries, so that positions still count without gaps."""
    good = read_trace(trace)
    last = max(n for n, row in enumerate(good.rows) if row.kind == "deliver")
    write_trace(tmp_path / "bad", [*good.rows[:last], *good.rows[last + 1 :]], good.info)
    data = as_json(capfd, "audit", str(tmp_path / "bad"), status=1)
    assert data["verdict"] == "violated"
    missing = next(anomaly for anomaly in data["anomalies"] if anomaly["rule"] == "lost")
    assert missing["subscriber"] == good.rows[last].node
    assert list(missing) == ["rule", "time_us", "subscriber", "messages", "explanation"]
    lines = printed(capfd, "audit", str(tmp_path / "bad"), status=1).splitlines()
    assert lines[-1].startswith("VIOLATED: ") and "lost" in lines[-1]
    assert any(line.strip() == missing["explanation"] for line in lines)


# -- the real command ----------------------------------------------------------------------------------------------


def test_the_real_command_gives_the_same_digest_under_any_hash_seed(scenario: Path) -> None:
    digests = set()
    for seed in ("0", "4242"):
        done = real("sim", str(scenario), "--json", PYTHONHASHSEED=seed)
        assert (done.returncode, done.stderr) == (0, "")
        digests.add(json.loads(done.stdout)["digest"])
    assert len(digests) == 1


def test_the_real_command_ends_with_its_status_and_one_line(trace: Path, tmp_path: Path) -> None:
    done = real("audit", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"resprout: {tmp_path / 'nowhere'}: there is no such folder\n"
    done = real("sim", str(tmp_path / "small.toml"), "--set", "time_limit=300ms", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_name_that_the_terminal_cannot_show_is_no_failure(scenario: Path) -> None:
    done = real("sim", str(scenario), "--set", "name=grün", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(("gr\\xfcn: 3 brokers", "grün: 3 brokers"))


@pytest.mark.parametrize("verb", ["sim", "audit"])
def test_a_reader_that_has_enough_is_no_failure(verb: str, scenario: Path, trace: Path) -> None:
    """The reading end is closed before anything is written, as by `| head` that is already through."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "resprout", verb, str(scenario if verb == "sim" else trace)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_output_that_cannot_be_written_is_one_line(more: tuple[str, ...], scenario: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "resprout", "sim", str(scenario), *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "resprout: [Errno 28] No space left on device\n"


def test_run_json_is_what_another_program_can_read(trace: Path) -> None:
    info = msgspec.json.decode((trace / "run.json").read_bytes())
    assert {"scenario", "options", "seed", "versions", "ended", "digest", "rows"} <= info.keys()
    assert info["ended"] == "quiescent" and len(info["digest"]) == 64
