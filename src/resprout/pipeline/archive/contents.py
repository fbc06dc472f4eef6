"""The manifest of an archived run, as it is written: which files are the run, and which of several versions it is.

On a file system the manifest lies beside the files that it names, and all come to their place by one rename. In an
object store it is written last, above the folder of the version that it names (`archive.object_staging`):

    ARCHIVE/runs/experiment=E/run=R/manifest.json
    ARCHIVE/runs/experiment=E/run=R/version=TOKEN/part-00000.parquet, ..., run.json
"""

from typing import Final

import msgspec

from resprout.pipeline.stores import Location
from resprout.trace.schema import TraceError

MANIFEST_NAME: Final = "manifest.json"
VERSION: Final = "version="
"""Begins the name of the folder of a version."""


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
