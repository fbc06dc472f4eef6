"""Every rule on one run, on arrays: what is broken, without the words for it.

Written from the definitions and not from `audit`, whose opinion it is compared with; it shares with it only how
subscriptions, filters, keys and attribute values are read.
"""

from resprout.audit.judge import BANK_INITIAL
from resprout.pipeline.judging.bank_applied import AppliedRows
from resprout.pipeline.judging.columns import UnreadableError, Words
from resprout.pipeline.judging.context import Context, applied_of
from resprout.pipeline.judging.deliveries import Deliveries, slim
from resprout.pipeline.judging.detected import Detected
from resprout.pipeline.judging.fingerprint import Fingerprint
from resprout.pipeline.judging.hints import Hints, gather
from resprout.pipeline.judging.intake import RowIntake
from resprout.pipeline.judging.reading import groups_of, read_group
from resprout.pipeline.judging.shard import conclude, judge_shard
from resprout.pipeline.places import RunPlace


def detect(place: RunPlace, is_sealed: bool) -> Detected:
    """`is_sealed`: the part files are known to be those of the run; otherwise their digest is taken on the way."""
    try:
        return _detect(place, None if is_sealed else Fingerprint())
    except UnreadableError as error:
        return Detected(odd=str(error) or "unreadable")


def bank_initial_of(place: RunPlace) -> int:
    known = place.info.scenario.get("bank_initial", place.info.options.get("bank_initial"))
    return known if isinstance(known, int) else BANK_INITIAL


def _detect(place: RunPlace, fingerprint: Fingerprint | None) -> Detected:
    words = Words()
    intake = RowIntake(words, keeps_deliveries=True)
    for group in groups_of(place.parts):
        intake.add(read_group(group, words, fingerprint))
    check_digest(place, fingerprint)
    talk, given = intake.arranged()
    context = Context(talk, given, words, intake.rows, place.info.promise)
    given.reverse()
    deliveries = Deliveries.joined([slim(given.pop(), context) for _ in range(len(given))]).by_life()
    applied = AppliedRows(applied_of(talk, words), context)
    hints = Hints(context)
    hints.join(gather(context, deliveries, applied, with_links=False))
    hints.settle()
    initial = bank_initial_of(place)
    findings = judge_shard(context, hints, deliveries, applied, context.wishes.of_life, initial)
    return conclude(context, hints, [findings], initial)


def check_digest(place: RunPlace, fingerprint: Fingerprint | None) -> None:
    if fingerprint is not None and fingerprint.value != place.info.digest:
        raise UnreadableError("the rows are not those of the run")
