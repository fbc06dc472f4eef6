"""All that is known of one run: its rows of every result table, side by side, and how it came out.

A run kept every promise, broke one that is known to be broken, broke another, did not come to rest, or was not judged.
Stacks that do not keep every promise say so: the page tells that, and never leaves it out.

`gather` judges and measures the runs that are not judged and measured yet. What is found out about the runs of an
archive is kept there, so a second report costs a fraction of the first. Traces that lie by themselves are looked at
each time. What needs more than a plain installation is imported where it is used: that a folder holds no runs is said
on any machine.

A `Trail` tells what happened in one run, and how long messages took meanwhile, for a run that is shown by itself. It
has few numbers whatever the size of the run: the first of the happenings, and latencies in a fixed number of
slices of its time. `recipe_of` turns what `run.json` keeps of the scenario back into a file that makes the run again.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from resprout.audit.verdict import CLEAN, NOT_JUDGED, UNFINISHED, VIOLATED, Verdict
from resprout.core.errors import UsageError
from resprout.pipeline import results
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.metrics.observed import Observed, ObservedPublications, observe
from resprout.pipeline.places import RunPlace, check_archive, check_not_empty, find_runs, is_archive
from resprout.pipeline.python_judge import anomaly_rows, judge_here, verdict_row
from resprout.pipeline.results import (
    JUDGED,
    MEASURED,
    AnomalyRow,
    LatencyRow,
    LoadRow,
    RepairRow,
    ResultRow,
    RunRow,
    TrafficRow,
    VerdictRow,
)
from resprout.pipeline.stores import Location
from resprout.scenario.model import OPTIONS, BrokerSpec, ClientSpec, FaultSpec, Mix, Scenario, WorkloadSpec
from resprout.scenario.write import to_toml
from resprout.stacks.stack import DEFAULT, Stack, find_stack
from resprout.trace import kinds
from resprout.trace.store import RunInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


SLICES: Final = 48
HAPPENINGS_MAX: Final = 200

_TOLD: Final = (
    kinds.CRASH, kinds.RECOVER, kinds.FREEZE, kinds.UNFREEZE, kinds.HANG, kinds.UNHANG, kinds.JOIN, kinds.LEAVE,
    kinds.CUT, kinds.HEAL, kinds.PARTITION, kinds.REPAIR_BEGIN, kinds.REPAIR_END, kinds.QUIESCENT, kinds.TIMEOUT,
    "fenced", "joined", "moved",
)  # fmt: skip
_IDENTITY: Final = ["source", "seq"]


class Happening(msgspec.Struct, frozen=True):
    time_us: int
    node: str
    kind: str
    detail: str


class TimeSlice(msgspec.Struct, frozen=True):
    """What was delivered with one guarantee in one slice of the run's time."""

    guarantee: str
    number: int
    deliveries: int
    median_us: float
    max_us: int


class Trail(msgspec.Struct, frozen=True):
    happenings: tuple[Happening, ...]
    left_out: int
    """Happenings beyond those that are told."""
    slice_us: int
    slices: tuple[TimeSlice, ...]
    recipe: str | None
    """The scenario as a file that makes the run again; None when the trace does not hold it."""
    parents: Mapping[str, str | None] = {}
    """The tree of the scenario: the parent of each broker. Empty where a run's stack repairs by another rule."""
    joins: tuple[Happening, ...] = ()
    """Every broker that joined, with its parent as the detail."""


Trails = Mapping[tuple[str, str], Trail]
"""By experiment and run."""


def recipe_of(info: RunInfo) -> str | None:
    """As TOML; None when the trace does not hold a scenario that this version understands."""
    try:
        return to_toml(_scenario(info.scenario))
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, AttributeError):
        return None  # a trace need not come from us, and is judged all the same


def _scenario(values: dict[str, Any]) -> Scenario:
    return Scenario(
        name=values["name"],
        stack=values["stack"],
        seed=values["seed"],
        time_limit_us=values["time_limit_us"],
        options=values["options"],
        brokers=msgspec.convert(values["brokers"], tuple[BrokerSpec, ...]),
        clients=msgspec.convert(values["clients"], tuple[ClientSpec, ...]),
        workloads=tuple(map(_workload, values["workloads"])),
        faults=msgspec.convert(values["faults"], tuple[FaultSpec, ...]),
    )


def _workload(values: dict[str, Any]) -> WorkloadSpec:
    """Which options it has depends on its kind, which is more than a type can say."""
    lists = {name: tuple(values[name]) for name in ("clients", "topics")}
    mix = msgspec.convert(values["mix"], Mix)
    options = msgspec.convert(values["options"], OPTIONS[values["kind"]])
    return WorkloadSpec(**{**values, **lists, "mix": mix, "options": options})


def trail_of(place: RunPlace) -> Trail:
    observed = observe(place)
    told = [event for event in observed.events if event.kind in _TOLD]
    slice_us, slices = _slices(observed)
    return Trail(
        happenings=tuple(Happening(one.time_us, one.node, one.kind, one.detail) for one in told[:HAPPENINGS_MAX]),
        left_out=max(0, len(told) - HAPPENINGS_MAX),
        slice_us=slice_us,
        slices=slices,
        recipe=recipe_of(place.info),
        parents=_parents(place.info),
        joins=tuple(Happening(one.time_us, one.node, one.kind, one.detail) for one in told if one.kind == "joined"),
    )


def _parents(info: RunInfo) -> dict[str, str | None]:
    if info.scenario.get("stack") != DEFAULT:
        return {}
    try:
        brokers = msgspec.convert(info.scenario["brokers"], tuple[BrokerSpec, ...])
    except (msgspec.ValidationError, KeyError):
        return {}
    return {broker.name: broker.parent for broker in brokers if broker.parent is not None or not broker.contacts}


