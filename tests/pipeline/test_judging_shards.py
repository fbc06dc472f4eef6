"""A run divided among many has the findings of the whole, however it is divided. Without Spark, which only carries."""

from pathlib import Path
from typing import Any

import pytest

from resprout.audit.mqtt import MQTT_RULES
from resprout.pipeline.judging.columns import UnreadableError
from resprout.pipeline.judging.context import Detected
from resprout.pipeline.judging.reading import Fingerprint, groups_of
from resprout.pipeline.judging.runs import Limits, detect, join_hints, judge_pieces, pieces_of, plan_of, portions_of
from resprout.pipeline.judging.shard import conclude
from resprout.pipeline.places import RunPlace
from tests.audit.model import good_trace
from tests.audit.test_bruteforce import EACH_TOPIC, PROBABLE
from tests.pipeline.judging_cases import (
    Case,
    good_cases,
    mutants,
    promised,
    random_cases,
    senseless_cases,
    simulated,
    write,
)
from tests.soak import cases


def detect_in_shards(place: RunPlace, limits: Limits) -> tuple[Detected, int]:
    """What is found, and in how many shards."""
    plan = plan_of(place, Fingerprint(), limits)
    assert plan is not None
    sent: dict[int, list[Any]] = {shard: [] for shard in range(plan.shards + 1)}
    for portion in portions_of(groups_of(place.parts), limits.task_rows):
        for shard, piece in pieces_of(portion, plan):
            sent[shard].insert(0, piece)  # as if the last came first
    hints = join_hints(sent.pop(plan.shards), plan)
    if isinstance(hints, str):
        raise UnreadableError(hints)
    findings = [judge_pieces(shard, pieces, plan, hints) for shard, pieces in sent.items()]
    return conclude(plan.context, hints, findings, plan.bank_initial), plan.shards


@pytest.mark.parametrize(("part_rows", "shard_deliveries"), [(25, 12), (60, 40)][: cases(1, 2)])
def test_random_traces_mutants_and_good_ones_have_the_same_findings(
    tmp_path: Path, part_rows: int, shard_deliveries: int
) -> None:
    shards = 0
    for case in (
        *random_cases(cases(12, 25)),
        *mutants(1, but=MQTT_RULES),  # runs with MQTT clients are judged in Python
        *good_cases(2),
        *promised(random_cases(cases(8, 20)), EACH_TOPIC, PROBABLE),
    ):
        place = write(tmp_path, case, part_rows * (1 + len(case.rows) // 200))
        found, several = detect_in_shards(place, Limits(0, shard_deliveries, 2 * part_rows))
        assert found == detect(place, is_sealed=False), case.name
        shards = max(shards, several)
    assert shards > 4


def test_simulated_runs_have_the_same_findings(tmp_path: Path) -> None:
    for case in simulated():
        place = write(tmp_path, case, 500)
        assert detect_in_shards(place, Limits(0, 400, 900))[0] == detect(place, is_sealed=False), case.name


def test_rows_that_make_no_sense_are_noticed_wherever_they_stand(tmp_path: Path) -> None:
    for case in senseless_cases():
        with pytest.raises(UnreadableError):
            detect_in_shards(write(tmp_path, case, 100), Limits(0, 100, 200))


def test_a_run_whose_clock_runs_backwards_is_not_divided(tmp_path: Path) -> None:
    rows = good_trace(3, 220)
    place = write(tmp_path, Case("backwards", [*rows[1:], rows[0]]), 100)
    assert plan_of(place, None, Limits()) is None
