"""Where a journal was spoiled, for people: the file, the byte, the position, and how much around it is intact."""

from resprout.journal.errors import DamagedError
from resprout.journal.files import Files
from resprout.journal.format import HEAD_BYTES, MAGIC, read_head
from resprout.journal.segments import segment_name
from resprout.journal.survey import Hole, survey


def damaged(files: Files, base: int, content: bytes, is_sealed: bool) -> DamagedError:
    """What to say of a segment that was spoiled, or is none."""
    place = files.place_of(segment_name(base))
    head, is_whole = read_head(content)
    if head is None:
        if content.startswith(MAGIC[:-2]):
            return DamagedError(f"{place}: damaged at byte {len(MAGIC)}, its head; nothing of it can be read")
        return DamagedError(f"{place} is no segment of a journal of this version")
    found = survey(content, head, is_sealed)
    holes = found.holes if is_whole else [Hole(0, HEAD_BYTES, head.base), *found.holes]
    before = sum(record.begin < holes[0].at for record in found.records)
    size = sum(hole.end - hole.at for hole in holes)
    many = "" if len(holes) == 1 else f", the first of {len(holes)} places"
    return DamagedError(
        f"{place}: damaged at byte {holes[0].at}, position {holes[0].position}{many} ({size} bytes); of its records,"
        f" {before} before and {len(found.records) - before} behind are intact"
    )


def gap(files: Files, base: int, size: int, end: int, follower: int) -> DamagedError:
    """A sealed segment ends before the next one begins."""
    place = files.place_of(segment_name(base))
    return DamagedError(
        f"{place}: ends at byte {size}, position {end}, and the next segment begins at position {follower}: what lies"
        " between them is missing"
    )
