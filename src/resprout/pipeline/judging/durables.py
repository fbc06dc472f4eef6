"""Durable subscriptions on arrays: what their consumers were handed together; the rule is that of `audit.durable`.

What is broken by the rows of consumers alone is known at once. Whether something is missing is known when it is known
what is owed.
"""

from typing import Final

import numpy as np

from resprout.core.errors import UsageError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.pipeline.judging.arrays import NULL, Array, is_same, spread
from resprout.pipeline.judging.attributes import cells_of, text_of
from resprout.pipeline.judging.columns import Rows, UnreadableError, Words
from resprout.pipeline.judging.messages import MessageIndex
from resprout.pipeline.judging.publications import Publications
from resprout.pipeline.judging.wishes import SubscriberWishes
from resprout.trace import kinds

CONSUMING: Final = (kinds.CONSUME, kinds.CONSUMING, kinds.HANDED, kinds.ACKNOWLEDGED, kinds.CONSUME_OVER)
ENDING: Final = (kinds.CRASH, kinds.LEAVE)


class ConsumedRows:
    """The rows of all consumers, and where clients end."""

    def __init__(self, rows: Rows, words: Words) -> None:
        self.rows, self._words = rows, words
        self.is_end = np.isin(rows.kind, words.kinds.find_all(ENDING))
        cells = cells_of(rows.attributes)
        self._texts = {
            name: text_of(cells, words.attributes.find(name), len(rows))
            for name in ("durable", "group", "redelivered", "dropped")
        }
        self.name = self._texts["durable"]
        if np.any((self.name < 0) & ~self.is_end):
            raise UnreadableError("a row of a consumer without the name of a durable subscription")
        self.names = np.unique(self.name[~self.is_end]).tolist()
        self.life = self._lives()
        self.asked = self._asked()
        """By name: what it asks for, and whether it is a group."""

    def at(self, kind: str, name: int) -> Array:
        """Places of rows of one kind about one subscription."""
        return np.flatnonzero((self.rows.kind == self._words.kinds.find(kind)) & (self.name == name) & ~self.is_end)

    def says(self, what: str, places: Array) -> Array:
        found: Array = self._texts[what][places] >= 0
        return found

    def present(self, name: int) -> set[int]:
        """Who consumes it at the end."""
        begins, ends = self._words.kinds.find(kinds.CONSUMING), self._words.kinds.find(kinds.CONSUME_OVER)
        is_step = self.is_end | ((self.name == name) & np.isin(self.rows.kind, (begins, ends)))
        found: set[int] = set()
        for place in np.flatnonzero(is_step).tolist():
            node = int(self.rows.node[place])
            if self.rows.kind[place] == begins:
                found.add(node)
            else:
                found.discard(node)
        return found

    def _lives(self) -> Array:
        """A number for each time that a client consumes a subscription."""
        owner = (self.name + 1) * len(self._words.names) + self.rows.node
        order = np.argsort(owner, kind="stable")
        is_first = np.append(True, ~is_same(owner[order]))[: len(order)]
        is_first |= self.rows.kind[order] == self._words.kinds.find(kinds.CONSUME)
        life = np.empty(len(order), dtype=np.int64)
        life[order] = np.cumsum(is_first)
        return life

    def _asked(self) -> dict[int, tuple[Predicate, bool]]:
        found: dict[int, tuple[Predicate, bool]] = {}
        filters = [*self._words.filters.texts, None]
        for name in self.names:
            confirmed = self.rows.row[self.at(kinds.CONSUMING, name)]
            for place in self.at(kinds.CONSUME, name).tolist():
                text = filters[self.rows.filter[place]]
                if text is None:
                    raise UnreadableError("a row of a consumer without filter")
                try:
                    predicate = parse_predicate(text, filters[self.rows.where[place]])
                except UsageError as error:
                    raise UnreadableError(str(error)) from None
                if not len(confirmed) or self.rows.row[place] < confirmed[0]:
                    found[name] = (predicate, bool(self.says("group", np.array([place]))[0]))
        return found


