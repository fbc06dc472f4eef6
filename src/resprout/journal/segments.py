"""The files of a journal, as they are named: a segment by its first position, and beside it, once it is sealed, its
index."""

from typing import Final

from resprout.journal.errors import DamagedError
from resprout.journal.files import Files
from resprout.journal.format import HEAD_BYTES, SegmentHead, read_head

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
