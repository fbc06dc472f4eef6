"""Random schedules of a log: the same entries at all replicas, every message once, behind all that it depends on."""

import pytest

from resprout.logs.copying import CompactedCopy
from resprout.logs.messages import LogCopied
from resprout.logs.state import LogState
from tests.logs.__main__ import main
from tests.logs.schedule import LogSchedule
from tests.soak import cases

BLOCK = 20


@pytest.mark.parametrize("first", range(1, cases(80, 2_000) + 1, BLOCK))
def test_replicas_of_a_log_keep_every_message_once_and_in_order(first: int) -> None:
    for seed in range(first, first + BLOCK):
        try:
            LogSchedule(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_schedules_crash_replicas_and_lose_disks() -> None:
    crashes = wipes = 0
    for seed in range(1, 41):
        schedule = LogSchedule(seed)
        schedule.run()
        crashes += schedule.crashes
        wipes += schedule.wipes
    assert crashes > 20 and wipes > 2


def test_the_schedules_find_a_log_that_does_not_look_for_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogState, "_new_part", lambda state, bundle: bundle)
    with pytest.raises(AssertionError, match=r"is there twice|no progress"):
        for seed in range(1, 40):
            LogSchedule(seed).run()


def test_the_schedules_find_a_leader_that_decides_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.replicas.proposer.is_majority", lambda members, of: True)
    with pytest.raises(AssertionError, match=r"copies|differs"):
        for seed in range(1, 40):
            LogSchedule(seed).run()


def test_the_schedules_compact_logs_and_copy_compacted_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    hear = CompactedCopy.hear

    def count(copy: CompactedCopy, broker: str, message: LogCopied) -> bool:
        is_complete = hear(copy, broker, message)
        copied.append(is_complete)
        return is_complete

    monkeypatch.setattr(CompactedCopy, "hear", count)
    pages = compactions = 0
    for seed in range(1, 61):
        schedule = LogSchedule(seed)
        schedule.run()
        pages += schedule.pages
        compactions += schedule.compactions
    assert pages > 1_000 and compactions > 30 and sum(copied) > 5


def test_the_schedules_find_a_compaction_that_forgets_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.logs.compaction.key_of", lambda bundle: bytes(bundle.topic[:-1], "utf-8"))
    with pytest.raises(AssertionError, match=r"compacted up to|^\d+"):
        for seed in range(1, 40):
            LogSchedule(seed).run()


def test_many_schedules_are_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "7"]) == 0
    assert capsys.readouterr().out.startswith("seeds 7 to 8: 0 failed")
