"""States that are written down: an enum, and a table of who may follow whom."""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

S = TypeVar("S", bound=Enum)


def transition(table: Mapping[S, frozenset[S]], old: S, new: S) -> S:
    """`new`, which the table allows after `old`. Anything else is our own bug, whatever a peer did."""
    assert new in table[old], f"{type(new).__name__}: {new.name} after {old.name}"
    return new
