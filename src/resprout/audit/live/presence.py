"""Live: nothing is invented, unasked, delivered twice, missing, or delivered before what it depends on.

The first rules are those of `audit.presence`, as far as publications and deliveries are remembered. Of a forgotten
publication the judge keeps only its number, so it notices a repetition and cannot tell where the first one was. Numbers
are kept as intervals: flat lists of first and last, ascending. A delivery waits some time for its publication before it
counts as invented.

Something that is owed to a confirmed subscription and missing is reported as lost

- at the end of a run that came to rest, as `audit.loss` does and with the same text;
- some time after it was overtaken, by a later ordered publication of the same client or by something that depends on
  it: whatever happens then, an order is broken or something is lost.

Owed means: as `audit.loss` would say if the run ended now. What was reported is not looked for any longer: later
publications that depend on it are not reported as well. Being slow is no violation, so what is missing at the horizon
is not reported then, but kept in a short form, up to a number, until it comes or the run ends.

What was due when a session was lost, and the client told, is reported as that at the end of a run that came to rest. In
a run that promises probability nothing is reported: what came and what is missing at the end are counted.

Causal order: `eventual` publications depend on nothing and nothing depends on them. A publication depends on all that
its client published before in its lane, so the past of a publication is one number for each source, which is a life of
a client and a lane: everything up to that index. A delivery at a subscriber violates causal order when something it
depends on is missing there and comes later, or was owed and never comes. The first is reported when the missing one
comes, the second when it is given up. Each delivery is reported once, with the first cause that shows.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from resprout.audit import presence
from resprout.audit.causal import check_delivery, out_of_order
from resprout.audit.live.memory import KeptLife, KeptPublication, LaneMemory, LiveView, Overtaker
from resprout.audit.loss import MissingDelivery, lost
from resprout.audit.presence import Stray
from resprout.audit.records import NEVER, MessageId
from resprout.core.guarantee import Guarantee
from resprout.trace.schema import Row

OVERDUE_MAX: Final = 10_000
"""For each subscriber. What is more is counted, and if it is lost, nobody will know."""


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


def expect(view: LiveView, p: KeptPublication) -> None:
    """Every subscriber that is owed it waits for it from now on."""
    for number in p.due:
        life = view.memory.lives[number]
        if p.ordered:
            life.missing.setdefault(p.source, {})[p.index] = p.number
        else:
            life.loose[p.number] = None


def note_complete(view: LiveView, p: KeptPublication, fewer: int = 0) -> None:
    """Called when it may be that all its subscribers have it; `fewer` have stopped waiting just now."""
    p.waiting -= fewer
    if p.waiting <= 0 and p.complete_us < 0:
        p.complete_us = view.now_us
        view.memory.complete.append(p.number)


def arrived(view: LiveView, life: KeptLife, p: KeptPublication) -> bool:
    """Nobody need wait for it here any more; whether it was due."""
    until = p.due.pop(life.number, None)
    if until is None:
        return False
    _stop_waiting(life, p)
    note_complete(view, p, fewer=until == NEVER)
    if view.memory.promise.is_probable:
        view.count("came")
    return True


def dropped(view: LiveView, life: KeptLife, p: KeptPublication, is_excused: bool) -> None:
    """The client was told that it will not come; it is not due any more if the client asked for that, or if it has
    expired."""
    p.dropped.append(life.number)
    if is_excused and life.number in p.due:
        _give_up(view, p, life)


def unsubscribed(view: LiveView, life: KeptLife, filter_: str) -> None:
    """Nobody is to blame for what was under way, unless another subscription asks for it."""
    for id in [id for id, overdue in life.overdue.items() if overdue.filter == filter_ and overdue.told_us < 0]:
        del life.overdue[id]
    for p in _missing_at(view, life):
        if p.due[life.number] == NEVER and view.interest.lasting(life.number, p) is None:
            p.due[life.number] = view.memory.row
            note_complete(view, p, fewer=1)


def session_lost(view: LiveView, life: KeptLife) -> None:
    """What was under way will not come, and the client knows."""
    life.losses[view.memory.row] = view.now_us
    for id, overdue in life.overdue.items():
        if overdue.told_us < 0:
            life.overdue[id] = msgspec.structs.replace(overdue, told_us=view.now_us)
    for p in _missing_at(view, life):
        if p.due[life.number] == NEVER:
            p.due[life.number] = view.memory.row
            note_complete(view, p, fewer=1)


def life_ended(view: LiveView, life: KeptLife) -> None:
    for p in _missing_at(view, life):
        note_complete(view, p, fewer=p.due[life.number] == NEVER)
        if life.number not in p.overtaken:
            del p.due[life.number]
    life.missing.clear()
    life.loose.clear()
    life.overdue.clear()


def look_for_gaps(view: LiveView, before_us: int) -> None:
    """What was overtaken before this time and has not come."""
    gaps = view.memory.gaps
    if view.memory.promise.is_probable:
        gaps.clear()
        return
    done = 0
    for time_us, number, life_number in gaps:
        if time_us > before_us:
            break
        done += 1
        p, life = view.memory.publications.get(number), view.life(life_number)
        if p is None or life is None or p.due.get(life_number) != NEVER or not life.correct or not view.owed(p):
            continue  # it came, or nobody is to blame yet: the horizon and the end look once more
        overtakers = p.overtaken[life_number]
        other = next((o for o in overtakers if o.id[0] == p.id[0]), overtakers[0])
        _tell_lost(view, p, life, f"but delivered {view.name(other.id)} at {other.position}, ")
        _tell_without(view, p, life)
        del p.due[life_number]  # it counts as waited for until the horizon: should it come, its place is judged
        _stop_waiting(life, p)
    del gaps[:done]


def given_up(view: LiveView, p: KeptPublication) -> None:
    """It is about to be forgotten: whoever misses it is noted."""
    owed = bool(p.due) and view.owed(p)
    for number in list(p.due):
        life = view.life(number)
        if life is None:
            continue
        if owed and number in p.overtaken:
            _tell_without(view, p, life)
        asked = view.interest.lasting(number, p) if owed and life.ended_us < 0 else None
        if asked is not None and p.due[number] == NEVER:
            _note_overdue(view, life, p.id, MissingDelivery.asked_for(p.time_us, p.topic, asked))
        elif owed and life.ended_us < 0 and (told_us := life.losses.get(p.due[number])) is not None:
            _note_overdue(view, life, p.id, MissingDelivery(p.time_us, p.topic, "", None, told_us))
        _give_up(view, p, life)


def judge_rest(view: LiveView, came_to_rest: bool) -> None:
    """The run is over: what has not come will not come."""
    for p in view.memory.publications.values():
        owed = bool(p.due) and view.owed(p)
        for number, until in p.due.items():
            life = view.life(number)
            if life is None or not owed:
                continue
            if came_to_rest and until == NEVER and life.correct:
                _tell_lost(view, p, life)
            elif came_to_rest and life.correct and until in life.losses:
                _tell(view, life, p.id, MissingDelivery(p.time_us, p.topic, "", None, life.losses[until]))
            _tell_without(view, p, life)
    for life in view.memory.lives.values():
        if came_to_rest and life.correct:
            for id, overdue in life.overdue.items():
                _tell(view, life, id, overdue)


def _note_overdue(view: LiveView, life: KeptLife, id: MessageId, overdue: MissingDelivery) -> None:
    if len(life.overdue) < OVERDUE_MAX:
        life.overdue[id] = overdue
    else:
        view.count("owed_and_forgotten")


def _tell_lost(view: LiveView, p: KeptPublication, life: KeptLife, instead: str = "") -> None:
    asked = view.interest.lasting(life.number, p)
    if asked is not None:
        _tell(view, life, p.id, MissingDelivery.asked_for(p.time_us, p.topic, asked), instead)


def _tell(view: LiveView, life: KeptLife, id: MessageId, missing: MissingDelivery, instead: str = "") -> None:
    if view.memory.promise.is_probable:
        view.count("missing_told" if missing.is_told else "missing")
    else:
        view.tell(lost(view, life, id, missing, instead))


def _tell_without(view: LiveView, p: KeptPublication, life: KeptLife) -> None:
    """What depends on it was delivered without it."""
    until = p.due[life.number]
    for overtaker in p.overtaken.pop(life.number, ()):
        if overtaker.causal and until > overtaker.row and not view.memory.promise.is_probable:
            tell_causal(view, life, p, overtaker, None)


def _give_up(view: LiveView, p: KeptPublication, life: KeptLife) -> None:
    note_complete(view, p, fewer=p.due.pop(life.number) == NEVER and life.ended_us < 0)
    p.overtaken.pop(life.number, None)
    _stop_waiting(life, p)


def _stop_waiting(life: KeptLife, p: KeptPublication) -> None:
    if not p.ordered:
        life.loose.pop(p.number, None)
    elif (queue := life.missing.get(p.source)) is not None:
        queue.pop(p.index, None)
        if not queue:
            del life.missing[p.source]


def _missing_at(view: LiveView, life: KeptLife) -> list[KeptPublication]:
    numbers = [*life.loose, *(number for queue in life.missing.values() for number in queue.values())]
    return [view.memory.publications[number] for number in numbers]


PIECES_MAX: Final = 64
"""A set in more pieces than this loses its lowest: old numbers are forgotten, and the memory stays small."""


def number_is_fresh(view: LiveView, id: MessageId, time_us: int) -> bool:
    """Checks the number of a publication; False when it was taken."""
    memory = view.memory
    taken = memory.published.setdefault(id[:3], [])
    if has_number(taken, id[3]):
        presence.tell_taken(view, id, time_us)
        return False
    presence.check_number(view, memory.newest, id, time_us)
    add_number(taken, id[3])
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
        if has_number(passed, id[3]):
            presence.tell_twice(view, life, id, position, "before", row.time_us)
            return
        add_number(passed, id[3])
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
        has_number(taken, id[3])
        or (is_in_many_pieces(taken) and id[3] < taken[0])
        or id[1] <= view.memory.last_forgotten.get(id[0], -1)
    )


def add_number(intervals: list[int], number: int) -> None:
    if not intervals or number > intervals[-1] + 1:
        intervals += (number, number)
        if len(intervals) > 2 * PIECES_MAX:
            del intervals[:2]
        return
    if number == intervals[-1] + 1:
        intervals[-1] = number
        return
    _insert_number(intervals, number)


def _insert_number(intervals: list[int], number: int) -> None:
    """Into the middle: rare, so simply done."""
    if has_number(intervals, number):
        return
    at = bisect_right(intervals, number)  # even: the first of the interval behind it
    intervals[at:at] = (number, number)
    if at + 2 < len(intervals) and intervals[at + 2] == number + 1:
        del intervals[at + 1 : at + 3]
    if at > 0 and intervals[at - 1] == number - 1:
        del intervals[at - 1 : at + 1]
    if len(intervals) > 2 * PIECES_MAX:
        del intervals[:2]


def has_number(intervals: list[int], number: int) -> bool:
    at = bisect_right(intervals, number)
    return at % 2 == 1 or (at > 0 and intervals[at - 1] == number)


def is_in_many_pieces(intervals: list[int]) -> bool:
    """Whether lower numbers may have been forgotten."""
    return len(intervals) >= 2 * PIECES_MAX
