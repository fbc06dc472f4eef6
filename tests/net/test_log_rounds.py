"""Logs with real processes: every replica has every message, whatever happens to its broker."""

import pytest

from tests.logs.rounds import FAILURES, RATE, SECONDS, run_round
from tests.soak import SOAKING, cases

FEW_SECONDS = 5
FEW_RATE = 500


@pytest.mark.parametrize("number", range(cases(1, 20)))
@pytest.mark.parametrize("failure", FAILURES if SOAKING else ["rolling restart", "kill -9"])
def test_no_message_is_missing_at_any_replica(failure: str, number: int) -> None:
    seconds, rate = (SECONDS, RATE) if SOAKING else (FEW_SECONDS, FEW_RATE)
    found = run_round(failure, number, seconds, rate)
    assert not found.complaints, "\n".join(found.complaints)
    assert found.published == seconds * rate and set(found.kept.values()) == {found.published}
    assert found.read


@pytest.mark.parametrize("failure", FAILURES if SOAKING else ["kill -9"])
def test_replicas_that_are_killed_while_they_compact_keep_the_last_message_of_each_key(failure: str) -> None:
    seconds, rate = (SECONDS, RATE) if SOAKING else (FEW_SECONDS, FEW_RATE)
    found = run_round(failure, 0, seconds, rate, compact=True)
    assert not found.complaints, "\n".join(found.complaints)
    assert found.published == seconds * rate > max(found.kept.values()) and found.dropped and found.read
