"""Which messages of a durable subscription are delayed, when they expire, and which go first (`core.timing`)."""

from collections.abc import Sequence

from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.core.timing import due_of, expires_of, priority_of
from resprout.edge.broker.portion import Portion
from resprout.edge.broker.retries import Retries
from resprout.values.rows import is_retained


def by_time(portion: Portion, rows: Sequence[Attributes], retries: Retries, is_shared: bool) -> list[Portion]:
    """Divide a portion by when its messages are due (`Portion.due_us`) and by their priorities, and note when they
    expire. Delayed messages have no order, so their keys lock nothing. Where consumers share (`is_shared`), messages
    without keys have priorities."""
    bundle = portion.bundle
    if is_retained(bundle):
        return [portion]
    portion.expiries = {at: us for at in portion.offsets if (us := expires_of(rows[at]))}
    is_eventual, wall_us = bundle.guarantee is Guarantee.EVENTUAL, retries.wall_us
    parts: dict[tuple[int, int], list[int]] = {}
    for at in portion.offsets:
        due_us = due_of(rows[at]) if is_eventual else 0
        priority = priority_of(rows[at]) if is_shared and not portion.keys else 0
        parts.setdefault((due_us if due_us > wall_us else 0, priority), []).append(at)
    found: list[Portion] = []
    for (due_us, priority), offsets in parts.items():
        part = portion.cut(offsets)
        part.priority = priority
        if due_us:
            part.due_us, part.keys = due_us - retries.epoch_us, ()
        found.append(part)
    return found
