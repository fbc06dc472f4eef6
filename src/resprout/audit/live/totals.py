"""Live: totals with common keys have one order, their places (`tseq`) are true, and each total is a barrier.

Totals that somebody has delivered are kept in an order that agrees with everything observed (after Pearce and Kelly: an
observation that fits costs nothing, another one moves only the totals between its two ends). An observation that cannot
be made to fit closes a cycle: it is reported, and left out of the order. Totals that contradict each other through
several cycles form a knot; further cycles within a knot are not reported again.

The rules for places are those of `audit.totals`. A place is remembered as long as its total; the highest place that a
subscriber was told on a key as long as it has anything on that key.

The rule for barriers is that of `audit.totals`: a publication x violates on a pair when one subscriber delivered x
before a total, another one a total before x, and the first total is the second or comes before it. For each x and pair
the totals next to it are collected from all subscribers. They are compared when one is added, and again when the order
of two known totals is learned. A pair whose totals contradict each other is left out from then on.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

from resprout.audit.live.memory import KeptLife, KeptPublication, KeptTotal, Key, KeyPlace, LiveView, Memory, Sides
from resprout.audit.records import ClaimedPlace
from resprout.audit.totals import against_the_order, contradiction, divided, shared, shortest_way, told_differently
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee


def enter(memory: Memory, number: int) -> bool:
    """A total has been delivered; whether it is the first time."""
    if number in memory.totals:
        return False
    memory.totals[number] = KeptTotal(memory.next_rank)
    memory.next_rank += 1
    return True


def leave(memory: Memory, number: int) -> None:
    total = memory.totals.pop(number)
    for other in total.after:
        del memory.totals[other].before[number]
    for other in total.before:
        del memory.totals[other].after[number]


def observe(view: LiveView, pair: Pair, life: int, one: int, other: int) -> bool:
    """A subscriber delivered one total before the other; whether that is news that fits."""
    totals = view.memory.totals
    first = totals[one]
    seen = first.after.get(other)
    if seen is not None:
        known = pair in seen
        seen.setdefault(pair, life)
        return not known
    if first.rank > totals[other].rank and not _reorder(totals, one, other):
        _contradiction(view, pair, life, one, other)
        return False
    first.after[other] = {pair: life}
    totals[other].before[one] = None
    return True


def precedes(memory: Memory, pair: Pair, one: int, other: int) -> bool:
    """Whether one total is the other, or comes before it, by what was observed on this pair."""
    if one == other:
        return True
    totals = memory.totals
    if one not in totals or other not in totals:
        return False
    high = totals[other].rank
    return totals[one].rank < high and other in _reach(totals, one, lambda t: _after(t, pair) if t.rank < high else ())


def following(memory: Memory, pair: Pair, number: int) -> list[int]:
    """A total and all that come after it, by what was observed on this pair."""
    return _reach(memory.totals, number, lambda total: _after(total, pair))


def _after(total: KeptTotal, pair: Pair) -> list[int]:
    return [number for number, pairs in total.after.items() if pair in pairs]


def _reorder(totals: dict[int, KeptTotal], one: int, other: int) -> bool:
    """Ranks `one` before `other`, and what follows accordingly; False when `other` is before it already."""
    low, high = totals[other].rank, totals[one].rank
    following = _reach(totals, other, lambda total: total.after if total.rank <= high else ())
    if one in following:
        return False
    leading = _reach(totals, one, lambda total: total.before if total.rank >= low else ())
    following = [number for number in following if totals[number].rank <= high]
    leading = [number for number in leading if totals[number].rank >= low]
    moved = [*sorted(leading, key=lambda n: totals[n].rank), *sorted(following, key=lambda n: totals[n].rank)]
    for number, rank in zip(moved, sorted(totals[number].rank for number in moved), strict=True):
        totals[number].rank = rank
    return True


def _reach(totals: dict[int, KeptTotal], begin: int, steps: Callable[[KeptTotal], Iterable[int]]) -> list[int]:
    found = {begin: None}
    stack = [begin]
    while stack:
        for number in steps(totals[stack.pop()]):
            if number not in found:
                found[number] = None
                stack.append(number)
    return list(found)


def _contradiction(view: LiveView, pair: Pair, life: int, one: int, other: int) -> None:
    totals = view.memory.totals
    if totals[one].knot >= 0 and totals[one].knot == totals[other].knot:
        view.memory.keys[pair].contradicted = True
        return
    way = shortest_way({number: list(total.after) for number, total in totals.items()}, [other], {one})
    assert way is not None, "what cannot be ordered is a cycle"
    evidence = {(a, b): next((who, on) for on, who in totals[a].after[b].items()) for a, b in pairwise(way)}
    evidence[one, other] = (life, pair)
    for _, named in evidence.values():
        view.memory.keys[named].contradicted = True
    knots = {knot for number in way if (knot := totals[number].knot) >= 0}
    for number, total in totals.items():
        if number in way or total.knot in knots:
            total.knot = min(way)
    view.tell(contradiction(view, [one, *way], evidence))


def check_told_place(view: LiveView, life: KeptLife, p: KeptPublication, tseq: int, time_us: int) -> None:
    """Somebody is told the place of a total."""
    memory = view.memory
    claim = ClaimedPlace(tseq, life.name, life.node, time_us)
    if p.place is None:
        p.place = claim
        owner = memory.publications.get(memory.places.get((p.lane, tseq), -1))
        first, second = (owner, p) if owner is not None and owner.number < p.number else (p, owner)
        memory.places[p.lane, tseq] = first.number
        if second is not None and second.place is not None:
            view.tell(shared(view, second.id, second.place, first.id))
    elif p.place.tseq != tseq and not p.misplaced:
        p.misplaced = True
        view.tell(told_differently(view, p.id, claim, p.place))


def follows_in_place(
    view: LiveView, life: KeptLife, p: KeptPublication, pair: Pair, place: KeyPlace, tseq: int
) -> bool:
    """Whether a total comes at a higher place than those that the subscriber had on the pair; the first that does not
    is told of."""
    position, _, time_us = p.had[life.number]
    placed = (tseq, p.id, position)
    if place.highest is None or tseq > place.highest[0]:
        place.highest = placed
    elif tseq < place.highest[0]:
        view.tell(against_the_order(view, life, pair, placed, time_us, place.highest))
        return False
    return True


def forget_place(view: LiveView, p: KeptPublication) -> None:
    if p.place is not None and view.memory.places.get((p.lane, p.place.tseq)) == p.number:
        del view.memory.places[p.lane, p.place.tseq]


def delivered(view: LiveView, life: KeptLife, p: KeptPublication, tseq: int | None) -> None:
    """The first sound delivery of a publication that names keys, or of a total; `tseq`: the place that it claims."""
    memory = view.memory
    is_total = p.guarantee is Guarantee.TOTAL
    fresh = is_total and enter(memory, p.number)
    in_place = True
    for pair in p.lines:
        key = memory.keys.get(pair)
        if key is None:
            key = memory.keys[pair] = Key()
        place = key.places.get(life.number)
        if place is None:
            place = key.places[life.number] = KeyPlace()
        if not is_total:
            place.since[p.number] = None
            if place.total >= 0:
                sides = _sides(p, pair)
                sides.before.setdefault(place.total, life.number)
                memory.totals[place.total].passed[p.number] = None
                _check(view, pair, key, p, sides)
            continue
        if tseq is not None and in_place:
            in_place = follows_in_place(view, life, p, pair, place, tseq)
        if place.total in memory.totals:
            news = observe(view, pair, life.number, place.total, p.number)
            if news and not fresh:
                _check_again(view, pair, key, p.number)
        for number in place.since:
            passed = memory.publications[number]
            sides = _sides(passed, pair)
            sides.after.setdefault(p.number, life.number)
            _check(view, pair, key, passed, sides)
        place.since.clear()
        place.total = p.number


def may_be_forgotten(view: LiveView, p: KeptPublication) -> bool:
    """Whether nothing that still may come can show a violation: the totals before it have left."""
    remembered = view.memory.totals
    if p.guarantee is Guarantee.TOTAL:
        total = remembered.get(p.number)
        return total is None or not total.before
    return not any(total in remembered for sides in p.sides.values() for total in sides.before)


def forget(view: LiveView, p: KeptPublication) -> None:
    memory = view.memory
    if p.number in memory.totals:
        leave(memory, p.number)
    forget_place(view, p)
    for sides in p.sides.values():
        for number in sides.before:
            if (total := memory.totals.get(number)) is not None:
                total.passed.pop(p.number, None)
    for pair in p.lines:
        key = memory.keys.get(pair)
        if key is None:
            continue
        for life in p.had:
            place = key.places.get(life)
            if place is None:
                continue
            place.since.pop(p.number, None)
            if place.total == p.number:
                place.total = -1
            if place.total < 0 and not place.since:
                del key.places[life]
        if not key.places:
            del memory.keys[pair]


def _sides(p: KeptPublication, pair: Pair) -> Sides:
    sides = p.sides.get(pair)
    if sides is None:
        sides = p.sides[pair] = Sides()
    return sides


def _check_again(view: LiveView, pair: Pair, key: Key, number: int) -> None:
    """Something new is known to come before a total: whatever stands after it, or after a later one, somewhere."""
    memory = view.memory
    for total in following(memory, pair, number):
        for passed in list(memory.totals[total].passed):
            p = memory.publications[passed]
            if (sides := p.sides.get(pair)) is not None:
                _check(view, pair, key, p, sides)


def _check(view: LiveView, pair: Pair, key: Key, p: KeptPublication, sides: Sides) -> None:
    if not sides.before or not sides.after or sides.told or key.contradicted:
        return
    for after, here in sides.after.items():
        for before, there in sides.before.items():
            if precedes(view.memory, pair, after, before):
                sides.told = True
                view.tell(divided(view, pair, p.number, (after, here), (before, there)))
                return
