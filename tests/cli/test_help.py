"""The examples of `resprout --help` work in an empty folder, as after an installation."""

import shlex
from pathlib import Path

import pytest

from tests.cli.processes import resprout, running, subscriber


def examples() -> dict[str, list[str]]:
    """The commands of the help, by verb."""
    lines = resprout("--help").stdout.decode().splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("      resprout ")]
    assert [words[0] for words in commands] == ["up", "sub", "pub", "sim", "audit"], "this tries all of them"
    return {words[0]: words for words in commands}


def test_a_scenario_is_run_and_judged_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = examples()
    for verb in ("sim", "audit"):
        done = resprout(*said[verb])
        assert done.returncode == 0, done.stderr.decode()
    assert b"clean" in done.stdout


def test_brokers_are_run_and_talked_through_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At free ports, where the help means the usual ones."""
    monkeypatch.chdir(tmp_path)
    said = examples()
    with running(*said["up"], "--port", "0") as brokers:
        assert brokers.line().split() == ["broker", "parent", "address", "pid"]
        address = brokers.line().split()[2]
        with subscriber(address, *said["sub"][1:]) as reader:
            done = resprout(*said["pub"], "--server", address)
            assert done.returncode == 0, done.stderr.decode()
            assert said["pub"][2] in reader.line()
