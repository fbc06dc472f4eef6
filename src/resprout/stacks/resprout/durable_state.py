"""What every broker knows of a durable subscription, so that another one can hold it when its broker is gone."""

from typing import Final

import msgspec

from resprout.core.message_fields import BoundedNumber, Marks
from resprout.edge.durable_messages import NO_DROPS, Drops, Spans, Terms
from resprout.overlay.places import Life

MARKS_MAX: Final = 8_000
"""Of each kind in one state, the latest: it has to fit into a frame."""
CONSUMERS_TOLD: Final = 256
"""Whom its next broker waits for."""


class DurableState(msgspec.Struct, frozen=True, array_like=True):
    subscription: str
    terms: Terms
    term: BoundedNumber
    """Counts the brokers that have held it."""
    home: Life
    """Who holds it."""
    address: str
    """Of that broker; empty where names are enough to connect."""
    edition: BoundedNumber = 0
    """Counts what its broker has said of it."""
    base: Marks = ()
    """What had passed before it was confirmed."""
    done: Marks = ()
    """Up to where everything is done; never inside a bundle."""
    turn: BoundedNumber = 0
    """Of the consumer that has it alone."""
    consumers: tuple[str, ...] = ()
    replay: str = ""
    """What of the past its consumer has to read first."""
    over: bool = False
    """It was ended. That is remembered, so that nobody who had not heard brings it back."""
    spans: Spans = ()
    """Done beyond `done`."""
    owner: str = ""
    """The identity that it belongs to (`edge.broker.grants`); empty: none."""
    drops: Drops = NO_DROPS
    is_partial: bool = False
    """Its home leaves out `base`, `done` and `spans`: they are what it has said of this term before. A consumer that
    joins or leaves changes nothing about them, and with thousands of publishers they take 1.5 MB."""

    @property
    def age(self) -> tuple[int, str, int, int]:
        """Of two, the greater one holds: whoever held it later; and of two that were begun at the same time, one."""
        return (self.term, self.home.name, self.home.incarnation, self.edition)
