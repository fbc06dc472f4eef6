"""Finds what a journal of events does not hold, while its records are read in order.

There are four kinds of gaps: the broker was down between two of its lives, left events out, or stopped keeping them
(coverage marks say so, see `event_record`); positions are missing because a damaged journal was mended; a record cannot
be read; and retention has dropped what was kept at the time from which somebody wants to read.
"""

from resprout.core import limits
from resprout.core.event_journal import Kept
from resprout.edge.broker.event_record import CoverageMark, KeptEvent
from resprout.edge.messages import EventGap, ReadEvents


class GapFinder:
    """Reads one page. `first` is the first position that the journal holds."""

    def __init__(self, broker: str, first: int, asked: ReadEvents) -> None:
        self._broker = broker
        self._first = first
        self._since_us = asked.time_us if asked.position == -1 else 0
        self._expected = asked.position if asked.position >= 0 else None
        """The position of the next record; None when any may be the first."""
        self._last_us = 0
        """When the record before was written, if that is known."""

    def look(self, kept: Kept, found: KeptEvent | CoverageMark | None) -> EventGap | None:
        """Return the gap that begins before this record, or at it."""
        start = kept.position if self._expected is None else self._expected
        is_dropped = self._expected is None and self._first == kept.position > 0 and 0 < self._since_us < kept.time_us
        from_us, until_us, following = self._last_us, kept.time_us, kept.position
        self._expected, self._last_us = kept.position + 1, kept.time_us
        cause = ""
        if is_dropped:
            from_us = self._since_us
            cause = f"broker {self._broker} does not keep them any longer"
        elif kept.position > start:
            cause = f"the journal of broker {self._broker} was damaged and mended"
        if found is None:
            following = kept.position + 1
            cause = f"broker {self._broker} cannot read this record"
        elif isinstance(found, CoverageMark) and (kept.position > 0 or found.ended or found.left_out):
            following = kept.position + 1
            from_us = found.earlier_us or from_us
            cause = self._cause_of(found, kept.position)
            until_us = 0 if found.ended else until_us
        if not cause:
            return None
        return EventGap(start, following, from_us, until_us, as_reason(cause))

    def _cause_of(self, mark: CoverageMark, position: int) -> str:
        causes: list[str] = []
        if position > 0 and mark.earlier_life != mark.life and not mark.ended:
            lives = f"between its lives {mark.earlier_life} and" if mark.earlier_life else "before its life"
            causes.append(f"was down {lives} {mark.life}")
        if mark.left_out:
            causes.append(mark.left_out)
        if mark.ended:
            causes.append(f"stopped keeping events in its life {mark.life}: {mark.ended}")
        return f"broker {self._broker} {', and '.join(causes)}"


def as_reason(text: str) -> str:
    """Cut a text to what a message may hold."""
    return text.encode()[: limits.REASON_BYTES].decode(errors="ignore")
