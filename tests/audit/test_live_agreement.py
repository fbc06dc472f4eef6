"""The live judge says of a run, row by row, what the judge of whole traces says of its trace."""

import random

import pytest

from resprout.audit.judge import judge
from resprout.audit.live.judge import LIVE_RULES, LiveJudge, reliability
from resprout.core.guarantee import Promises
from resprout.trace.schema import Row
from resprout.trace.store import promise_row
from tests.audit.live_comparison import PATIENT, assert_agree, watched
from tests.audit.model import System, good_traces
from tests.audit.mutations import MUTATIONS
from tests.audit.test_bruteforce import EACH_TOPIC, PROBABLE, arbitrary_trace, disturbed, with_times
from tests.soak import cases

LIVE_MUTATIONS = [name for name, (rule, _) in MUTATIONS.items() if rule in LIVE_RULES]


@pytest.mark.parametrize("first", range(0, cases(20, 40), 10))
def test_it_finds_nothing_in_what_a_correct_system_leaves(first: int) -> None:
    for seed, rows in good_traces(first, 10):
        assert watched(rows) == [], seed


@pytest.mark.parametrize("name", LIVE_MUTATIONS)
def test_it_agrees_on_spoiled_traces(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    noticed = 0
    for seed, rows in good_traces(1000, 16):
        spoiled = mutate(rows, random.Random(seed))
        if spoiled is not None and in_order(spoiled):
            live = watched(spoiled)
            assert_agree(spoiled, live, judge(spoiled), (name, seed))
            noticed += rule in {anomaly.rule for anomaly in live}
    assert noticed >= 3


@pytest.mark.parametrize("seed", range(cases(8, 16)))
def test_it_agrees_on_traces_with_much_wrong_with_them(seed: int) -> None:
    rng = random.Random(seed)
    rows = System(seed, clients=3, claims=seed % 2 == 0).run(90)
    for _ in range(6):
        rows = disturbed(rows, rng)
        if in_order(rows):
            assert_agree(rows, watched(rows, restarts=seed % 2 == 0), judge(rows), seed)


def test_it_agrees_on_arbitrary_traces() -> None:
    rules: set[str] = set()
    for seed in range(cases(250, 700)):
        rows = arbitrary_trace(random.Random(seed))
        if in_order(rows):
            live = watched(rows, at_a_time=1 + seed % 9)
            assert_agree(rows, live, judge(rows), seed)
            rules |= {anomaly.rule for anomaly in live}
    assert rules == set(LIVE_RULES)


@pytest.mark.parametrize(("promise", "never"), [(EACH_TOPIC, set()), (PROBABLE, {"lost", "lost_told"})])
def test_it_agrees_on_arbitrary_traces_whatever_is_promised(promise: Promises, never: set[str]) -> None:
    rules: set[str] = set()
    for seed in range(cases(250, 700)):
        rows = arbitrary_trace(random.Random(seed))
        if in_order(rows):
            live = watched([promise_row(promise), *rows], at_a_time=1 + seed % 9, restarts=seed % 5 == 0)
            assert_agree(rows, live, judge(rows, promise=promise), seed)
            rules |= {anomaly.rule for anomaly in live}
    assert rules == set(LIVE_RULES) - never


def test_it_agrees_on_messages_that_expire() -> None:
    told = 0
    for seed in range(cases(250, 700)):
        rng = random.Random(seed)
        rows = with_times(arbitrary_trace(rng), rng)
        if in_order(rows):
            live = watched(rows, at_a_time=1 + seed % 9, restarts=seed % 5 == 0)
            assert_agree(rows, live, judge(rows), seed)
            told += any("dropped or expired" in anomaly.explanation for anomaly in live)
    assert told > 5


def test_it_counts_what_came_where_probability_is_promised() -> None:
    shares = []
    for seed, rows in good_traces(1000, 16):
        spoiled = MUTATIONS["drop"][1](rows, random.Random(seed))
        if spoiled is None or any(row.kind in ("crash", "freeze", "unsubscribe") for row in rows):
            continue  # what is due to those depends on how they end
        live, verdict = LiveJudge(PATIENT, PROBABLE), judge(spoiled, promise=PROBABLE)
        assert live.take(spoiled) == []
        assert reliability(live.counts) == verdict.reliability and live.counts["missing"] == 1
        shares.append(verdict.reliability)
    assert len(shares) > 3


def in_order(rows: list[Row]) -> bool:
    """Whether positions grow with the rows: the live judge takes the order of rows for the order of deliveries."""
    last: dict[str, int] = {}
    for row in rows:
        if row.kind in ("crash", "leave"):
            last.pop(row.node, None)
        elif row.kind == "deliver":
            if (row.position or 0) <= last.get(row.node, -1):
                return False
            last[row.node] = row.position or 0
    return True
