"""Duplicates are known by the last brokers on the way of a message, and no broker remembers all publishers.

Every broker gives what passes a number. A message carries the numbers of the last delta + 1 brokers on its way; one
that was passed over has none. It has been here before when any of these numbers is not newer than the newest that was
seen of the same broker (D1). Numbers belong to a life, and those of each are compared with themselves (D2): what a
broker had numbered before it started again may come after what it has numbered since.

*How many* (D9). Seed 002 bounds failures in the whole network by delta, and needs delta + 1 entries: of the last
delta + 1 brokers one is up at any time, so it has given its number to every copy, or is told by `RoutedRejoin` that
there were copies before it was up. Seed 001 bounds them on each path of 2f + 1, and has as many entries. Here the bound
is that of seed 002, and the entries are delta + 1.

A publisher counts as the one before the first broker, while that is within the list: then its own numbers, which travel
anyway, tell its copies apart. So a client that publishes again at another broker, because its own is gone, is known.
"""

from collections.abc import Sequence
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.seen import Seen, SeenRanges
from resprout_lab.delta.messages import RoutedMessage, VisitedNode

NODES_MAX: Final = 65_536
"""Brokers whose numbers are remembered; those heard of longest ago are forgotten first."""


def visited_length(delta: int) -> int:
    return delta + 1


def visited_on(
    visited: Sequence[VisitedNode], own: VisitedNode, passed_over: Sequence[str], delta: int
) -> tuple[VisitedNode, ...]:
    """As it leaves here, past these dead."""
    return (*visited, own, *[VisitedNode(name, 0, 0) for name in passed_over])[-visited_length(delta) :]


class NewestSeen:
    """What this broker has seen last of each broker nearby, and of each publisher nearby."""

    def __init__(self, name: str, life: int, delta: int) -> None:
        self._own = (name, life)
        self._delta = delta
        self._nodes: dict[tuple[str, int], int] = {}
        """By broker and life."""
        self._publishers = Seen()
        self._bundles = SeenRanges()

    def check(self, message: RoutedMessage) -> None:
        """PeerError for what no honest broker says."""
        if not 0 < len(message.visited) <= visited_length(self._delta) or message.hops < len(message.visited):
            raise PeerError(f"a message that has visited {len(message.visited)} brokers in {message.hops} hops")

    def is_duplicate(self, message: RoutedMessage) -> bool:
        bundle = self._bundle_of(message)
        return any(self._has(node) for node in message.visited) or (bundle is not None and self.has_passed(bundle))

    def has_passed(self, bundle: Bundle) -> bool:
        """This one, or a later one of its publisher."""
        return self._publishers.mark(bundle.origin) >= bundle.first

    def note(self, message: RoutedMessage) -> None:
        """It is no duplicate, and is seen now."""
        for node in message.visited:
            if node.number:
                newest = self._nodes.pop((node.name, node.life), 0)
                self._nodes[node.name, node.life] = max(newest, node.number)
        while len(self._nodes) > NODES_MAX:
            del self._nodes[next(iter(self._nodes))]
        if (bundle := self._bundle_of(message)) is not None:
            self.note_bundle(bundle)

    def has(self, bundle: Bundle) -> bool:
        """Exactly this one."""
        return self._bundles.has(bundle)

    def note_bundle(self, bundle: Bundle) -> None:
        self._bundles.is_new(bundle)
        self._publishers.raise_to(bundle.origin, bundle.last)

    def _has(self, node: VisitedNode) -> bool:
        if not node.number:
            return False
        if (node.name, node.life) == self._own:
            return True
        return node.number <= self._nodes.get((node.name, node.life), 0)

    def _bundle_of(self, message: RoutedMessage) -> Bundle | None:
        """Of a publication whose publisher is within the list."""
        return message.published if message.hops <= visited_length(self._delta) else None
