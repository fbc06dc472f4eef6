"""The rules of last values: against a brute-force twin, against mutated traces, and against broken brokers."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.audit.values import VALUE_RULES, ValueHistory, check_writes
from resprout.audit.verdict import CLEAN, VIOLATED, Verdict
from resprout.core.bundle import Bundle
from resprout.sim.swarm import swarm_trial
from resprout.stacks.resprout.values import ValueDesk
from resprout.trace import kinds
from resprout.trace.schema import Row, texts
from resprout.values.rows import DELETES, EXPECTED, RETAIN_KEY
from resprout.values.store import LastValues
from tests.audit.bruteforce_values import is_linearizable
from tests.audit.mutations import MUTATIONS
from tests.audit.spoiling import change

JOINING = (11,)
"""A seed of the class `kv` in which the judge needs the values of a newcomer."""
SEEDS = {"kv": (2, 3, 5, 6), "retained": (2, 3)}


def status(verdict: Verdict) -> dict[str, str]:
    return {check.rule: check.status for check in verdict.checks if check.rule in VALUE_RULES}


def broken(rows: Sequence[Row]) -> set[str]:
    return {rule for rule, word in status(judge(rows)).items() if word == VIOLATED}


# -- against a search over all orders ----------------------------------------------------------------------------------


def small_history(rng: random.Random) -> list[Row]:
    """Draw a few writes that overlap, apply them in an order that respects real time, and perhaps falsify something."""
    begun, rows, writes = 0, list[Row](), list[Any]()
    for number in range(1, rng.randint(2, 6)):
        begun += rng.randint(1, 4)
        writes.append([f"w{number}", f"$kv/x/{rng.choice('kl')}", begun, begun + rng.randint(1, 9)])
    order = sorted(writes, key=lambda write: rng.uniform(write[2], write[3]))
    register: dict[str, int] = {}
    place = 0
    for name, topic, begin, end in order:
        place += rng.randint(1, 3)
        expected = rng.choice((None, None, 0, register.get(topic, 0), rng.randint(1, 9)))
        deletes = rng.random() < 0.2
        applied = expected is None or expected == register.get(topic, 0)
        if applied:
            register[topic] = 0 if deletes else place
        told: dict[str, Any] = {} if expected is None else {EXPECTED: expected}
        if deletes:
            told[DELETES] = True
        rows += write_rows(name, topic, begin, end, place, applied, register.get(topic, 0), told)
    if rng.random() < 0.7:
        outcomes = [number for number, row in enumerate(rows) if row.kind == kinds.OUTCOME]
        at = rng.choice(outcomes)
        rows[at] = falsified(rng, rows[at])
    return sorted(rows, key=lambda row: (row.time_us, row.kind == kinds.OUTCOME))


def write_rows(
    name: str, topic: str, begin: int, end: int, place: int, applied: bool, current: int, told: dict[str, Any]
) -> list[Row]:
    of: dict[str, Any] = {"publisher": name, "incarnation": 1, "stream": "ordered", "seq": 1}
    about = {"applied": "yes" if applied else "no", "current": str(current)}
    return [
        Row(
            time_us=begin, node=name, kind=kinds.PUBLISH, **of, topic=topic, keys=(RETAIN_KEY,), guarantee="total",
            attributes=texts(told), payload_bytes=1,
        ),
        Row(time_us=end, node=name, kind=kinds.OUTCOME, **of, tseq=place, attributes=about),
    ]  # fmt: skip


def falsified(rng: random.Random, row: Row) -> Row:
    about = dict(row.attributes or {})
    assert row.tseq is not None
    match rng.randrange(3):
        case 0:
            return msgspec.structs.replace(row, tseq=max(1, row.tseq + rng.choice((-4, -2, 2, 4))))
        case 1:
            about["applied"] = "no" if about["applied"] == "yes" else "yes"
        case _:
            about["current"] = str(int(about["current"]) + rng.choice((-1, 1)))
    return msgspec.structs.replace(row, attributes=about)


def test_writes_are_linearizable_exactly_if_a_search_finds_an_order() -> None:
    seen = {True: 0, False: 0}
    for seed in range(1_500):
        rows = small_history(random.Random(seed))
        wanted = is_linearizable(rows)
        history = ValueHistory(rows, True)
        found = [*history.clashes, *check_writes(history)]
        assert (not found) is wanted, f"seed {seed}: {[one.explanation for one in found]}"
        seen[wanted] += 1
    assert min(seen.values()) > 200


# -- mutated traces ----------------------------------------------------------------------------------------------------


def clean_runs() -> list[tuple[str, list[Row]]]:
    runs = []
    for name, seeds in SEEDS.items():
        for seed in seeds:
            rows = list(swarm_trial(seed, name).run(0).rows)
            assert not broken(rows)
            runs.append((f"{name} {seed}", rows))
    return runs


@pytest.fixture(scope="module")
def runs() -> list[tuple[str, list[Row]]]:
    return clean_runs()


SOMETIMES = ("read_from_before_everything", "begin_without_a_value")
"""Their docstrings say where these break nothing."""
VALUES = [name for name, (rule, _) in MUTATIONS.items() if rule in VALUE_RULES]


@pytest.mark.parametrize("what", VALUES)
def test_a_mutated_trace_is_not_clean(what: str, runs: list[tuple[str, list[Row]]]) -> None:
    rule, mutate = MUTATIONS[what]
    tried = found = 0
    for name, rows in runs:
        for number in range(4):
            mutant = mutate(rows, random.Random(f"{name} {number}"))
            if mutant is not None:
                tried += 1
                found += rule in broken(mutant)
                assert what in SOMETIMES or found == tried, f"{name}, {number}"
    assert tried > 2 and 2 * found > tried


def test_a_write_that_ends_before_another_begins_has_the_lower_place() -> None:
    first = write_rows("w1", "$kv/x/k", 10, 20, 5, True, 5, {})
    second = write_rows("w2", "$kv/x/l", 30, 40, 4, True, 4, {})
    assert broken([*first, *second]) == {"kv_writes"}
    assert broken([*first, *write_rows("w2", "$kv/x/l", 20, 40, 4, True, 4, {})]) == set()


def test_a_reader_may_not_read_less_than_a_message_depends_on() -> None:
    """w1 writes and publishes plainly; c2 gets that message, and then reads from before the write."""
    rows = write_rows("w1", "$kv/x/k", 10, 20, 5, True, 5, {})
    of: dict[str, Any] = {
        "publisher": "w1",
        "incarnation": 1,
        "stream": "ordered",
        "seq": 2,
        "topic": "t",
        "guarantee": "causal",
    }
    rows += [
        Row(time_us=1, node="c2", kind=kinds.SUBSCRIBE, filter="t"),
        Row(time_us=2, node="c2", kind=kinds.SUBSCRIBED, filter="t"),
        Row(time_us=30, node="w1", kind=kinds.PUBLISH, **of, keys=(), payload_bytes=1),
        Row(time_us=40, node="c2", kind=kinds.DELIVER, **of, keys=(), position=0, hops=1, payload_bytes=1),
        Row(time_us=50, node="c2", kind=kinds.VALUES_ASKED, filter="$kv/x/k"),
        Row(time_us=60, node="c2", kind=kinds.VALUES_READ, filter="$kv/x/k"),
    ]
    assert broken(sorted(rows, key=lambda row: row.time_us)) == {"kv_reads"}
    asked_before = [change(row, time_us=35) if row.kind == kinds.VALUES_ASKED else row for row in rows]
    assert broken(sorted(asked_before, key=lambda row: row.time_us)) == set()


def test_no_message_may_come_after_a_value_that_its_publisher_published_later() -> None:
    rows = write_rows("w1", "$kv/x/k", 10, 20, 5, True, 5, {})
    rows = [change(row, seq=2) for row in rows]
    of: dict[str, Any] = {"publisher": "w1", "incarnation": 1, "stream": "ordered", "seq": 1}
    of |= {"topic": "t", "guarantee": "causal", "keys": (), "payload_bytes": 1}
    rows += [
        Row(time_us=1, node="c2", kind=kinds.SUBSCRIBE, filter="t"),
        Row(time_us=2, node="c2", kind=kinds.SUBSCRIBED, filter="t"),
        Row(time_us=5, node="w1", kind=kinds.PUBLISH, **of),
        Row(time_us=30, node="c2", kind=kinds.SUBSCRIBE, filter="$kv/x/k", attributes={"retained": "yes"}),
        Row(time_us=40, node="c2", kind=kinds.DELIVER, **of, position=0, hops=1),
        change(rows[1], time_us=50, node="c2", kind=kinds.VALUE, topic="$kv/x/k", filter="$kv/x/k", attributes=None),
        Row(time_us=60, node="c2", kind=kinds.SUBSCRIBED, filter="$kv/x/k"),
    ]
    assert broken(sorted(rows, key=lambda row: row.time_us)) == set()
    late = [change(row, time_us=55) if row.kind == kinds.DELIVER else row for row in rows]
    assert broken(sorted(late, key=lambda row: row.time_us)) == {"retained"}


def test_a_topic_with_a_write_of_unknown_place_is_not_judged_and_is_counted() -> None:
    rows = write_rows("w1", "$kv/x/k", 10, 20, 5, False, 3, {EXPECTED: 9})
    rows.append(write_rows("w2", "$kv/x/k", 11, 19, 3, True, 3, {})[0])
    check = next(
        check for check in judge(sorted(rows, key=lambda row: row.time_us)).checks if check.rule == "kv_writes"
    )
    assert check.status == CLEAN and "1 of 1 topics not judged" in check.reason


# -- broken brokers ----------------------------------------------------------------------------------------------------


def found_by(name: str, seeds: Sequence[int]) -> set[str]:
    """Return the rules that some of these runs break; a broken invariant or a run that fails counts as one."""
    rules: set[str] = set()
    for seed in seeds:
        try:
            rules |= broken(swarm_trial(seed, name).run(0).rows)
        except AssertionError:
            rules.add("invariant")
    return rules


def test_brokers_that_ignore_revisions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.values.store.expected_of", lambda topic, attributes: None)
    assert "kv_writes" in found_by("kv", (2, 3))


def test_brokers_that_begin_subscriptions_without_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(desk: ValueDesk, session: Any, id: int) -> None:
        desk.when_shown(lambda: desk.give(session, id, []))

    monkeypatch.setattr(ValueDesk, "begin", begin)
    assert "retained" in found_by("kv", (2, 3, 5))


def test_newcomers_that_are_given_no_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ValueDesk, "rows", lambda desk: iter(()))
    assert found_by("kv", JOINING)


def test_a_broker_that_answers_with_old_values_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = LastValues.apply
    late: dict[int, tuple[Bundle, int, Any]] = {}

    def apply_late(store: LastValues, bundle: Bundle, place: int, told: Any) -> None:
        if (before := late.pop(id(store), None)) is not None:
            apply(store, *before)
        late[id(store)] = (bundle, place, told)

    monkeypatch.setattr(LastValues, "apply", apply_late)
    assert {"kv_reads", "retained"} & found_by("kv", (2, 3, 6))
