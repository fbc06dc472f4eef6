"""Deliveries in a few numbers each, by subscriber, and what each subscriber's deliveries break on their own.

A `Subscriber` counts each publication at its first sound delivery. `Checks` also collects what the deliveries of one
subscriber say about those of the others.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from resprout.core.guarantee import Guarantee
from resprout.pipeline.judging.columns import (
    NEVER,
    NULL,
    Array,
    ListColumn,
    Rows,
    UnreadableError,
    Words,
    first_places,
    is_same,
    stable_order,
)
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.publications import Publications, labels
from resprout.pipeline.judging.totals import Places, Sightings

_INT32_MAX: Final = (1 << 31) - 1


class Deliveries:
    """In order of rows; `by_life`: of lives, and of rows in each."""

    def __init__(
        self,
        row: Array,
        life: Array,
        number: Array,
        position: Array,
        tseq: Array,
        has_invented: bool,
        is_placed: Array | None = None,
    ) -> None:
        self.row = row
        self.life = life
        self.number = number
        """Of the publication, -1 for none; beyond the last publication: of something refused that nobody published."""
        self.position = position
        self.tseq = tseq
        """NULL for none."""
        self.is_placed: Array = tseq != NULL if is_placed is None else is_placed
        """Whether it has one."""
        self.has_invented = has_invented

    def by_life(self) -> "Deliveries":
        if not len(self.life):
            return self
        return self.take(stable_order(self.life, int(self.life.max()) + 1))

    def take(self, places: Array) -> "Deliveries":
        row, life, number, position, tseq = (
            column[places] for column in (self.row, self.life, self.number, self.position, self.tseq)
        )
        return Deliveries(row, life, number, position, tseq, self.has_invented, self.is_placed[places])

    def compact(self) -> "Deliveries":
        """To be sent: in half the space, and without what the run claims (`Hints` has it)."""
        columns = (self.row, self.life, self.number, self.position)
        if all(int(column.max(initial=0)) < _INT32_MAX for column in columns):
            columns = tuple(column.astype(np.int32) for column in columns)  # type: ignore[assignment]
        return Deliveries(*columns, np.zeros(len(self.row), dtype=np.int8), self.has_invented, self.is_placed)

    @staticmethod
    def joined(pieces: "Sequence[Deliveries]") -> "Deliveries":
        row, life, number, position, tseq, is_placed = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("row", "life", "number", "position", "tseq", "is_placed")
        )
        return Deliveries(row, life, number, position, tseq, any(piece.has_invented for piece in pieces), is_placed)

    def bounds(self) -> list[tuple[int, int, int]]:
        """(life, begin, end) of each."""
        if not len(self.life):
            return []
        begins = np.flatnonzero(np.r_[True, self.life[1:] != self.life[:-1]])
        ends = np.r_[begins[1:], len(self.life)]
        return list(zip(self.life[begins].tolist(), begins.tolist(), ends.tolist(), strict=True))


def slim(rows: Rows, context: Context) -> Deliveries:
    """What `rows`, all of deliveries, say."""
    if np.any(rows.publisher < 0) or np.any(rows.stream < 0) or np.any(rows.seq == NULL):
        raise UnreadableError("a deliver row without identity")
    if np.any(rows.incarnation == NULL) or np.any(rows.position < 0):
        raise UnreadableError("a deliver row without incarnation or position")
    number = context.index.find(rows.publisher, rows.incarnation, rows.stream, rows.seq)
    life = context.lives.of(rows.node, rows.row)
    invented = _invented(rows, context.words, context.publications, number)
    return Deliveries(rows.row, life, number, rows.position, rows.tseq, invented)


def _invented(rows: Rows, words: Words, publications: Publications, number: Array) -> bool:
    if np.any(number < 0) or np.any(number >= len(publications)):
        return True
    if np.any(rows.row < publications.row[number]):
        return True
    if np.any((rows.topic >= 0) & (rows.topic != publications.topic[number])):
        return True
    if np.any((rows.guarantee >= 0) & (labels(words)[rows.guarantee] != publications.level[number])):
        return True
    return not _same_lists(rows.keys, publications.keys, number)


def _same_lists(here: ListColumn, there: ListColumn, number: Array) -> bool:
    """Whether each list that is there equals that of its publication; an empty cell of a publication is no keys."""
    length, start = here.length, there.start[number]
    if np.any((length >= 0) & (length != np.maximum(there.length, 0)[number])):
        return False
    for place in range(int(length.max(initial=0))):
        if place == 0 and np.all(length > 0):
            if np.any(here.content[0][here.start] != there.content[0][start]):
                return False
            continue
        longer = length > place
        if np.any(here.content[0][here.start[longer] + place] != there.content[0][start[longer] + place]):
            return False
    return True


class Subscriber:
    """The deliveries of one life, in order of rows, each publication at its first sound one."""

    def __init__(self, publications: Publications, life: int, deliveries: Deliveries, begin: int, end: int) -> None:
        self.life = life
        count = len(publications)
        number, row = deliveries.number[begin:end], deliveries.row[begin:end]
        self.position = deliveries.position[begin:end]
        known = np.flatnonzero((number >= 0) & (number < count))
        published = number[known]
        self.any_place = first_places(published, count)
        """By publication, its first delivery among those of anything published, sound or not; -1 for none."""
        self.twice = bool(np.count_nonzero(self.any_place >= 0) < len(published))
        self.first_any = self.any_place[self.any_place >= 0] if self.twice else np.arange(len(published))
        self.first_any_numbers, self.first_any_rows = published[self.first_any], row[known][self.first_any]
        sound = np.flatnonzero(row[known] > publications.row[published])
        self.early = published[row[known] < publications.row[published]]
        """Publications with a delivery that stands before them."""
        if self.twice and len(sound):
            place = first_places(published[sound], count)
            sound = sound[np.sort(place[place >= 0])]
        self.heard = published[sound]
        """In order of rows."""
        self.heard_row = row[known][sound]
        self.heard_position = self.position[known][sound]
        self.is_dense = not len(row) or bool(
            self.position[0] == 0 and np.all(self.position[1:] == self.position[:-1] + 1)
        )
        self.by_position: Array = (
            np.arange(len(self.heard)) if self.is_dense else np.argsort(self.heard_position, kind="stable")
        )
        self.sequence: Array = self.heard[self.by_position]
        """In order of positions."""
        self.is_placed: Array = deliveries.is_placed[begin:end][known][sound][self.by_position]
        """For each of them, whether a place among the totals was told."""


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
