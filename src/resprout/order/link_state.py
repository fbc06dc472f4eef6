"""How far the life of a link has come."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class LinkState(Enum):
    ADDED = auto()
    """Made within a session; what both ends begin with is being put on it."""
    OPEN = auto()
    """Bundles may cross."""
    IN_REPAIR = auto()
    """The neighbour was declared dead, or went: the link is owed everything, and nothing is heard from it."""
    REMOVED = auto()
    """Nothing is left of it; what it owed and was owed has been handed to others."""


LINK_STATES: Final[Mapping[LinkState, frozenset[LinkState]]] = {
    LinkState.ADDED: frozenset({LinkState.OPEN}),
    LinkState.OPEN: frozenset({LinkState.IN_REPAIR}),
    LinkState.IN_REPAIR: frozenset({LinkState.REMOVED}),
    LinkState.REMOVED: frozenset(),
}
