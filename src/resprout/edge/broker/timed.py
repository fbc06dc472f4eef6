"""Which messages of a durable subscription are delayed, when they expire, and which go first (`core.timing`).

A bundle may hold a thousand messages with a time each, and many subscriptions may want it. So its attributes are read
once for all of them (`TimesCache`), its delayed messages wait together (`Portion.delays`), and those whose time has
come are found in the order of their times.
"""

from bisect import bisect_left
from collections.abc import Sequence

from resprout.core.bundle import Bundle, timed_rows
from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.core.timing import due_of, expires_of, priority_of
from resprout.edge.broker.portion import Portion, Times
from resprout.edge.broker.retries import Retries
from resprout.values.rows import is_retained


class MessageTimes:
    """Times and priorities of the messages of one bundle, by their places in it."""

    __slots__ = ("delays", "expiries", "priorities")

    def __init__(self, bundle: Bundle, rows: Sequence[Attributes]) -> None:
        is_eventual = bundle.guarantee is Guarantee.EVENTUAL
        self.delays: Times = tuple(sorted([(us, at) for at, row in enumerate(rows) if (us := due_of(row))]))
        """Only of `eventual` messages: ordered ones are not held back."""
        self.expiries: Times = tuple(sorted([(us, at) for at, row in enumerate(rows) if (us := expires_of(row))]))
        self.priorities = {at: priority for at, row in enumerate(rows) if (priority := priority_of(row))}
        if not is_eventual:
            self.delays = ()


class TimesCache:
    """The times of the bundle that was looked at last: it comes to all subscriptions in one step."""

    def __init__(self) -> None:
        self._bundle: Bundle | None = None
        self._times: MessageTimes | None = None

    def of(self, bundle: Bundle) -> MessageTimes | None:
        """Return the times of a bundle; None if it has none, or cannot be read."""
        if bundle is not self._bundle:
            rows = timed_rows(bundle)
            self._bundle = bundle
            self._times = None if rows is None or is_retained(bundle) else MessageTimes(bundle, rows)
        return self._times

    def clear(self) -> None:
        self._bundle = self._times = None


def by_time(portion: Portion, times: MessageTimes, retries: Retries, is_shared: bool) -> list[Portion]:
    """Divide a portion into messages that are handed out now and delayed ones, and by their priorities, and note when
    they expire. Delayed messages have no order, so their keys lock nothing. Where consumers share (`is_shared`),
    messages without keys have priorities."""
    portion.expiries = times.expiries
    begin = bisect_left(times.delays, (retries.wall_us + 1, 0))
    later = {at for _, at in times.delays[begin:]}
    priorities = times.priorities if is_shared and not portion.keys else {}
    if not later and not priorities:
        return [portion]
    parts: dict[tuple[bool, int], list[int]] = {}
    for at in portion.offsets:
        parts.setdefault((at in later, priorities.get(at, 0)), []).append(at)
    found: list[Portion] = []
    for (is_delayed, priority), offsets in parts.items():
        part = portion.cut(offsets)
        part.priority = priority
        if is_delayed:
            part.delays, part.delays_passed, part.keys = times.delays, begin, ()
            part.due_us = times.delays[begin][0] - retries.epoch_us
        found.append(part)
    return found
