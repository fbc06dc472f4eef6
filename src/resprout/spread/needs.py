"""What is needed of one neighbour, as a forest: a need stands under another that covers it, and the roots are asked.

Covering is remembered, not found again: standing under a need is enough to be served by whatever is asked at the root,
even where no search would see it. A need that nobody has any more stays as long as it holds others together.

`Bases` joins the bases of wishes, and keeps those told and heard: equal questions get the same object, not an equal
one. Many wishes are heard in one moment, and confirmed in one moment, so most bases that a broker joins and tells are
those that it has just joined and told. They are shared by all holders, and never changed.
"""

from typing import Any, Final

from resprout.core.bundle import Origin
from resprout.core.message_fields import NOTHING, Marks, Reached, from_marks, to_marks
from resprout.filters.predicate import Predicate

Base = dict[Origin, Reached]
"""How far origins had come before a wish was known; see `spread.interest`."""

REMEMBERED_MAX: Final = 64
"""Answers of each kind. They hold on to what was asked, so that nothing else can take its place in memory."""

_NOTHING: Final[dict[Any, None]] = {}
"""Shared by all that hold nothing, and never filled: there are as many needs as wishes of the whole network, and nearly
all of them stand alone."""
_NO_BASE: Final[Base] = {}
"""The same of bases, which nobody changes anyway."""


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


class Wish:
    """One direction's wish that is not confirmed yet."""

    __slots__ = ("base", "direction", "missing", "no", "predicate")

    def __init__(self, no: int, direction: str, predicate: Predicate) -> None:
        self.no = no
        """Wishes are confirmed together in the order they were made."""
        self.direction = direction
        self.predicate = predicate
        self.missing = 0
        """Neighbours that have not confirmed it."""
        self.base: Base = _NO_BASE
        """What had passed before the wish was known everywhere; see `spread.interest`."""


class Need:
    """A predicate that is asked of a neighbour or covered by what is."""

    __slots__ = (
        "above",
        "base",
        "children_with_waiters",
        "confirmed",
        "height",
        "id",
        "predicate",
        "size",
        "under",
        "waiting",
        "wanted",
    )

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.wanted = True
        """Somebody has it. If not, it only stands between what is above and what is under it."""
        self.id = 0
        """The number under which it is asked, if it is."""
        self.confirmed = False
        """The neighbour has confirmed it, now or when it was still asked itself."""
        self.base: Base = _NO_BASE
        """What had passed behind the neighbour before it was confirmed."""
        self.above: Need | None = None
        self.under: dict[Need, None] = _NOTHING
        self.height = 0
        """More than that of anything under it; perhaps more than it need be, after something left."""
        self.size = 1
        """Needs that stand under it, directly or not, and itself."""
        self.waiting: dict[Wish, None] = _NOTHING
        """Wishes for this very predicate that the root's confirmation will reach."""
        self.children_with_waiters: dict[Need, None] = _NOTHING
        """Those directly under it in or under which a wish may wait."""

    @property
    def root(self) -> "Need":
        need = self
        while need.above is not None:
            need = need.above
        return need

    def stand_under(self, cover: "Need") -> None:
        """From nowhere. Wishes that wait here wait for the cover's root from now on."""
        self.above = cover
        if cover.under is _NOTHING:
            cover.under = {}
        cover.under[self] = None
        cover._grow(self.size)
        cover.height = max(cover.height, self.height + 1) if len(cover.under) > 1 else self.height + 1
        if self.waiting or self.children_with_waiters:
            cover._stir(self)

    def step_out(self) -> None:
        if self.above is not None:
            del self.above.under[self]
            self.above.children_with_waiters.pop(self, None)
            self.above._grow(-self.size)
            self.above = None

    def _grow(self, count: int) -> None:
        need: Need | None = self
        while need is not None:
            need.size += count
            need = need.above

    def wait(self, wish: Wish) -> None:
        if self.waiting is _NOTHING:
            self.waiting = {}
        self.waiting[wish] = None
        need = self
        while (above := need.above) is not None and need not in above.children_with_waiters:
            above._stir(need)
            need = above

    def _stir(self, under: "Need") -> None:
        if self.children_with_waiters is _NOTHING:
            self.children_with_waiters = {}
        self.children_with_waiters[under] = None

    def take_waiting(self) -> list[Wish]:
        """All wishes that wait here or below, and do so no more."""
        taken: list[Wish] = []
        visited = [self]
        while visited:
            need = visited.pop()
            taken += need.waiting
            visited += need.children_with_waiters
            need.waiting = need.children_with_waiters = _NOTHING
        return taken
