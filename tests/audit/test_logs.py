"""Logs: the judge agrees with the definitions on spoiled traces, and says of single rows what it should."""

import contextlib
import random
from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.core.guarantee import OrderScope, Promises
from resprout.trace.schema import Row
from tests.audit.bruteforce_logs import log_findings
from tests.audit.bruteforce_world import World
from tests.audit.log_model import Log, LoggedSystem
from tests.audit.mutations import MUTATIONS
from tests.audit.test_bruteforce import names_of
from tests.soak import cases

LOGS = sorted(name for name, (rule, _) in MUTATIONS.items() if rule.startswith("log_"))
ORDER = {"fifo", "causal", "total", "barrier", "tseq", "lost", "invented"}
OTHERS = sorted(name for name, (rule, _) in MUTATIONS.items() if rule in ORDER)
EACH_TOPIC = Promises(OrderScope.EACH_TOPIC)


def spoiled_log(seed: int) -> list[Row]:
    """A small trace in which one to four things are wrong, most of them about its logs."""
    rng = random.Random(seed)
    logs = [Log("all", "#", rng.choice((0, 10))), Log("bank", "bank/#", 5), Log("some~1", "#", 5, part=(1, 2))]
    logs.append(Log("last", "#", 5, grace=rng.choice((0, 60, 10_000))))
    rows = LoggedSystem(seed, logs, clients=3, claims=seed % 4 != 0, faults=seed % 3 == 0).run(60)
    for _ in range(rng.randint(1, 4)):
        name = rng.choice(LOGS if rng.random() < 0.8 else OTHERS)
        with contextlib.suppress(KeyError, ValueError):  # made for good traces: on others it may find no hold
            rows = MUTATIONS[name][1](rows, rng) or rows
    return rows


def found_in(verdict: Verdict, world: World) -> set[tuple[Any, ...]]:
    names = names_of(world)
    return {
        (a.rule, a.subscriber, names[a.messages[0]] if a.messages else None)
        for a in verdict.anomalies
        if a.rule.startswith("log_")
    }


@pytest.mark.parametrize("seed", range(cases(40, 200)))
def test_the_judge_agrees_with_the_definitions_on_spoiled_logs(seed: int) -> None:
    rows = spoiled_log(seed)
    for promise in (Promises(), EACH_TOPIC):
        assert found_in(judge(rows, promise=promise), World(rows, promise)) == log_findings(rows, promise)


def test_the_spoiled_logs_break_every_rule() -> None:
    broken = {finding[0] for seed in range(40) for finding in log_findings(spoiled_log(seed))}
    assert broken == {"log_kept", "log_complete", "log_same", "log_order", "log_gap", "log_read"}
