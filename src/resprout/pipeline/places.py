"""Where runs lie: in folders of single traces, and in archives of many.

A *run* is one trace, wherever it lies: part files of one table and `run.json` (`trace.store`). An *archive* is a folder
of runs, arranged as a table partitioned by experiment and run:

    ARCHIVE/archive.json
    ARCHIVE/runs/experiment=E/run=R/part-00000.parquet, ..., run.json

Whoever judges or measures is given `RunPlace`s and need not know which it is. Before anything is read, the footers of
all part files are looked at: what is missing, damaged or of another version is said here, at once and in one line.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, overload
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.archive.format import HEAD_NAME, VERSION, check_archive, read_manifest
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.stores import Location, StorePath, found_in, location, source_of
from resprout.trace.columns import ARROW_SCHEMA
from resprout.trace.schema import COLUMNS, TraceError
from resprout.trace.store import INFO_NAME, RunInfo, info_at, read_info

RUNS_FOLDER: Final = "runs"
FIGURES_FOLDER: Final = "figures"
_SAFE: Final = " ,+@!~"
"""Beside letters, digits and `_.-`: what a partition's folder may hold as it is."""


class TracePart(msgspec.Struct, frozen=True):
    path: str
    rows: int
    first_row: int
    """How many rows of the run stand in the parts before it."""


class RunPlace(msgspec.Struct, frozen=True):
    experiment: str
    run: str
    folder: str
    """Whole, like those of its parts: whoever reads it may be a process that began in another folder."""
    info: RunInfo
    parts: tuple[TracePart, ...]

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.run}"


def find_runs(folders: "Iterable[str | os.PathLike[str] | StorePath]") -> list[RunPlace]:
    """All runs in these traces and archives, in order, each once."""
    found: dict[str, RunPlace] = {}
    for folder in map(location, folders):
        if is_archive(folder):
            check_archive(folder)
            places: Iterable[RunPlace] = archived_runs(folder)
        elif (folder / INFO_NAME).exists() or not folder.is_dir():
            info = info_in(folder)
            name = info.scenario.get("name")
            places = [place_of(folder, name if isinstance(name, str) and name else folder.name, str(folder))]
        else:
            raise TraceError(f"{folder}: neither a trace ({INFO_NAME}) nor an archive ({HEAD_NAME})")
        for place in places:
            found.setdefault(str(location(place.folder).resolve()), place)
    return list(found.values())


def is_archive(folder: Location) -> bool:
    return (folder / HEAD_NAME).is_file()


def archived_runs(archive: Location) -> Iterator[RunPlace]:
    for path in found_in(archive / RUNS_FOLDER, "experiment=*/run=*"):
        if (folder := version_in(path)) is not None:
            yield place_of(folder, _value_of(path.parent.name), _value_of(path.name))


def version_in(folder: Location) -> Location | None:
    """Where the files of an archived run lie, whose folder this is; None while it has no whole version yet."""
    if isinstance(folder, Path) and not any(folder.glob(f"{VERSION}*")):
        return folder if folder.exists() else None
    manifest = read_manifest(folder)
    return None if manifest is None else folder / f"{VERSION}{manifest.version}"


@overload
def run_folder(archive: Path, experiment: str, run: str) -> Path: ...
@overload
def run_folder(archive: StorePath, experiment: str, run: str) -> StorePath: ...
def run_folder(archive: Location, experiment: str, run: str) -> Location:
    return archive / RUNS_FOLDER / f"experiment={quote(experiment, safe=_SAFE)}" / f"run={quote(run, safe=_SAFE)}"


def place_of(folder: Location, experiment: str, run: str) -> RunPlace:
    """The run in a folder; TraceError unless all its part files hold the rows that `run.json` counts. Of an archived
    run the manifest tells what they hold, so none is opened: whoever reads them compares them with it."""
    info = info_in(folder)
    manifest = read_manifest(folder)
    sealed = manifest.rows if manifest is not None else None
    counts = {folder / name: count for name, count in sorted(sealed.items())} if sealed is not None else None
    if counts is None:
        counts = {path: _rows_in(path) for path in found_in(folder, "part-*.parquet")}
    parts: list[TracePart] = []
    rows = 0
    for path, count in counts.items():
        parts.append(TracePart(str(path.absolute()), count, rows))
        rows += count
    if rows != info.rows:
        raise TraceError(f"{folder}: the part files hold {rows} rows, {INFO_NAME} says {info.rows}")
    return RunPlace(experiment, run, str(folder.absolute()), info, tuple(parts))


def info_in(folder: Location) -> RunInfo:
    return info_at(folder / INFO_NAME) if isinstance(folder, StorePath) else read_info(folder)


def check_not_empty(places: Sequence[RunPlace], folders: Sequence[Location]) -> None:
    if not places:
        raise PipelineError(f"{', '.join(map(str, folders))}: no runs there")


def _rows_in(path: Location) -> int:
    try:
        metadata: Any = pq.read_metadata(source_of(path))
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: damaged or not Parquet: {' '.join(str(error).split())[:200]}") from None
    schema = metadata.schema.to_arrow_schema()
    for field in ARROW_SCHEMA:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise TraceError(f"{path}: column {field.name} is missing or there twice")
        if (found := schema.field(index).type) != field.type:
            raise TraceError(f"{path}: column {field.name} is {found}, not {field.type}")
    if extra := [name for name in schema.names if name not in COLUMNS]:
        raise TraceError(f"{path}: column {extra[0]} is none of a trace of this version")
    return int(metadata.num_rows)


def _value_of(folder: str) -> str:
    return unquote(folder.partition("=")[2])
