"""Keeps the memory of a live judge small.

A publication is forgotten some time after all its subscribers have it, once no total before it is under way, and in any
case at the horizon. What is left of it are its number among those published, its number among those delivered at each
subscriber, and its place in the clocks of clients. A dead client is forgotten at the horizon after its death.

What can be missed for that: a second delivery is noticed but not explained, unless the numbers delivered at that
subscriber lie in many pieces; a first delivery later than the horizon is counted and not judged; so is, in effect, any
violation of order between two deliveries that are further apart than their publications are remembered.
"""

from typing import Final

from resprout.audit.live import barrier, gaps, presence
from resprout.audit.live.memory import KeptLife, KeptPublication, Memory
from resprout.audit.live.view import LiveView

_SPARE: Final = 256


def forget_old(view: LiveView, now_us: int) -> None:
    _forget_beyond(view, now_us - view.memory.options.horizon_us)
    _forget_complete(view, now_us - view.memory.options.linger_us)
    _forget_dead(view, now_us - view.memory.options.horizon_us)
    _trim(view)


def _forget_beyond(view: LiveView, before_us: int) -> None:
    publications = view.memory.publications
    while publications:
        p = next(iter(publications.values()))
        if p.time_us > before_us:
            return
        gaps.given_up(view, p)
        _forget(view, p)
        view.count("forgotten_at_horizon")


def _forget_complete(view: LiveView, before_us: int) -> None:
    memory = view.memory
    staying: list[int] = []
    for place, number in enumerate(memory.complete):
        p = memory.publications.get(number)
        if p is None:
            continue
        if p.complete_us > before_us:
            staying += memory.complete[place:]
            break
        if barrier.may_be_forgotten(view, p):
            gaps.given_up(view, p)
            _forget(view, p)
        else:
            staying.append(number)
    memory.complete = staying


def _forget(view: LiveView, p: KeptPublication) -> None:
    memory = view.memory
    barrier.forget(view, p)
    stream = p.id[:3]
    for number in (*p.had, *p.early):
        life = memory.lives.get(number)
        if life is not None:
            presence.add_number(life.passed.setdefault(stream, []), p.id[3])
    del memory.publications[p.number]
    del memory.number_of[p.id]


def _forget_dead(view: LiveView, before_us: int) -> None:
    memory = view.memory
    for life in [life for life in memory.lives.values() if 0 <= life.ended_us <= before_us]:
        del memory.lives[life.number]
        if memory.current.get(life.node) == life.number:
            del memory.current[life.node]
        _forget_sources(memory, life)
        for stream in life.streams:
            memory.published.pop(stream, None)
            memory.last_forgotten[stream[0]] = max(stream[1], memory.last_forgotten.get(stream[0], stream[1]))
            for other in memory.lives.values():
                other.passed.pop(stream, None)


def _forget_sources(memory: Memory, life: KeptLife) -> None:
    """Nothing depends any more on what it published."""
    last = memory.last_ordered.get(life.node, {})
    for lane in [lane for lane, one in last.items() if one.life == life.number]:
        del last[lane]
    if not last:
        memory.last_ordered.pop(life.node, None)
    clocks = [lane.clock for other in memory.lives.values() for lane in other.lanes.values()]
    clocks += [one.past for of_node in memory.last_ordered.values() for one in of_node.values()]
    for clock in clocks:
        for own in life.lanes.values():
            clock.pop(own.source, None)


def _trim(view: LiveView) -> None:
    """Lists of numbers, most of them of things that are forgotten."""
    publications = view.memory.publications
    for life in view.memory.lives.values():
        if len(life.recent) > _SPARE + 2 * len(publications):
            life.recent = [number for number in life.recent if number in publications]
        for lane in life.lanes.values():
            if len(lane.given) > _SPARE + 2 * len(publications):
                lane.given = [number for number in lane.given if number in publications]
