"""Good traces are clean, and every way to spoil one is noticed by the rule that it breaks."""

import random

import pytest

from resprout.audit.judge import judge
from resprout.audit.values import VALUE_RULES
from resprout.audit.verdict import CLEAN, RULES
from tests.audit.bank_model import Bank, bank_trace
from tests.audit.durable_model import durable_trace
from tests.audit.log_model import log_trace
from tests.audit.model import good_traces
from tests.audit.mutations import MUTATIONS

DURABLE = [name for name, (rule, _) in MUTATIONS.items() if rule == "durable"]
LOGS = [name for name, (rule, _) in MUTATIONS.items() if rule.startswith("log_")]
VALUES = [name for name, (rule, _) in MUTATIONS.items() if rule in VALUE_RULES]
"""`test_values` tries these, on simulated runs."""
MQTT = [name for name, (rule, _) in MUTATIONS.items() if rule.startswith("mqtt_")]
"""`test_mqtt` tries these."""
BANK = [name for name, (rule, _) in MUTATIONS.items() if rule.startswith("bank_")]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_what_a_correct_system_leaves_is_clean(first: int) -> None:
    for seed, rows in good_traces(first, 10):
        verdict = judge(rows)
        assert verdict.anomalies == [], seed
        assert verdict.check("lost").status == CLEAN
        assert verdict.counts["deliveries"] > 0


@pytest.mark.parametrize("claims", [True, False])
def test_a_correct_bank_is_clean(claims: bool) -> None:
    for seed in range(12):
        verdict = judge(bank_trace(seed, claims=claims), bank_initial=Bank.INITIAL)
        assert verdict.anomalies == [], seed
        assert verdict.counts["applied"] > 10
        assert verdict.check("bank_balance").status == CLEAN


def test_a_correct_bank_with_eventual_deposits_is_clean_and_compared_where_there_are_none() -> None:
    for seed in range(12):
        verdict = judge(bank_trace(seed, loose=True), bank_initial=Bank.INITIAL)
        assert verdict.anomalies == [], seed
        assert verdict.check("bank_balance").status == CLEAN
        assert "eventual operations move money" in verdict.check("bank_balance").reason


def test_correct_durable_subscriptions_are_clean() -> None:
    reasons = set()
    for seed in range(12):
        verdict = judge(durable_trace(seed))
        assert verdict.anomalies == [], seed
        reasons.add(verdict.check("durable").reason)
    assert reasons == {""}


@pytest.mark.parametrize("name", DURABLE)
def test_a_spoiled_durable_subscription_is_noticed(name: str) -> None:
    done = 0
    for seed in range(1000, 1016):
        spoiled = MUTATIONS[name][1](durable_trace(seed), random.Random(seed))
        if spoiled is not None:
            done += 1
            assert {anomaly.rule for anomaly in judge(spoiled).anomalies} == {"durable"}, seed
    assert done >= 5


def test_correct_logs_are_clean() -> None:
    for seed in range(24):
        verdict = judge(log_trace(seed))
        assert verdict.anomalies == [], seed
        assert {check.status for check in verdict.checks if check.rule.startswith("log_")} == {CLEAN}


@pytest.mark.parametrize("name", LOGS)
def test_a_spoiled_log_is_noticed_by_the_right_rule(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    done = 0
    for seed in range(1000, 1040):
        spoiled = mutate(log_trace(seed), random.Random(seed))
        if spoiled is not None and done < 12:
            done += 1
            broken = {anomaly.rule for anomaly in judge(spoiled).anomalies}
            assert rule in broken and all(each.startswith("log_") for each in broken), (seed, broken)
    assert done >= 5


@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in (*BANK, *DURABLE, *LOGS, *MQTT, *VALUES)])
def test_a_spoiled_trace_is_noticed_by_the_right_rule(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    done = 0
    for seed, rows in good_traces(1000, 24):
        spoiled = mutate(rows, random.Random(seed))
        if spoiled is not None:
            done += 1
            assert rule in {anomaly.rule for anomaly in judge(spoiled).anomalies}, seed
    assert done >= 5


@pytest.mark.parametrize("name", BANK)
def test_a_spoiled_bank_is_noticed_by_the_right_rule(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    done = 0
    for seed in range(2000, 2012):
        spoiled = mutate(bank_trace(seed), random.Random(seed))
        if spoiled is not None:
            done += 1
            assert rule in {anomaly.rule for anomaly in judge(spoiled, bank_initial=Bank.INITIAL).anomalies}, seed
    assert done >= 5


def test_every_rule_has_a_mutation() -> None:
    assert {rule for rule, _ in MUTATIONS.values()} == set(RULES)


def test_a_spoiled_trace_is_judged_the_same_again() -> None:
    for seed, rows in good_traces(3000, 4):
        for name in sorted(MUTATIONS):
            spoiled = MUTATIONS[name][1](rows, random.Random(seed))
            if spoiled is not None:
                assert judge(spoiled) == judge(spoiled)
