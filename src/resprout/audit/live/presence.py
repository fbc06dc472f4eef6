"""Live: nothing invented, unasked or twice, as far as publications and deliveries are remembered.

The rules are those of `audit.presence`. Of a forgotten publication the judge keeps only its number, so it notices a
repetition and cannot tell where the first one was. Numbers are kept as intervals: flat lists of first and last,
ascending. A delivery waits some time for its publication before it counts as invented.
"""

from bisect import bisect_right
from typing import Final

from resprout.audit import presence
from resprout.audit.causal import check_delivery
from resprout.audit.live.memory import KeptLife, KeptPublication, LiveView
from resprout.audit.presence import Stray
from resprout.audit.records import MessageId
from resprout.trace.schema import Row

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
