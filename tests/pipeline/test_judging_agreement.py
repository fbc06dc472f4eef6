"""Both judges agree on 150 random traces (in `make soak`: 300) and on every mutant: on which rules are broken, and to
the last word."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.audit.mqtt import MQTT_RULES
from resprout.audit.timing import TIMING_RULES
from resprout.audit.values import VALUE_RULES
from resprout.audit.verdict import RULES
from resprout.core.guarantee import OrderScope, Promises, Reliability
from resprout.pipeline.judging import judge_runs
from resprout.pipeline.judging.runs import detect
from resprout.pipeline.places import RunPlace
from tests.audit.test_bruteforce import EACH_TOPIC, PROBABLE
from tests.audit.test_durable import held_story
from tests.pipeline.judging_cases import (
    Case,
    assert_agrees,
    good_cases,
    mutants,
    promised,
    random_cases,
    simulated,
    write,
)
from tests.soak import SOAKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Written = list[tuple[Case, RunPlace]]
LESS = (EACH_TOPIC, PROBABLE, EACH_TOPIC, Promises(OrderScope.EACH_TOPIC, Reliability.PROBABLE, ("accepted", "safe")))
LOOSE = {"bank_outcome", "bank_replay"}
"""Not in these mutants: their transfers go to another topic, which is in no order with theirs."""
BOTH = set(RULES) - {*VALUE_RULES, *TIMING_RULES, *MQTT_RULES}
"""Spark does not judge last values, nor delayed and expiring messages."""
ORDER = {rule for rule in BOTH if not rule.startswith(("bank_", "log_", "durable"))}


PARTS = ["first half", *(["second half"] if SOAKING else []), "mutants", "good", "less promised"]


@pytest.fixture(scope="module", params=PARTS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Written]:
    cases = {
        "first half": lambda: list(random_cases(300))[::2],
        "second half": lambda: list(random_cases(300))[1::2],
        "mutants": lambda: list(mutants(2, but=MQTT_RULES)),
        "good": lambda: [*good_cases(6), *simulated()],
        "less promised": lambda: list(promised([*random_cases(90), *mutants(1, but=MQTT_RULES)], *LESS)),
    }[request.param]()
    folder = tmp_path_factory.mktemp("cases")
    return request.param, [(case, write(folder, case)) for case in cases]


def test_the_same_rules_are_broken(written: tuple[str, Written]) -> None:
    name, traces = written
    broken = set().union(*(assert_agrees(case, detect(place, is_sealed=False)) for case, place in traces))
    counts = {"first half": 150, "second half": 150, "mutants": 132, "good": 35, "less promised": 156}
    assert len(traces) == counts[name]
    assert broken == {"mutants": BOTH, "good": set(), "less promised": BOTH - LOOSE}.get(name, ORDER)


def test_the_verdicts_are_the_same_to_the_last_word(written: tuple[str, Written], spark: "SparkSession") -> None:
    _, traces = written
    assert judge_runs(spark, [place for _, place in traces]) == [case.verdict for case, _ in traces]


@pytest.mark.parametrize("is_consumed", [False, True])
def test_both_judges_excuse_what_waits_for_a_subscription_that_nobody_consumes(
    is_consumed: bool, tmp_path: Path
) -> None:
    story = held_story(is_consumed)
    story.add(200, "", "quiescent")
    case = Case("held", story.rows)
    broken = assert_agrees(case, detect(write(tmp_path, case), is_sealed=False))
    assert broken == ({"lost", "durable"} if is_consumed else set())
