"""What an archived run consists of, to the byte: `manifest.json` beside its files, written when it was archived.

The rows were read and their digest was checked then. Later readers need not do it again: when the files have the sizes
and the SHA-256 of the manifest, they are the files that were checked. Hashing bytes costs less than a hundredth of
hashing rows.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from resprout.pipeline.archive.check import PARTS, ArchiveCounts
from resprout.pipeline.places import RunPlace, place_of
from resprout.trace.errors import TraceError
from resprout.trace.store import INFO_NAME, RunInfo

MANIFEST_NAME: Final = "manifest.json"


class FileSeal(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, kw_only=True, frozen=True):
    digest: str
    """Of the rows, as in `run.json`."""
    files: tuple[FileSeal, ...]
    publications: int
    deliveries: int
    wall_s: float | None = None
    """How long the run took to make, where the archive's owner made it."""


def write_manifest(folder: Path, info: RunInfo, counts: ArchiveCounts, wall_s: float | None = None) -> Manifest:
    """For a run whose rows were checked against its digest."""
    manifest = Manifest(
        digest=info.digest,
        files=tuple(_seal(path) for path in _files(folder)),
        publications=counts.publications,
        deliveries=counts.deliveries,
        wall_s=wall_s,
    )
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    (folder / MANIFEST_NAME).write_bytes(text + b"\n")
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """None where there is none: a trace that lies outside of an archive."""
    path = folder / MANIFEST_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: damaged: {error}") from None


def verify(place: RunPlace) -> bool:
    """True: the bytes of the run are those that were archived. False: there is no manifest, only reading all rows can
    tell (`archive.check`). TraceError, with the name of the file, when a file is missing, too many, or not the same."""
    folder = Path(place.folder)
    if (manifest := read_manifest(folder)) is None:
        return False
    if manifest.digest != place.info.digest:
        raise TraceError(f"{folder / MANIFEST_NAME}: about another run: digest {manifest.digest}")
    sealed = {seal.name: seal for seal in manifest.files}
    there = {path.name: path for path in _files(folder)}
    for name in sorted(sealed.keys() | there.keys()):
        path = folder / name
        if name not in there:
            raise TraceError(f"{path}: missing")
        if name not in sealed:
            raise TraceError(f"{path}: not there when the run was archived")
        if path.stat().st_size != sealed[name].bytes or _seal(path) != sealed[name]:
            raise TraceError(f"{path}: damaged: its bytes are not those that were archived")
    return True


def digest_if_sound(folder: Path) -> str | None:
    """Of an archived run whose files are those that were archived; None for anything else."""
    try:
        place = place_of(folder, "", "")
        return place.info.digest if verify(place) else None
    except TraceError:
        return None


def _files(folder: Path) -> list[Path]:
    return [*sorted(folder.glob(PARTS)), folder / INFO_NAME]


def _seal(path: Path) -> FileSeal:
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return FileSeal(path.name, file.tell(), sha256)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
