"""What a run says beside its deliveries: small, and given to everybody who judges a portion of it."""

from collections.abc import Sequence

import numpy as np

from resprout.audit.calm import UNREST, CalmTimes, Shock
from resprout.core.guarantee import Promises
from resprout.pipeline.judging.bank_operations import Operations
from resprout.pipeline.judging.columns import NULL, Array, Rows, UnreadableError, Words, is_same
from resprout.pipeline.judging.durables import CONSUMING, ENDING, ConsumedRows, DurableArrays
from resprout.pipeline.judging.publications import Lives, MessageIndex, Publications, check_publish
from resprout.pipeline.judging.receipts import Receipts
from resprout.pipeline.judging.wishes import SubscriberWishes
from resprout.trace import kinds

_STEPS = (kinds.SUBSCRIBE, kinds.SUBSCRIBED, kinds.UNSUBSCRIBE, kinds.UNSUBSCRIBED)
_SHAKING = (
    kinds.FREEZE, kinds.UNFREEZE, kinds.CRASH, kinds.LEAVE, kinds.CUT, kinds.PARTITION, kinds.HEAL,
)  # fmt: skip
_OBSERVING = (kinds.PUBLISH, kinds.APPLIED, *_STEPS)
"""What begins the life of a client, beside deliveries."""


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
        subscriptions = np.sort(np.concatenate((_at(talk, words, *_STEPS), _refused_subscriptions(talk, words))))
        self._freeze(talk, deliveries, subscriptions)
        publish = talk.take(_at(talk, words, kinds.PUBLISH))
        check_publish(publish, words)
        of_publications = refused.take(np.flatnonzero(refused.publisher >= 0))
        self.index, first = _index(publish, of_publications)
        self.publications = Publications(publish.take(np.flatnonzero(first)), words, self.lives, promise.order)
        self.operations = Operations(self.publications, words)
        self.breaks_identity = not first.all() or _numbers_fall(self.publications)
        steps = np.sort(np.concatenate((subscriptions, _at(talk, words, kinds.SESSION_LOST))))
        consumers = ConsumedRows(talk.take(_at(talk, words, *CONSUMING, *ENDING)), words)
        asked = [predicate for predicate, _ in consumers.asked.values()]
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
            consumers, self.index, self.publications, self.wishes, judges_loss, _calm(talk, words), ended_us
        )
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


def _calm(talk: Rows, words: Words) -> CalmTimes:
    details = [*words.details.texts, ""]
    at = _at(talk, words, *UNREST)
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
