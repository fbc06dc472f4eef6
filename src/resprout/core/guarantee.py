"""What a publication asks of its delivery, and what its publisher may be told about it."""

import enum
from collections.abc import Collection
from typing import Final, Literal

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
        """The word that scenarios, traces and users write."""
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
            raise UsageError(f"unknown guarantee {repr(word)[:60]}; it is one of {choices}") from None


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
