"""The live judge: rows go in as they are written, violations come out as they show, and old rows are forgotten.

Rows go in in the order in which they arrive. `hold` keeps them back until no earlier one is expected, and `release`
lets them go in the order of their times. The watermark is the latest time seen, less the lateness that is allowed. A
row that comes after the watermark has passed its time is late: it is judged at once, as if it had happened now, and
counted. Rows of one node come in order, and a process writes a row before anything that the row speaks of leaves it; so
a late row is rarely misjudged, and never ignored. Rows of equal times are judged in the order in which they came.

The memory of the judge can be written and read back at any time, so another process can resume it. It is bounded
(`forget_old`): a publication is forgotten some time after all its subscribers have it, once no total before it is in
flight, and in any case at the horizon. Its number among those published, its number among those delivered at each
subscriber, and its place in the clocks of clients remain. A dead client is forgotten at the horizon after its death.
Therefore a second delivery is noticed but not explained, unless the numbers delivered at that subscriber lie in many
pieces; a first delivery later than the horizon is counted and not judged; and a violation of order between two
deliveries that are further apart than their publications are remembered is missed.

The judge applies the rules in `LIVE_RULES`, with the meaning that `audit.judge` gives them. Order at a subscriber is
the order of its rows here; where positions say otherwise, that is a violation of its own. Receipts, durable
subscriptions and the bank need the whole trace and are judged by `audit.judge` only. `live_lines` and `live_as_dict`
print the outcome for people and for programs; both forms are stable.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

from resprout.audit.live import presence, totals
from resprout.audit.live.memory import (
    KeptLife,
    KeptPublication,
    LiveOptions,
    LiveView,
    Memory,
    from_bytes,
    kept,
    to_bytes,
)
from resprout.audit.live.reading import RowReading
from resprout.audit.verdict import CLEAN, MET_TIME_LIMIT, RULES, UNFINISHED, VIOLATED, Anomaly
from resprout.core.guarantee import Promises
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.trace.store import ABORTED, ENDS

_SPARE: Final = 256

LIVE_RULES: Final = (
    "identity", "invented", "unasked", "twice", "position", "lost", "lost_told", "fifo", "causal", "barrier", "total",
    "tseq",
)  # fmt: skip

_ENDS: Final = {
    kinds.QUIESCENT: "the run came to rest",
    kinds.TIMEOUT: "the run met its time limit",
    ABORTED: "the run was broken off",
    "": "the run goes on",
}
_NOTES: Final = {
    "late": "rows came later than is allowed, and were judged when they came",
    "beyond_horizon": "deliveries were older than the horizon: only repetition and fifo were judged",
    "owed_and_forgotten": "deliveries were owed for longer than the horizon, and too many of them to follow",
    "after_the_end": "rows came after the end, and were not judged",
}


def forget_old(view: LiveView, now_us: int) -> None:
    _forget_beyond(view, now_us - view.memory.options.horizon_us)
    _forget_complete(view, now_us - view.memory.options.linger_us)
    _forget_dead(view, now_us - view.memory.options.horizon_us)
    _trim(view)


def _forget_beyond(view: LiveView, before_us: int) -> None:
    publications = view.memory.publications
    while publications:
        p = next(iter(publications.values()))
        if p.time_us > before_us:
            return
        presence.given_up(view, p)
        _forget(view, p)
        view.count("forgotten_at_horizon")


def _forget_complete(view: LiveView, before_us: int) -> None:
    memory = view.memory
    staying: list[int] = []
    for place, number in enumerate(memory.complete):
        p = memory.publications.get(number)
        if p is None:
            continue
        if p.complete_us > before_us:
            staying += memory.complete[place:]
            break
        if totals.may_be_forgotten(view, p):
            presence.given_up(view, p)
            _forget(view, p)
        else:
            staying.append(number)
    memory.complete = staying


def _forget(view: LiveView, p: KeptPublication) -> None:
    memory = view.memory
    totals.forget(view, p)
    stream = p.id[:3]
    for number in (*p.had, *p.early):
        life = memory.lives.get(number)
        if life is not None:
            presence.add_number(life.passed.setdefault(stream, []), p.id[3])
    del memory.publications[p.number]
    del memory.number_of[p.id]


def _forget_dead(view: LiveView, before_us: int) -> None:
    memory = view.memory
    for life in [life for life in memory.lives.values() if 0 <= life.ended_us <= before_us]:
        del memory.lives[life.number]
        if memory.current.get(life.node) == life.number:
            del memory.current[life.node]
        _forget_sources(memory, life)
        for stream in life.streams:
            memory.published.pop(stream, None)
            memory.last_forgotten[stream[0]] = max(stream[1], memory.last_forgotten.get(stream[0], stream[1]))
            for other in memory.lives.values():
                other.passed.pop(stream, None)


def _forget_sources(memory: Memory, life: KeptLife) -> None:
    """Nothing depends any more on what it published."""
    last = memory.last_ordered.get(life.node, {})
    for lane in [lane for lane, one in last.items() if one.life == life.number]:
        del last[lane]
    if not last:
        memory.last_ordered.pop(life.node, None)
    clocks = [lane.clock for other in memory.lives.values() for lane in other.lanes.values()]
    clocks += [one.past for of_node in memory.last_ordered.values() for one in of_node.values()]
    for clock in clocks:
        for own in life.lanes.values():
            clock.pop(own.source, None)


def _trim(view: LiveView) -> None:
    """Lists of numbers, most of them of things that are forgotten."""
    publications = view.memory.publications
    for life in view.memory.lives.values():
        if len(life.recent) > _SPARE + 2 * len(publications):
            life.recent = [number for number in life.recent if number in publications]
        for lane in life.lanes.values():
            if len(lane.given) > _SPARE + 2 * len(publications):
                lane.given = [number for number in lane.given if number in publications]


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
        presence.judge_rest(view, came_to_rest=ended == kinds.QUIESCENT)
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
        presence.look_for_gaps(view, waited_us)
        forget_old(view, now_us)

    def _hand_out(self) -> list[Anomaly]:
        return self._view.hand_out()

    def _count(self, what: str, number: int) -> None:
        if number:
            self._memory.counts[what] = self._memory.counts.get(what, 0) + number


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


def was_judged(counts: Mapping[str, int], found: Mapping[str, int], ended: str) -> bool:
    """Whether anything came that can keep or break a promise, or the end of a run in which nothing was to come."""
    return bool(ended or any(found.values()) or counts.get("publications") or counts.get("deliveries"))


def reliability(counts: Mapping[str, int]) -> float | None:
    """The share of owed deliveries that came, of a run that promises probability; None of any other."""
    if not {"came", "missing", "missing_told"} & counts.keys():
        return None
    return counts.get("came", 0) / _owed(counts)


def _owed(counts: Mapping[str, int]) -> int:
    return counts.get("came", 0) + counts.get("missing", 0) + counts.get("missing_told", 0)


def live_lines(counts: Mapping[str, int], found: Mapping[str, int], ended: str) -> list[str]:
    """`counts` and `found` of a `LiveJudge`; `ended`: nothing while the run goes on."""
    if not was_judged(counts, found, ended):
        rows = counts.get("rows", 0)
        seen = f"{rows} rows came, and no publication or delivery among them" if rows else "no rows came"
        return [f"nothing was judged: {seen}"]
    published, delivered = counts.get("publications", 0), counts.get("deliveries", 0)
    text = [f"{published} publications and {delivered} deliveries judged as they happened; {_ENDS[ended]}"]
    text += [f"{counts[what]} {words}" for what, words in _NOTES.items() if counts.get(what)]
    width = max(map(len, LIVE_RULES))
    text += [f"{rule:<{width}}  violated ({found[rule]})  {RULES[rule]}" for rule in LIVE_RULES if found.get(rule)]
    if (share := reliability(counts)) is not None and ended == kinds.QUIESCENT:
        told = f"; of {counts['missing_told']} the client was told" if counts.get("missing_told") else ""
        text.append(f"reliability {share:.6f}: {counts.get('came', 0)} of {_owed(counts)} owed deliveries came{told}")
    if ended != kinds.QUIESCENT:
        text.append("what is only missing was not judged: it may still come")
    broken = [rule for rule in LIVE_RULES if found.get(rule)]
    if broken:
        text.append(f"VIOLATED: {sum(found.values())} anomalies ({', '.join(broken)})")
    elif ended == kinds.TIMEOUT:
        text.append(f"UNFINISHED: {MET_TIME_LIMIT}; no violation, as far as it was watched")
    else:
        text.append("clean, as far as it was watched (receipts, durable subscriptions and banks: resprout audit)")
    return text


def live_as_dict(counts: Mapping[str, int], found: Mapping[str, int], ended: str) -> dict[str, Any]:
    judged = VIOLATED if any(found.values()) else UNFINISHED if ended == kinds.TIMEOUT else CLEAN
    return {
        "verdict": judged if was_judged(counts, found, ended) else "not judged",
        "ended": ended,
        "counts": dict(counts),
        "rules": {rule: found.get(rule, 0) for rule in LIVE_RULES},
    } | ({"reliability": share} if (share := reliability(counts)) is not None and ended == kinds.QUIESCENT else {})
