"""Traces for both judges: good ones, spoiled ones in every way, senseless ones, and some of the simulator."""

import functools
import random
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from resprout.audit.judge import judge
from resprout.audit.mqtt import MQTT_RULES
from resprout.audit.timing import TIMING_RULES
from resprout.audit.values import VALUE_RULES
from resprout.audit.verdict import MEASURED, NOT_JUDGED, Verdict
from resprout.core.guarantee import Promises
from resprout.pipeline.judging.context import Detected
from resprout.pipeline.places import RunPlace, place_of
from resprout.scenario.load import load_scenario
from resprout.sim.run import run_scenario
from resprout.trace.schema import Row, TraceError
from resprout.trace.store import RunInfo, TraceWriter
from tests.audit.bank_model import Bank, bank_trace
from tests.audit.durable_model import durable_trace
from tests.audit.log_model import log_trace
from tests.audit.model import System, good_trace
from tests.audit.mqtt_model import mqtt_trace
from tests.audit.mutations import MUTATIONS
from tests.audit.spoiling import change
from tests.audit.test_bruteforce import arbitrary_trace, disturbed

ALL_TOPICS = Promises()


class Case:
    def __init__(
        self, name: str, rows: list[Row], bank_initial: int | None = None, promise: Promises = ALL_TOPICS
    ) -> None:
        self.name = name
        self.rows = rows
        self.bank_initial = bank_initial
        self.promise = promise

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """Of the judge in Python; None when it refuses the trace."""
        try:
            return judge(self.rows, self.bank_initial, self.promise)
        except TraceError:
            return None


