"""What the deliveries of each subscriber break on their own, and what they tell about the others'."""

import numpy as np

from resprout.core.guarantee import Guarantee
from resprout.pipeline.judging.arrays import NEVER, NULL, Array, is_same
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.subscriber import Subscriber
from resprout.pipeline.judging.totals import Places, Sightings


class Checks:
    """What is broken, and what must be seen together with other subscribers."""

    def __init__(self, context: Context, owed: Array, claim: Array) -> None:
        """`owed`: for each publication, whether it is owed where it is due. `claim`: its place among the totals."""
        self._context = context
        self._owed = owed
        self._claim = claim
        self.broken: set[str] = set()
        self.owed_count = 0
        self.came_count = 0
        self.told_count = 0
        """Missing, and the client was told."""
        self.strongest = int(Guarantee.EVENTUAL)
        self.sightings = Sightings(Places(context.publications))
        self.missing: dict[int, tuple[Array, Array]] = {}
        """By life, ordered publications that it was owed and never got, and the row until which they were due."""
        self.is_hindered = np.zeros(len(context.publications), dtype=np.bool_)
        """For each publication, whether somebody where it was due does not have it, or cannot be waited for."""

    def look(self, s: Subscriber) -> None:
        """At one with deliveries."""
        publications = self._context.publications
        self.note("position", not s.is_dense)
        told = self._context.wishes.dropped.contradicts(s.life, s.first_any_numbers, s.first_any_rows)
        self.note("twice", s.twice or told)
        self.note("unasked", not self._context.wishes.asked(s.life, s.first_any_numbers, s.first_any_rows).all())
        self.note("fifo", self._breaks_fifo(s))
        if len(s.heard):
            self.strongest = max(self.strongest, int(publications.level[s.heard].max()))
        self.sightings.look(s.sequence, np.where(s.is_placed, self._claim[s.sequence], NULL))

    def look_for_missing(self, life: int, s: Subscriber | None) -> tuple[Array, Array]:
        """`s`: when it has deliveries. Returns what is due, and until which row."""
        numbers, until = self._context.wishes.due(life)
        if not len(numbers):
            return numbers, until
        lives, publications = self._context.lives, self._context.publications
        correct, owed = bool(lives.correct[life]), self._owed[numbers]
        there = s.any_place[numbers] >= 0 if s is not None else np.zeros(len(numbers), dtype=np.bool_)
        self.is_hindered[numbers if not correct else numbers[~there | (until != NEVER)]] = True
        promise = self._context.promise
        if correct:
            lasting = owed & (until == NEVER)
            told = owed & np.isin(until, self._context.wishes.losses)
            self.owed_count += int(np.count_nonzero(lasting | told))
            self.came_count += int(np.count_nonzero((lasting | told) & there))
            self.told_count += int(np.count_nonzero(told & ~there))
            is_judged = self._context.is_quiescent and not promise.is_probable
            self.note("lost", is_judged and bool(np.any(lasting & ~there)))
            self.note("lost_told", is_judged and bool(np.any(told & ~there)))
        gone = np.flatnonzero(owed & ~there & publications.ordered[numbers])
        if len(gone) and not promise.is_probable:
            self.missing[life] = (numbers[gone], until[gone])
        self.note("receipt", correct and self._context.receipts.too_early(life, numbers, until, s, lives))
        return numbers, until

    def _breaks_fifo(self, s: Subscriber) -> bool:
        publications = self._context.publications
        order = np.full(len(publications), -1, dtype=np.int32)
        order[s.sequence] = np.arange(len(s.sequence))
        places = order[publications.fifo_order]
        there = np.flatnonzero(places >= 0)
        numbers = publications.fifo_order[there]
        same = is_same(publications.publisher[numbers]) & is_same(publications.lane[numbers])
        return bool(np.any((places[there][1:] < places[there][:-1]) & same))

    def note(self, rule: str, is_broken: bool) -> None:
        if is_broken:
            self.broken.add(rule)
