"""Records that the disk has spoiled: told from a write that a crash has torn, and never thrown away unasked.

A broker does not start with them. Whoever runs it decides: `mend` keeps what is whole, and sets the file aside.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.net.disk import DiskError, sync_folder, write_all
from resprout.net.record_format import HEAD_BYTES, MAGIC, Survey, content_at, entries_of, new_head, read_head, survey

_ASIDE: Final = "damaged"


class DamagedError(UsageError):
    """A file of records is not what was written, and not because a write was torn."""


class Mended(msgspec.Struct, frozen=True):
    records: int
    """How many were kept."""
    damaged_bytes: int
    aside: Path | None
    """Where the file lies now as it was found; None when nothing was wrong with it."""


def survey_or_refuse(path: Path, content: bytes) -> tuple[Survey, int]:
    """What is whole, and the seed. DamagedError when something was spoiled; UsageError when it is some other file."""
    found, seed, holes = _look(path, content)
    if holes:
        before = sum(place < holes[0][0] for place in found.alive)
        size = sum(end - begin for begin, end in holes)
        where = f"at byte {holes[0][0]}" if len(holes) == 1 else f"in {len(holes)} places from byte {holes[0][0]} on"
        raise DamagedError(
            f"{path}: damaged {where} ({size} bytes); of the records that are kept there, {before} before and"
            f" {len(found.alive) - before} behind are intact: `resprout mend {path.parent}` goes on with them and sets"
            " the damaged file aside"
        )
    return found, seed


def mend(path: Path) -> Mended:
    """Keeps the records that are whole, in a new file; the old one is kept beside it. DiskError when it cannot be."""
    try:
        content = path.read_bytes()
        found, _, holes = _look(path, content)
        if not holes:
            return Mended(len(found.alive), 0, None)
        head, seed = new_head()
        draft = path.with_name(f"{path.name}.new")
        descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, head + entries_of([content_at(content, place) for place in found.alive], seed))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        aside = _free_name(path)
        os.link(path, aside)  # first: whatever happens in between, the file is there under one name at least
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror or error}") from None
    return Mended(len(found.alive), sum(end - begin for begin, end in holes), aside)


def _look(path: Path, content: bytes) -> tuple[Survey, int, list[tuple[int, int]]]:
    seed, is_whole = read_head(content)
    if seed is None:
        if content.startswith(MAGIC):
            raise DamagedError(
                f"{path}: damaged at byte {len(MAGIC)}, its head; nothing of it can be read. Move it away to go on"
                " without it"
            )
        raise UsageError(f"{path} is no file of records of this version")
    found = survey(content, seed)
    return found, seed, found.holes if is_whole else [(0, HEAD_BYTES), *found.holes]


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.{_ASIDE}-{number}")).exists():
        number += 1
    return aside
