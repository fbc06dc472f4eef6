"""Finds, for a publication, who asked for it: the hot path of a broker.

The topic is resolved once, to a `MatchPlan` that is kept until subscriptions change in a way that matters to it; per
message there is nothing left to do but to look at its attributes, and not even that where no condition is involved.
Subscribing and unsubscribing touch only what they are about.

Results never depend on hashing: ids come in the order in which they were first added (an id that lost all its
predicates and returns is new).

`FilterMap` maps topic filters to values and finds all filters that match a topic. Plain filters are looked up whole.
The others stand in one table for each placement of wildcards, by the levels that are no wildcards. At most one filter
of a placement matches a topic, so a topic costs one lookup for each placement, whatever the number of filters and
levels. Placements that differ from the topic in their number of levels are not looked at. With up to
`SHALLOW_LEVELS` levels there are so few placements that a topic costs at most 510 lookups, whatever the filters are;
*deep* placements have more levels and are counted (`deep`).
"""

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from resprout.core.limits import Attributes
from resprout.filters.predicate import Condition, Predicate, is_plain, placement_of
from resprout.filters.shelves import Bucket, ShelfRow

Value = TypeVar("Value")

Id = TypeVar("Id", bound=Hashable)

SHALLOW_LEVELS: Final = 8
"""Levels of a filter, `#` included, up to which its placement of wildcards counts against no limit of all clients."""
PLANS_MAX: Final = 4096
"""Topics whose plan is remembered."""
PLAN_IDS_MAX: Final = 1 << 20
"""Ids that all remembered plans hold together: a subscriber of everything is in every plan."""


class _Placement(Generic[Value]):
    """All filters that have the same wildcards at the same places."""

    __slots__ = ("filters", "has_rest", "is_wild_first", "key_of", "length")

    def __init__(self, placement: str) -> None:
        self.has_rest = placement.endswith("#")
        """Whether these filters end with `#`."""
        self.length = len(placement) - self.has_rest
        """Levels before that."""
        self.is_wild_first = placement[0] != "."
        """Whether they leave out topics that begin with `$`."""
        places = [place for place, level in enumerate(placement) if level == "."]
        self.key_of: Callable[[list[str]], Any] = itemgetter(*places) if places else _no_levels
        """Returns the levels of a topic, or of a filter, that are at the places without wildcards."""
        self.filters: dict[Any, Value] = {}
        """Values by these levels."""


def _no_levels(levels: list[str]) -> Any:
    return ()


