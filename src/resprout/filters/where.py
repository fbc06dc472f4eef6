r"""The `where` language: SQL-like conditions over the attributes of a message.

    amount >= 100 and currency in ('EUR', 'USD') and not urgent = false
    "sold by" like 'shop-%' and price between 9.5 and 1e3 or price is null

Signs are `= != <> < <= > >=`, words `and or not in like between is null true false` in any case. Attribute names are
case-sensitive, bare when they look like an identifier and in double quotes otherwise (`""` inside). Texts are in single
quotes (`''` inside), numbers are whole (64 bits) or decimal with an exponent if wanted. `not` binds closer than `and`,
`and` closer than `or`. Either side of a sign may be an attribute or a value, but not both a value.

Meaning, as in SQL:

- An attribute that the message does not have is null. Comparing with null is neither true nor false but *unknown*; so
  is comparing different kinds: text, number and true/false are three kinds. `not` of unknown is unknown, `and` is as
  false as its falsest side, `or` as true as its truest. Only a condition that is *true* matches.
- Numbers compare by value, whole or not, exactly. NaN, which only a hostile peer sends, is unknown in every comparison,
  though not null. Texts compare by code points. false is less than true.
- `x between a and b` is `x >= a and x <= b`. `x in (a, b)` is `x = a or x = b`; `x not in (a, b)` is
  `x != a and x != b`, hence never true when `a` and `b` are of different kinds.
- `x like p` matches the whole text, case-sensitively: `%` any text, `_` one character, `\` before either (or before
  itself) means that character. It is unknown for what is not text.

There is no arithmetic and there are no functions; `= null` is refused, since it would never be true.

`Price` is an upper bound of the steps that it costs to test a condition, known before anything is tested, so that a
broker can bound the work that it does for one subscriber inside one bundle. A step is one comparison: about 0.1 us.
"""

from typing import Final

import msgspec

from resprout.core import limits
from resprout.filters.errors import WhereError
from resprout.filters.evaluation import COMPILED_MAX, Test, test_of
from resprout.filters.like import steps_of
from resprout.filters.nodes import And, ConditionNode, Like, Or
from resprout.filters.parser import read

UNCOMPILED_STEPS: Final = 8
"""For a comparison that is compiled when it is tested."""
TEXT_CHARACTERS: Final = 1024


class Price(msgspec.Struct, frozen=True, gc=False):
    steps: int
    """For any message."""
    text_steps: int = 0
    """On top, for each 1024 characters of the longest text among the attributes."""

    def of(self, characters: int) -> int:
        """For a message whose longest text has so many characters."""
        return self.steps + self.text_steps * characters // TEXT_CHARACTERS

    @property
    def most(self) -> int:
        """For a message with the longest text that there may be."""
        return self.steps + self.text_steps


def price_of(node: ConditionNode) -> Price:
    if isinstance(node, And | Or):
        parts = [price_of(part) for part in node.parts]
        each = UNCOMPILED_STEPS if len(parts) > COMPILED_MAX else 0
        return Price(1 + sum(part.steps + each for part in parts), sum(part.text_steps for part in parts))
    if isinstance(node, Like):
        return Price(*steps_of(node.pattern))
    return Price(1)


class Condition:
    """A condition that was read. Equal, and equally hashed, when the canonical texts are."""

    __slots__ = ("matches", "node", "price", "text")

    def __init__(self, node: ConditionNode, text: str) -> None:
        self.node: Final = node
        self.text: Final = text
        """The canonical form: whatever says the same but for order, spelling and `not` is written like this."""
        self.matches: Final[Test] = test_of(node)
        """Whether the condition is true of a message's attributes."""
        self.price: Final = price_of(node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"parse({self.text!r})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse, (self.text,)


def parse(text: str) -> Condition:
    """Read a condition. Raises WhereError for anything that is not one, and nothing else."""
    if not isinstance(text, str):
        raise WhereError(f"a condition is a text, not {type(text).__name__}")
    draft = read(text)
    size = len(draft.text.encode())
    if size > limits.WHERE_BYTES:  # it must be readable again wherever the canonical text travels
        raise WhereError(f"a condition of {size} bytes when written in full; at most {limits.WHERE_BYTES}")
    condition = Condition(draft.node, draft.text)
    if condition.price.most > limits.WHERE_STEPS:
        raise WhereError(
            f"a condition that takes up to {condition.price.most} steps for one message; at most {limits.WHERE_STEPS}"
        )
    return condition
