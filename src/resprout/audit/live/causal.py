"""Live: nothing is delivered before what it depends on; and what was overtaken is remembered as missing.

`eventual` publications are no part of this: they depend on nothing and nothing depends on them. Whatever depends on a
publication depends on all that its client published before in its lane, so the past of a publication is one number for
each source, which is a life of a client and a lane: everything up to that index. A delivery at a subscriber violates
causal order when something it depends on is missing there and comes later, or was owed and never comes. The first is
told when the missing one comes, the second when it is given up (`audit.live.gaps`). Each delivery is told once, with
the first cause that shows.
"""

from collections.abc import Iterator

from resprout.audit.causal import out_of_order
from resprout.audit.live.memory import KeptLife, KeptPublication, LaneMemory, Overtaker
from resprout.audit.live.view import LiveView
from resprout.core.guarantee import Guarantee


def note_overtaken(view: LiveView, life: KeptLife, m: KeptPublication, position: int, time_us: int) -> None:
    """Everything due here that should have come before m."""
    causal = m.guarantee >= Guarantee.CAUSAL
    sources = life.missing if causal else (m.source,)
    overtaker: Overtaker | None = None
    publications = view.memory.publications
    for source in sources:
        queue = life.missing.get(source)
        if not queue:
            continue
        bound = m.past.get(source, 0)
        for index, number in queue.items():
            if index > bound:
                break
            overtaker = overtaker or Overtaker(m.number, m.id, position, view.memory.row, time_us, causal)
            others = publications[number].overtaken.setdefault(life.number, [])
            if not others:
                view.memory.gaps.append((time_us, number, life.number))
            if causal or not others:
                others.append(overtaker)


def check_late(view: LiveView, life: KeptLife, d: KeptPublication, position: int, was_due: bool) -> None:
    """Whatever was delivered here before d and depends on it."""
    overtakers = d.overtaken.pop(life.number, None)
    if was_due:  # then all of them were noted
        for overtaker in overtakers or ():
            if overtaker.causal:
                tell_causal(view, life, d, overtaker, position)
    elif (lane := life.lanes.get(d.lane)) is not None and lane.clock.get(d.source, 0) >= d.index:
        for overtaker in _dependents(view, life, d):
            tell_causal(view, life, d, overtaker, position)


def tell_causal(view: LiveView, life: KeptLife, d: KeptPublication, m: Overtaker, place: int | None) -> None:
    """m was delivered before d, which came at this place, or without it."""
    known = view.memory.publications.get(m.number)
    if known is not None:
        if life.number in known.flagged:
            return
        known.flagged.append(life.number)
    if view.is_full("causal"):
        view.count_untold("causal")
        return
    between = view.between(d, m.number)
    view.tell(out_of_order(view, life, (m.id, m.position), m.time_us, d.id, place, between))


def learn(lane: LaneMemory, p: KeptPublication) -> None:
    """From now on the ordered publications of a life in this lane depend on p, which is one."""
    clock = lane.clock
    for source, index in p.past.items():
        if clock.get(source, 0) < index:
            clock[source] = index
    if clock.get(p.source, 0) < p.index:
        clock[p.source] = p.index
    lane.given.append(p.number)


def _dependents(view: LiveView, life: KeptLife, d: KeptPublication) -> Iterator[Overtaker]:
    """Looks back at what was delivered here since d was published."""
    for number in reversed(life.recent):
        m = view.memory.publications.get(number)
        if m is None:
            continue
        position, row, time_us = m.had[life.number]
        if row < d.row:
            return
        if m.depends_on(d):
            yield Overtaker(m.number, m.id, position, row, time_us, True)
