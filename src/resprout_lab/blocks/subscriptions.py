"""A plain subscription table: who asked for what, whom a bundle concerns, and which neighbours must hear of a change.

A *direction* is a neighbour, a local client, or whatever else the stack sends bundles to. Each subscription of a
direction has a key. A client's is a number of its own: the same wish twice is two subscriptions, one that goes leaves
the other in place, and a request that comes again is no second one. A neighbour asks for each predicate once, for all
who are behind it, so there the predicate itself will do.

Nothing is confirmed, nothing is covered, nothing is ordered with bundles: whoever subscribes gets what is published
from some moment on. The default stack promises more and has `spread.interest` instead.

Tenants: flooding along a tree (`spread.flooding`), for local clients, and for links if it filters; `sites` with routing
`filtering`; groups of CBCAST and LoCaMu; `delta`, which adds its confirmations and asks with the nodes of its
neighbourhood as directions; gossip and Scribe for local clients.
"""

from collections.abc import Hashable
from typing import Final

from resprout.core.bundle import Bundle, unpack_attributes
from resprout.core.errors import PeerError
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate

SUBSCRIPTIONS_MAX: Final = 1_000_000
"""Of one direction, at a time."""

Offsets = tuple[int, ...]
Matches = dict[str, Offsets | None]
"""Direction -> which messages of a bundle it wants; None: all of them."""


class Subscriptions:
    def __init__(self) -> None:
        self.neighbours: dict[str, None] = {}
        """Those directions that are asked for what others want, oldest first."""
        self.index: MatchIndex[str] = MatchIndex()
        self._asked: dict[str, dict[Hashable, Predicate]] = {}
        """Direction -> key -> what it asked for."""
        self._holders: dict[Predicate, dict[str, int]] = {}
        """What is wanted -> by which directions, and how many times each."""

    def of(self, direction: str) -> tuple[Predicate, ...]:
        """What it wants, each once, in the order in which it first asked."""
        return self.index.predicates_of(direction)

    def holders(self, predicate: Predicate) -> tuple[str, ...]:
        """The directions that want it."""
        return tuple(self._holders.get(predicate, ()))

    # -- changes: each returns the neighbours that have to hear of it --------------------------------------------------

    def add(self, direction: str, key: Hashable, predicate: Predicate) -> list[str]:
        """The neighbours that are to be asked for this from now on. PeerError when the key stands for something
        else, or the direction asks for too much; nothing happens when it is known."""
        asked = self._asked.setdefault(direction, {})
        if key in asked:
            if asked[key] != predicate:
                raise PeerError(f"subscription {key} of {direction} is for {asked[key]}, not {predicate}")
            return []
        if len(asked) >= SUBSCRIPTIONS_MAX:
            raise PeerError(f"{direction} has more than {SUBSCRIPTIONS_MAX} subscriptions")
        asked[key] = predicate
        holders = self._holders.setdefault(predicate, {})
        holders[direction] = holders.get(direction, 0) + 1
        if not self.index.add(direction, predicate):
            return []
        return self._concerned(direction, [holder for holder in holders if holder != direction])

    def remove(self, direction: str, key: Hashable) -> tuple[Predicate | None, list[str]]:
        """What it was, and the neighbours that need not send it any more. None when there is no such subscription:
        it may have been withdrawn twice."""
        predicate = self._asked.get(direction, {}).pop(key, None)
        if predicate is None:
            return None, []
        if not self._asked[direction]:
            del self._asked[direction]
        return predicate, self._withdraw(direction, predicate, 1)

    def remove_all(self, direction: str) -> list[tuple[str, Predicate]]:
        """The direction is gone. (neighbour, what it need not send any more)."""
        self._asked.pop(direction, None)
        return [
            (neighbour, predicate)
            for predicate in self.of(direction)
            for neighbour in self._withdraw(direction, predicate, self._holders[predicate][direction])
        ]

    def add_neighbour(self, name: str) -> list[Predicate]:
        """Everything that it is to be asked for, now that it is one."""
        self.neighbours[name] = None
        return self.wanted_beyond(name)

    def remove_neighbour(self, name: str) -> list[tuple[str, Predicate]]:
        """It is none any more, and what was wanted behind it is not."""
        del self.neighbours[name]
        return self.remove_all(name)

    # -- questions -----------------------------------------------------------------------------------------------------

    def wanted_beyond(self, name: str) -> list[Predicate]:
        """What anybody but this neighbour wants."""
        return [predicate for predicate, holders in self._holders.items() if len(holders) > (name in holders)]

    def matches(self, bundle: Bundle) -> Matches:
        """Every direction that wants something of the bundle, in the order in which they first asked for anything.
        WireError when its attributes have to be read and cannot be."""
        plan = self.index.plan_any(bundle.topics)
        if not bundle.attributes or not plan.conditional:
            return dict.fromkeys(plan.match({}))
        wanted: dict[str, list[int]] = {}
        for offset, row in enumerate(unpack_attributes(bundle)):
            for direction in plan.match(row):
                wanted.setdefault(direction, []).append(offset)
        return {
            direction: tuple(offsets) if len(offsets) < bundle.count else None for direction, offsets in wanted.items()
        }

    # -- inside --------------------------------------------------------------------------------------------------------

    def _withdraw(self, direction: str, predicate: Predicate, times: int) -> list[str]:
        holders = self._holders[predicate]
        holders[direction] -= times
        if holders[direction]:
            return []
        del holders[direction]
        if not holders:
            del self._holders[predicate]
        self.index.remove(direction, predicate)
        return self._concerned(direction, list(holders))

    def _concerned(self, direction: str, others: list[str]) -> list[str]:
        """A neighbour is asked for what somebody but itself wants. So, with nobody else, what one direction does
        concerns all neighbours but itself; with one other, only that one; with more, nobody."""
        if not others:
            return [name for name in self.neighbours if name != direction]
        return others if len(others) == 1 and others[0] in self.neighbours else []
