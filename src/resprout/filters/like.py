r"""LIKE patterns: `%` stands for any text, `_` for one character, `\` takes away the meaning of what follows.

Matching is case-sensitive and takes one step per character of the text whatever the pattern: the places where the
pattern may stand are the bits of one integer, and a step moves them all at once (Baeza-Yates and Gonnet, "A new
approach to text searching", 1992, with a bit that stays for each `%`). Nothing backtracks.
"""

from collections.abc import Callable
from typing import Final

_ANY: Final = object()
_ONE: Final = object()
_Piece = str | object


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
    return _bit_matcher(pieces)


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
