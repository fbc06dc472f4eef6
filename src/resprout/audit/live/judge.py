"""The live judge: rows go in as they are written, violations come out as they show.

It is given rows in the order in which they arrive, holds them back for a moment to have them in the order of their
times (`audit.live.holding`), and judges each with what it remembers of those before. All that it remembers can be
written down and read back at any time, so it can go on elsewhere. Its memory is bounded: see `audit.live.forgetting`
for what is forgotten, and what may be missed for that.

Judged are the rules in `LIVE_RULES`, with the meaning that `audit.judge` gives them. Order at a subscriber is the order
of its rows here; where positions say otherwise, that is reported as a violation of its own. Receipts, durable
subscriptions and the bank are for those who see the whole trace.
"""

from collections.abc import Sequence
from typing import Final

from resprout.audit.live import gaps, presence
from resprout.audit.live.forgetting import forget_old
from resprout.audit.live.holding import hold, release
from resprout.audit.live.memory import LiveOptions, Memory, from_bytes, to_bytes
from resprout.audit.live.reading import RowReading
from resprout.audit.live.view import LiveView, kept
from resprout.audit.verdict import Anomaly
from resprout.core.promises import Promises
from resprout.trace import kinds
from resprout.trace.live_folder import ABORTED, ENDS
from resprout.trace.schema import Row

LIVE_RULES: Final = (
    "identity", "invented", "unasked", "twice", "position", "lost", "lost_told", "fifo", "causal", "barrier", "total",
    "tseq",
)  # fmt: skip


class LiveJudge:
    def __init__(
        self,
        options: LiveOptions = LiveOptions(),  # noqa: B008 (it is frozen)
        promise: Promises = Promises(),  # noqa: B008 (it is frozen)
    ) -> None:
        """`promise`: what the run is judged by, unless its first row says."""
        self._begin(Memory(options, promise))

    @classmethod
    def from_state(cls, state: bytes) -> "LiveJudge":
        """Goes on where another one was; ValueError when that is not what it is."""
        judge = cls.__new__(cls)
        judge._begin(from_bytes(state))
        return judge

    def state(self) -> bytes:
        """All that it remembers."""
        self._memory.subscriptions = kept(self._view.interest)
        written = to_bytes(self._memory)
        self._memory.subscriptions = []
        return written

    def _begin(self, memory: Memory) -> None:
        self._memory = memory
        self._view = LiveView(memory)
        self._reading = RowReading(self._view)

    # -- for its user --------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> str:
        """How the run ended, as the kind of its last row, when that has come."""
        return self._memory.ended

    @property
    def counts(self) -> dict[str, int]:
        """What was judged, and what was not."""
        return {"rows": self._memory.row, **self._memory.counts}

    @property
    def found(self) -> dict[str, int]:
        """Anomalies so far, by rule."""
        return dict(self._memory.found)

    @property
    def watermark_us(self) -> int:
        """Every row up to this time has been judged."""
        return self._memory.watermark_us

    @property
    def held(self) -> int:
        """How many rows wait for the watermark."""
        return len(self._memory.held)

    def take(self, rows: Sequence[Row]) -> list[Anomaly]:
        """More rows, as they arrived; what they, and those held back before, show to be wrong. TraceError for rows that
        do not make sense at all."""
        memory = self._memory
        if memory.ended:
            self._count("after_the_end", len(rows))
            return []
        self._count("late", hold(memory, rows))
        ending = next((row.kind for row in rows if row.kind in ENDS), "")
        self._judge(release(memory, everything=bool(ending)))
        if ending:
            self._finish(ending)
        elif memory.watermark_us >= memory.look_us:
            self._look_back(memory.watermark_us)
        return self._hand_out()

    def pause(self) -> list[Anomaly]:
        """Nothing has come for so long that nothing earlier than the rows held back will come: judge them now, and what
        is missing as if time had passed."""
        if not self._memory.ended:
            self._judge(release(self._memory, everything=True))
            self._look_back(self._memory.seen_us + self._memory.options.grace_us + self._memory.options.tick_us)
        return self._hand_out()

    def close(self) -> list[Anomaly]:
        """No more rows will come, though the run has not ended: what is held back is judged, what is missing is not."""
        if not self._memory.ended:
            self._judge(release(self._memory, everything=True))
            self._finish(ABORTED)
        return self._hand_out()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _judge(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.time_us >= self._memory.look_us:
                self._look_back(row.time_us)
            self._reading.read(row)

    def _finish(self, ended: str) -> None:
        """What has not come by now will not come."""
        view, memory = self._view, self._memory
        presence.give_up_strays(view, memory.seen_us)
        gaps.judge_rest(view, came_to_rest=ended == kinds.QUIESCENT)
        left = Memory(
            memory.options, memory.promise, row=memory.row, ended=ended, counts=memory.counts, found=memory.found
        )
        left.seen_us = left.watermark_us = memory.seen_us
        self._begin(left)
        self._view.found = view.found

    def _look_back(self, now_us: int) -> None:
        """At whole ticks of the run's own time, so that it does not matter how many rows come at once."""
        memory, view = self._memory, self._view
        now_us -= now_us % memory.options.tick_us
        memory.look_us = now_us + memory.options.tick_us
        waited_us = now_us - memory.options.grace_us
        presence.give_up_strays(view, waited_us)
        gaps.look_for_gaps(view, waited_us)
        forget_old(view, now_us)

    def _hand_out(self) -> list[Anomaly]:
        return self._view.hand_out()

    def _count(self, what: str, number: int) -> None:
        if number:
            self._memory.counts[what] = self._memory.counts.get(what, 0) + number
