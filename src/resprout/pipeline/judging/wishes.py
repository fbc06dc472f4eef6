"""What subscribers asked for, what is due to them, and which messages they were told to be dropped.

The rows of subscriptions are few and are read by `audit.records`, the one place that knows their four steps. A
filter is held against every distinct set of topics once, a condition against every publication that the filter lets
pass; from there on it is ranges of sorted publications.
"""

from collections.abc import Iterable

import numpy as np

from resprout.audit.records import SubscriptionBook, SubscriptionRecord
from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue
from resprout.filters.predicate import Predicate, is_plain, topic_matches
from resprout.pipeline.judging.columns import NULL, Array, Rows, UnreadableError, Words, cells_of, text_of
from resprout.pipeline.judging.publications import Lives, MessageIndex, Publications
from resprout.trace import kinds
from resprout.trace.schema import TraceError, from_text


class SubscriberWishes:
    def __init__(
        self, rows: Rows, words: Words, lives: Lives, publications: Publications, others: Iterable[Predicate] = ()
    ) -> None:
        """`rows`: those of subscriptions, and of sessions that were lost. `others`: what else is asked for."""
        self._lives = lives
        self._publications = publications
        self.of_life: dict[int, list[SubscriptionRecord]] = _read(rows, words, lives)
        self.losses: Array = rows.row[rows.kind == words.kinds.find(kinds.SESSION_LOST)]
        """Rows at which sessions were lost."""
        predicates = {*others, *(s.predicate for subscriptions in self.of_life.values() for s in subscriptions)}
        self._topics = {predicate: _matching_topics(predicate, words, publications) for predicate in sorted(predicates)}
        self._conditions = _conditions(self._topics, words, publications)
        self._matching: dict[Predicate, Array] = {}
        self.dropped = Dropped()

    def matches(self, predicate: Predicate, numbers: Array) -> Array:
        """Which of these publications a subscription asks for."""
        found: Array = self._topics[predicate][self._publications.topics[numbers]]
        return found if predicate.where is None else found & self._conditions[predicate][numbers]

    def asked(self, life: int, numbers: Array, rows: Array) -> Array:
        """Which of these publications the life had open subscriptions for, each at its row."""
        found = np.zeros(len(numbers), dtype=np.bool_)
        for s in sorted(self.of_life.get(life, ()), key=lambda s: s.asked - s.ended):  # the longest first
            left = np.flatnonzero(~found)
            if not len(left):
                break
            here = rows[left]
            found[left] = (here > s.asked) & (here < s.ended) & self.matches(s.predicate, numbers[left])
        return found

    def due(self, life: int) -> tuple[Array, Array]:
        """What is due there, and until which row; not what was dropped because the client asked for that."""
        numbers, until = self._asked_for(life)
        excused = self.dropped.excused(life)
        if excused is not None and len(numbers):
            is_left = ~np.isin(numbers, excused)
            return numbers[is_left], until[is_left]
        return numbers, until

    def _asked_for(self, life: int) -> tuple[Array, Array]:
        pieces = []
        for s in self.of_life.get(life, ()):
            end = min(s.ending, int(self._lives.end_row[life]))
            if s.confirmed < end:
                numbers = self._in_order(s.predicate)
                begin, stop = np.searchsorted(self._publications.row[numbers], (s.confirmed, end))
                pieces.append((numbers[begin:stop], s.ending))
        if not pieces:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if len(pieces) == 1:
            return pieces[0][0], np.full(len(pieces[0][0]), pieces[0][1], dtype=np.int64)
        until = np.full(len(self._publications), -1, dtype=np.int64)
        for numbers, ending in sorted(pieces, key=lambda piece: piece[1]):
            until[numbers] = ending
        numbers = np.flatnonzero(until >= 0)
        return numbers, until[numbers]

    def _in_order(self, predicate: Predicate) -> Array:
        known = self._matching.get(predicate)
        if known is None:
            known = np.flatnonzero(self.matches(predicate, np.arange(len(self._publications))))
            self._matching[predicate] = known
        return known


def attributes_of(publications: Publications, number: int, words: Words) -> dict[str, AttributeValue]:
    start, length = int(publications.attributes.start[number]), int(publications.attributes.length[number])
    names, texts = publications.attributes.content
    try:
        return {
            words.attributes.texts[names[place]]: from_text(words.values.texts[texts[place]])
            for place in range(start, start + max(length, 0))
        }
    except TraceError as error:
        raise UnreadableError(str(error)) from None


def _read(rows: Rows, words: Words, lives: Lives) -> dict[int, list[SubscriptionRecord]]:
    book = SubscriptionBook()
    found: dict[int, list[SubscriptionRecord]] = {}
    columns = (lives.of(rows.node, rows.row), rows.kind, rows.row, rows.filter, rows.where)
    filters = [*words.filters.texts, None]
    for life, kind, row, filter_, where in zip(*(column.tolist() for column in columns), strict=True):
        if words.kinds.texts[kind] == kinds.SESSION_LOST:
            if begun := book.lose(life, row):
                found[life] += (subscription for _, _, subscription in begun)
            continue
        text = filters[filter_]
        if text is None:
            raise UnreadableError("a row of a subscription without filter")
        try:
            fresh = book.record(life, words.kinds.texts[kind], row, text, filters[where])
        except UsageError as error:
            raise UnreadableError(str(error)) from None
        if fresh is not None:
            found.setdefault(life, []).append(fresh)
    return found


def _matching_topics(predicate: Predicate, words: Words, publications: Publications) -> Array:
    """For each set of topics, whether the filter lets it pass."""
    topics = words.topics.texts
    if is_plain(predicate.filter):
        wanted = words.topics.find(predicate.filter)
        return np.array([wanted in topic_set for topic_set in publications.topic_sets], dtype=np.bool_)
    passes = [topic_matches(predicate.filter, topic) for topic in topics]
    return np.array([any(passes[t] for t in topic_set) for topic_set in publications.topic_sets], dtype=np.bool_)


def _conditions(topics: dict[Predicate, Array], words: Words, publications: Publications) -> dict[Predicate, Array]:
    """For each predicate with a condition, which publications fulfil it, of those that the filter lets pass."""
    values: dict[int, dict[str, AttributeValue]] = {}
    found = {}
    for predicate, passes in topics.items():
        if predicate.where is None:
            continue
        met = found[predicate] = np.zeros(len(publications), dtype=np.bool_)
        for number in np.flatnonzero(passes[publications.topics]).tolist():
            if number not in values:
                values[number] = attributes_of(publications, number, words)
            met[number] = predicate.where.matches(values[number])
    return found


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
