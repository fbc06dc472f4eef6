"""Both judges agree on 300 random traces and on every mutant: on which rules are broken, and to the last word."""

from typing import TYPE_CHECKING

import pytest

from resprout.audit.verdict import RULES
from resprout.pipeline.judging import judge_runs
from resprout.pipeline.judging.detect import detect
from resprout.pipeline.places import RunPlace
from tests.pipeline.judging_cases import Case, assert_agrees, good_cases, mutants, random_cases, simulated, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Written = list[tuple[Case, RunPlace]]
ORDER = {rule for rule in RULES if not rule.startswith("bank_")}


@pytest.fixture(scope="module", params=["first half", "second half", "mutants", "good"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Written]:
    cases = {
        "first half": lambda: list(random_cases(300))[::2],
        "second half": lambda: list(random_cases(300))[1::2],
        "mutants": lambda: list(mutants(2)),
        "good": lambda: [*good_cases(6), *simulated()],
    }[request.param]()
    folder = tmp_path_factory.mktemp("cases")
    return request.param, [(case, write(folder, case)) for case in cases]


def test_the_same_rules_are_broken(written: tuple[str, Written]) -> None:
    name, traces = written
    broken = set().union(*(assert_agrees(case, detect(place, is_sealed=False)) for case, place in traces))
    assert broken == {"first half": ORDER, "second half": ORDER, "mutants": set(RULES), "good": set()}[name]
    assert len(traces) == {"first half": 150, "second half": 150, "mutants": 66, "good": 22}[name]


def test_the_verdicts_are_the_same_to_the_last_word(written: tuple[str, Written], spark: "SparkSession") -> None:
    _, traces = written
    assert judge_runs(spark, [place for _, place in traces]) == [case.verdict for case, _ in traces]
