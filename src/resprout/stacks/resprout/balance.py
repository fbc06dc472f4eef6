"""Planned moves: a broker that a repair has left with too many neighbours sends leaves elsewhere.

A move is a leave and a join without loss: the leaf goes, its clients find what they miss with the broker that it left,
and its next life asks for a place again. It is offered several (`joining`), and takes the one that answers first, which
is the nearest. Only leaves move: whoever has children would hand them to the very broker that has too many. One at a
time, and only in calm.
"""

from typing import Final

from resprout.stacks.resprout.core import Core

PAUSE_LEASES: Final = 2
"""Between two moves: the tree and the clients come to rest before the next."""


class Balance:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._moved_us: int | None = None

    def find_leaf(self) -> str | None:
        """A child that should go; None when all is well, or nothing can be done now."""
        core = self._core
        if len(core.links) <= core.options.total_degree:
            return None
        if self._moved_us is not None and core.now_us - self._moved_us < PAUSE_LEASES * core.options.lease_us:
            return None
        leaf = next((name for name in core.links if self._is_leaf(name)), None)
        if leaf is not None and any(self._has_room(name) for name in core.links if name != leaf):
            self._moved_us = core.now_us
            return leaf
        return None

    def _is_leaf(self, name: str) -> bool:
        place = self._core.standing.places.get(name)
        me = self._core.seat.name
        return self._core.links[name].open and place is not None and (place.parent, place.neighbours) == (me, (me,))

    def _has_room(self, name: str) -> bool:
        place = self._core.standing.places.get(name)
        return place is not None and len(place.neighbours) < self._core.options.total_degree
