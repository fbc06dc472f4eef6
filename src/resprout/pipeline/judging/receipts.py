"""What publishers were told, and whether it can be true."""

from typing import TYPE_CHECKING, Final

import numpy as np

from resprout.pipeline.judging.columns import NEVER, NULL, Array, Rows, UnreadableError, Words, is_same
from resprout.pipeline.judging.publications import Lives, MessageIndex, Publications

if TYPE_CHECKING:
    from resprout.pipeline.judging.deliveries import Subscriber

_STEPS: Final = ("accepted", "safe", "delivered")
_SAFE, _DELIVERED, _FAILED, _UNKNOWN = 1, 2, 3, -1


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
        if _STEPS[_SAFE] in given:
            misses |= self._reached < _SAFE
        if _STEPS[_DELIVERED] in given:
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
    known = {**{word: step for step, word in enumerate(_STEPS)}, "failed": _FAILED}
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
