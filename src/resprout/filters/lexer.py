"""Cuts the text of a condition into tokens, each with its place."""

import re
from typing import Final

import msgspec

from resprout.filters.errors import WhereError

KEYWORDS: Final = frozenset({"and", "or", "not", "in", "like", "is", "null", "between", "true", "false"})

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<word>   [^\W\d]\w* )
      | (?P<number> [+-]? (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+) (?:[eE][+-]?[0-9]+)? )
      | (?P<text>   '(?:[^']|'')*+' )
      | (?P<quoted> "(?:[^"]|"")*+" )
      | (?P<sign>   <=|>=|<>|!=|[=<>(),] )
      | (?P<end>    \Z )
    )""",
    re.VERBOSE,
)
_BARE_NAME: Final = re.compile(r"[^\W\d]\w*")


class Token(msgspec.Struct, frozen=True, gc=False):
    kind: str
    """'name', 'number', 'text', 'end', or the keyword or sign itself."""
    value: str
    """Without quotes; as written for numbers."""
    position: int
    source: str
    """As written, for people."""

    @property
    def shown(self) -> str:
        if self.kind == "end":
            return "the end"
        return repr(self.source if len(self.source) <= 24 else self.source[:24] + "...")


def tokens_of(text: str) -> list[Token]:
    """All tokens, the last one of kind 'end'. Raises WhereError where no token begins."""
    tokens: list[Token] = []
    place = 0
    while True:
        found = _TOKEN.match(text, place)
        if found is None:
            raise _unreadable(text, place)
        token = _token(found)
        if token.kind == "number" and (follower := text[found.end() : found.end() + 1]) and _sticks(follower):
            raise WhereError(f"expected a space or an operator after {token.shown}, found {follower!r}", found.end())
        tokens.append(token)
        if token.kind == "end":
            return tokens
        place = found.end()


def is_bare_name(name: str) -> bool:
    """Whether an attribute's name can be written without quotes."""
    return _BARE_NAME.fullmatch(name) is not None and name.lower() not in KEYWORDS


def _token(found: re.Match[str]) -> Token:
    kind = found.lastgroup
    assert kind is not None
    source = found[kind]
    start = found.start(kind)
    if kind == "word":
        lowered = source.lower()
        return Token(lowered if lowered in KEYWORDS else "name", source, start, source)
    if kind == "text":
        return Token("text", source[1:-1].replace("''", "'"), start, source)
    if kind == "quoted":
        return Token("name", source[1:-1].replace('""', '"'), start, source)
    return Token(source if kind == "sign" else kind, source, start, source)


def _sticks(character: str) -> bool:
    return character == "." or character == "_" or character.isalnum()


def _unreadable(text: str, place: int) -> WhereError:
    start = place + len(text[place:]) - len(text[place:].lstrip())
    character = text[start]
    if character == "'":
        return WhereError("expected a closing ' for the text that begins here, found the end", start)
    if character == '"':
        return WhereError('expected a closing " for the name that begins here, found the end', start)
    return WhereError(f"expected an attribute, a value or an operator, found {character!r}", start)
