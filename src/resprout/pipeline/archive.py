"""The archive: a folder that runs come into whole, verified and once.

`check_trace` reads all rows of a run and checks their digest, in bounded memory however long the run was.
`write_manifest` then notes the sizes and the SHA-256 of the files. Later readers need not read the rows again: files
with these sizes and hashes are the files that were checked. Hashing bytes costs less than a hundredth of hashing rows.

A run comes in whole or not at all, whatever dies in between. On a file system it is written in a staging folder, then
renamed to its place:

    ARCHIVE/staging/lock              held for a moment, while staging folders come and go
    ARCHIVE/staging/TOKEN/alive       locked for as long as the process that adds runs is alive
    ARCHIVE/staging/TOKEN/N/          a run that is being written
    ARCHIVE/staging/TOKEN/replaced/   runs that had to make room, until the new ones are in place

The system drops a lock with the process that holds it. So the next process knows which folders belong to dead ones,
puts back what they had taken out of its place and deletes the rest. A task that still works for a dead process finds
its folder renamed, and fails instead of moving a half deleted run into the archive. This assumes a file system with
atomic renames and `flock`, the same one for all that add runs.

In an object store nothing can be renamed or locked. The files of a run are written to a folder of their own, a
*version*, and never changed; the manifest, written last and in one piece, says which version the run is. If two
processes add a run of the same name at once, the one whose manifest comes later wins, whole. Versions that no manifest
names were left by dead processes, or are being written right now: the next process that adds the run deletes those that
are older than a day.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import (
    MANIFEST_NAME,
    RUNS_FOLDER,
    VERSION,
    FileSeal,
    Manifest,
    RunPlace,
    encoded,
    manifest_in,
    place_of,
    read_manifest,
    run_folder,
)
from resprout.pipeline.stores import Location, StorePath, found_in, location
from resprout.trace import kinds
from resprout.trace.columns import rows_of
from resprout.trace.schema import Digest, Row, TraceError
from resprout.trace.store import INFO_NAME, RunInfo, read_info

_PIECE: Final = 1 << 20

PARTS: Final = "part-*.parquet"
_BATCH_ROWS: Final = 1 << 16

STAGING_FOLDER: Final = "staging"
_LOCK: Final = "lock"
_ALIVE: Final = "alive"
_REPLACED: Final = "replaced"
_TRASH: Final = "trash-"
_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST)
"""What renaming a folder says when there is another one in its place."""
_ATTEMPTS: Final = 10
"""At replacing a run that others replace at the same time."""

LEFT_SECONDS: Final = 86_400
"""A version that is younger may still be written."""


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


class ObjectStaging(msgspec.Struct, frozen=True):
    """Where one process, and the tasks that work for it, prepare runs; see `staging.Staging`."""

    archive: str
    token: str
    """Of all versions that are written for this process, so that it finds those that are left."""

    def new_folder(self) -> Path:
        """On the machine of the task, which brings it, or drops it."""
        return Path(tempfile.mkdtemp(prefix="resprout-run-"))

    def drop(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def bring(self, folder: Path, experiment: str, run: str) -> str:
        """Writes the files of a whole run to a version of it, and gives its address. The folder is gone then."""
        now = int(time.time())
        version = run_folder(StorePath(self.archive), experiment, run) / (
            f"{VERSION}{now:x}-{self.token}-{secrets.token_hex(4)}"
        )
        for path in sorted(folder.iterdir()):
            (version / path.name).write_bytes(path.read_bytes())
        self.drop(folder)
        return str(version)

    def publish(self, staged: str, experiment: str, run: str, replace: bool = False) -> bool:
        """Makes a version that was brought the run. False when the same run was there already; PipelineError when
        another one was that is not to be replaced."""
        version, final = StorePath(staged), run_folder(StorePath(self.archive), experiment, run)
        manifest = msgspec.json.decode((version / MANIFEST_NAME).read_bytes(), type=Manifest)
        there = _manifest_there(final)
        if there is not None:
            was = digest_if_sound(final / f"{VERSION}{there.version}") if replace else there.digest
            if was == manifest.digest or not replace:
                version.remove()
            if was == manifest.digest:
                return False
            if not replace:
                raise PipelineError(f"{experiment}/{run}: in the archive with another digest; --replace exchanges it")
        (version / MANIFEST_NAME).unlink()
        name = version.name.removeprefix(VERSION)
        (final / MANIFEST_NAME).write_bytes(encoded(msgspec.structs.replace(manifest, version=name)))
        _clear_away_versions(final, name, there.version if there is not None else "")
        return True

    def clear(self, staged: "list[str]") -> None:
        """Deletes versions that were brought and are not to be published."""
        for address in staged:
            with contextlib.suppress(OSError, PipelineError):
                StorePath(address).remove()


def _manifest_there(final: StorePath) -> Manifest | None:
    try:
        return read_manifest(final)
    except TraceError:  # damaged: whoever brings the run anew mends it
        return None


def _clear_away_versions(final: StorePath, current: str, replaced: str) -> None:
    for path in list(final.glob(f"{VERSION}*")):
        name = path.name.removeprefix(VERSION)
        with contextlib.suppress(
            OSError, PipelineError, ValueError
        ):  # what cannot be cleared away now is left to the next one
            is_old = int(name.partition("-")[0], 16) < time.time() - LEFT_SECONDS
            if name != current and (is_old or name == replaced):
                path.remove()


@contextlib.contextmanager
def object_staging(archive: StorePath) -> Iterator[ObjectStaging]:
    yield ObjectStaging(str(archive), secrets.token_hex(8))


class Staging(msgspec.Struct, frozen=True):
    """Where one process, and the tasks that work for it, prepare runs."""

    archive: str
    folder: str

    def new_folder(self) -> Path:
        path = Path(self.folder) / secrets.token_hex(8)
        path.mkdir()
        return path

    def drop(self, folder: Path) -> None:
        """A run that will not do: it goes with the staging folder."""

    def bring(self, folder: Path, experiment: str, run: str) -> str:
        """From a task to where everybody sees it: it is there."""
        return str(folder)

    def clear(self, staged: "list[str]") -> None:
        """Goes with the staging folder."""

    def publish(self, brought: str | Path, experiment: str, run: str, replace: bool = False) -> bool:
        """Moves a whole run to its place in the archive. False when the same run was there already; PipelineError when
        another one was that is not to be replaced. A damaged run is another one, to whoever replaces."""
        staged, final = Path(brought), run_folder(Path(self.archive), experiment, run)
        for path in (*staged.iterdir(), staged):
            _sync(path)  # without it, a power cut may leave the folder in its place and its files empty
        final.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_ATTEMPTS):
            try:
                staged.rename(final)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                _sync(final.parent)
                return True
            if not final.exists():
                continue  # somebody has just moved it out of the way
            there = digest_if_sound(final) if replace else read_info(final).digest
            if there == read_info(staged).digest:
                shutil.rmtree(staged)
                return False
            if not replace:
                raise PipelineError(f"{experiment}/{run}: in the archive with another digest; --replace exchanges it")
            self._put_aside(final)
        raise PipelineError(f"{final}: others replace it all the time")

    def _put_aside(self, final: Path) -> None:
        aside = Path(self.folder) / _REPLACED / secrets.token_hex(8)
        aside.mkdir(parents=True)
        (aside / "place").write_text(str(final.relative_to(self.archive)))  # first: a run put aside can be put back
        with contextlib.suppress(FileNotFoundError):  # somebody else has moved it
            final.rename(aside / "run")


Stage: TypeAlias = Staging | ObjectStaging


def staging_in(archive: Location) -> "contextlib.AbstractContextManager[Stage]":
    """As it is done where the archive lies."""
    return object_staging(archive) if isinstance(archive, StorePath) else staging(archive)


@contextlib.contextmanager
def staging(archive: Path) -> Iterator[Staging]:
    """A staging folder for a block of work, gone afterwards. Clears away what dead processes have left behind."""
    archive = archive.absolute()  # tasks may begin in another folder
    folder = archive / STAGING_FOLDER / secrets.token_hex(8)
    try:
        folder.parent.mkdir(exist_ok=True)
        with _locked(folder.parent / _LOCK):
            _bury_the_dead(archive)
            folder.mkdir()
            alive = _lock(folder / _ALIVE)
        for trash in sorted(folder.parent.glob(f"{_TRASH}*")):
            _clear_away(archive, trash)
    except OSError as error:
        raise PipelineError(f"{archive}: nothing can be added: {(error.strerror or str(error)).lower()}") from None
    try:
        yield Staging(str(archive), str(folder))
    finally:
        with contextlib.suppress(OSError):  # what cannot be cleared away now is left to the next one
            _clear_away(archive, _to_trash(folder))
        os.close(alive)


def _bury_the_dead(archive: Path) -> None:
    for folder in sorted((archive / STAGING_FOLDER).iterdir()):
        if folder.name == _LOCK or folder.name.startswith(_TRASH):
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError):  # it is alive; it has just gone by itself
            os.close(_lock(folder / _ALIVE, blocks=False))
            _to_trash(folder)


def _to_trash(folder: Path) -> Path:
    """Out of the reach of all who still work in it: only then can its contents be relied on."""
    return folder.rename(folder.with_name(f"{_TRASH}{folder.name}"))


def _clear_away(archive: Path, trash: Path) -> None:
    try:
        replaced = sorted((trash / _REPLACED).iterdir())
    except FileNotFoundError:  # nothing was replaced, or another process clears it away as well
        replaced = []
    for aside in replaced:
        _put_back(archive, aside)
    shutil.rmtree(trash, ignore_errors=True)


def _put_back(archive: Path, aside: Path) -> None:
    """Unless another run has come into its place."""
    try:
        final = archive / (aside / "place").read_text()
        if archive / RUNS_FOLDER in final.parents and not final.exists():
            (aside / "run").rename(final)
    except FileNotFoundError:  # it was never put aside, or somebody else has put it back
        pass
    except OSError as error:
        if error.errno not in _TAKEN:
            raise


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    file = _lock(path)
    try:
        yield
    finally:
        os.close(file)


def _lock(path: Path, blocks: bool = True) -> int:
    """An open file that is locked until it is closed, or its process ends."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX if blocks else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(file)
        raise
    return file
