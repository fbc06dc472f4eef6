"""`resprout swarm`: scenarios by chance from the command line, how it ends, and what it writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from resprout.cli.main import run
from resprout.scenario.load import parse_scenario
from resprout.sim.classes import CLASSES
from resprout.sim.run import Trial
from resprout.sim.swarm import swarm_trial
from tests.patience import PATIENCE_S


def real(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "resprout", "swarm", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def complaint(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that the command says, without its name."""
    assert run(["swarm", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("resprout: ") and err.count("\n") == 1, err
    return err.removeprefix("resprout: ").rstrip("\n")


def explode(*_: object) -> None:
    raise AssertionError("a bug of our own")


def test_seeds_are_tried_in_processes_and_the_scenario_of_the_first_is_written(tmp_path: Path) -> None:
    file = tmp_path / "seed.toml"
    done = real("--first", "3", "--seeds", "2", "--class", "faults", "--workers", "2", "--write", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seeds 3 to 4: 0 failed" in done.stdout and done.stderr == ""
    assert parse_scenario(file.read_text()) == swarm_trial(3).timed


def test_another_stack_is_tried_with_the_faults_that_it_survives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "seed.toml"
    assert run(["swarm", "--stack", "ginger", "--first", "1", "--seeds", "3", "--write", str(file)]) == 0
    assert "seeds 1 to 3: 0 failed" in capfd.readouterr().out
    assert parse_scenario(file.read_text()).stack == "ginger"


def test_an_option_that_is_set_is_not_drawn_and_is_told_with_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "seed.toml"
    words = ["swarm", "--stack", "delta", "--set", "window=3", "--set", "delta=2", "--first", "4", "--seeds", "1"]
    assert run([*words, "--write", str(file)]) == 0
    options = parse_scenario(file.read_text()).options
    assert (options["window"], options["delta"]) == (3, 2)
    monkeypatch.setattr(Trial, "run", explode)
    assert run(words) == 1
    assert "resprout swarm --stack delta --set window=3 --set delta=2 --first 4 --seeds 1" in capfd.readouterr().out


def test_a_failure_ends_with_status_1_and_tells_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Trial, "run", explode)
    assert run(["swarm", "--seeds", "2", "--first", "7", "--class", "faults"]) == 1
    out = capfd.readouterr().out
    assert "a bug of our own" in out
    assert "resprout swarm --first 7 --seeds 1 --class faults --write seed-7.toml" in out
    assert "seeds 7 to 8: 2 failed (7, 8)" in out


def test_a_seed_that_cannot_even_be_drawn_is_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("resprout.sim.swarm.CLASSES", {"faults": explode})
    file = tmp_path / "seed.toml"
    assert run(["swarm", "--seeds", "1", "--class", "faults", "--write", str(file)]) == 1
    assert "whose rehearsal failed" in capfd.readouterr().out
    assert not file.exists()


def test_help_names_every_class(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["swarm", "--help"]) == 0
    said = capfd.readouterr().out
    assert all(name in said for name in CLASSES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", "0"), "0 is not in the range x>=1"),
        (("--first", "-1"), "-1 is not in the range x>=0"),
        (("--first", "x"), "'x' is not a valid integer range"),
        (("--workers", "0"), "0 is not in the range 1<=x<=256"),
        (("--class", "fault"), "there is no class 'fault' for the stack 'resprout'; there is any, faults, "),
        (("--class", "hung", "--stack", "ginger"), "there is no class 'hung' for the stack 'ginger'; there is any, "),
        (("--stack", "ginge"), "unknown stack 'ginge'"),
        (("--stack", "delta", "--set", "delta=x"), "option 'delta': expected `int`, got `str`"),
        (("--stack", "delta", "--set", "f=1"), "the stack 'delta' has no such option"),
        (("--set", "faults_tolerated=1"), "the classes of the stack 'resprout' draw its options: none can be set"),
        (("--write", ""), "'' names no file or folder"),
        (("--write", "nowhere/seed.toml"), "nowhere/seed.toml cannot be written: No such file or directory"),
        (("seven",), "unexpected extra argument (seven)"),
    ],
)
def test_what_is_wrong_with_the_words_is_said_in_one_line(
    capfd: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert said in complaint(capfd, *words)
