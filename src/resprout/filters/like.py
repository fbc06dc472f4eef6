r"""LIKE patterns: `%` stands for any text, `_` for one character, `\` takes away the meaning of what follows.

Matching is case-sensitive, and nothing backtracks. A pattern is cut at each `%` into segments. Most patterns are
matched by searching for one segment after the other, each at the first place where it fits: if the text matches at all,
it matches so. Patterns with many or long segments that contain `_` take one step per character of the text, whatever
the pattern: the places where the pattern may stand are the bits of one integer, and a step moves them all at once
(Baeza-Yates and Gonnet, "A new approach to text searching", 1992, with a bit that stays for each `%`).
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

_ANY: Final = object()
_ONE: Final = object()
_Piece = str | object
_Search = Callable[[str, int], int]
"""Given a text and where to begin: where the segment that is searched for ends, or -1."""

_WILD_SEGMENTS_MAX: Final = 8
_WILD_SEGMENT_MAX: Final = 64
"""Segments with `_` that are searched for, and characters of each; with more, the pattern is matched by bits."""


def check_pattern(pattern: str) -> str:
    """What a good pattern would have had, or nothing."""
    backslashes = len(pattern) - len(pattern.rstrip("\\"))
    return "a character after the last '\\' of the pattern" if backslashes % 2 else ""


def has_wildcards(pattern: str) -> bool:
    return any(not isinstance(piece, str) for piece in _pieces(pattern))


def unescaped(pattern: str) -> str:
    """The text that a pattern without wildcards stands for."""
    return literal_prefix(pattern)


def literal_prefix(pattern: str) -> str:
    """What every matching text begins with."""
    prefix = []
    for piece in _pieces(pattern):
        if not isinstance(piece, str):
            break
        prefix.append(piece)
    return "".join(prefix)


def fixes_only_the_beginning(pattern: str) -> bool:
    """Whether it is an ordinary text and then `%`."""
    pieces = _pieces(pattern)
    return pieces[-1:] == [_ANY] and all(isinstance(piece, str) for piece in pieces[:-1])


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test for the pattern; the common shapes run at the speed of `str`."""
    pieces = _pieces(pattern)
    if _ONE not in pieces:
        simple = _simple_matcher(pieces)
        if simple is not None:
            return simple
    segments = _segments(pieces)
    return _segment_matcher(segments) if _are_few(segments) else _bit_matcher(pieces)


def steps_of(pattern: str) -> tuple[int, int]:
    """Return an upper bound on the steps of matching (`predicate.Price`): a fixed part, and one for each 1024
    characters of the text."""
    segments = _segments(_pieces(pattern))
    longest = max(map(len, segments))
    if not _are_few(segments):
        return len(segments), 4096 + sum(map(len, segments))
    if longest and (len(segments) > 2 or any(_ONE in segment for segment in segments)):
        return 1 + len(segments), 64 + 32 * min(longest, _WILD_SEGMENT_MAX)
    return 1, 0  # a beginning or an end


def _pieces(pattern: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            pieces.append(next(characters))
        elif character == "_":
            pieces.append(_ONE)
        elif character != "%":
            pieces.append(character)
        elif not pieces or pieces[-1] is not _ANY:
            pieces.append(_ANY)
    return pieces


def _segments(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """What stands before, between and behind the `%`."""
    segments: list[list[_Piece]] = [[]]
    for piece in pieces:
        if piece is _ANY:
            segments.append([])
        else:
            segments[-1].append(piece)
    return segments


def _are_few(segments: Sequence[Sequence[_Piece]]) -> bool:
    wild = [segment for segment in segments if _ONE in segment]
    return len(wild) <= _WILD_SEGMENTS_MAX and all(len(segment) <= _WILD_SEGMENT_MAX for segment in wild)


def _simple_matcher(pieces: list[_Piece]) -> Callable[[str], bool] | None:
    """`abc%`, `%abc` and `%abc%`."""
    inner = pieces[1:-1] if len(pieces) > 1 else []
    if _ANY in inner:
        return None
    literal = "".join(piece for piece in pieces if isinstance(piece, str))
    opens, closes = pieces[:1] == [_ANY], pieces[-1:] == [_ANY]
    if opens and closes:
        return lambda text: literal in text
    if opens:
        return lambda text: text.endswith(literal)
    if closes:
        return lambda text: text.startswith(literal)
    return lambda text: text == literal


def _segment_matcher(segments: Sequence[Sequence[_Piece]]) -> Callable[[str], bool]:
    first, last = _at(segments[0]), _at(segments[-1])
    begin, end = len(segments[0]), len(segments[-1])
    if len(segments) == 1:
        return lambda text: len(text) == begin and first(text, 0)
    inner = [_search(segment) for segment in segments[1:-1] if segment]

    def matches(text: str) -> bool:
        room = len(text) - end
        if room < begin or not first(text, 0) or not last(text, room):
            return False
        place = begin
        for search in inner:
            place = search(text, place)
            if place < 0:
                return False
        return place <= room

    return matches


def _at(segment: Sequence[_Piece]) -> Callable[[str, int], bool]:
    """A test whether the segment stands at a place of a text."""
    if _ONE not in segment:
        literal = "".join(piece for piece in segment if isinstance(piece, str))
        return lambda text, place: text.startswith(literal, place)
    match = _expression(segment).match
    return lambda text, place: match(text, place) is not None


def _search(segment: Sequence[_Piece]) -> _Search:
    if _ONE not in segment:
        literal = "".join(piece for piece in segment if isinstance(piece, str))

        def find(text: str, place: int) -> int:
            found = text.find(literal, place)
            return found + len(literal) if found >= 0 else -1

        return find
    expression = _expression(segment)

    def find_wild(text: str, place: int) -> int:
        found = expression.search(text, place)
        return found.end() if found is not None else -1

    return find_wild


def _expression(segment: Sequence[_Piece]) -> re.Pattern[str]:
    """Without repetition or alternatives, so nothing backtracks."""
    return re.compile("".join(re.escape(piece) if isinstance(piece, str) else "." for piece in segment), re.DOTALL)


def _bit_matcher(pieces: list[_Piece]) -> Callable[[str], bool]:
    """Bit i of `standing`: the first i pieces (`%` not counted) match what was read so far."""
    stays = 0
    anywhere = 0
    by_character: dict[str, int] = {}
    length = 0
    for piece in pieces:
        if isinstance(piece, str):
            by_character[piece] = by_character.get(piece, 0) | 1 << length
        elif piece is _ONE:
            anywhere |= 1 << length
        else:
            stays |= 1 << length
            continue
        length += 1
    moves = {character: bits | anywhere for character, bits in by_character.items()}
    goal = 1 << length

    def matches(text: str) -> bool:
        standing = 1
        for character in text:
            standing = (standing & moves.get(character, anywhere)) << 1 | standing & stays
            if not standing:
                return False
        return standing & goal != 0

    return matches
