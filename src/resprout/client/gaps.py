"""Gaps of a journal of events, as a program is told of them."""

from collections.abc import Callable
from datetime import UTC, datetime

from resprout.edge.messages import EventGap

TellGap = Callable[[str, EventGap], None]
"""Told the journal, and what is missing there."""


def gap_text(journal: str, gap: EventGap) -> str:
    """Say in one sentence which events are missing: positions, times and cause."""
    end = f"position {gap.following}{_at(gap.until_us)}"
    where = f"between position {gap.position - 1}{_at(gap.from_us)} and {end}" if gap.position else f"before {end}"
    return f"events {where} are missing in {journal}: {gap.reason}"


def _at(time_us: int) -> str:
    if not time_us:
        return ""
    try:
        time = datetime.fromtimestamp(time_us / 1_000_000, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):  # what a broker says need not be a time
        return ""
    return f" ({time.isoformat(timespec='milliseconds')}Z)"
