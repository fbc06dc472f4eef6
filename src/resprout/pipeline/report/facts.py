"""All that is known of one run: its rows of every result table, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from resprout.pipeline.tables import (
    AnomalyRow,
    LatencyRow,
    LoadRow,
    RepairRow,
    ResultRow,
    RunRow,
    TrafficRow,
    VerdictRow,
)

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
