"""Live: totals with common keys have one order.

Totals that somebody has delivered are kept in an order that agrees with everything observed (after Pearce and Kelly: an
observation that fits costs nothing, another one moves only the totals between its two ends). An observation that cannot
be made to fit closes a cycle: it is reported, and left out of the order. Totals that contradict each other through
several cycles form a knot; further cycles within a knot are not reported again.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

from resprout.audit.graph import shortest_way
from resprout.audit.live.memory import KeptPublication, KeptTotal, Memory
from resprout.audit.live.view import LiveView
from resprout.audit.naming import listed, pair_name
from resprout.core.keys import Pair

Step = tuple[int, Pair, int, int]
"""(life, pair, total, total): who saw which before which."""


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
    evidence = {(a, b): next(iter(totals[a].after[b].items())) for a, b in pairwise(way)}
    evidence[one, other] = (pair, life)
    for named, _ in evidence.values():
        view.memory.keys[named].contradicted = True
    knots = {knot for number in way if (knot := totals[number].knot) >= 0}
    for number, total in totals.items():
        if number in way or total.knot in knots:
            total.knot = min(way)
    _tell(view, _steps([one, *way], evidence))


def _steps(cycle: list[int], evidence: dict[tuple[int, int], tuple[Pair, int]]) -> list[Step]:
    """Who saw what before what, all around, from the oldest total on; what one subscriber saw of one pair in a row is
    said in one step."""
    turn = cycle.index(min(cycle))
    cycle = [*cycle[turn:-1], *cycle[:turn], cycle[turn]]
    steps: list[Step] = []
    for one, other in pairwise(cycle):
        pair, life = evidence[one, other]
        if steps and steps[-1][:2] == (life, pair):
            one = steps.pop()[2]
        steps.append((life, pair, one, other))
    if len(steps) > 2 and steps[0][:2] == steps[-1][:2]:
        steps[0] = (*steps[0][:2], steps.pop()[2], steps[0][3])
    return steps


def _tell(view: LiveView, steps: list[Step]) -> None:
    publications: dict[int, KeptPublication] = view.memory.publications
    words, moment = [], 0
    for number, pair, one, other in steps:
        first, second = publications[one], publications[other]
        (here, _, here_us), (there, _, there_us) = first.had[number], second.had[number]
        words.append(
            f"{view.memory.lives[number].name} delivered {view.name(first.id)} at {here} before "
            f"{view.name(second.id)} at {there} (both name {pair_name(pair)})"
        )
        moment = max(moment, here_us, there_us)
    messages = tuple(view.name(publications[one].id) for _, _, one, _ in steps)
    view.tell("total", moment, view.memory.lives[steps[0][0]].node, messages, listed(words))
