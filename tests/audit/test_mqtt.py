"""Rules for MQTT sessions: good traces are clean, spoiled ones are noticed, and the definitions agree."""

import random

import pytest

from resprout.audit.judge import judge
from resprout.audit.mqtt import MQTT_RULES
from resprout.audit.verdict import CLEAN
from tests.audit.mqtt_model import mqtt_trace
from tests.audit.mutations import MUTATIONS
from tests.audit.test_bruteforce import agree

SPOILS = [name for name, (rule, _) in MUTATIONS.items() if rule in MQTT_RULES]


def test_correct_sessions_are_clean() -> None:
    for seed in range(20):
        verdict = judge(mqtt_trace(seed))
        assert verdict.anomalies == [], seed
        assert all(verdict.check(rule).status == CLEAN for rule in MQTT_RULES)


@pytest.mark.parametrize("name", SPOILS)
def test_a_spoiled_session_is_noticed(name: str) -> None:
    rule, spoil = MUTATIONS[name]
    noticed = 0
    for seed in range(20):
        rows = spoil(mqtt_trace(seed), random.Random(seed))
        if rows is not None:
            assert judge(rows).check(rule).anomalies == 1, seed
            noticed += 1
    assert noticed >= 10


def test_the_judge_agrees_with_the_definitions_on_spoiled_sessions() -> None:
    """Durable subscriptions have definitions of their own, so only what these rules say is compared."""
    found = set()
    for seed in range(30):
        rng = random.Random(seed)
        rows = mqtt_trace(seed)
        for name in rng.choices(SPOILS, k=3):
            rows = MUTATIONS[name][1](rows, rng) or rows
        found |= {finding[0] for finding in agree(rows, f"mqtt {seed}", rules=MQTT_RULES)}
    assert found == set(MQTT_RULES)


def test_no_receipt_beyond_safe_is_due_at_an_mqtt_client() -> None:
    rows = mqtt_trace(1)
    assert judge(rows).check("receipt").anomalies == 0
    found = [row for row in rows if row.kind == "publish"]
    assert found
