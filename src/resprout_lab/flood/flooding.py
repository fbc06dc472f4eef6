"""Flooding along a tree: a bundle goes on over every link but the one it came over, and to the clients that want it.

In a tree that reaches everybody, each once, in the order of the links; nobody has to know more than its own neighbours.
A stack whose tree changes under way, or has cycles while it does, drops repeats (`core.seen`) before it asks here.

With `filtered` a link gets a bundle only if somebody behind it asked: the table then has to hear from the neighbours
what is wanted there (`Subscriptions.add`), before it is promised to anybody.

Tenants: the stack `flood`. CBCAST floods, too, but asks for readers later than for links; `sites` does when a command
is applied, and its readers are those of one broker.
"""

from collections.abc import Collection
from typing import NamedTuple

from resprout.core.bundle import Bundle
from resprout_lab.blocks.subscriptions import Matches, Subscriptions


class Onward(NamedTuple):
    links: list[str]
    """Neighbours that get the whole bundle: it is never split between brokers."""
    readers: Matches
    """Local directions, and which of its messages they want."""


class Flooding:
    def __init__(self, table: Subscriptions, filtered: bool = False, neighbours: Collection[str] | None = None) -> None:
        """`neighbours`: where the table does not know them, because they are not asked for anything."""
        self._table = table
        self._filtered = filtered
        self._neighbours = table.neighbours if neighbours is None else neighbours

    def onward(self, bundle: Bundle, source: str | None) -> Onward:
        """Where it goes now. `source`: the neighbour that it came from; None, or a client: published here. Publishers
        read what they publish if they ask for it."""
        neighbours = self._neighbours
        matches = self._table.matches(bundle)
        links = [name for name in neighbours if name != source and (name in matches or not self._filtered)]
        return Onward(links, {name: offsets for name, offsets in matches.items() if name not in neighbours})
