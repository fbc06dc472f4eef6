"""Holds rows back until no earlier one is expected, and then lets them go in the order of their times.

The watermark is the latest time seen, less the lateness that is allowed. A row that comes when the watermark has passed
its time is late: it is judged at once, as if it had happened now, and counted. Rows of one node come in order, and what
a row speaks of leaves its process after it was written down; so a late row is rarely misjudged, and never ignored.
Rows of equal times are judged in the order in which they came.
"""

from bisect import bisect_right
from collections.abc import Sequence

from resprout.audit.live.memory import Memory
from resprout.trace.schema import Row


def hold(memory: Memory, rows: Sequence[Row]) -> int:
    """Takes rows in; returns how many of them are late."""
    memory.held.extend(rows)
    if rows:
        memory.seen_us = max(memory.seen_us, max(row.time_us for row in rows))
    return sum(row.time_us < memory.watermark_us for row in rows)


def release(memory: Memory, everything: bool = False) -> list[Row]:
    """Gives out the rows up to the watermark, which it moves first; or all of them."""
    memory.held.sort(key=lambda row: row.time_us)
    mark_us = memory.seen_us if everything else memory.seen_us - memory.options.lateness_us
    if mark_us <= memory.watermark_us and not everything:
        mark_us = memory.watermark_us
    memory.watermark_us = mark_us
    end = bisect_right(memory.held, mark_us, key=lambda row: row.time_us)
    released = memory.held[:end]
    del memory.held[:end]
    return released
