"""The result tables: what is known of a run once it was judged and measured, and how that is kept beside the runs.

Each table is a type of rows; its Arrow schema follows from the type. Every row begins with the run that it is about and
the digest of the trace that was looked at. Times are microseconds of the run's own clock, virtual or real; None stands
where something does not apply or was not recorded. `docs/pipeline.md` defines the numbers.

Results are append-only Parquet files, one folder for each table:

    ARCHIVE/results/TABLE/20261115T160401.123456-1f2e3d4c.parquet

A file holds rows of any number of runs and says in its footer which runs it is about, and with which digest: a run
without a single repair was measured all the same. Rows about another digest than the run has today are stale and are
never read. Of two files about the same run and digest the later one counts, whole; a run that is measured twice at once
gets the same rows twice, and either will do. Files appear whole and are never changed, so writers need not know of each
other, and any reader of Parquet reads a table by the name of its folder. Results can always be made again: deleting a
table's folder loses nothing else.
"""

import secrets
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import RunPlace
from resprout.pipeline.stores import PARTIAL, Location, put, source_of

TABLES_VERSION: Final = 4
"""Rises when a column's meaning, name or type changes."""

RESULTS_FOLDER: Final = "results"
_ABOUT: Final = b"resprout.results"
RunId = tuple[str, str, str]
"""Experiment, run and digest."""


class ResultRow(msgspec.Struct, kw_only=True, frozen=True):
    TABLE: ClassVar[str]

    experiment: str
    run: str
    digest: str


class RunRow(ResultRow, kw_only=True, frozen=True):
    """One for each run: what it was, and how large."""

    TABLE: ClassVar[str] = "runs"

    stack: str
    seed: int
    scenario: str
    """Its name."""
    labels: dict[str, str]
    """Of a run in a sweep: axis to label."""
    options: dict[str, str] = {}
    """What the stack was told, each value as JSON; the rest is as by default."""
    faults: int
    """Brokers that crashed."""
    gone: int = 0
    """Those of them that did not start again."""
    keys: int | None
    """Of the first workload, per topic."""
    faults_tolerated: int | None
    brokers: int
    clients: int
    ended: str
    duration_us: int
    """From the first row to the last."""
    publications: int
    deliveries: int
    rows: int


class VerdictRow(ResultRow, kw_only=True, frozen=True):
    """One for each run that was judged."""

    TABLE: ClassVar[str] = "verdicts"

    status: str
    """"clean", "violated", "unfinished" (the run met its time limit) or "not judged"."""
    rules_violated: tuple[str, ...] = ()
    anomalies: int = 0
    """How many were found; the table `anomalies` may hold fewer."""
    owed: int | None = None
    """Deliveries that were due at correct subscribers; None when the run did not come to rest."""
    came: int | None = None
    """How many of these came."""
    told: int | None = None
    """Of how many of the others the client was told that they may be missing."""
    notes: dict[str, str] = {}
    """By rule: what part of it was not judged."""
    skipped: dict[str, str] = {}
    """By rule: why it was not judged; or what was measured instead, where probability is promised."""


class AnomalyRow(ResultRow, kw_only=True, frozen=True):
    """At most `ANOMALIES_MAX` of a run, the first by rule and time."""

    TABLE: ClassVar[str] = "anomalies"

    rule: str
    time_us: int
    node: str
    messages: tuple[str, ...]
    text: str


ANOMALIES_MAX: Final = 100


class LatencyRow(ResultRow, kw_only=True, frozen=True):
    """From publish to deliver, by guarantee and by the phase in which it was published."""

    TABLE: ClassVar[str] = "latency"

    guarantee: str
    phase: str
    """"all"; and where a broker failed, "before", "during" and "after" its repair."""
    count: int
    mean_us: float
    median_us: int
    p90_us: int | None = None
    p95_us: int
    p99_us: int
    p999_us: int | None = None
    """What 999 of 1,000 do not exceed; like `p90_us` not known of a run without rows, which was only counted."""
    max_us: int


