"""Live: every total divides what names its keys alike for all; the order of the totals is followed on the way.

The rule is that of `audit.barrier`: a publication x violates on a pair when one subscriber delivered x before a total,
another one a total before x, and the first total is the second or comes before it. For each x and pair the totals next
to it are collected from all subscribers; they are compared when one is added, and again when something new is learned
about the order of totals that were both known. A pair whose totals contradict each other is left out from then on.
"""

from resprout.audit.barrier import divided
from resprout.audit.live import totals
from resprout.audit.live.memory import KeptLife, KeptPublication, Key, KeyPlace, Sides
from resprout.audit.live.view import LiveView
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee


def delivered(view: LiveView, life: KeptLife, p: KeptPublication, tseq: int | None) -> None:
    """The first sound delivery of a publication that names keys, or of a total; `tseq`: the place that it claims."""
    memory = view.memory
    is_total = p.guarantee is Guarantee.TOTAL
    fresh = is_total and totals.enter(memory, p.number)
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
            in_place = totals.follows_in_place(view, life, p, pair, place, tseq)
        if place.total in memory.totals:
            news = totals.observe(view, pair, life.number, place.total, p.number)
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
        totals.leave(memory, p.number)
    totals.forget_place(view, p)
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
    for total in totals.following(memory, pair, number):
        for passed in list(memory.totals[total].passed):
            p = memory.publications[passed]
            if (sides := p.sides.get(pair)) is not None:
                _check(view, pair, key, p, sides)


def _check(view: LiveView, pair: Pair, key: Key, p: KeptPublication, sides: Sides) -> None:
    if not sides.before or not sides.after or sides.told or key.contradicted:
        return
    for after, here in sides.after.items():
        for before, there in sides.before.items():
            if totals.precedes(view.memory, pair, after, before):
                sides.told = True
                view.tell(divided(view, pair, p.number, (after, here), (before, there)))
                return