class DurableArrays:
    def __init__(
        self,
        consumers: ConsumedRows,
        index: MessageIndex,
        publications: Publications,
        wishes: SubscriberWishes,
        judges_loss: bool,
    ) -> None:
        self._consumers, self._publications, self._wishes = consumers, publications, wishes
        self.count = len(consumers.names)
        self.unjudged = 0
        """In how many it is not judged what is missing."""
        self.is_broken = False
        """By what was handed out."""
        self._never: list[Array] = []
        """Publications that were to be handed out, if they are owed, and were not."""
        for name in consumers.names:
            handed = consumers.at(kinds.HANDED, name)
            number = self._numbers(index, handed)
            self.is_broken |= self._hands_wrongly(name, handed, number, index)
            self.is_broken |= self._breaks_order(name, handed, number)
            never = self._never_handed(name, handed, number) if judges_loss else None
            self.unjudged += never is None
            self._never += [never] if never is not None else []
        del self._consumers, self._wishes, self._publications  # read by now, and not small

    def misses(self, owed: Array) -> bool:
        return any(bool(owed[never].any()) for never in self._never)

    def _numbers(self, index: MessageIndex, places: Array) -> Array:
        """The publication of each row; -1 for none."""
        rows = self._consumers.rows.take(places, "row", "publisher", "incarnation", "stream", "seq")
        if np.any(rows.publisher < 0) or np.any(rows.stream < 0):
            raise UnreadableError("a row of a consumer without publisher or stream")
        if np.any(rows.incarnation == NULL) or np.any(rows.seq == NULL):
            raise UnreadableError("a row of a consumer without incarnation or seq")
        number = index.find(rows.publisher, rows.incarnation, rows.stream, rows.seq)
        return np.where(number < len(self._publications), number, -1)

    def _hands_wrongly(self, name: int, handed: Array, number: Array, index: MessageIndex) -> bool:
        consumers, acknowledged = self._consumers, self._consumers.at(kinds.ACKNOWLEDGED, name)
        done = self._numbers(index, acknowledged)
        row = consumers.rows.row
        if np.any(number < 0) or np.any(row[handed] < self._publications.row[number]):
            return True
        asked = consumers.asked.get(name)
        if asked is not None and not self._wishes.matches(asked[0], number).all():
            return True
        first = number[~consumers.says("redelivered", handed)]
        if len(np.unique(first)) < len(first):
            return True
        finished: dict[tuple[int, int], int] = {}
        for life, n, at in zip(consumers.life[acknowledged], done, row[acknowledged], strict=True):
            finished.setdefault((int(life), int(n)), int(at))
        return any(
            finished.get((life, n), at) < at
            for life, n, at in zip(consumers.life[handed].tolist(), number.tolist(), row[handed].tolist(), strict=True)
        )

    def _breaks_order(self, name: int, handed: Array, number: Array) -> bool:
        publications = self._publications
        known = np.flatnonzero(number >= 0)
        known = known[publications.ordered[number[known]]]
        life, number = self._consumers.life[handed[known]], number[known]
        pair = np.zeros(len(number), dtype=np.int64)
        asked = self._consumers.asked.get(name)
        if asked is not None and asked[1]:
            start = publications.pair_start
            width = start[number + 1] - start[number]
            places = spread(start[number], width)
            is_key = np.array([bool(key) for key in publications.pair_keys.texts], dtype=np.bool_)
            pair = publications.pair[places]
            binds = publications.pair_binds[places] & is_key[publications.pair_key[pair]]
            life, number = np.repeat(life, width)[binds], np.repeat(number, width)[binds]
            pair = pair[binds]
        rank = np.empty(len(publications), dtype=np.int64)
        rank[publications.fifo_order] = np.arange(len(publications.fifo_order))
        lines = (pair, publications.lane[number], publications.publisher[number], life)
        order = np.lexsort(lines)
        same = np.logical_and.reduce([is_same(line[order]) for line in lines])
        falls = rank[number[order]][1:] < rank[number[order]][:-1]
        return bool(np.any(falls & same))

    def _never_handed(self, name: int, handed: Array, number: Array) -> Array | None:
        """None: it is not judged."""
        consumers, asked = self._consumers, self._consumers.asked.get(name)
        confirmed = consumers.rows.row[consumers.at(kinds.CONSUMING, name)]
        if not len(confirmed) or not consumers.present(name) or consumers.says("dropped", handed).any():
            return None
        is_left = self._publications.row > confirmed[0]
        is_left[number[number >= 0]] = False
        left = np.flatnonzero(is_left)
        return left[self._wishes.matches(asked[0], left)] if asked is not None else left[:0]
