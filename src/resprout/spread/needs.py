"""What is needed of one neighbour, as a forest: a need stands under another that covers it, and the roots are asked.

Covering is remembered, not found again: standing under a need is enough to be served by whatever is asked at the root,
even where no search would see it. A need that nobody has any more stays as long as it holds others together.
"""

from resprout.core.bundle import Origin
from resprout.core.marks import NOTHING, Reached
from resprout.filters.predicate import Predicate


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
        self.base: dict[Origin, Reached] = {}
        """What had passed before the wish was known everywhere; see `spread.interest`."""


class Need:
    """A predicate that is asked of a neighbour or covered by what is."""

    __slots__ = ("above", "base", "confirmed", "height", "id", "predicate", "restless", "under", "waiting", "wanted")

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.wanted = True
        """Somebody has it. If not, it only stands between what is above and what is under it."""
        self.id = 0
        """The number under which it is asked, if it is."""
        self.confirmed = False
        """The neighbour has confirmed it, now or when it was still asked itself."""
        self.base: dict[Origin, Reached] = {}
        """What had passed behind the neighbour before it was confirmed."""
        self.above: Need | None = None
        self.under: dict[Need, None] = {}
        self.height = 0
        """More than that of anything under it; perhaps more than it need be, after something left."""
        self.waiting: dict[Wish, None] = {}
        """Wishes for this very predicate that the root's confirmation will reach."""
        self.restless: dict[Need, None] = {}
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
        cover.under[self] = None
        cover.height = max(cover.height, self.height + 1) if len(cover.under) > 1 else self.height + 1
        if self.waiting or self.restless:
            cover.restless[self] = None

    def step_out(self) -> None:
        if self.above is not None:
            del self.above.under[self]
            self.above.restless.pop(self, None)
            self.above = None

    def wait(self, wish: Wish) -> None:
        self.waiting[wish] = None
        need = self
        while (above := need.above) is not None and need not in above.restless:
            above.restless[need] = None
            need = above

    def take_waiting(self) -> list[Wish]:
        """All wishes that wait here or below, and do so no more."""
        taken: list[Wish] = []
        visited = [self]
        while visited:
            need = visited.pop()
            taken += need.waiting
            visited += need.restless
            need.waiting.clear()
            need.restless.clear()
        return taken


def join_bases(one: dict[Origin, Reached], other: dict[Origin, Reached]) -> dict[Origin, Reached]:
    """The further of both; neither is changed, because bases are shared."""
    if not one or not other:
        return one or other
    joined = dict(one)
    for origin, reached in other.items():
        if reached > joined.get(origin, NOTHING):
            joined[origin] = reached
    return joined