class FilterMap(Generic[Value]):
    """`make` gives the value of a filter that is new."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._plain: dict[str, Value] = {}
        self.placements: dict[str, _Placement[Value]] = {}
        """All placements of wildcards, as `placement_of` writes them."""
        self._exact: dict[int, list[_Placement[Value]]] = {}
        """Placements without `#`, by their number of levels."""
        self._open: list[_Placement[Value]] = []
        """Placements with `#`, the shortest first."""
        self.deep = 0
        """Placements with more than `SHALLOW_LEVELS` levels."""

    def find(self, topic_filter: str) -> Value | None:
        if is_plain(topic_filter):
            return self._plain.get(topic_filter)
        placement = self.placements.get(placement_of(topic_filter))
        return None if placement is None else placement.filters.get(placement.key_of(topic_filter.split("/")))

    def insert(self, topic_filter: str) -> Value:
        """The new value of a filter that is not here yet."""
        value = self._make()
        if is_plain(topic_filter):
            self._plain[topic_filter] = value
            return value
        text = placement_of(topic_filter)
        placement = self.placements.get(text)
        if placement is None:
            placement = self.placements[text] = _Placement(text)
            self.deep += len(text) > SHALLOW_LEVELS
            if placement.has_rest:
                self._open.append(placement)
                self._open.sort(key=_length_of)
            else:
                self._exact.setdefault(placement.length, []).append(placement)
        placement.filters[placement.key_of(topic_filter.split("/"))] = value
        return value

    def delete(self, topic_filter: str) -> None:
        """Forget a filter that is here."""
        if is_plain(topic_filter):
            del self._plain[topic_filter]
            return
        text = placement_of(topic_filter)
        placement = self.placements[text]
        del placement.filters[placement.key_of(topic_filter.split("/"))]
        if not placement.filters:
            del self.placements[text]
            self.deep -= len(text) > SHALLOW_LEVELS
            if placement.has_rest:
                self._open.remove(placement)
            else:
                self._exact[placement.length].remove(placement)
                if not self._exact[placement.length]:
                    del self._exact[placement.length]

    def matching(self, topic: str) -> list[Value]:
        """The values of all filters that match."""
        plain = self._plain.get(topic)
        found = [plain] if plain is not None else []
        if not self.placements:
            return found
        levels = topic.split("/")
        count = len(levels)
        is_hidden = topic.startswith("$")
        for placement in self._open:
            if placement.length > count:
                break
            value = placement.filters.get(placement.key_of(levels))
            if value is not None and not (is_hidden and placement.is_wild_first):
                found.append(value)
        for placement in self._exact.get(count, ()):
            value = placement.filters.get(placement.key_of(levels))
            if value is not None and not (is_hidden and placement.is_wild_first):
                found.append(value)
        return found


def _length_of(placement: _Placement[Any]) -> int:
    return placement.length


class _Group(Generic[Id]):
    """Everything that was asked for with one topic filter."""

    __slots__ = ("always", "bucket", "most_steps", "rows", "version")

    def __init__(self) -> None:
        self.always: dict[int, Id] = {}
        """Without a condition, by serial."""
        self.rows: dict[Condition, ShelfRow[Id]] = {}
        self.bucket = Bucket()
        self.most_steps = 0
        """What testing all conditions may cost for one message (`Price`)."""
        self.version = 0
        """Changes when plans do: with `always`, and when there begin or cease to be conditions."""

    @property
    def empty(self) -> bool:
        return not self.always and not self.rows


class MatchPlan(Generic[Id]):
    """What to do with publications on certain topics. Good until the next change of the index: ask it again."""

    __slots__ = ("_checked", "_conditional", "_groups", "_shape", "_versions", "always", "conditional")

    def __init__(self, groups: Sequence[_Group[Id]], shape: int) -> None:
        self._groups = groups
        self._versions = [group.version for group in groups]
        self._shape = shape
        self._checked = -1
        self._conditional = [group for group in groups if group.rows]
        self.conditional = bool(self._conditional)
        """Whether attributes can make a difference. If not, `always` is the whole answer."""
        self.always: tuple[Id, ...] = _in_order([group.always for group in groups])
        """Who gets it whatever its attributes are."""

    def match(self, attributes: Attributes) -> list[Id]:
        """Everyone who gets a message with these attributes, each once: `always`, then those with conditions."""
        if not self.conditional:
            return list(self.always)
        found: dict[int, Id] = {}
        for row in self.candidates(attributes):
            if row.test(attributes):
                found.update(row.members)
        return self.everyone(found)

    @property
    def most_steps(self) -> int:
        """What matching one message may cost (`filters.predicate`)."""
        return sum([group.most_steps for group in self._conditional])

    def candidates(self, attributes: Attributes) -> list[ShelfRow[Id]]:
        """Conditions that a message with these attributes may meet: whoever does not call `match` tests them."""
        candidates: list[ShelfRow[Id]] = []
        for group in self._conditional:
            group.bucket.collect(attributes, candidates)
        return candidates

    def everyone(self, found: dict[int, Id]) -> list[Id]:
        """`always`, and those whose conditions a message meets, by serial."""
        if not found:
            return list(self.always)
        if self.always:
            groups = self._groups
            found = {serial: id_ for serial, id_ in found.items() if not any(serial in g.always for g in groups)}
        return [*self.always, *(found[serial] for serial in sorted(found))]

    def still_holds(self, shape: int, changes: int) -> bool:
        """Whether a plan made earlier is what would be made now; remembers the answer until the next change."""
        if self._shape != shape or any(g.version != v for g, v in zip(self._groups, self._versions, strict=True)):
            return False
        self._checked = changes
        return True

    def checked_at(self, changes: int) -> bool:
        return self._checked == changes


class _Member:
    __slots__ = ("predicates", "serial")

    def __init__(self, serial: int) -> None:
        self.serial = serial
        self.predicates: dict[Predicate, None] = {}


class MatchIndex(Generic[Id]):
    """Who asked for what: a set of (id, predicate) pairs, and everyone whom a publication concerns."""

    def __init__(self) -> None:
        self._groups: FilterMap[_Group[Id]] = FilterMap(_Group)
        self._members: dict[Id, _Member] = {}
        self._serial = 0
        self._size = 0
        self._shape = 0
        """Counts filters that were new. One that goes has changed its group before."""
        self._changes = 0
        """Counts changes that may make a plan wrong, new filters among them."""
        self._plans: dict[str | tuple[str, ...], MatchPlan[Id]] = {}
        self._plan_ids = 0

    def __len__(self) -> int:
        """How many (id, predicate) pairs there are."""
        return self._size

    @property
    def deep_placements(self) -> int:
        """Different placements of wildcards in filters of more than `SHALLOW_LEVELS` levels."""
        return self._groups.deep

    def predicates_of(self, id_: Id) -> tuple[Predicate, ...]:
        """What an id has asked for, in the order it did."""
        member = self._members.get(id_)
        return () if member is None else tuple(member.predicates)

    # -- changes

    def add(self, id_: Id, predicate: Predicate) -> bool:
        """False when the id has an equal predicate already."""
        member = self._members.get(id_)
        if member is None:
            member = self._members[id_] = _Member(self._next_serial())
        elif predicate in member.predicates:
            return False
        member.predicates[predicate] = None
        self._size += 1
        group = self._groups.find(predicate.filter)
        if group is None:
            group = self._groups.insert(predicate.filter)
            self._shape += 1
        if predicate.where is None:
            group.always[member.serial] = id_
            self._changed(group)
        else:
            self._row(group, predicate.where).members[member.serial] = id_
        return True

    def remove(self, id_: Id, predicate: Predicate) -> bool:
        """False when the id has no such predicate."""
        member = self._members.get(id_)
        if member is None or predicate not in member.predicates:
            return False
        del member.predicates[predicate]
        if not member.predicates:
            del self._members[id_]
        self._size -= 1
        group = self._groups.find(predicate.filter)
        assert group is not None
        if predicate.where is None:
            del group.always[member.serial]
            self._changed(group)
        else:
            self._leave(group, group.rows[predicate.where], member.serial)
        if group.empty:
            self._groups.delete(predicate.filter)
        return True

    def remove_all(self, id_: Id) -> int:
        """Forget an id; how many predicates it had."""
        predicates = self.predicates_of(id_)
        for predicate in predicates:
            self.remove(id_, predicate)
        return len(predicates)

    def _row(self, group: _Group[Id], condition: Condition) -> ShelfRow[Id]:
        row = group.rows.get(condition)
        if row is None:
            if not group.rows:
                self._changed(group)
            row = group.rows[condition] = ShelfRow(self._next_serial(), condition)
            group.most_steps += condition.price.most
            group.bucket.add(row)
        return row

    def _leave(self, group: _Group[Id], row: ShelfRow[Id], serial: int) -> None:
        del row.members[serial]
        if not row.members:
            group.bucket.remove(row)
            group.most_steps -= row.condition.price.most
            del group.rows[row.condition]
            if not group.rows:
                self._changed(group)

    def _changed(self, group: _Group[Id]) -> None:
        group.version += 1
        self._changes += 1

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    # -- questions

    def plan(self, topic: str) -> MatchPlan[Id]:
        """What to do with publications on this topic."""
        plan = self._plans.get(topic)
        if plan is not None and plan.checked_at(self._changes):
            return plan
        return self._renewed(topic, (topic,))

    def plan_any(self, topics: Sequence[str]) -> MatchPlan[Id]:
        """What to do with publications that name all of these topics: whoever asked for one of them gets it."""
        if len(topics) == 1:
            return self.plan(topics[0])
        key = tuple(topics)
        plan = self._plans.get(key)
        if plan is not None and plan.checked_at(self._changes):
            return plan
        return self._renewed(key, key)

    def match(self, topic: str, attributes: Attributes) -> list[Id]:
        """Everyone who gets this publication, each once."""
        return self.plan(topic).match(attributes)

    def match_any(self, topics: Sequence[str], attributes: Attributes) -> list[Id]:
        """Everyone who gets a publication that names all of these topics, each once."""
        return self.plan_any(topics).match(attributes)

    def _renewed(self, key: str | tuple[str, ...], topics: tuple[str, ...]) -> MatchPlan[Id]:
        old = self._plans.get(key)
        if old is not None:
            if old.still_holds(self._shape, self._changes):
                return old
            self._forget(key)
        groups = dict.fromkeys(group for topic in topics for group in self._groups.matching(topic))
        plan = MatchPlan(list(groups), self._shape)
        plan.still_holds(self._shape, self._changes)
        self._plans[key] = plan
        self._plan_ids += len(plan.always)
        while len(self._plans) > PLANS_MAX or (self._plan_ids > PLAN_IDS_MAX and len(self._plans) > 1):
            self._forget(next(iter(self._plans)))
        return plan

    def _forget(self, key: str | tuple[str, ...]) -> None:
        self._plan_ids -= len(self._plans.pop(key).always)


def _in_order(always: Sequence[dict[int, Id]]) -> tuple[Id, ...]:
    if len(always) == 1:
        return tuple(ids[serial] for ids in always for serial in sorted(ids))
    merged: dict[int, Id] = {}
    for ids in always:
        merged.update(ids)
    return tuple(merged[serial] for serial in sorted(merged))
