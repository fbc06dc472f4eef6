"""How records stand in a file, and what of a file is whole.

    file   = magic, seed, seed, entry ...
    seed   = 4 bytes, drawn when the file is made, and their CRC-32
    entry  = header, content
    header = length of content (4 bytes), kind (1 byte), CRC-32 of content (4 bytes), CRC-32 of these 9 from the seed on
    kind R = a record;  kind F = forget all records but the latest so many (content: 8 bytes)

What is written together is made durable together. The first entry of each write has a capital as its kind, the others
a small letter: where a capital stands, everything before it was on the disk once. So what is not whole although a
capital comes behind it was spoiled later, and what is not whole behind the last capital may be a write that a crash has
torn. Headers have a checksum of their own, with a seed that nobody outside knows, so that entries behind a spoiled one
are found again, and none is found in what clients have published.
"""

import secrets
import struct
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.core.contract import Forget, Persist

MAGIC: Final = b"resprout records 2\n"
_NUMBER: Final = struct.Struct(">I")
_SEED: Final = struct.Struct(">II")
_FRONT: Final = struct.Struct(">IBI")
_COUNT: Final = struct.Struct(">Q")
_RECORD: Final = ord("R")
_FORGET: Final = ord("F")
_SMALL: Final = 0x20
"""What makes a small letter of a capital."""
HEAD_BYTES: Final = len(MAGIC) + 2 * _SEED.size
HEADER_BYTES: Final = _FRONT.size + _NUMBER.size


class Survey(msgspec.Struct, frozen=True):
    """What of a file is whole."""

    alive: deque[int]
    """Where the entries of records begin that are not forgotten."""
    end: int
    """Behind the last entry to believe. What follows, if anything, is a torn write."""
    holes: list[tuple[int, int]]
    """From and to: what stands before `end` and is not whole. It was, once."""


def new_head() -> tuple[bytes, int]:
    """The beginning of a file, and its seed."""
    seed = secrets.randbits(32)
    return MAGIC + 2 * _seed_bytes(seed), seed


def read_head(content: bytes) -> tuple[int | None, bool]:
    """The seed, unless no copy of it is whole; and whether the head is whole."""
    copies = [content[at : at + _SEED.size] for at in (len(MAGIC), len(MAGIC) + _SEED.size)]
    whole = [copy for copy in copies if len(copy) == _SEED.size and copy == _seed_bytes(_NUMBER.unpack_from(copy)[0])]
    if not whole:
        return None, False
    return _NUMBER.unpack_from(whole[0])[0], content.startswith(MAGIC) and len(whole) == len(copies)


def entry_of(change: Persist | Forget, seed: int, is_first: bool) -> bytes:
    """`is_first`: of what is written together."""
    if isinstance(change, Persist):
        kind, content = _RECORD, change.record
    else:
        kind, content = _FORGET, _COUNT.pack(max(0, change.count))
    front = _FRONT.pack(len(content), kind if is_first else kind | _SMALL, zlib.crc32(content))
    return front + _NUMBER.pack(zlib.crc32(front, seed)) + content


def content_at(content: bytes, place: int) -> bytes:
    begin = place + HEADER_BYTES
    return content[begin : begin + _NUMBER.unpack_from(content, place)[0]]


def forget(alive: deque[int], count: int) -> None:
    """Keep the latest so many."""
    while len(alive) > max(0, count):
        alive.popleft()


def survey(content: bytes, seed: int) -> Survey:
    """Forgetting counts only what is whole: rather a record too many than one too few."""
    whole: list[tuple[int, int]] = []
    holes: list[tuple[int, int]] = []
    sure = 0
    at = HEAD_BYTES
    while at < len(content):
        kind, end = _header_at(content, at, seed)
        if _is_whole(content, at, kind, end):
            whole.append((at, kind))
            sure = sure if kind & _SMALL else at
        else:
            end = min(end, len(content)) if kind else _next_header(content, at + 1, seed)
            holes.append((at, end))
        at = end
    torn = next((begin for begin, _ in holes if begin > sure), len(content))
    alive: deque[int] = deque()
    for at, kind in whole:
        if at > torn:
            break
        if kind & ~_SMALL == _RECORD:
            alive.append(at)
        else:
            forget(alive, _COUNT.unpack(content_at(content, at))[0])
    return Survey(alive, torn, [hole for hole in holes if hole[0] < torn])


def _header_at(content: bytes, at: int, seed: int) -> tuple[int, int]:
    """Its kind and where its content ends; kind 0 when there is no whole header."""
    if at + HEADER_BYTES > len(content):
        return 0, at
    front = content[at : at + _FRONT.size]
    if _NUMBER.unpack_from(content, at + _FRONT.size)[0] != zlib.crc32(front, seed):
        return 0, at
    length, kind, _ = _FRONT.unpack(front)
    return (kind, at + HEADER_BYTES + length) if kind & ~_SMALL in (_RECORD, _FORGET) else (0, at)


def _is_whole(content: bytes, at: int, kind: int, end: int) -> bool:
    if not kind or end > len(content):
        return False
    body = content_at(content, at)
    if zlib.crc32(body) != _FRONT.unpack_from(content, at)[2]:
        return False
    return kind & ~_SMALL == _RECORD or len(body) == _COUNT.size


def _next_header(content: bytes, at: int, seed: int) -> int:
    while at + HEADER_BYTES <= len(content):
        if _header_at(content, at, seed)[0]:
            return at
        at += 1
    return len(content)


def _seed_bytes(seed: int) -> bytes:
    return _SEED.pack(seed, zlib.crc32(_NUMBER.pack(seed)))


def entries_of(records: Sequence[bytes], seed: int) -> bytes:
    """For a file that appears when it is whole."""
    return b"".join(entry_of(Persist(record), seed, True) for record in records) + mark(len(records), seed)


def mark(alive: int, seed: int) -> bytes:
    """Forgets nothing, and says that everything before it was on the disk."""
    return entry_of(Forget(alive), seed, True)