class RepairRow(ResultRow, kw_only=True, frozen=True):
    """One for each repair: of one dead broker, or of neighbours that were repaired together."""

    TABLE: ClassVar[str] = "repairs"

    node: str
    """Where it ended first: the coordinator, in a stack that has one."""
    dead: tuple[str, ...]
    """Whom it replaced."""
    cause: str | None
    """"crash", "freeze" or "hang"; "leave" or "move" when they went on purpose; None when nothing is known to have
    struck."""
    began_us: int
    placed_us: int | None
    """The first broker around the dead has its place."""
    ended_us: int | None
    """The last one has; None when nobody ever had."""
    duration_us: int | None
    detection_us: int | None
    """From the fault to the beginning; None when nothing is known to have struck the dead."""
    rounds: int | None
    """Requests for a parent; None where the stack makes none."""
    round_trip_us: int | None
    """There and back over the slowest link around the dead, by the scenario's latencies; None when it tells none."""


class TrafficRow(ResultRow, kw_only=True, frozen=True):
    """One for each run: what moved, and what it cost."""

    TABLE: ClassVar[str] = "traffic"

    throughput: float | None
    """Deliveries per second, from the first publication to the last delivery."""
    steady_throughput: float | None = None
    """Deliveries per second of all subscribers, each in the middle half of what it was given."""
    converged_us: int | None = None
    """From the first publication to the last delivery."""
    settled_us: int | None = None
    """From the last publication to the last delivery; 0 when that came before."""
    hops_mean: float | None
    metadata_bytes_mean: float | None
    metadata_bytes_max: int | None
    payload_bytes_mean: float | None
    frames: int | None
    frame_bytes: int | None
    messages: dict[str, int] | None
    """What the frames carried, by class."""
    messages_by_type: dict[str, int] | None = None
    messages_per_publication: float | None
    messages_per_delivery: float | None
    paper_bytes: int | None = None
    """Headers by the formula of the paper that the stack follows, where it claims any and bytes were counted."""
    paper_messages: int | None = None
    """How many messages had such a header."""
    paper_bytes_max: int | None = None
    """The largest of these headers."""


class LoadRow(ResultRow, kw_only=True, frozen=True):
    """One for each node."""

    TABLE: ClassVar[str] = "load"

    node: str
    role: str
    """"broker" or "client"."""
    frames_sent: int | None
    bytes_sent: int | None
    frames_received: int | None
    bytes_received: int | None
    published: int
    delivered: int
    busy_share: float | None = None
    """Of the run's time, the part in which its network card was sending; None without a bandwidth."""
    paper_bytes: int | None = None
    paper_messages: int | None = None
    paper_bytes_max: int | None = None


MEASURED: Final[tuple[type[ResultRow], ...]] = (RunRow, LatencyRow, RepairRow, TrafficRow, LoadRow)
"""The tables that `pipeline.metrics` fills."""
JUDGED: Final[tuple[type[ResultRow], ...]] = (VerdictRow, AnomalyRow)
"""The tables that judging fills."""


def schema_of(table: type[ResultRow]) -> Any:
    """The `pyarrow.Schema` of a table."""
    hints = get_type_hints(table)
    return pa.schema([_field(name, hints[name]) for name in table.__struct_fields__])


