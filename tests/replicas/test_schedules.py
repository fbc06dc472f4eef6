"""Random schedules of drops, duplicates, reordering, crashes and restarts: one decision a slot, progress at last."""

import pytest

from tests.replicas.__main__ import main
from tests.replicas.schedule import Schedule

SEEDS = 150
"""`make soak-replicas` tries 5,000."""
BLOCK = 50


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BLOCK))
def test_replicas_decide_alike_and_go_on_when_a_majority_is_up(first: int) -> None:
    for seed in range(first, first + BLOCK):
        try:
            Schedule(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_many_schedules_are_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--first", "7"]) == 0
    assert capsys.readouterr().out.startswith("seeds 7 to 9: 0 failed")


def test_a_schedule_that_fails_says_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.replicas.schedule.STEPS_MAX", 10)
    assert main(["--seeds", "2", "--first", "5"]) == 1
    out = capsys.readouterr().out
    assert "seed 6: no progress" in out and "python -m tests.replicas --seeds 1 --first 6" in out
