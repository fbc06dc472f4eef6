"""Finds among many predicates one that covers a new one, and those that a new one covers, with bounded patience.

Filters stand in a tree with one level per step, so that a search looks only at filters that may cover, and not at all
that there are. Conditions on one filter are compared one by one. Every search gives up after a fixed amount of work:
"nothing found" may mean "not found out", exactly as it may with `Predicate.covers`, and whoever asks must be right
without an answer. What is found does cover.

`Needs` holds what is needed of one neighbour, as a forest: a need stands under another that covers it, and the roots
are asked. Covering is remembered, not found again: standing under a need is enough to be served by whatever is asked at
the root, even where no search would see it. A need that nobody has any more stays as long as it holds others together.

`Bases` joins the bases of wishes, and keeps those told and heard: equal questions get the same object, not an equal
one. Many wishes are heard in one moment, and confirmed in one moment, so most bases that a broker joins and tells are
those that it has just joined and told. They are shared by all holders, and never changed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from resprout.core import limits
from resprout.core.bundle import Origin
from resprout.core.message_fields import NOTHING, Marks, Reached, from_marks, to_marks
from resprout.filters.implication import implies
from resprout.filters.predicate import Condition, Predicate

Value = TypeVar("Value")

PATIENCE: Final = 256
"""Nodes of the tree that one search looks at in vain. Whatever it finds gives it more."""
PAIR_PATIENCE: Final = 32
"""What comparing two conditions in vain costs of it."""
FOUND_PATIENCE: Final = limits.TOPIC_LEVELS
"""What a find gives: the next may lie this deep."""
TEXT_MAX: Final = 1 << 14
"""What one search compares of conditions at all, where a pair counts with the product of the lengths of its texts."""

Shelf: TypeAlias = dict[Condition | None, Value]
"""Everything with one filter, by condition."""


_EMPTY: Final[dict[Any, Any]] = {}
"""Shared by all nodes where nothing stands, and never filled: most have one of the three."""


class _Node(Generic[Value]):
    __slots__ = ("below", "here", "rest")

    def __init__(self) -> None:
        self.below: dict[str, _Node[Value]] = _EMPTY
        """By level, `+` among them."""
        self.here: Shelf[Value] = _EMPTY
        """Of the filter that ends here."""
        self.rest: Shelf[Value] = _EMPTY
        """Of the filter that goes on with `#`."""


class Covers(Generic[Value]):
    """A value for each of many predicates."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def add(self, predicate: Predicate, value: Value) -> None:
        node = self._root
        for level in predicate.filter.split("/"):
            if level == "#":
                if node.rest is _EMPTY:
                    node.rest = {}
                node.rest[predicate.where] = value
                return
            below = node.below.get(level)
            if below is None:
                if node.below is _EMPTY:
                    node.below = {}
                below = node.below[level] = _Node()
            node = below
        if node.here is _EMPTY:
            node.here = {}
        node.here[predicate.where] = value

    def remove(self, predicate: Predicate) -> None:
        """Forget a predicate that is here."""
        path: list[tuple[_Node[Value], str]] = []
        node = self._root
        for level in predicate.filter.split("/"):
            if level != "#":
                path.append((node, level))
                node = node.below[level]
        del (node.rest if predicate.filter.endswith("#") else node.here)[predicate.where]
        for above, level in reversed(path):
            node = above.below[level]
            if node.below or node.here or node.rest:
                break
            del above.below[level]

    def covering(self, predicate: Predicate) -> Value | None:
        """The value of a predicate that covers this one."""
        where = predicate.where
        patience = _Patience()
        doubtful: list[Shelf[Value]] = []
        for shelf in self._wider(levels_of(predicate.filter), patience):
            for condition in (None, where):
                if condition in shelf:
                    return shelf[condition]
            doubtful.append(shelf)
        return _implied(doubtful, where, patience) if where is not None else None

    def covered(self, predicate: Predicate, most: int, movable: Callable[[Value], bool]) -> list[Value]:
        """Up to so many movable values of predicates that this one, which is not here itself, covers."""
        patience = _Patience()
        found: list[Value] = []
        for shelf in self._narrower(levels_of(predicate.filter), patience):
            for value in _implying(shelf, predicate.where, patience):
                if len(found) == most or patience.left <= 0:
                    return found
                if movable(value):
                    found.append(value)
                    patience.left += FOUND_PATIENCE
                else:
                    patience.left -= PAIR_PATIENCE
        return found

    def _wider(self, given: list[str], patience: "_Patience") -> Iterator[Shelf[Value]]:
        """What stands at filters that cover the given one."""
        ahead = [(self._root, 0)]
        while ahead and patience.left > 0:
            patience.left -= 1
            node, place = ahead.pop()
            inside = place > 0 or not given[0].startswith("$")  # where wildcards may stand
            if node.rest and inside:
                yield node.rest
            if place == len(given):
                if node.here:
                    yield node.here
                continue
            level = given[place]
            if level == "#":  # it also matches its parent, which is too short for another level
                continue
            if inside and (below := node.below.get("+")) is not None:
                ahead.append((below, place + 1))
            if level != "+" and (below := node.below.get(level)) is not None:
                ahead.append((below, place + 1))

    def _narrower(self, given: list[str], patience: "_Patience") -> Iterator[Shelf[Value]]:
        """What stands at filters that the given one covers."""
        last = len(given) - 1
        open_ended = given[last] == "#"
        if given == ["+", "#"] and self._root.rest:
            yield self._root.rest
        ahead: list[Iterator[tuple[str, _Node[Value], int]]] = [iter([("", self._root, 0)])]
        while ahead and patience.left > 0:
            step = next(ahead[-1], None)
            if step is None:
                ahead.pop()
                continue
            patience.left -= 1
            name, node, place = step
            if place == 1 and given[0] == "+" and name.startswith("$"):
                continue
            if open_ended and place >= last:
                if node.here:
                    yield node.here
                if node.rest:
                    yield node.rest
                ahead.append(_steps(node.below.items(), place + 1))
            elif place > last:
                if node.here:
                    yield node.here
            elif given[place] == "+":
                ahead.append(_steps(node.below.items(), place + 1))
            elif (below := node.below.get(given[place])) is not None:
                ahead.append(_steps([(given[place], below)], place + 1))


