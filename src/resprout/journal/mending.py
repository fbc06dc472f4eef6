"""Goes on with what is intact in a damaged journal: each damaged segment is written anew, and kept beside it as it was.

Records keep their positions, so there are gaps where something is missing. Whoever runs the broker decides on it.
"""

import errno
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from resprout.journal.format import HEAD_BYTES, SegmentHead, Stretch, Survey, batch_bytes, head_bytes, read_head, survey
from resprout.journal.interface import DiskError, Files, NotKeptError, bases_of, draft_name, index_name, segment_name


class Mended(msgspec.Struct, frozen=True):
    records: int
    """Those that are kept."""
    damaged_bytes: int
    asides: tuple[str, ...]
    """Where the damaged segments lie now, as they were found."""
    missing: tuple[tuple[int, int], ...]
    """Positions, from and to (which is not missing)."""


def mend(files: Files, draw: Callable[[], int], free: Callable[[], int | None] = lambda: None) -> Mended:
    """DiskError when it cannot be written; NotKeptError when there is no journal. `free` tells how many bytes can be
    written, if that is known: a segment for which there is no room is not begun."""
    try:
        bases = bases_of(files.names())
        if not bases:
            raise NotKeptError(f"{files.place_of('')}: no journal is there")
        return _mend(files, bases, draw, free)
    except OSError as error:
        raise DiskError(f"{files.place_of('')}: {error.strerror or error}", error.errno or 0) from None


def _mend(files: Files, bases: list[int], draw: Callable[[], int], free: Callable[[], int | None]) -> Mended:
    kept: list[int] = []
    asides: list[str] = []
    damaged_bytes = 0
    floor = time_us = 0
    end = bases[0]
    for base, follower in (*pairwise(bases), (bases[-1], None)):
        name = segment_name(base)
        content = files.read(name, 0, files.size(name))
        head, is_whole = read_head(content)
        found = survey(content, head, follower is not None) if head is not None else None
        if head is not None and found is not None:
            floor, time_us = max(floor, found.floor), max(time_us, head.time_us)
            kept += [record.position for record in found.records]
        end = follower if follower is not None else found.next_position if found is not None else base
        is_short = found is not None and follower is not None and found.next_position != follower
        is_stillborn = follower is None and not is_whole and len(content) <= HEAD_BYTES
        if is_stillborn or (found is not None and is_whole and not found.holes and not is_short):
            continue
        new = SegmentHead(draw(), base, head.floor if head is not None else floor, time_us)
        needed, room = sum(len(piece) for piece in _pieces(new, content, found, end)), free()
        if room is not None and room < needed:
            raise DiskError(
                f"{files.place_of(name)}: {needed} bytes are needed to write what is intact beside it, and {room} are"
                " free: make room, and mend again; nothing was changed in this file",
                errno.ENOSPC,
            )
        try:
            files.create(draft_name(name))
            for piece in _pieces(new, content, found, end):
                files.append(draft_name(name), piece)
            files.sync(draft_name(name))
        except OSError:
            files.remove(draft_name(name))  # it would take the room that is missing
            raise
        aside = _set_aside(files, name)
        files.rename(draft_name(name), name)
        files.remove(index_name(base))
        files.sync_names()
        asides.append(aside)
        damaged_bytes += _damaged_bytes(found, is_whole, len(content))
    missing = [(one + 1, two) for one, two in pairwise((bases[0] - 1, *kept, end)) if two > one + 1]
    return Mended(len(kept), damaged_bytes, tuple(asides), tuple(missing))


def _damaged_bytes(found: Survey | None, is_whole: bool, size: int) -> int:
    if found is None:
        return size
    return sum(hole.end - hole.at for hole in found.holes) + (0 if is_whole else HEAD_BYTES)


def _pieces(head: SegmentHead, content: bytes, found: Survey | None, end: int) -> Iterator[bytes]:
    """A new segment with what is intact. Its last batch is empty: it says how far the positions had come, and that
    everything before it is on the disk."""
    yield head_bytes(head)
    at, time_us, floor = HEAD_BYTES, head.time_us, head.floor
    for stretch in found.stretches if found is not None else ():
        time_us, floor = stretch.time_us, max(floor, stretch.floor)
        for first, records in _runs(content, stretch):
            piece = batch_bytes(head.seed, first, records, time_us, floor, at)
            at += len(piece)
            yield piece
    yield batch_bytes(head.seed, end, (), time_us, floor, at)


def _runs(content: bytes, stretch: Stretch) -> Iterator[tuple[int, list[bytes]]]:
    """Records without a gap between them."""
    first, run = 0, list[bytes]()
    for record in stretch.records:
        if run and record.position != first + len(run):
            yield first, run
            run = []
        if not run:
            first = record.position
        run.append(content[record.begin : record.end])
    if run:
        yield first, run


def _set_aside(files: Files, name: str) -> str:
    """First: whatever happens in between, the file is there under one name at least."""
    number = 1
    while True:
        aside = f"{name}.damaged-{number}"
        try:
            files.link(name, aside)
        except FileExistsError:
            number += 1
        else:
            return aside