def random_cases(count: int) -> Iterator[Case]:
    """Half of them may hold anything at all, the others are of a system that is disturbed again and again."""
    for seed in range(count // 2):
        yield Case(f"arbitrary-{seed}", arbitrary_trace(random.Random(seed)))
    for seed in range(count // 10):
        rng = random.Random(seed)
        rows = System(seed, clients=3, claims=seed % 2 == 0).run(70)
        for step in range(5):
            rows = disturbed(rows, rng)
            yield Case(f"disturbed-{seed}-{step}", rows)


def promised(cases: Iterable[Case], *promises: Promises) -> Iterator[Case]:
    """The same, judged by what less is promised, one after the other."""
    for number, case in enumerate(cases):
        promise = promises[number % len(promises)]
        yield Case(f"{case.name}-promise-{number}", case.rows, case.bank_initial, promise)


def good_cases(count: int) -> Iterator[Case]:
    for seed in range(count):
        yield Case(f"good-{seed}", good_trace(seed, 220))
        yield Case(f"bank-{seed}", bank_trace(seed, claims=seed % 2 == 0), Bank.INITIAL)
        yield Case(f"durable-{seed}", durable_trace(seed))
        yield Case(f"log-{seed}", log_trace(seed))
        yield Case(f"loose-bank-{seed}", bank_trace(seed, claims=seed % 2 == 0, loose=True), Bank.INITIAL)


def mutants(per_mutation: int, but: Collection[str] = ()) -> Iterator[Case]:
    """Of every mutation, but those of these rules, and of last values and times, which Spark does not judge."""
    for name, (rule, mutate) in MUTATIONS.items():
        if rule in (*VALUE_RULES, *TIMING_RULES, *but):
            continue
        done = 0
        for seed in range(1000, 1040):
            rows = _base(rule, seed)
            spoiled = mutate(rows, random.Random(seed))
            if spoiled is not None and done < per_mutation:
                done += 1
                yield Case(f"{name}-{seed}", spoiled, Bank.INITIAL if rule.startswith("bank_") else None)
        assert done == per_mutation, name


def _base(rule: str, seed: int) -> list[Row]:
    if rule.startswith("bank_"):
        return bank_trace(seed)
    if rule.startswith("log_"):
        return log_trace(seed)
    if rule in MQTT_RULES:
        return mqtt_trace(seed)
    return durable_trace(seed) if rule == "durable" else good_trace(seed, 220)


@functools.cache
def simulated() -> tuple[Case, ...]:
    """Runs with crashes, a freeze, a return, conditions, durable subscriptions and banks."""
    return tuple(
        Case(f"simulated-{name}", run_scenario(load_scenario(name)).rows)
        for name in ("content", "crash-b1", "durable", "freeze-b1", "recover")
    )


def senseless_cases() -> Iterator[Case]:
    """Each with one row that makes no sense."""
    rows = good_trace(0, 220)
    bank = bank_trace(0)

    def spoiled(kind: str, place: int = 0, of: list[Row] = rows, **columns: Any) -> list[Row]:
        at = [i for i, row in enumerate(of) if row.kind == kind][place]
        return [change(row, **columns) if i == at else row for i, row in enumerate(of)]

    yield Case("no seq", spoiled("deliver", 3, seq=None))
    yield Case("no position", spoiled("deliver", 3, position=None))
    yield Case("position below 0", spoiled("deliver", 3, position=-1))
    yield Case("no publisher", spoiled("publish", publisher=None))
    yield Case("no topic", spoiled("publish", topic=None))
    yield Case("other publisher", spoiled("publish", publisher="nobody"))
    yield Case("unknown guarantee", spoiled("publish", guarantee="sometimes"))
    yield Case("wrong stream", spoiled("publish", stream="sideways"))
    yield Case("unknown receipt", spoiled("receipt", receipt="perhaps"))
    yield Case("no receipt", spoiled("receipt", receipt=None))
    yield Case("receipt of nothing", spoiled("receipt", seq=None))
    yield Case("no filter", spoiled("subscribe", filter=None))
    yield Case("bad filter", spoiled("subscribe", filter="a/#/b"))
    yield Case("bad condition", spoiled("subscribe", where="amount >"))
    durable = durable_trace(0)
    yield Case("handed nothing", spoiled("handed", of=durable, seq=None))
    yield Case("acknowledged nothing", spoiled("acknowledged", of=durable, stream=None))
    yield Case("nameless durable", spoiled("handed", of=durable, attributes={}))
    yield Case("consumes no filter", spoiled("consume", of=durable, filter=None))
    yield Case("consumes a bad filter", spoiled("consume", of=durable, filter="a/#/b"))
    logs = log_trace(0)
    yield Case("nameless log", spoiled("log_kept", of=logs, attributes={}))
    yield Case("kept nothing", spoiled("log_kept", of=logs, seq=None))
    yield Case("kept nowhere", spoiled("log_kept", of=logs, position=None))
    yield Case("ends nowhere", spoiled("log_end", of=logs, attributes={"log": "all", "first": "x", "end": "3"}))
    yield Case("page of nothing", spoiled("log_page", of=logs, filter=None))
    yield Case("log of a bad filter", spoiled("log_declared", of=logs, filter="a/#/b"))
    yield Case("no incarnation", spoiled("applied", of=bank, incarnation=None))
    yield Case("bad outcome", spoiled("applied", of=bank, attributes={"outcome": "perhaps"}))
    yield Case("bad balance", spoiled("applied", of=bank, attributes={"outcome": "ok", "bank/fr|1": "'much'"}))
    yield Case("bad operation", spoiled("publish", of=bank, attributes={"op": "deposit"}))


def write(folder: Path, case: Case, part_rows: int = 1_000_000) -> RunPlace:
    scenario = {} if case.bank_initial is None else {"bank_initial": case.bank_initial}
    writer = TraceWriter(folder / case.name)
    for begin in range(0, len(case.rows), part_rows):
        writer.write(case.rows[begin : begin + part_rows])
    writer.finish(RunInfo(scenario=scenario, promise=case.promise))
    return place_of(folder / case.name, "cases", case.name)


def assert_agrees(case: Case, detected: Detected) -> set[str]:
    """What was detected is what the judge in Python says, rule by rule. Returns the broken rules."""
    verdict = case.verdict
    assert (verdict is None) == bool(detected.odd), (case.name, detected.odd)
    if verdict is None:
        return set()
    assert detected.broken == {anomaly.rule for anomaly in verdict.anomalies}, case.name
    assert detected.counts == verdict.counts, case.name
    for check in verdict.checks:
        if check.status == NOT_JUDGED:
            assert detected.skipped.get(check.rule) == check.reason, case.name
        else:
            if check.status != MEASURED:
                assert detected.notes.get(check.rule, "") == check.reason, case.name
            assert check.rule not in detected.skipped or check.rule in detected.broken, case.name
    return detected.broken
