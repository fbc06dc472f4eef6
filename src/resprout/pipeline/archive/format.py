"""The two files that describe an archive: `archive.json`, and `manifest.json` of each run.

`archive.json` makes a folder an archive. It has the version of its layout and of the columns of its traces. Only one
version of either exists. How a second one is to be handled is decided and written in `docs/pipeline.md`; until there is
one, anything else is refused, so a table of mixed versions cannot come about unnoticed.

The manifest says which files are the run, and which of several versions it is. On a file system it lies beside the
files that it names, and all come to their place by one rename. In an object store it is written last, above the folder
of the version that it names (`archive.staging`):

    ARCHIVE/runs/experiment=E/run=R/manifest.json
    ARCHIVE/runs/experiment=E/run=R/version=TOKEN/part-00000.parquet, ..., run.json
"""

from typing import Final, TypeVar

import msgspec

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.stores import PARTIAL, Location, put
from resprout.trace.schema import SCHEMA_VERSION, TraceError

HEAD_NAME: Final = "archive.json"
FORMAT: Final = "resprout archive"
LAYOUT_VERSION: Final = 1

MANIFEST_NAME: Final = "manifest.json"
VERSION: Final = "version="
"""Begins the name of the folder of a version."""


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
