"""Live: nothing is delivered before what it depends on; and what was overtaken is remembered as missing.

`eventual` publications are no part of this: they depend on nothing and nothing depends on them. Whatever depends on a
publication depends on all that its client published before, so the past of a publication is one
number for each life of a client: everything up to that index. A delivery at a subscriber violates causal order when
something it depends on is missing there and comes later, or was owed and never comes. The first is told when the
missing one comes, the second when it is given up (`audit.live.gaps`). Each delivery is told once, with the first cause
that shows.
"""

from collections.abc import Iterator

from resprout.audit.live.memory import Life, Overtaker, Publication
from resprout.audit.live.view import View
from resprout.audit.naming import listed
from resprout.core.guarantee import Guarantee


def note_overtaken(view: View, life: Life, m: Publication, position: int, time_us: int) -> None:
    """Everything due here that should have come before m."""
    causal = m.guarantee >= Guarantee.CAUSAL
    lives = life.missing if causal else (m.life,)
    overtaker: Overtaker | None = None
    publications = view.memory.publications
    for publisher in lives:
        queue = life.missing.get(publisher)
        if not queue:
            continue
        bound = m.past.get(publisher, 0)
        for index, number in queue.items():
            if index > bound:
                break
            overtaker = overtaker or Overtaker(m.number, m.id, position, view.memory.row, time_us, causal)
            others = publications[number].overtaken.setdefault(life.number, [])
            if not others:
                view.memory.gaps.append((time_us, number, life.number))
            if causal or not others:
                others.append(overtaker)


def check_late(view: View, life: Life, d: Publication, position: int, was_due: bool) -> None:
    """Whatever was delivered here before d and depends on it."""
    overtakers = d.overtaken.pop(life.number, None)
    if was_due:  # then all of them were noted
        for overtaker in overtakers or ():
            if overtaker.causal:
                tell_causal(view, life, d, overtaker, f"before {view.name(d.id)} at {position}")
    elif life.clock.get(d.life, 0) >= d.index:
        for overtaker in _dependents(view, life, d):
            tell_causal(view, life, d, overtaker, f"before {view.name(d.id)} at {position}")


def tell_causal(view: View, life: Life, d: Publication, m: Overtaker, cause_words: str) -> None:
    """m was delivered before d or without it."""
    known = view.memory.publications.get(m.number)
    if known is not None:
        if life.number in known.flagged:
            return
        known.flagged.append(life.number)
    name = view.name(m.id)
    steps = _path(view, m.number, d)
    if steps is None:
        how, between = "through publications that are forgotten", []
    else:
        between = [view.name(p.id) for p in steps]
        words = [f"{view.name(p.id)} on topic {p.topic}" for p in steps]
        how = f"through {listed(words)}" if words else "directly"
    text = f"{life.name} delivered {name} at {m.position} {cause_words}, on which it depends {how}"
    view.tell("causal", m.time_us, life.node, (name, view.name(d.id), *between), text)


def learn(life: Life, p: Publication) -> None:
    """From now on the ordered publications of this life depend on p, which is one."""
    clock = life.clock
    for publisher, index in p.past.items():
        if clock.get(publisher, 0) < index:
            clock[publisher] = index
    if clock.get(p.life, 0) < p.index:
        clock[p.life] = p.index
    life.given.append(p.number)


def _dependents(view: View, life: Life, d: Publication) -> Iterator[Overtaker]:
    """Looks back at what was delivered here since d was published."""
    for number in reversed(life.recent):
        m = view.memory.publications.get(number)
        if m is None:
            continue
        position, row, time_us = m.had[life.number]
        if row < d.row:
            return
        if m.past.get(d.life, 0) >= d.index:
            yield Overtaker(m.number, m.id, position, row, time_us, True)


def _path(view: View, begin: int, d: Publication) -> list[Publication] | None:
    """What lies between a publication and d, which it depends on, nearest to d first, through as few clients as
    possible; None when it cannot be told any more. What a client published or was given before, in one life, is one
    step away."""
    publications = view.memory.publications
    back = {begin: begin}
    level = [begin]
    while level:
        following: list[int] = []
        for start in level:
            here = publications.get(start)
            while here is not None:
                if d.number == here.previous or d.number in here.given:
                    return [publications[number] for number in _way(back, start)]
                for there in here.given:
                    if there not in back and _leads_to(publications.get(there), d):
                        back[there] = start
                        following.append(there)
                previous = publications.get(here.previous)
                if previous is None or previous.number in back or not _leads_to(previous, d):
                    break
                back[previous.number] = start
                if previous.life != here.life:
                    following.append(previous.number)
                    break
                here = previous
        level = following
    return None


def _leads_to(p: Publication | None, d: Publication) -> bool:
    return p is not None and p.past.get(d.life, 0) >= d.index


def _way(back: dict[int, int], end: int) -> list[int]:
    """From the end back to the beginning, which is left out."""
    way = []
    while back[end] != end:
        way.append(end)
        end = back[end]
    return way
