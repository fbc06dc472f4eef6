"""Live: publications numbered in order, positions without gaps, nothing invented, unasked or twice.

The rules and words are those of `audit.presence`. Of what has been forgotten only its number is known: a repetition of
that is noticed as well, without the place where it was first.
"""

from resprout.audit.live import intervals
from resprout.audit.live.fifo import check_fifo
from resprout.audit.live.interest import asks
from resprout.audit.live.memory import KeptLife, KeptPublication, Stray
from resprout.audit.live.view import LiveView
from resprout.audit.naming import MessageId, seconds
from resprout.core.guarantee import Guarantee
from resprout.trace.schema import Row

_LABELS = {guarantee: guarantee.label for guarantee in Guarantee}


def number_is_fresh(view: LiveView, id: MessageId, time_us: int) -> bool:
    """Checks the number of a publication; False when it was taken."""
    publisher, incarnation, stream, seq = id
    memory = view.memory
    taken = memory.published.setdefault(id[:3], [])
    if intervals.contains(taken, seq):
        name = view.name(id)
        text = f"{publisher} published {name} again at {seconds(time_us)}; the number was taken"
        view.tell("identity", time_us, publisher, (name,), text)
        return False
    last = memory.newest.get((publisher, stream))
    if last is not None and (incarnation, seq) < (last[1], last[3]):
        name, other = view.name(id), view.name(last)
        text = f"{publisher} published {name} at {seconds(time_us)}, after {other}, which has a higher number"
        view.tell("identity", time_us, publisher, (name, other), text)
    else:
        memory.newest[publisher, stream] = id
    intervals.add(taken, seq)
    return True


def check_position(view: LiveView, life: KeptLife, id: MessageId, position: int, time_us: int) -> None:
    if position != life.expected:
        name = view.name(id)
        text = f"{life.name} delivered {name} at {position}, where {life.expected} was next"
        view.tell("position", time_us, life.node, (name,), text)
    life.expected = position + 1


def check_known(view: LiveView, life: KeptLife, p: KeptPublication, row: Row, position: int) -> bool:
    """Of a delivery whose publication is remembered; whether it is the first that counts there."""
    if (wrong := _altered(p, row)) is not None:
        name = view.name(p.id)
        text = f"{life.name} delivered {name} at {position}, {wrong}"
        view.tell("invented", row.time_us, life.node, (name,), text)
    had = p.had.get(life.number)
    first = p.early.get(life.number, had[0] if had is not None else None)
    if first is not None:
        _tell_twice(view, life, p.id, position, row.time_us, f"at {first}")
    elif not view.interest.asked(life.number, p):
        _tell_unasked(view, life, p, position, row.time_us)
    return had is None


def check_unknown(view: LiveView, life: KeptLife, id: MessageId, row: Row, position: int) -> None:
    """Of a delivery whose publication is forgotten, or has not turned up."""
    memory = view.memory
    if was_published(view, id):
        passed = life.passed.setdefault(id[:3], [])
        if intervals.contains(passed, id[3]):
            _tell_twice(view, life, id, position, row.time_us, "before")
            return
        intervals.add(passed, id[3])
        life.overdue.pop(id, None)
        view.count("beyond_horizon")
        if id[2] == "ordered":
            check_fifo(view, life, id, memory.promise.lane(row.topic or ""), position, row.time_us)
        return
    stray = Stray(life.number, position, row.time_us, view.interest.open_at(life.number))
    memory.strays.setdefault(id, []).append(stray)


def resolve_strays(view: LiveView, p: KeptPublication) -> None:
    """The publication of what was delivered before has turned up."""
    for stray in view.memory.strays.pop(p.id, ()):
        life = view.life(stray.life)
        if life is None:
            continue
        if not stray.told:
            name = view.name(p.id)
            text = f"{life.name} delivered {name} at {stray.position}, before it was published at {seconds(p.time_us)}"
            view.tell("invented", stray.time_us, life.node, (name,), text)
        first = p.early.get(life.number)
        if first is not None:
            _tell_twice(view, life, p.id, stray.position, stray.time_us, f"at {first}")
            continue
        p.early[life.number] = stray.position
        if not asks(stray.open, p):
            _tell_unasked(view, life, p, stray.position, stray.time_us)


def give_up_strays(view: LiveView, before_us: int) -> None:
    """What nobody has published since then, nobody published; much later it is not even remembered."""
    memory = view.memory
    forgotten_us = before_us - memory.options.horizon_us
    for id, strays in list(memory.strays.items()):
        for stray in strays:
            life = view.life(stray.life)
            if not stray.told and stray.time_us <= before_us and life is not None:
                stray.told = True
                name = view.name(id)
                text = f"{life.name} delivered {name} at {stray.position}, which nobody published"
                view.tell("invented", stray.time_us, life.node, (name,), text)
        if strays[-1].time_us <= forgotten_us:
            del memory.strays[id]


def was_published(view: LiveView, id: MessageId) -> bool:
    """As far as anybody remembers: what is older than memory is taken for published."""
    taken = view.memory.published.get(id[:3], [])
    return (
        intervals.contains(taken, id[3])
        or (intervals.is_full(taken) and id[3] < taken[0])
        or id[1] <= view.memory.buried.get(id[0], -1)
    )


def _altered(p: KeptPublication, row: Row) -> str | None:
    if row.topic is not None and row.topic != p.topic:
        return f"on topic {row.topic}, but it was published on {p.topic}"
    if row.guarantee is not None and row.guarantee != _LABELS[p.guarantee]:
        return f"as {row.guarantee}, but it was published as {p.guarantee.label}"
    if row.keys is not None and row.keys != p.keys:
        return f"with keys {', '.join(row.keys) or 'none'}, but it was published with {', '.join(p.keys) or 'none'}"
    return None


def _tell_twice(view: LiveView, life: KeptLife, id: MessageId, position: int, time_us: int, where: str) -> None:
    name = view.name(id)
    text = f"{life.name} delivered {name} at {position}, which it had delivered {where}"
    view.tell("twice", time_us, life.node, (name,), text)


def _tell_unasked(view: LiveView, life: KeptLife, p: KeptPublication, position: int, time_us: int) -> None:
    name = view.name(p.id)
    text = f"{life.name} delivered {name} on {p.topic} at {position}; no subscription asked for it then"
    view.tell("unasked", time_us, life.node, (name,), text)
