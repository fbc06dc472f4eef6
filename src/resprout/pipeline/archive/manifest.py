"""What an archived run consists of, to the byte: `manifest.json` beside its files, written when it was archived.

The rows were read and their digest was checked then. Later readers need not do it again: when the files have the sizes
and the SHA-256 of the manifest, they are the files that were checked. Hashing bytes costs less than a hundredth of
hashing rows.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from resprout.pipeline.archive.check import PARTS, ArchiveCounts
from resprout.pipeline.archive.contents import MANIFEST_NAME, FileSeal, Manifest, encoded, manifest_in, read_manifest
from resprout.pipeline.places import RunPlace, place_of
from resprout.pipeline.stores import Location, StorePath, found_in, location
from resprout.trace.schema import TraceError
from resprout.trace.store import INFO_NAME, RunInfo

_PIECE: Final = 1 << 20

__all__ = ["MANIFEST_NAME", "FileSeal", "Manifest", "digest_if_sound", "read_manifest", "verify", "write_manifest"]


def write_manifest(folder: Path, info: RunInfo, counts: ArchiveCounts, wall_s: float | None = None) -> Manifest:
    """For a run whose rows were checked against its digest."""
    manifest = Manifest(
        digest=info.digest,
        files=tuple(_with_rows(path, _seal(path)) for path in _files(folder)),
        publications=counts.publications,
        deliveries=counts.deliveries,
        wall_s=wall_s,
    )
    (folder / MANIFEST_NAME).write_bytes(encoded(manifest))
    return manifest


def verify(place: RunPlace) -> bool:
    """True: the bytes of the run are those that were archived. False: there is no manifest, only reading all rows can
    tell (`archive.check`). TraceError, with the name of the file, when a file is missing, too many, or not the same."""
    folder = location(place.folder)
    if (found := manifest_in(folder)) is None:
        return False
    path, manifest = found
    if manifest.digest != place.info.digest:
        raise TraceError(f"{path}: about another run: digest {manifest.digest}")
    sealed = {seal.name: seal for seal in manifest.files}
    there = {path.name: path for path in _files(folder)}
    for name in sorted(sealed.keys() | there.keys()):
        path = folder / name
        if name not in there:
            raise TraceError(f"{path}: missing")
        if name not in sealed:
            raise TraceError(f"{path}: not there when the run was archived")
        seal = _seal(path)
        if (seal.bytes, seal.sha256) != (sealed[name].bytes, sealed[name].sha256):
            raise TraceError(f"{path}: damaged: its bytes are not those that were archived")
    return True


def digest_if_sound(folder: Location) -> str | None:
    """Of an archived run whose files are those that were archived; None for anything else."""
    try:
        place = place_of(folder, "", "")
        return place.info.digest if verify(place) else None
    except TraceError:
        return None


def _files(folder: Location) -> list[Location]:
    return [*found_in(folder, PARTS), folder / INFO_NAME]


def _with_rows(path: Location, seal: FileSeal) -> FileSeal:
    """Whoever reads the run later need not look into each of its files to know how many rows they hold."""
    if path.suffix != ".parquet":
        return seal
    return msgspec.structs.replace(seal, rows=pq.read_metadata(path.absolute()).num_rows)


def _seal(path: Location) -> FileSeal:
    try:
        with path.open_file() if isinstance(path, StorePath) else path.open("rb") as file:
            sha256, size = hashlib.sha256(), 0
            while piece := file.read(_PIECE):
                sha256.update(piece)
                size += len(piece)
            return FileSeal(path.name, size, sha256.hexdigest())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
