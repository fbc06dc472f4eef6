"""Delayed messages are not delivered before their time, and no message is delivered after it expired.

A publication says in attributes when it was made, from when on it is delivered, and when it expires (`core.timing`),
all by the clock of its publisher. Its row has the time at which it was made in the time of the trace, so the other
times follow without knowing that clock. Rows of a run with processes have the time at which a program was given a
message, which is later than the time at which its client took it: `CLOCKS_US` allows for that.

A client tells which messages came after their expiry (`expired` rows); these are not owed there. What a broker leaves
out of a durable subscription is seen only by not being handed out: it is not missing if it has expired when the run
ends.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from resprout.audit.history import History
from resprout.audit.records import NEVER, MessageId, PublicationRecord, identity_of, seconds
from resprout.audit.verdict import Anomaly
from resprout.core.guarantee import Guarantee
from resprout.core.timing import DUE, EXPIRES, PUBLISHED
from resprout.values.rows import RETAIN_KEY

TIMING_RULES: Final = ("early", "expired")
NO_TIMES: Final = "the trace has no message that is delayed or expires"
CLOCKS_US: Final = 1_000_000
"""In a run with processes, a row may be later than what it is about, and clocks may differ, by this."""


class Times(NamedTuple):
    """In the time of the trace."""

    due_us: int
    """0: it is not delayed."""
    expires_us: int
    """NEVER: it does not expire."""


def times_of(p: PublicationRecord) -> Times | None:
    """Return when a publication is due and when it expires; None if it is neither delayed nor expires."""
    about = p.attributes
    if about is None or PUBLISHED not in about or RETAIN_KEY in p.keys:
        return None
    made, expires = (_number(about.get(name, "")) for name in (PUBLISHED, EXPIRES))
    due = _number(about.get(DUE, "")) if is_delayed(p) else 0
    if not made or not (due or expires):
        return None
    offset_us = p.time_us - made
    return Times(due + offset_us if due else 0, expires + offset_us if expires else NEVER)


def is_delayed(p: PublicationRecord) -> bool:
    """Return whether clients keep a message until it is due. They do so only with eventual ones."""
    is_eventual = p.guarantee is Guarantee.EVENTUAL and RETAIN_KEY not in p.keys
    return is_eventual and p.attributes is not None and _number(p.attributes.get(DUE, "")) > 0


def read_times(history: History) -> dict[int, Times]:
    """Return the times of publications, by number."""
    found = ((p.number, times_of(p)) for p in history.publications)
    return {number: times for number, times in found if times is not None}


def check_times(
    history: History, times: Mapping[int, Times], handed: Iterable[tuple[str, MessageId, int]], clocks_us: int
) -> Iterator[Anomaly]:
    """`handed`: messages of durable subscriptions, with the consumer and the time."""
    given = [(life.node, d.id, d.time_us) for life in history.lives for d in life.deliveries]
    for node, id, time_us in [*given, *handed]:
        number = history.number_of.get(id)
        known = times.get(number) if number is not None else None
        if known is None:
            continue
        if time_us < known.due_us - clocks_us:
            what = f"was given {{}}, which is due at {seconds(known.due_us)}"
            yield _anomaly(history, "early", node, id, time_us, what)
        if time_us >= known.expires_us + clocks_us:
            what = f"was given {{}}, which had expired at {seconds(known.expires_us)}"
            yield _anomaly(history, "expired", node, id, time_us, what)
    for row_number, row in history.expired:
        id = identity_of(row_number, row)
        number = history.number_of.get(id)
        known = times.get(number) if number is not None else None
        if known is None and number is not None and _has_unknown_expiry(history.publications[number]):
            continue
        if known is None or row.time_us < known.expires_us - clocks_us:
            what = "was told that {} had expired, which it had not"
            yield _anomaly(history, "expired", row.node, id, row.time_us, what)


def _has_unknown_expiry(p: PublicationRecord) -> bool:
    """Return whether a message expires, but does not say when it was made, so that no row tells its expiry."""
    about = p.attributes
    if about is None or RETAIN_KEY in p.keys:
        return False
    return _number(about.get(EXPIRES, "")) > 0 and not _number(about.get(PUBLISHED, ""))


def _anomaly(history: History, rule: str, node: str, id: MessageId, time_us: int, what: str) -> Anomaly:
    name = history.naming.message(id)
    return Anomaly(rule, time_us, node, (name,), f"{node} {what.format(name)}, at {seconds(time_us)}")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