def _field(name: str, hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (arm for arm in get_args(hint) if arm is not type(None))
        return pa.field(name, _arrow_type(inner))
    return pa.field(name, _arrow_type(hint), nullable=False)


def _arrow_type(hint: Any) -> Any:
    if get_origin(hint) is tuple:
        return pa.list_(_arrow_type(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return pa.map_(*map(_arrow_type, get_args(hint)))
    return {str: pa.string(), int: pa.int64(), float: pa.float64()}[hint]


T = TypeVar("T", bound=ResultRow)


class _About(msgspec.Struct, frozen=True):
    """What the footer of a file says."""

    version: int
    table: str
    runs: list[RunId]


def append(archive: Location, table: type[T], rows: Sequence[T], places: Iterable[RunPlace] = ()) -> None:
    """Adds what was found out about some runs: those of `places`, and those that the rows name. From now on nothing
    else is true of them in this table."""
    runs = list(dict.fromkeys([*map(_id_of_place, places), *map(_id_of_row, rows)]))
    if not runs:
        return
    about = _About(TABLES_VERSION, table.TABLE, runs)
    schema = schema_of(table).with_metadata({_ABOUT: msgspec.json.encode(about)})
    folder = archive / RESULTS_FOLDER / table.TABLE
    path = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}.parquet"
    try:
        content = pa.BufferOutputStream()
        table_rows = pa.Table.from_pylist(list(map(_cells, rows)), schema=schema)
        pq.write_table(table_rows, content, compression="zstd")
        put(path, content.getvalue().to_pybytes())
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{path}: cannot be written: {_reason(error)}") from None


def read(archive: Location, table: type[T], places: Sequence[RunPlace]) -> list[T]:
    """What is known today about these runs, in their order."""
    wanted = [_id_of_place(place) for place in places]
    files = _latest(archive, table, wanted)
    found: dict[RunId, list[T]] = {}
    for path in dict.fromkeys(files.values()):
        for row in _read_file(path, table):
            if files.get(run := _id_of_row(row)) == path:
                found.setdefault(run, []).append(row)
    return [row for run in dict.fromkeys(wanted) for row in found.get(run, ())]


def missing(archive: Location, tables: Iterable[type[ResultRow]], places: Sequence[RunPlace]) -> list[RunPlace]:
    """The runs of which one of these tables knows nothing yet, or only of another digest."""
    known = [_latest(archive, table, map(_id_of_place, places)) for table in tables]
    return [place for place in places if any(_id_of_place(place) not in some for some in known)]


def _latest(archive: Location, table: type[ResultRow], runs: Iterable[RunId]) -> dict[RunId, Location]:
    """For each of these runs the newest file that is about it."""
    wanted = set(runs)
    latest: dict[RunId, Location] = {}
    for path in _files(archive / RESULTS_FOLDER / table.TABLE):
        latest.update(dict.fromkeys((run for run in _read_about(path, table).runs if run in wanted), path))
    return latest


def _files(folder: Location) -> Iterator[Location]:
    """In the order in which they were written, which is that of their names."""
    try:
        paths: list[Location] = list(folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise PipelineError(f"{folder}: cannot be read: {_reason(error)}") from None
    for path in sorted(paths, key=str):
        if path.name.endswith(PARTIAL) or path.name.startswith("."):
            continue  # being written, or left behind by somebody who was stopped; or a note of the file system
        if path.suffix != ".parquet":
            raise PipelineError(f"{path}: does not belong among results")
        yield path


def _read_about(path: Location, table: type[ResultRow]) -> _About:
    try:
        metadata: Mapping[bytes, bytes] = pq.read_metadata(source_of(path)).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{path}: damaged or not Parquet: {_reason(error)}") from None
    if (text := metadata.get(_ABOUT)) is None:
        raise PipelineError(f"{path}: not a file of results")
    try:
        about = msgspec.json.decode(text, type=_About)
    except msgspec.MsgspecError as error:
        raise PipelineError(f"{path}: damaged: {_reason(error)}") from None
    if about.version != TABLES_VERSION:
        again = f"delete {path.parent} to have them made again"
        raise PipelineError(f"{path}: results of version {about.version}, not {TABLES_VERSION}; {again}")
    if about.table != table.TABLE:
        raise PipelineError(f"{path}: holds the table {about.table!r}, not {table.TABLE!r}")
    return about


def _read_file(path: Location, table: type[T]) -> list[T]:
    try:
        content = pq.read_table(source_of(path), use_threads=False, partitioning=None)
        return msgspec.convert(content.to_pylist(maps_as_pydicts="strict"), list[table])  # type: ignore[valid-type]
    except (pa.ArrowException, OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: damaged: {_reason(error)}") from None


def _cells(row: ResultRow) -> dict[str, Any]:
    cells = msgspec.structs.asdict(row)
    return {name: sorted(cell.items()) if isinstance(cell, dict) else cell for name, cell in cells.items()}


def _id_of_place(place: RunPlace) -> RunId:
    return place.experiment, place.run, place.info.digest


_id_of_row: Final = attrgetter("experiment", "run", "digest")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200]