def levels_of(topic_filter: str) -> list[str]:
    """With `#` alone written as `+/#`, which matches the same."""
    return ["+", "#"] if topic_filter == "#" else topic_filter.split("/")


class _Patience:
    """Of one search."""

    __slots__ = ("_text", "left")

    def __init__(self) -> None:
        self.left = PATIENCE
        self._text = TEXT_MAX

    def implies(self, narrow: Condition, wide: Condition) -> bool:
        price = len(narrow.text) * len(wide.text)
        if price <= self._text:
            self._text -= price
            if implies(narrow.node, wide.node):
                return True
        self.left -= PAIR_PATIENCE
        return False


def _implied(shelves: list[Shelf[Value]], where: Condition, patience: _Patience) -> Value | None:
    """Of a condition that this one implies. The latest are tried first, and what covers something counts as new, so
    that the few that cover much are not lost among the many that cover nothing."""
    for shelf in shelves:
        for condition in reversed(shelf):
            if patience.left <= 0:
                return None
            if condition is not None and patience.implies(where, condition):
                value = shelf[condition] = shelf.pop(condition)
                return value
    return None


def _implying(shelf: Shelf[Value], where: Condition | None, patience: _Patience) -> Iterator[Value]:
    """What on the shelf is covered by this condition on its filter or a wider one."""
    if where is None:
        yield from shelf.values()
        return
    if where in shelf:
        yield shelf[where]
    for condition in reversed(shelf):
        if patience.left <= 0:
            return
        if condition is not None and condition != where and patience.implies(condition, where):
            yield shelf[condition]


def _steps(children: Iterable[tuple[str, _Node[Value]]], place: int) -> Iterator[tuple[str, _Node[Value], int]]:
    for name, node in children:
        yield name, node, place


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
