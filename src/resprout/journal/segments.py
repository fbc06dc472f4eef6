"""The files of a journal, as they are named: a segment by its first position, and beside it, once it is sealed, its
index.

`damaged` and `gap` say for people where a journal was spoiled: the file, the byte, the position, and how much around it
is intact.
"""

from typing import Final

from resprout.journal.files import DamagedError, Files
from resprout.journal.format import HEAD_BYTES, MAGIC, Hole, SegmentHead, read_head, survey

SUFFIX: Final = ".journal"
_INDEX: Final = ".index"
_DRAFT: Final = ".new"
_DIGITS: Final = 20


def segment_name(base: int) -> str:
    return f"{base:0{_DIGITS}}{SUFFIX}"


def index_name(base: int) -> str:
    return f"{base:0{_DIGITS}}{_INDEX}"


def draft_name(name: str) -> str:
    """Not a part of the journal until it is renamed."""
    return name + _DRAFT


def bases_of(names: list[str]) -> list[int]:
    """Of the segments among these files, oldest first."""
    return sorted(int(name[:_DIGITS]) for name in names if _is_of(name, SUFFIX))


def leftovers(names: list[str]) -> list[str]:
    """Drafts, and indexes without a segment: what a crash may leave."""
    bases = set(bases_of(names))
    return [
        name
        for name in names
        if name.endswith((SUFFIX + _DRAFT, _INDEX + _DRAFT))
        or (_is_of(name, _INDEX) and int(name[:_DIGITS]) not in bases)
    ]


def _is_of(name: str, suffix: str) -> bool:
    return len(name) == _DIGITS + len(suffix) and name.endswith(suffix) and name[:_DIGITS].isdecimal()


def head_of(files: Files, base: int) -> SegmentHead:
    """DamagedError when the head of this segment is not whole: what stands in a copy of it may be a hole, too."""
    name = segment_name(base)
    head, is_whole = read_head(files.read(name, 0, HEAD_BYTES))
    if head is None or not is_whole or head.base != base:
        raise DamagedError(f"{files.place_of(name)}: damaged at byte 0, its head, before position {base}")
    return head


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
