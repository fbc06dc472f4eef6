"""What a run says beside its deliveries, and what the judge finds out: the values that all judging tasks share.

`Context` is small, and every task that judges a portion of a run gets it. `Receipts` is the part of it about receipts:
what publishers were told, and whether it can be true. `Detected` is the result: which rules are broken, and all of a
verdict but the explanations.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from resprout.audit.history import UNREST, CalmTimes, Shock
from resprout.audit.judge import Case
from resprout.audit.verdict import Verdict, verdict_of
from resprout.core.guarantee import Promises
from resprout.core.timing import DUE, EXPIRES, MESSAGE_ID, PUBLISHED
from resprout.pipeline.judging.columns import NEVER, NULL, Array, Rows, UnreadableError, Words, is_same
from resprout.pipeline.judging.durables import CONSUMING, ENDING, ConsumedRows, DurableArrays
from resprout.pipeline.judging.logs import LOGGED, LogArrays, LogRows
from resprout.pipeline.judging.publications import Lives, MessageIndex, Operations, Publications, check_publish
from resprout.pipeline.judging.wishes import SubscriberWishes
from resprout.trace import kinds
from resprout.trace.store import Trace

if TYPE_CHECKING:
    from resprout.pipeline.judging.deliveries import Subscriber

_RECEIPT_STEPS: Final = ("accepted", "safe", "delivered")
_SAFE, _DELIVERED, _FAILED, _UNKNOWN = 1, 2, 3, -1

_SUBSCRIPTION_STEPS = (kinds.SUBSCRIBE, kinds.SUBSCRIBED, kinds.UNSUBSCRIBE, kinds.UNSUBSCRIBED)
_SHAKING = (
    kinds.FREEZE, kinds.UNFREEZE, kinds.CRASH, kinds.LEAVE, kinds.CUT, kinds.PARTITION, kinds.HEAL,
)  # fmt: skip
_OBSERVING = (kinds.PUBLISH, kinds.APPLIED, *_SUBSCRIPTION_STEPS)
"""What begins the life of a client, beside deliveries."""


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


class Receipts:
    def __init__(
        self,
        rows: Rows,
        refused_number: Array,
        refused_row: Array,
        words: Words,
        publications: Publications,
        index: MessageIndex,
    ) -> None:
        """`rows`: receipts; `refused`: number (by the index, all known) and row of what was refused, in order."""
        count = len(publications)
        self._publications = publications
        self.count = len(rows)
        self.refused_count = len(np.unique(refused_number))
        size = int(refused_number.max(initial=count - 1)) + 1
        self.refused_at = np.full(size, NEVER, dtype=np.int64)
        """By number, also of what nobody published."""
        self.refused_at[refused_number[::-1]] = refused_row[::-1]
        step = _steps(rows, words)
        number = index.find(rows.publisher, rows.incarnation, rows.stream, rows.seq)
        known = (number >= 0) & (number < count)
        self.is_accepted, self.is_safe, self.has_failed = (np.zeros(count, dtype=np.bool_) for _ in range(3))
        self.is_accepted[number[known & (step != _FAILED)]] = True
        self.is_safe[number[known & ((step == _SAFE) | (step == _DELIVERED))]] = True
        self.has_failed[number[known & (step == _FAILED)]] = True
        founded = known.copy()
        founded[known] = publications.row[number[known]] < rows.row[known]
        in_time = founded.copy()
        in_time[founded] = self.refused_at[number[founded]] > rows.row[founded]
        self.delivered_at = np.full(count, NEVER, dtype=np.int64)
        """The row of the first receipt that says so."""
        told = np.flatnonzero(in_time & (step == _DELIVERED))[::-1]
        self.delivered_at[number[told]] = rows.row[told]
        self.told_at = np.full(count, NEVER, dtype=np.int64)
        """The same, whatever else is wrong with the receipt."""
        told = np.flatnonzero(known & (step == _DELIVERED))[::-1]
        self.told_at[number[told]] = rows.row[told]
        valid = np.flatnonzero(in_time & (step != _FAILED))
        self._reached = np.full(count, -1, dtype=np.int64)
        """By publication, the furthest that its publisher was told."""
        np.maximum.at(self._reached, number[valid], step[valid])
        self.is_broken = not in_time.all() or _falls(number[valid], step[valid])

    def owed(self, heard_by_correct: Array, correct: Array, may_block: Array) -> Array:
        """For each publication, whether it is owed where it is due. `may_block`: a durable subscription that nobody
        consumes asks for it."""
        of_correct = correct[self._publications.life] & ~self.has_failed & ~self._held(may_block)
        refused = self.refused_at[: len(self._publications)] != NEVER
        owed: Array = ~refused & (self.is_safe | heard_by_correct | of_correct)
        return owed

    def _held(self, may_block: Array) -> Array:
        """The publications that wait at their publishers; see `audit.loss`."""
        publisher = self._publications.publisher
        first = np.full(int(publisher.max(initial=0)) + 1, NEVER, dtype=np.int64)
        blocked = np.flatnonzero(may_block & ~self.is_accepted)
        np.minimum.at(first, publisher[blocked], blocked)
        held: Array = ~self.is_accepted & (np.arange(len(publisher)) >= first[publisher])
        return held

    def misses_last(self, is_hindered: Array, correct: Array, given: tuple[str, ...]) -> bool:
        """Whether `safe` was never told of something accepted, or `delivered` of what is not hindered; `given`: those
        that are promised."""
        due = (self._reached >= 0) & correct[self._publications.life] & ~self.has_failed
        due &= self.refused_at[: len(self._publications)] == NEVER
        misses = np.zeros(len(due), dtype=np.bool_)
        if _RECEIPT_STEPS[_SAFE] in given:
            misses |= self._reached < _SAFE
        if _RECEIPT_STEPS[_DELIVERED] in given:
            misses |= (self._reached < _DELIVERED) & ~is_hindered
        return bool(np.any(due & misses))

    def too_early(self, life: int, numbers: Array, until: Array, s: "Subscriber | None", lives: Lives) -> bool:
        """Whether one of these, due until that row at a correct life, was said to be delivered before it was."""
        told = self.delivered_at[numbers]
        asked = np.flatnonzero((told != NEVER) & (until >= told))
        if not len(asked):
            return False
        numbers, told = numbers[asked], told[asked]
        late = self._delivered_row(numbers, s) > told
        for since, end in lives.freezes.get(life, ()):
            late &= ~((since < told) & (end > self._publications.row[numbers]))
        return bool(late.any())

    def delivers_refused(self, number: Array) -> bool:
        known = number[number >= 0]
        return bool(self.refused_count and np.any(self.refused_at[known] != NEVER))

    def _delivered_row(self, numbers: Array, s: "Subscriber | None") -> Array:
        """NEVER where it never was; before everything where a delivery stands before its publication."""
        at = np.full(len(self._publications), NEVER, dtype=np.int64)
        if s is not None:
            at[s.heard] = s.heard_row
            at[s.early] = -1
        return at[numbers]


def _steps(rows: Rows, words: Words) -> Array:
    if np.any(rows.publisher < 0) or np.any(rows.stream < 0) or np.any(rows.seq == NULL):
        raise UnreadableError("a receipt row without identity")
    known = {**{word: step for step, word in enumerate(_RECEIPT_STEPS)}, "failed": _FAILED}
    steps = np.array([*(known.get(word, _UNKNOWN) for word in words.receipts.texts), _UNKNOWN])[rows.receipt]
    if np.any(rows.incarnation == NULL) or np.any(steps == _UNKNOWN):
        raise UnreadableError("a receipt row without incarnation, or with an unknown receipt")
    found: Array = steps
    return found


def _falls(number: Array, step: Array) -> bool:
    """Whether a publication is ever told less than before."""
    order = np.argsort(number, kind="stable")
    number, step = number[order], step[order]
    return bool(np.any(is_same(number) & (step[1:] < step[:-1])))


class Context:
    def __init__(self, talk: Rows, deliveries: Sequence[Rows], words: Words, rows: int, promise: Promises) -> None:
        """`talk`: all rows but deliveries. Of `deliveries` only the first of each life is needed, `node` and `row`.
        `rows`: how many the run has. `promise`: what it is judged by."""
        self.promise = promise
        self.words = words
        self.rows = rows
        ends = talk.take(_at(talk, words, kinds.CRASH, kinds.LEAVE), "node", "row")
        self.lives = Lives(len(words.names), ends.node, ends.row, rows)
        refused = talk.take(_at(talk, words, kinds.REFUSED))
        subscriptions = np.sort(
            np.concatenate((_at(talk, words, *_SUBSCRIPTION_STEPS), _refused_subscriptions(talk, words)))
        )
        self._freeze(talk, deliveries, subscriptions)
        if len(_at(talk, words, kinds.DEAD_LETTER, kinds.FOLLOW_UP, kinds.REJECTED, kinds.TERMINATED)):
            raise UnreadableError("messages that came back, dead letters and follow-ups are for the judge in Python")
        if words.attributes.find(MESSAGE_ID) >= 0:
            raise UnreadableError("messages with ids are for the judge in Python")
        expires = words.attributes.find(EXPIRES) >= 0 and words.attributes.find(PUBLISHED) >= 0
        if expires or words.attributes.find(DUE) >= 0 or len(_at(talk, words, kinds.EXPIRED)):
            raise UnreadableError("messages that are delayed or expire are for the judge in Python")
        publish = talk.take(_at(talk, words, kinds.PUBLISH))
        check_publish(publish, words)
        of_publications = refused.take(np.flatnonzero(refused.publisher >= 0))
        self.index, first = _index(publish, of_publications)
        self.publications = Publications(publish.take(np.flatnonzero(first)), words, self.lives, promise.order)
        self.operations = Operations(self.publications, words)
        self.breaks_identity = not first.all() or _numbers_fall(self.publications)
        steps = np.sort(np.concatenate((subscriptions, _at(talk, words, kinds.SESSION_LOST))))
        consumers = ConsumedRows(talk.take(_at(talk, words, *CONSUMING, *ENDING)), words)
        logged = LogRows(talk.take(_at(talk, words, *LOGGED)), words)
        asked = [*[predicate for predicate, _ in consumers.asked.values()], *logged.predicates.values()]
        self.wishes = SubscriberWishes(talk.take(steps), words, self.lives, self.publications, asked)
        told = talk.take(np.sort(_at(talk, words, kinds.SUBSCRIBE, kinds.DROPPED)))
        self.wishes.dropped.read(told, words, self.lives, self.index, self.publications)
        self.receipts = self._receipts(talk, of_publications)
        ended = talk.kind[_at(talk, words, kinds.QUIESCENT, kinds.TIMEOUT)]
        self.ended = words.kinds.texts[ended[-1]] if len(ended) else ""
        ended_us = int(talk.time_us[_at(talk, words, kinds.QUIESCENT, kinds.TIMEOUT)][-1]) if len(ended) else 0
        self.is_whole = self.is_quiescent and _nothing_hangs(talk, words)
        """The run came to rest with all links whole and no node frozen; see `audit.history`."""
        judges_loss = self.is_whole and not promise.is_probable
        self.durables = DurableArrays(
            consumers,
            self.index,
            self.publications,
            self.wishes,
            judges_loss,
            _calm(talk, words),
            _calm(talk, words, np.unique(talk.node[_at(talk, words, kinds.CONSUME)])),
            ended_us,
        )
        shocks_us = talk.time_us[_at(talk, words, *UNREST)]
        first_shock_us = int(shocks_us.min(initial=NEVER))
        self.logs = LogArrays(logged, self.index, self.publications, self.wishes, judges_loss, first_shock_us)
        del self.publications.attributes  # read by now, and not small

    @property
    def is_quiescent(self) -> bool:
        return self.ended == kinds.QUIESCENT

    def counts(self, deliveries: int, owed: int, came: int, told: int, applied: int) -> dict[str, int]:
        subscribers = sorted(self.wishes.of_life)
        return {
            "rows": self.rows,
            "publications": len(self.publications),
            "deliveries": deliveries,
            "owed": owed,
            "came": came,
            "told": told,
            "subscribers": len(subscribers),
            "correct_subscribers": int(np.count_nonzero(self.lives.correct[subscribers])) if subscribers else 0,
            "subscriptions": sum(map(len, self.wishes.of_life.values())),
            "receipts": self.receipts.count,
            "refused": self.receipts.refused_count,
            "applied": applied,
        }

    def _freeze(self, talk: Rows, deliveries: Sequence[Rows], subscriptions: Array) -> None:
        rows = talk.take(_at(talk, self.words, kinds.FREEZE, kinds.UNFREEZE), "node", "row", "kind")
        if not len(rows):
            return
        observing = np.concatenate((_at(talk, self.words, *_OBSERVING), subscriptions))
        seen_node = np.concatenate((talk.node[observing], *(portion.node for portion in deliveries)))
        seen_row = np.concatenate((talk.row[observing], *(portion.row for portion in deliveries)))
        shaken = np.isin(seen_node, rows.node)
        begins = rows.kind == self.words.kinds.find(kinds.FREEZE)
        self.lives.freeze(rows.node, rows.row, begins, seen_node[shaken], seen_row[shaken])

    def _receipts(self, talk: Rows, refused: Rows) -> Receipts:
        at = _at(talk, self.words, kinds.RECEIPT)
        nameless = (talk.publisher[at] < 0) & (talk.receipt[at] == self.words.receipts.find("failed"))
        number = self.index.find(refused.publisher, refused.incarnation, refused.stream, refused.seq)
        return Receipts(talk.take(at[~nameless]), number, refused.row, self.words, self.publications, self.index)


def applied_of(rows: Rows, words: Words) -> Rows:
    """The rows about operations that replicas executed."""
    return rows.take(_at(rows, words, kinds.APPLIED))


def _at(rows: Rows, words: Words, *wanted: str) -> Array:
    """Places of rows of these kinds."""
    return np.flatnonzero(np.isin(rows.kind, words.kinds.find_all(wanted)))


def _nothing_hangs(talk: Rows, words: Words) -> bool:
    torn: set[frozenset[str]] = set()
    hanging: set[str] = set()
    details = [*words.details.texts, ""]
    for place in _at(talk, words, *_SHAKING).tolist():
        kind, node, other = (
            words.kinds.texts[talk.kind[place]], words.names.texts[talk.node[place]], details[talk.detail[place]]
        )  # fmt: skip
        if kind == kinds.FREEZE:
            hanging.add(node)
        elif kind in (kinds.UNFREEZE, kinds.CRASH, kinds.LEAVE):
            hanging.discard(node)
        elif kind == kinds.CUT:
            torn.add(frozenset((node, other)))
        elif kind == kinds.PARTITION:
            torn.add(frozenset())
        elif other:
            torn.discard(frozenset((node, other)))
        else:
            torn.clear()
    return not torn and not hanging


def _calm(talk: Rows, words: Words, passed_over: Array | None = None) -> CalmTimes:
    """`passed_over`: nodes to which things may happen."""
    details = [*words.details.texts, ""]
    at = _at(talk, words, *UNREST)
    if passed_over is not None:
        at = at[~np.isin(talk.node[at], passed_over)]
    at = at[np.argsort(talk.row[at], kind="stable")]
    return CalmTimes(
        Shock(
            int(talk.time_us[place]), words.kinds.texts[talk.kind[place]], words.names.texts[talk.node[place]],
            details[talk.detail[place]],
        )
        for place in at.tolist()
    )  # fmt: skip


def _refused_subscriptions(rows: Rows, words: Words) -> Array:
    at = _at(rows, words, kinds.REFUSED)
    return at[(rows.publisher[at] < 0) & (rows.filter[at] >= 0)]


def _index(publish: Rows, refused: Rows) -> tuple[MessageIndex, Array]:
    """Of all that was published, in order, then of what was refused and never published; and which publish rows are
    the first with their identity."""
    if np.any(refused.stream < 0) or np.any(refused.incarnation == NULL) or np.any(refused.seq == NULL):
        raise UnreadableError("a refused row without identity")
    columns = [
        np.concatenate((getattr(publish, name), getattr(refused, name)))
        for name in ("publisher", "incarnation", "stream", "seq")
    ]
    index = MessageIndex(*columns)
    first = index.find(*columns) == np.arange(len(columns[0]))
    if not first.all():
        index = MessageIndex(*(column[first] for column in columns))
    return index, first[: len(publish)]


def _numbers_fall(p: Publications) -> bool:
    """Whether a publication has a lower number than one before it in its stream."""
    order = np.lexsort((p.stream, p.publisher))
    same = is_same(p.publisher[order]) & is_same(p.stream[order])
    incarnation, seq = p.incarnation[order], p.seq[order]
    falls = incarnation[1:] < incarnation[:-1]
    falls |= is_same(incarnation) & (seq[1:] < seq[:-1])
    return bool(np.any(same & falls))
