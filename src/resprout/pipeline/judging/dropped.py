"""Messages that subscribers were told to be dropped, because they did not read fast enough and asked for that."""

import numpy as np

from resprout.pipeline.judging.arrays import NULL, Array
from resprout.pipeline.judging.attributes import cells_of, text_of
from resprout.pipeline.judging.columns import Rows, UnreadableError, Words
from resprout.pipeline.judging.lives import Lives
from resprout.pipeline.judging.messages import MessageIndex
from resprout.pipeline.judging.publications import Publications
from resprout.trace import kinds


class Dropped:
    """By life: the publications that were dropped, and the rows that say so."""

    def __init__(self) -> None:
        self._of_life: dict[int, tuple[Array, Array]] = {}
        self._asking: set[int] = set()
        """Lives that asked to have the oldest dropped."""

    def read(self, rows: Rows, words: Words, lives: Lives, index: MessageIndex, publications: Publications) -> None:
        """`rows`: of requests for subscriptions, and of messages that were dropped."""
        is_request = rows.kind == words.kinds.find(kinds.SUBSCRIBE)
        asks = text_of(cells_of(rows.attributes), words.attributes.find("drop_oldest"), len(rows)) >= 0
        life = lives.of(rows.node, rows.row)
        self._asking = set(life[is_request & asks].tolist())
        told = np.flatnonzero(~is_request)
        if not len(told):
            return
        for column in (rows.publisher, rows.stream):
            if np.any(column[told] < 0):
                raise UnreadableError("a dropped row without identity")
        if np.any(rows.incarnation[told] == NULL) or np.any(rows.seq[told] == NULL):
            raise UnreadableError("a dropped row without identity")
        number = index.find(rows.publisher[told], rows.incarnation[told], rows.stream[told], rows.seq[told])
        is_known = (number >= 0) & (number < len(publications))
        told, number = told[is_known], number[is_known]
        is_sound = publications.row[number] < rows.row[told]
        told, number = told[is_sound], number[is_sound]
        for one in np.unique(life[told]).tolist():
            here = life[told] == one
            self._of_life[one] = (number[here], rows.row[told][here])

    def excused(self, life: int) -> Array | None:
        """Return the publications that are not due at this life, or None if there are none."""
        return self._of_life[life][0] if life in self._asking and life in self._of_life else None

    def contradicts(self, life: int, numbers: Array, rows: Array) -> bool:
        """Return whether a publication was delivered, at its row, after the client was told that it is dropped."""
        if life not in self._of_life:
            return False
        dropped, told = self._of_life[life]
        order = np.argsort(told)[::-1]
        first = dict(zip(dropped[order].tolist(), told[order].tolist(), strict=True))
        pairs = zip(numbers.tolist(), rows.tolist(), strict=True)
        return any(first.get(number, row) < row for number, row in pairs)
