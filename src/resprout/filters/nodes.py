"""The nodes of a condition, in the only shape that is kept: no `not` above a leaf, no `and` in an `and`.

Negation is pushed down to the leaves while reading (`not (a = 1 or b is null)` becomes `a != 1 and b is not null`). In
three-valued logic this changes nothing, since a comparison and its opposite are unknown together; and what is left,
`and` and `or` over leaves, is true exactly when it is true with every unknown leaf taken as false. So nothing after the
parser needs a third value.

Alternatives are sorted and unique: conditions that differ only in order are the same condition.

`tokens_of` cuts the text of a condition into tokens, each with its place. `WhereError` is the only error that reading a
condition raises.
"""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue

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

OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class WhereError(UsageError):
    """A `where` condition cannot be read. One line says what was expected, what was found and in which column."""

    def __init__(self, complaint: str, position: int | None = None) -> None:
        super().__init__(complaint, position)
        self.complaint = complaint
        self.position = position or 0
        """Characters before the trouble: a caret under the text goes after this many spaces. 0 for trouble with the
        whole."""

    def __str__(self) -> str:
        complaint, position = self.args
        return complaint if position is None else f"{complaint} (column {position + 1})"


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


class Compare(msgspec.Struct, frozen=True):
    """An attribute against a value."""

    name: str
    operator: str
    value: AttributeValue


class CompareAttributes(msgspec.Struct, frozen=True):
    """Two attributes against each other."""

    left: str
    operator: str
    right: str


class Within(msgspec.Struct, frozen=True):
    """`in` and `not in`, with two values or more."""

    name: str
    values: tuple[AttributeValue, ...]
    negated: bool


class Like(msgspec.Struct, frozen=True):
    name: str
    pattern: str
    negated: bool


class Null(msgspec.Struct, frozen=True):
    """`is null` and, negated, `is not null`."""

    name: str
    negated: bool


class And(msgspec.Struct, frozen=True):
    parts: tuple["ConditionNode", ...]


class Or(msgspec.Struct, frozen=True):
    parts: tuple["ConditionNode", ...]


Leaf: TypeAlias = Compare | CompareAttributes | Within | Like | Null
ConditionNode: TypeAlias = Leaf | And | Or


def within(name: str, values: Iterable[AttributeValue], negated: bool) -> Leaf:
    by_text = {render_value(value): value for value in values}
    if len(by_text) == 1:
        return Compare(name, "!=" if negated else "=", *by_text.values())
    return Within(name, tuple(by_text[text] for text in sorted(by_text)), negated)


def render_leaf(leaf: Leaf) -> str:
    """The canonical text, which reads back as the same leaf."""
    if isinstance(leaf, CompareAttributes):
        return f"{render_name(leaf.left)} {leaf.operator} {render_name(leaf.right)}"
    name = render_name(leaf.name)
    if isinstance(leaf, Compare):
        return f"{name} {leaf.operator} {render_value(leaf.value)}"
    not_ = "not " if leaf.negated else ""
    if isinstance(leaf, Within):
        return f"{name} {not_}in ({', '.join(map(render_value, leaf.values))})"
    if isinstance(leaf, Like):
        return f"{name} {not_}like {render_value(leaf.pattern)}"
    return f"{name} is {not_}null"


def render_name(name: str) -> str:
    return name if is_bare_name(name) else '"' + name.replace('"', '""') + '"'


def render_value(value: AttributeValue) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


class Draft(msgspec.Struct, frozen=True):
    """A node while it is built, with its canonical text and the texts of its parts: each is written only once."""

    node: ConditionNode
    text: str
    parts: dict[str, ConditionNode]

    @classmethod
    def of(cls, leaf: Leaf) -> "Draft":
        text = render_leaf(leaf)
        return cls(leaf, text, {text: leaf})


def joined(kind: type[And] | type[Or], drafts: list[Draft]) -> Draft:
    """All or any of them: flat, sorted, each once."""
    if len(drafts) == 1:
        return drafts[0]
    parts: dict[str, ConditionNode] = {}
    for draft in drafts:
        if isinstance(draft.node, kind):
            parts.update(draft.parts)
        elif isinstance(draft.node, Or):
            parts[f"({draft.text})"] = draft.node
        else:
            parts[draft.text] = draft.node
    if len(parts) == 1:
        return drafts[0]
    texts = sorted(parts)
    text = (" and " if kind is And else " or ").join(texts)
    return Draft(kind(tuple(parts[text] for text in texts)), text, parts)
