"""Live: what `audit.presence` needs to know of publications and deliveries, as far as they are remembered.

Of what has been forgotten only its number is known: a repetition of that is noticed as well, without the place where it
was first. A delivery waits some time for its publication, before it counts as invented.
"""

from resprout.audit import presence
from resprout.audit.fifo import check_delivery
from resprout.audit.live import intervals
from resprout.audit.live.memory import KeptLife, KeptPublication
from resprout.audit.live.view import LiveView
from resprout.audit.naming import MessageId
from resprout.audit.presence import Stray
from resprout.trace.schema import Row


def number_is_fresh(view: LiveView, id: MessageId, time_us: int) -> bool:
    """Checks the number of a publication; False when it was taken."""
    memory = view.memory
    taken = memory.published.setdefault(id[:3], [])
    if intervals.contains(taken, id[3]):
        presence.tell_taken(view, id, time_us)
        return False
    presence.check_number(view, memory.newest, id, time_us)
    intervals.add(taken, id[3])
    return True


def check_known(view: LiveView, life: KeptLife, p: KeptPublication, row: Row, position: int) -> bool:
    """Of a delivery whose publication is remembered; whether it is the first that counts there."""
    had = p.had.get(life.number)
    first = p.early.get(life.number, had[0] if had is not None else None)
    presence.check_known(view, life, p, row, position, first)
    if life.number in p.dropped:
        presence.tell_dropped(view, life, p.id, position, row.time_us)
    return had is None


def check_unknown(view: LiveView, life: KeptLife, id: MessageId, row: Row, position: int) -> None:
    """Of a delivery whose publication is forgotten, or has not turned up."""
    memory = view.memory
    if was_published(view, id):
        passed = life.passed.setdefault(id[:3], [])
        if intervals.contains(passed, id[3]):
            presence.tell_twice(view, life, id, position, "before", row.time_us)
            return
        intervals.add(passed, id[3])
        life.overdue.pop(id, None)
        view.count("beyond_horizon")
        if id[2] == "ordered":
            lane = memory.promise.lane(row.topic or "")
            wrong = check_delivery(view, life, life.newest, id, lane, position, row.time_us)
            if wrong is not None:
                view.tell(wrong)
        return
    stray = Stray(life.number, position, row.time_us, view.interest.open_at(life.number))
    memory.strays.setdefault(id, []).append(stray)


def resolve_strays(view: LiveView, p: KeptPublication) -> None:
    """The publication of what was delivered before has turned up."""
    strays = view.memory.strays.pop(p.id, ())
    whose = ((life, stray) for stray in strays if (life := view.life(stray.life)) is not None)
    p.early = presence.resolve_strays(view, whose, p)


def give_up_strays(view: LiveView, before_us: int) -> None:
    """What nobody has published since then, nobody published; much later it is not even remembered."""
    memory = view.memory
    forgotten_us = before_us - memory.options.horizon_us
    for id, strays in list(memory.strays.items()):
        for stray in strays:
            life = view.life(stray.life)
            if not stray.told and stray.time_us <= before_us and life is not None:
                presence.give_up_stray(view, life, id, stray)
        if strays[-1].time_us <= forgotten_us:
            del memory.strays[id]


def was_published(view: LiveView, id: MessageId) -> bool:
    """As far as anybody remembers: what is older than memory is taken for published."""
    taken = view.memory.published.get(id[:3], [])
    return (
        intervals.contains(taken, id[3])
        or (intervals.is_full(taken) and id[3] < taken[0])
        or id[1] <= view.memory.last_forgotten.get(id[0], -1)
    )
