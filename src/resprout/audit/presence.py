"""Nothing invented, nothing unasked, nothing twice, positions without gaps, publications numbered in order.

*Invented*: a delivery without a publication before it in the trace, or one whose topic, keys or guarantee are not those
of its publication. *Unasked*: a delivery while no subscription that matches it was open (asked for, and not over).
*Twice*: the same publication again to the same life of a client; once is enough for all its subscriptions together. A
delivery after the client was told that the message is dropped, or has expired, counts as that, too.

Each row is looked at when it is read, whether the run is over or goes on. A delivery whose publication is not there is
a *stray*: the publication may turn up later, or never.
"""

from collections.abc import Iterable

import msgspec

from resprout.audit.interest import asks
from resprout.audit.records import MessageId, PublicationFacts, seconds
from resprout.audit.verdict import Anomaly, NamedLife, Witness
from resprout.core.guarantee import Guarantee
from resprout.trace.schema import Row

_LABELS = {guarantee: guarantee.label for guarantee in Guarantee}


class Stray(msgspec.Struct, array_like=True, gc=False):
    """A delivery of what nobody has published so far."""

    life: int
    position: int
    time_us: int
    open: list[tuple[str, str | None]]
    """Subscriptions that were open then."""
    told: bool = False


def tell_taken(w: Witness, id: MessageId, time_us: int) -> None:
    name = w.naming.message(id)
    text = f"{id[0]} published {name} again at {seconds(time_us)}; the number was taken"
    w.tell(Anomaly("identity", time_us, id[0], (name,), text))


def check_number(w: Witness, newest: dict[tuple[str, str], MessageId], id: MessageId, time_us: int) -> None:
    """(incarnation, seq) must grow with every publication of a client's stream; `newest`: by publisher and stream."""
    publisher, incarnation, stream, seq = id
    last = newest.get((publisher, stream))
    if last is None or (incarnation, seq) >= (last[1], last[3]):
        newest[publisher, stream] = id
        return
    name, other = w.naming.message(id), w.naming.message(last)
    text = f"{publisher} published {name} at {seconds(time_us)}, after {other}, which has a higher number"
    w.tell(Anomaly("identity", time_us, publisher, (name, other), text))


def tell_position(w: Witness, life: NamedLife, expected: int, id: MessageId, position: int, time_us: int) -> None:
    """It is not the one that was to come."""
    _tell(w, "position", life, id, f"at {position}, where {expected} was next", time_us)


def check_known(w: Witness, life: NamedLife, p: PublicationFacts, row: Row, position: int, first: int | None) -> None:
    """Of a delivery whose publication stands before it. `first`: where this life had delivered it before, if so."""
    if (wrong := _altered(p, row)) is not None:
        _tell(w, "invented", life, p.id, f"at {position}, {wrong}", row.time_us)
    if first is not None:
        tell_twice(w, life, p.id, position, f"at {first}", row.time_us)
    elif not w.interest.asked(life.number, p):
        _tell_unasked(w, life, p, position, row.time_us)


def resolve_strays(w: Witness, strays: Iterable[tuple[NamedLife, Stray]], p: PublicationFacts) -> dict[int, int]:
    """Their publication has turned up. Returns, by life, the position of the first of them."""
    early: dict[int, int] = {}
    for life, stray in strays:
        if not stray.told:
            why = f"at {stray.position}, before it was published at {seconds(p.time_us)}"
            _tell(w, "invented", life, p.id, why, stray.time_us)
        if stray.life in early:
            tell_twice(w, life, p.id, stray.position, f"at {early[stray.life]}", stray.time_us)
            continue
        early[stray.life] = stray.position
        if not asks(stray.open, p):
            _tell_unasked(w, life, p, stray.position, stray.time_us)
    return early


def give_up_stray(w: Witness, life: NamedLife, id: MessageId, stray: Stray) -> None:
    stray.told = True
    _tell(w, "invented", life, id, f"at {stray.position}, which nobody published", stray.time_us)


def tell_twice(w: Witness, life: NamedLife, id: MessageId, position: int, where: str, time_us: int) -> None:
    _tell(w, "twice", life, id, f"at {position}, which it had delivered {where}", time_us)


def tell_dropped(w: Witness, life: NamedLife, id: MessageId, position: int, time_us: int) -> None:
    _tell(w, "twice", life, id, f"at {position}, which it had been told to be dropped or expired", time_us)


def _tell_unasked(w: Witness, life: NamedLife, p: PublicationFacts, position: int, time_us: int) -> None:
    _tell(w, "unasked", life, p.id, f"on {p.topic} at {position}; no subscription asked for it then", time_us)


def _tell(w: Witness, rule: str, life: NamedLife, id: MessageId, fact: str, time_us: int) -> None:
    name = w.naming.message(id)
    w.tell(Anomaly(rule, time_us, life.node, (name,), f"{life.name} delivered {name} {fact}"))


def _altered(p: PublicationFacts, row: Row) -> str | None:
    if row.topic is not None and row.topic != p.topic:
        return f"on topic {row.topic}, but it was published on {p.topic}"
    if row.guarantee is not None and row.guarantee != _LABELS[p.guarantee]:
        return f"as {row.guarantee}, but it was published as {p.guarantee.label}"
    if row.keys is not None and row.keys != p.keys:
        return f"with keys {', '.join(row.keys) or 'none'}, but it was published with {', '.join(p.keys) or 'none'}"
    return None
