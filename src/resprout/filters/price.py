"""What it costs at most to test a condition, in steps. A step is one comparison: about a tenth of a microsecond.

Prices are upper bounds that are known before anything is tested, so that a broker can bound the work that it does for
one subscriber inside one bundle.
"""

from typing import Final

import msgspec

from resprout.filters.evaluation import COMPILED_MAX
from resprout.filters.like import steps_of
from resprout.filters.nodes import And, ConditionNode, Like, Or

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
