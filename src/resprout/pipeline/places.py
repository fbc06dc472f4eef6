"""Where runs lie: in folders of single traces, and in archives of many.

A *run* is one trace: part files of one table and `run.json` (`trace.store`). An *archive* is a folder of runs, arranged
as a table partitioned by experiment and run:

    ARCHIVE/archive.json
    ARCHIVE/runs/experiment=E/run=R/part-00000.parquet, ..., run.json, manifest.json

Code that judges or measures is given `RunPlace`s and need not know which it is. Before anything is read, the footers of
all part files are checked: what is missing, damaged or of another version is reported here, in one line.

`archive.json` (`Head`) makes a folder an archive. It has the version of its layout and of the columns of its traces.
Only one version of either exists. `docs/pipeline.md` says how a second one is to be handled; until there is one,
anything else is refused, so an archive never mixes versions.

`manifest.json` (`Manifest`) says which files are the run, and which of several versions it is. On a file system it lies
beside the files that it names, and all come to their place by one rename. In an object store it is written last, above
the folder of the version that it names (`archive.staging`):

    ARCHIVE/runs/experiment=E/run=R/manifest.json
    ARCHIVE/runs/experiment=E/run=R/version=TOKEN/part-00000.parquet, ..., run.json
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, overload
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.stores import PARTIAL, Location, StorePath, found_in, location, put, source_of
from resprout.trace.columns import ARROW_SCHEMA
from resprout.trace.schema import COLUMNS, SCHEMA_VERSION, TraceError
from resprout.trace.store import INFO_NAME, RunInfo, info_at, read_info

HEAD_NAME: Final = "archive.json"
FORMAT: Final = "resprout archive"
LAYOUT_VERSION: Final = 1

MANIFEST_NAME: Final = "manifest.json"
VERSION: Final = "version="
"""Begins the name of the folder of a version."""

RUNS_FOLDER: Final = "runs"
FIGURES_FOLDER: Final = "figures"
_SAFE: Final = " ,+@!~"
"""Beside letters, digits and `_.-`: what a partition's folder may hold as it is."""


class Head(msgspec.Struct, frozen=True):
    format: str
    version: int
    """Of the layout of folders and manifests."""
    schema_version: int
    """Of the columns of every trace inside."""


def check_archive(folder: Location) -> None:
    """PipelineError unless the folder is an archive that this program understands."""
    path = folder / HEAD_NAME
    try:
        head = msgspec.json.decode(path.read_bytes(), type=Head)
    except FileNotFoundError:
        raise PipelineError(f"{folder}: not an archive, {HEAD_NAME} is missing") from None
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PipelineError(f"{path}: damaged: {error}") from None
    if head.format != FORMAT:
        raise PipelineError(f"{path}: format {head.format!r}; this program reads {FORMAT!r}")
    if head.version != LAYOUT_VERSION:
        raise PipelineError(f"{path}: version {head.version}; this program reads version {LAYOUT_VERSION}")
    if head.schema_version != SCHEMA_VERSION:
        raise PipelineError(f"{path}: schema version {head.schema_version}; this program reads {SCHEMA_VERSION}")


def check_usable(folder: Location) -> None:
    """PipelineError unless the folder is an archive, or can become one: it is empty, or not there. Changes nothing."""
    if (folder / HEAD_NAME).exists():
        check_archive(folder)
        return
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise PipelineError(f"{folder}: cannot hold an archive: {(error.strerror or str(error)).lower()}") from None
    if foreign := [name for name in names if not (name.startswith(HEAD_NAME) and name.endswith(PARTIAL))]:
        raise PipelineError(f"{folder}: not an archive, and not empty: it holds {foreign[0]!r}")


L = TypeVar("L", bound=Location)


def make_archive(folder: L) -> L:
    """The folder, which is an archive from now on, whoever else makes it one at the same time."""
    check_usable(folder)
    path = folder / HEAD_NAME
    if path.exists():
        return folder
    content = msgspec.json.encode(Head(FORMAT, LAYOUT_VERSION, SCHEMA_VERSION))
    try:
        put(path, msgspec.json.format(content) + b"\n")
        return folder
    except OSError as error:
        raise PipelineError(f"{folder}: cannot hold an archive: {(error.strerror or str(error)).lower()}") from None


class FileSeal(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    bytes: int
    sha256: str
    rows: int | None = None
    """Of a part file; those that were archived long ago do not say."""


class Manifest(msgspec.Struct, kw_only=True, frozen=True):
    digest: str
    """Of the rows, as in `run.json`."""
    files: tuple[FileSeal, ...]
    publications: int
    deliveries: int
    wall_s: float | None = None
    """How long the run took to make, where the archive's owner made it."""
    version: str = ""
    """Of the run, where there may be several; the files are in its folder."""

    @property
    def rows(self) -> dict[str, int] | None:
        """By part file; None when it does not say."""
        found = {seal.name: seal.rows for seal in self.files if seal.name.endswith(".parquet")}
        known = {name: rows for name, rows in found.items() if rows is not None}
        return known if len(known) == len(found) else None


def encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(folder: Location) -> Manifest | None:
    """Of the run in this folder, or whose version this folder holds. None where there is none: a trace that lies
    outside of an archive."""
    found = manifest_in(folder)
    return None if found is None else found[1]


def manifest_in(folder: Location) -> tuple[Location, Manifest] | None:
    """With where it lies."""
    above = folder.name.startswith(VERSION)
    path = (folder.parent if above else folder) / MANIFEST_NAME
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: damaged: {error}") from None
    if above and folder.name != f"{VERSION}{manifest.version}":
        raise TraceError(f"{folder}: replaced by another version of the run")
    return path, manifest


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
