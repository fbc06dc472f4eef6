"""Which messages of a durable subscription are delayed, and when they expire (`core.timing`)."""

from collections.abc import Sequence

from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.core.timing import due_of, expires_of
from resprout.edge.broker.portion import Portion
from resprout.edge.broker.retries import Retries
from resprout.values.rows import is_retained


def by_time(portion: Portion, rows: Sequence[Attributes], retries: Retries) -> list[Portion]:
    """Divide a portion by when its messages are due (`Portion.due_us`), and note when they expire. Delayed messages
    have no order, so their keys lock nothing."""
    bundle = portion.bundle
    if is_retained(bundle):
        return [portion]
    portion.expiries = {at: us for at in portion.offsets if (us := expires_of(rows[at]))}
    if bundle.guarantee is not Guarantee.EVENTUAL:
        return [portion]
    wall_us = retries.wall_us
    parts: dict[int, list[int]] = {}
    for at in portion.offsets:
        due_us = due_of(rows[at])
        parts.setdefault(due_us if due_us > wall_us else 0, []).append(at)
    found: list[Portion] = []
    for due_us, offsets in parts.items():
        part = portion.cut(offsets)
        if due_us:
            part.due_us, part.keys = due_us - retries.epoch_us, ()
        found.append(part)
    return found
