"""Results beside the runs of an archive: append-only Parquet files, one folder for each table of `pipeline.tables`.

    ARCHIVE/results/TABLE/20261115T160401.123456-1f2e3d4c.parquet

A file holds rows of any number of runs and says in its footer which runs it is about, and with which digest: a run
without a single repair was measured all the same. What is about another digest than the run has today is stale and is
never read. Of two files about the same run and digest the later one counts, whole; a run that is measured twice at once
gets the same rows twice, and either will do. Files appear whole and are never changed, so writers need not know of each
other, and anything that reads Parquet reads a table by the name of its folder. Results can always be made again:
deleting a table's folder loses nothing else.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import RunPlace
from resprout.pipeline.stores import PARTIAL, Location, put, source_of
from resprout.pipeline.tables import TABLES_VERSION, ResultRow, schema_of

RESULTS_FOLDER: Final = "results"
_ABOUT: Final = b"resprout.results"

T = TypeVar("T", bound=ResultRow)
RunId = tuple[str, str, str]
"""Experiment, run and digest."""


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
