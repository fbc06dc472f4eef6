"""What the live judge and the judge of whole traces say, made comparable.

They must agree on which rules are broken, where and when. They may differ in the cause of a causal violation (the live
judge tells the first that shows), in the other total of one at a wrong place, in which cycle of a knot of totals is
told, and in the names of a client's first incarnation, which have no number as long as there is no second.
"""

from collections.abc import Sequence
from typing import Any, Final

from resprout.audit.live.judge import LIVE_RULES, LiveJudge
from resprout.audit.live.memory import LiveOptions
from resprout.audit.verdict import Anomaly, Verdict
from resprout.core.guarantee import Promises
from resprout.trace.schema import Row

EVER: Final = 10**15
PATIENT: Final = LiveOptions(lateness_us=0, grace_us=EVER, linger_us=EVER, horizon_us=EVER)
"""Forgets nothing, and decides nothing before the end that the end decides."""
EXACT: Final = ("identity", "invented", "unasked", "twice", "position", "lost", "lost_told", "fifo")
"""Rules whose anomalies are the same to the last letter."""


def watched(
    rows: Sequence[Row],
    options: LiveOptions = PATIENT,
    at_a_time: int = 7,
    restarts: bool = False,
    promise: Promises = Promises(),  # noqa: B008
) -> list[Anomaly]:
    """What a live judge says of rows that come a few at a time; with `restarts`, a new judge goes on each time."""
    judge = LiveJudge(options, promise)
    found: list[Anomaly] = []
    for begin in range(0, len(rows), at_a_time):
        found += judge.take(rows[begin : begin + at_a_time])
        if restarts:
            judge = LiveJudge.from_state(judge.state())
    return [*found, *judge.close()]


def assert_agree(rows: Sequence[Row], live: Sequence[Anomaly], verdict: Verdict, what: object) -> None:
    names = _Names(rows)
    judged = [a for a in verdict.anomalies if a.rule in LIVE_RULES]
    assert _exact(names, live) == _exact(names, judged), what
    assert _first_of(names, live, "causal") == _first_of(names, judged, "causal"), what
    assert _first_of(names, live, "tseq") == _first_of(names, judged, "tseq"), what
    knots = [a for a in judged if a.rule == "total"]
    said = [a for a in live if a.rule == "total"]
    assert bool(said) == bool(knots), what
    assert len(said) >= len(knots), what
    if not knots:  # a pair whose totals contradict each other has no barriers, which the live judge learns only then
        assert _barriers(names, live) == _barriers(names, judged), what


def _exact(names: "_Names", anomalies: Sequence[Anomaly]) -> list[Any]:
    return sorted(
        (a.rule, a.time_us, a.subscriber, names.all(a.messages), names.in_text(a.explanation))
        for a in anomalies
        if a.rule in EXACT
    )


def _first_of(names: "_Names", anomalies: Sequence[Anomaly], rule: str) -> list[Any]:
    return sorted((a.time_us, a.subscriber, names.one(a.messages[0])) for a in anomalies if a.rule == rule)


def _barriers(names: "_Names", anomalies: Sequence[Anomaly]) -> list[Any]:
    return sorted(
        (names.one(a.messages[0]), a.explanation.rpartition("(all name ")[2]) for a in anomalies if a.rule == "barrier"
    )


class _Names:
    """Writes every incarnation out."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._first: dict[str, int] = {}
        for row in rows:
            if row.kind == "publish" and row.publisher is not None and row.incarnation is not None:
                self._first.setdefault(row.publisher, row.incarnation)

    def one(self, name: str) -> str:
        publisher, _, number = name.partition(":")
        return name if "." in publisher else f"{publisher}.{self._first.get(publisher, '?')}:{number}"

    def all(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.one, names))

    def in_text(self, text: str) -> str:
        return " ".join(self.one(word) if ":" in word else word for word in text.replace(",", " ,").split(" "))
