"""The guarantee and the receipts that a publication asks for, and what a network promises beside them.

`Promises` say how far the order of a network reaches, whether everything owed is delivered for certain, and which
receipts it gives. They are recorded with a run, and the judges judge by them.
"""

import enum
import reprlib
from collections.abc import Collection
from typing import Final, Literal

import msgspec

from resprout.core.errors import UnsupportedGuaranteeError, UsageError

GuaranteeName = Literal["eventual", "fifo", "causal", "total"]
"""The words that users write; a checker of types tells a misspelt one from these."""


class Guarantee(enum.IntEnum):
    """Ordered by strength: each includes the ones before it."""

    EVENTUAL = 0
    FIFO = 1
    CAUSAL = 2
    TOTAL = 3

    @property
    def label(self) -> str:
        """The name in calls, scenarios and traces."""
        return self.name.lower()

    @property
    def stream(self) -> str:
        """The sequence a publication belongs to: `eventual` may overtake, so it counts on its own."""
        return "eventual" if self is Guarantee.EVENTUAL else "ordered"

    @classmethod
    def parse(cls, word: str) -> "Guarantee":
        try:
            return cls[word.upper()]
        except (KeyError, AttributeError):
            choices = ", ".join(g.label for g in cls)
            raise UsageError(f"unknown guarantee {reprlib.repr(word)}; it is one of {choices}") from None


def check_offered(guarantee: Guarantee, offered: Collection[Guarantee], stack: str = "") -> None:
    """Raises UnsupportedGuaranteeError, which says what the stack offers instead. It need not be named to somebody who
    has just named it."""
    if guarantee not in offered:
        which = f"the stack {stack!r}" if stack else "the stack"
        words = ", ".join(g.label for g in offered)
        raise UnsupportedGuaranteeError(f"{which} does not offer {guarantee.label!r}; it offers {words}")


STREAM_OF: Final = tuple([guarantee.stream for guarantee in Guarantee])
"""By guarantee, for those who ask for every bundle."""
STREAMS: Final = tuple(dict.fromkeys(STREAM_OF))


class ReceiptLevel(enum.IntEnum):
    """How far a publication is known to have come; each step includes the ones before it."""

    ACCEPTED = 0
    """The edge broker has it."""
    SAFE = 1
    """It survives the crash of any f brokers."""
    DELIVERED = 2
    """Every correct subscriber that is owed it has it."""

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def bit(self) -> int:
        """Its place in a set of levels."""
        return 1 << self


ALL_LEVELS: Final = 7
"""The set of all of them."""


class OrderScope(enum.StrEnum):
    """Among which publications `fifo`, `causal` and `total` hold."""

    ALL_TOPICS = "all topics"
    EACH_TOPIC = "each topic"
    """Publications of different topics have no order with each other. A publication belongs to the topic it is made
    on; a key of another topic, which it may name, binds it to nothing."""


class Reliability(enum.StrEnum):
    """Whether a publication comes to everybody that it is owed to."""

    CERTAIN = "certain"
    PROBABLE = "probable"
    """With a probability that the stack's options decide. The share that came is reported, and nothing that is missing
    is called a violation."""


ALL_RECEIPTS: Final = tuple(receipt.label for receipt in ReceiptLevel)


class Promises(msgspec.Struct, frozen=True):
    order: OrderScope = OrderScope.ALL_TOPICS
    reliability: Reliability = Reliability.CERTAIN
    receipts: tuple[str, ...] = ALL_RECEIPTS
    """Labels of the receipts that are given, in the order of `ReceiptLevel`."""

    def lane(self, topic: str) -> str:
        """Publications with one lane are in order with each other."""
        return topic if self.order is OrderScope.EACH_TOPIC else ""

    @property
    def is_probable(self) -> bool:
        return self.reliability is Reliability.PROBABLE
