"""Deliveries in a few numbers each, by subscriber, and what of each is wrong on its own."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from resprout.pipeline.judging.arrays import NULL, Array, stable_order
from resprout.pipeline.judging.columns import ListColumn, Rows, UnreadableError, Words
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.publications import Publications, labels

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
