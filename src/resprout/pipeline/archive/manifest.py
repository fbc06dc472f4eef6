"""Whether an archived run is whole: row by row when it comes in, and by sizes and hashes from then on.

`check_trace` reads all rows and checks their digest, in bounded memory however long the run was. `write_manifest` then
notes the sizes and the SHA-256 of the files. Later readers need not read the rows again: files with these sizes and
hashes are the files that were checked. Hashing bytes costs less than a hundredth of hashing rows.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.archive.format import MANIFEST_NAME, FileSeal, Manifest, encoded, manifest_in
from resprout.pipeline.places import RunPlace, place_of
from resprout.pipeline.stores import Location, StorePath, found_in, location
from resprout.trace import kinds
from resprout.trace.columns import rows_of
from resprout.trace.schema import Digest, Row, TraceError
from resprout.trace.store import INFO_NAME, RunInfo, read_info

_PIECE: Final = 1 << 20

PARTS: Final = "part-*.parquet"
_BATCH_ROWS: Final = 1 << 16


class ArchiveCounts(msgspec.Struct, frozen=True):
    publications: int
    deliveries: int


def check_trace(folder: Path) -> ArchiveCounts:
    """Reads every row; TraceError unless they are those that `run.json` is about, in the words of `read_trace`."""
    info = read_info(folder)
    digest = Digest()
    rows = publications = deliveries = 0
    for path in sorted(folder.glob(PARTS)):
        for batch in _batches(path):
            digest.update(batch)
            rows += len(batch)
            publications += sum(row.kind == kinds.PUBLISH for row in batch)
            deliveries += sum(row.kind == kinds.DELIVER for row in batch)
    if rows != info.rows:
        raise TraceError(f"{folder}: the part files hold {rows} rows, {INFO_NAME} says {info.rows}")
    if digest.value != info.digest:
        raise TraceError(
            f"{folder}: the rows are not those of the run: digest {digest.value}, {INFO_NAME} says {info.digest}"
        )
    return ArchiveCounts(publications, deliveries)


def count_rows(folder: Path) -> ArchiveCounts:
    """Of a trace that is known to be whole."""
    found: dict[str, int] = {}
    for path in sorted(folder.glob(PARTS)):
        for entry in pq.read_table(path.absolute(), columns=["kind"], partitioning=None)["kind"].value_counts():
            kind = entry["values"].as_py()
            found[kind] = found.get(kind, 0) + entry["counts"].as_py()
    return ArchiveCounts(found.get(kinds.PUBLISH, 0), found.get(kinds.DELIVER, 0))


def _batches(path: Path) -> Iterator[list[Row]]:
    try:
        with pq.ParquetFile(path.absolute()) as file:
            for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                yield rows_of(pa.Table.from_batches([batch]))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: damaged or not Parquet: {_reason(error)}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200]


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
