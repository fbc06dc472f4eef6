"""Bases: joined, told and heard. Equal questions get the same answer, not an equal one.

Many wishes are heard in one moment, and confirmed in one moment, so most bases that a broker joins and tells are those
that it has just joined and told. They are shared by everybody who holds them, and never changed.
"""

from typing import Final

from resprout.core.bundle import Origin
from resprout.core.marks import NOTHING, Marks, Reached, from_marks, to_marks

Base = dict[Origin, Reached]
"""How far origins had come before a wish was known; see `spread.interest`."""

REMEMBERED_MAX: Final = 64
"""Answers of each kind. They hold on to what was asked, so that nothing else can take its place in memory."""


class Bases:
    def __init__(self) -> None:
        self._joined: dict[tuple[int, int], tuple[Base, Base, Base]] = {}
        self._told: dict[int, tuple[Base, Marks]] = {}
        self._heard: dict[int, tuple[Marks, Base]] = {}

    def join(self, one: Base, other: Base) -> Base:
        """The further of both; neither is changed."""
        if one is other or not other:
            return one
        if not one:
            return other
        key = (id(one), id(other))
        found = self._joined.get(key)
        if found is None:
            if len(self._joined) >= REMEMBERED_MAX:
                self._joined.clear()
            found = self._joined[key] = (one, other, _join(one, other))
        return found[2]

    def tell(self, base: Base) -> Marks:
        if not base:
            return ()
        found = self._told.get(id(base))
        if found is None:
            if len(self._told) >= REMEMBERED_MAX:
                self._told.clear()
            found = self._told[id(base)] = (base, to_marks(base))
        return found[1]

    def hear(self, marks: Marks) -> Base:
        if not marks:
            return {}
        found = self._heard.get(id(marks))
        if found is None:
            if len(self._heard) >= REMEMBERED_MAX:
                self._heard.clear()
            found = self._heard[id(marks)] = (marks, from_marks(marks))
        return found[1]


def _join(one: Base, other: Base) -> Base:
    further = {origin: reached for origin, reached in other.items() if reached > one.get(origin, NOTHING)}
    return {**one, **further} if further else one
