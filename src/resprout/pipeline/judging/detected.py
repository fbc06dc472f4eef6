"""What a look at the numbers of a run finds out: which rules are broken, and all of a verdict but the explanations."""

import msgspec

from resprout.audit.judge import Case
from resprout.audit.verdict import Verdict, verdict_of
from resprout.core.guarantee import Promises
from resprout.trace.store import Trace


class Detected(msgspec.Struct):
    """`odd`: the rows do not make sense, or not to this; then nothing else holds and the judge in Python decides."""

    odd: str = ""
    broken: set[str] = msgspec.field(default_factory=set)
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    skipped: dict[str, str] = msgspec.field(default_factory=dict)
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    promise: Promises = Promises()

    @property
    def needs_explanation(self) -> bool:
        return bool(self.odd or self.broken)

    def verdict(self) -> Verdict:
        """Of a run in which nothing is broken."""
        assert not self.needs_explanation, "what is broken is explained by the judge in Python"
        return verdict_of([], self.notes, self.skipped, self.counts, promise=self.promise)

    def explained(self, trace: Trace) -> Verdict | None:
        """Of one in which rules are broken: only these are looked at once more. None when nothing is found there, so
        that somebody else has to decide."""
        found, more = Case(trace).anomalies(self.broken)
        verdict = verdict_of(found, self.notes, self.skipped, self.counts, more, self.promise)
        broken = {check.rule for check in verdict.checks if check.anomalies}
        return verdict if broken == self.broken else None
