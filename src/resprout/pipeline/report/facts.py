"""All that is known of one run: its rows of every result table, side by side, and how it came out.

A run kept every promise, broke one that is known to be broken, broke another, did not come to rest, or was not judged.
Stacks that do not keep every promise say so: the page tells that, and never leaves it out.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from resprout.audit.verdict import CLEAN, NOT_JUDGED, UNFINISHED, VIOLATED
from resprout.core.errors import UsageError
from resprout.pipeline.results import (
    AnomalyRow,
    LatencyRow,
    LoadRow,
    RepairRow,
    ResultRow,
    RunRow,
    TrafficRow,
    VerdictRow,
)
from resprout.stacks.registry import find_stack
from resprout.stacks.stack import Stack

Tables = Mapping[str, Sequence[ResultRow]]
"""By the name of the table."""

_MANY: Final[tuple[type[ResultRow], ...]] = (AnomalyRow, LatencyRow, RepairRow, LoadRow)
"""The tables that have any number of rows for a run; of the others it has one at most."""


class RunFacts(msgspec.Struct, frozen=True):
    run: RunRow
    verdict: VerdictRow | None = None
    traffic: TrafficRow | None = None
    anomalies: tuple[AnomalyRow, ...] = ()
    latency: tuple[LatencyRow, ...] = ()
    repairs: tuple[RepairRow, ...] = ()
    load: tuple[LoadRow, ...] = ()

    @property
    def name(self) -> str:
        return self.run.run

    @property
    def stack(self) -> str:
        return self.run.stack


def facts_of(tables: Tables) -> list[RunFacts]:
    """One for each row of the table `runs`, in its order."""
    found: dict[tuple[str, str], dict[str, Any]] = {
        _key(row): {"run": row, **{table.TABLE: [] for table in _MANY}} for row in tables[RunRow.TABLE]
    }
    for row in _rows(tables, _MANY):
        found[_key(row)][row.TABLE].append(row)
    for field, table in (("verdict", VerdictRow), ("traffic", TrafficRow)):
        for row in tables.get(table.TABLE, ()):
            found[_key(row)][field] = row
    return [RunFacts(**_frozen(fields)) for fields in found.values()]


def _rows(tables: Tables, wanted: Iterable[type[ResultRow]]) -> Iterable[ResultRow]:
    return (row for table in wanted for row in tables.get(table.TABLE, ()))


def _key(row: ResultRow) -> tuple[str, str]:
    return row.experiment, row.run


def _frozen(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(field) if isinstance(field, list) else field for name, field in fields.items()}


def by_experiment(facts: Iterable[RunFacts]) -> dict[str, list[RunFacts]]:
    found: dict[str, list[RunFacts]] = {}
    for one in facts:
        found.setdefault(one.run.experiment, []).append(one)
    return found


def is_documented(stack: str, rule: str) -> bool:
    known = known_stack(stack)
    return known is not None and rule in known.known_anomalies


def said_about(stack: str, rule: str) -> str:
    """Empty when nothing is said about it."""
    known = known_stack(stack)
    return "" if known is None else known.known_anomalies.get(rule, "") or known.known_limits.get(rule, "")


def known_stack(name: str) -> Stack[Any] | None:
    """None for one that is not installed where its traces are read."""
    try:
        return find_stack(name)
    except UsageError:
        return None


class RunStanding(enum.Enum):
    """How a run came out: the word for it, and the class it is shown with. The worst comes first."""

    VIOLATED = (VIOLATED, "bad")
    UNFINISHED = (UNFINISHED, "bad")
    NOT_JUDGED = (NOT_JUDGED, "plain")
    DOCUMENTED = ("documented anomaly", "known")
    CLEAN = (CLEAN, "good")

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def look(self) -> str:
        return self.value[1]


def standing_of(facts: RunFacts) -> RunStanding:
    verdict = facts.verdict
    if verdict is None:
        return RunStanding.NOT_JUDGED
    if verdict.status == VIOLATED:
        told = verdict.rules_violated and all(is_documented(facts.stack, rule) for rule in verdict.rules_violated)
        return RunStanding.DOCUMENTED if told else RunStanding.VIOLATED
    by_status = {CLEAN: RunStanding.CLEAN, UNFINISHED: RunStanding.UNFINISHED}
    return by_status.get(verdict.status, RunStanding.NOT_JUDGED)


def worst_of(facts: Iterable[RunFacts]) -> RunStanding:
    found = set(map(standing_of, facts))
    return next(standing for standing in RunStanding if standing in found)


def count_standings(facts: Iterable[RunFacts]) -> dict[RunStanding, int]:
    found = dict.fromkeys(RunStanding, 0)
    for one in facts:
        found[standing_of(one)] += 1
    return found
