"""How runs came out: kept every promise, broke one that is known to be broken, broke another, did not come to rest, or
were not judged."""

import enum
from collections.abc import Iterable

from resprout.audit.verdict import CLEAN, NOT_JUDGED, UNFINISHED, VIOLATED
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.known import is_documented


class RunStanding(enum.Enum):
    """How a run came out: the word for it, and the class it is shown with. The worst comes first."""

    VIOLATED = (VIOLATED, "bad")
    UNFINISHED = (UNFINISHED, "bad")
    NOT_JUDGED = (NOT_JUDGED, "plain")
    DOCUMENTED = ("documented anomaly", "known")
    CLEAN = (CLEAN, "good")

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def look(self) -> str:
        return self.value[1]


def standing_of(facts: RunFacts) -> RunStanding:
    verdict = facts.verdict
    if verdict is None:
        return RunStanding.NOT_JUDGED
    if verdict.status == VIOLATED:
        told = verdict.rules_violated and all(is_documented(facts.stack, rule) for rule in verdict.rules_violated)
        return RunStanding.DOCUMENTED if told else RunStanding.VIOLATED
    by_status = {CLEAN: RunStanding.CLEAN, UNFINISHED: RunStanding.UNFINISHED}
    return by_status.get(verdict.status, RunStanding.NOT_JUDGED)


def worst_of(facts: Iterable[RunFacts]) -> RunStanding:
    found = set(map(standing_of, facts))
    return next(standing for standing in RunStanding if standing in found)


def count_standings(facts: Iterable[RunFacts]) -> dict[RunStanding, int]:
    found = dict.fromkeys(RunStanding, 0)
    for one in facts:
        found[standing_of(one)] += 1
    return found
