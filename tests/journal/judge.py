"""A second reader of journals, written from their description alone (docs/journal.md). It shares no code with the
first.

It is given the files as they are found and says which records can be proved to be there: those whose header and content
agree with their checksums, in segments whose head can be read. It repairs nothing and cuts nothing off.
"""

import zlib
from collections.abc import Mapping


def number(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "big")


def proved(files: Mapping[str, bytes]) -> dict[int, bytes]:
    """Records by position."""
    found: dict[int, bytes] = {}
    for name in sorted(files):
        stem, dot, kind = name.partition(".")
        if kind == "journal" and dot:
            assert len(stem) == 20 and stem.isdigit()
            for position, record in segment(files[name], int(stem)).items():
                assert position not in found or found[position] == record, f"two records have position {position}"
                found[position] = record
    return found


def segment(content: bytes, base: int) -> dict[int, bytes]:
    magic = b"resprout journal 1\n"
    summary = content[len(magic) : len(magic) + 32]
    other = content[len(magic) + 32 : len(magic) + 64]
    seed = None
    for copy in (summary, other):
        if len(copy) == 32 and zlib.crc32(copy[:28]) == number(copy, 28, 4):
            seed = number(copy, 0, 4)
            assert number(copy, 4, 8) == base, "the name says another base"
    if seed is None:
        return {}
    found: dict[int, bytes] = {}
    at = len(magic) + 64
    while at + 21 <= len(content):
        length, kind, position = number(content, at, 4), content[at + 4], number(content, at + 5, 8)
        body = content[at + 21 : at + 21 + length]
        is_header = zlib.crc32(content[at : at + 17], seed) == number(content, at + 17, 4)
        if is_header and kind in b"RB" and len(body) == length and zlib.crc32(body) == number(content, at + 13, 4):
            if kind == ord("R"):
                found[position] = body
            at += 21 + length
        else:
            at += 1
    return found