def _slices(observed: Observed) -> tuple[int, tuple[TimeSlice, ...]]:
    """By guarantee, then by time."""
    published, delivered = map(_frame, (observed.publications, observed.deliveries))
    if delivered.empty:
        return 1, ()
    slice_us = int(delivered.time_us.max()) // SLICES + 1
    pairs = delivered.merge(published.drop_duplicates(_IDENTITY), on=_IDENTITY, suffixes=("", "_published"))
    pairs = pairs[pairs.row_published < pairs.row]
    pairs["number"] = pairs.time_us // slice_us
    pairs["wait_us"] = pairs.time_us - pairs.time_us_published
    found = pairs.groupby(["guarantee", "number"]).wait_us.agg(["count", "median", "max"]).reset_index()
    return slice_us, tuple(
        TimeSlice(observed.guarantees[guarantee], number, count, median, most)
        for guarantee, number, count, median, most in found.itertuples(index=False)
    )


def _frame(rows: ObservedPublications) -> Any:
    import pandas as pd

    return pd.DataFrame({name: getattr(rows, name) for name in ObservedPublications.__struct_fields__})


RUNS_AT_ONCE: Final = 200
"""Verdicts are kept after so many runs, so that an interruption costs little."""

Found = tuple[Location, list[RunPlace]]
"""A trace or an archive, and the runs in it."""
Progress = Callable[[int, int], None]
"""How much is done, and of how much."""


class Gathered(msgspec.Struct, frozen=True):
    facts: list[RunFacts]
    trails: Trails
    """Of the runs that are the only one of their experiment."""


def find_all(folders: Sequence[Location]) -> list[Found]:
    """The runs in each of these traces and archives; a run that is found twice counts where it is found first."""
    known: dict[tuple[str, str], RunPlace] = {}
    found = []
    for folder in folders:
        if is_archive(folder):
            check_archive(folder)
        places = []
        for place in find_runs([folder]):
            other = known.setdefault((place.experiment, place.run), place)
            if other is place:
                places.append(place)
            elif other.info.digest != place.info.digest:
                raise PipelineError(f"{place.folder} and {other.folder} are different runs with the same name")
        found.append((folder, places))
    check_not_empty(list(known.values()), folders)
    return found


def unknown(found: Sequence[Found]) -> list[RunPlace]:
    """The runs that have to be judged or measured, before there can be a page."""
    return [
        place
        for folder, places in found
        for place in (results.missing(folder, (*MEASURED, *JUDGED), places) if is_archive(folder) else places)
    ]


def gather(spark: "SparkSession | None", found: Sequence[Found], progress: Progress) -> Gathered:
    """Without Spark, what is not known yet is found out in this process, one run after the other."""
    tables: dict[str, list[ResultRow]] = {table.TABLE: [] for table in (*MEASURED, *JUDGED)}
    loose = [place for folder, places in found if not is_archive(folder) for place in places]
    for archive, places in ((folder, places) for folder, places in found if is_archive(folder)):
        _complete(spark, archive, places, progress)
        for table in (*MEASURED, *JUDGED):
            tables[table.TABLE] += results.read(archive, table, places)
    if loose:
        _look_at(spark, loose, tables)
    facts = facts_of(tables)
    return Gathered(facts, _trails(facts, found))


def keep_verdicts(archive: Location, places: Sequence[RunPlace], verdicts: Sequence[Verdict]) -> None:
    """Nobody needs to judge these runs again, as long as they do not change."""
    judged = list(zip(places, verdicts, strict=True))
    results.append(archive, AnomalyRow, [row for one in judged for row in anomaly_rows(*one)], places)
    results.append(archive, VerdictRow, [verdict_row(*one) for one in judged], places)


def _complete(spark: "SparkSession | None", archive: Location, places: Sequence[RunPlace], progress: Progress) -> None:
    from resprout.pipeline.metrics import measure

    unmeasured, unjudged = (results.missing(archive, tables, places) for tables in (MEASURED, JUDGED))
    total = len(unmeasured) + len(unjudged)
    measure(archive, spark, lambda done, _: progress(done, total))
    for begin in range(0, len(unjudged), RUNS_AT_ONCE):
        progress(len(unmeasured) + begin, total)
        some = unjudged[begin : begin + RUNS_AT_ONCE]
        keep_verdicts(archive, some, _judged(spark, some))


def _judged(spark: "SparkSession | None", places: Sequence[RunPlace]) -> list[Verdict]:
    if spark is None:
        return judge_here(places)
    from resprout.pipeline.judging import judge_runs

    return judge_runs(spark, places)


def _look_at(spark: "SparkSession | None", places: Sequence[RunPlace], tables: dict[str, list[ResultRow]]) -> None:
    from resprout.pipeline.metrics import measure_runs

    measured = measure_runs(spark, places)
    for table in MEASURED:
        tables[table.TABLE] += getattr(measured, table.TABLE)
    for place, verdict in zip(places, _judged(spark, places), strict=True):
        tables[VerdictRow.TABLE].append(verdict_row(place, verdict))
        tables[AnomalyRow.TABLE] += anomaly_rows(place, verdict)


def _trails(facts: Sequence[RunFacts], found: Sequence[Found]) -> Trails:
    places = {(place.experiment, place.run): place for _, some in found for place in some}
    alone = [(some[0].run.experiment, some[0].run.run) for some in by_experiment(facts).values() if len(some) == 1]
    return {name: trail_of(places[name]) for name in alone}
