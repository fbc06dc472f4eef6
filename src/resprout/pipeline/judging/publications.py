"""The publications of a run as columns, numbered in the order of rows like those of `audit.history`."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.promises import OrderScope
from resprout.pipeline.judging.arrays import NULL, Array, distinct, is_same
from resprout.pipeline.judging.columns import Rows, UnreadableError, Vocabulary, Words
from resprout.pipeline.judging.lives import Lives


class Publications:
    def __init__(self, rows: Rows, words: Words, lives: Lives, order: OrderScope) -> None:
        """`rows`: publish rows whose identity was not taken before."""
        self.is_by_topic = order is OrderScope.EACH_TOPIC
        self.lanes = len(words.topics) if self.is_by_topic else 1
        self.row = rows.row
        self._rows = int(rows.row.max(initial=0)) + 2
        self.life = lives.of(rows.node, rows.row)
        self.publisher = rows.publisher
        self.incarnation = rows.incarnation
        self.seq = rows.seq
        self.stream = rows.stream
        self.topic = rows.topic
        self.lane = rows.topic.astype(np.int64) if self.is_by_topic else np.zeros(len(rows), dtype=np.int64)
        """Those with an equal one are in order with each other; below `lanes`."""
        self.keys = rows.keys.compact()
        self.attributes = rows.attributes
        self.level = levels(words)[rows.guarantee].astype(np.int8)
        self.ordered = self.level > Guarantee.EVENTUAL
        self.total = self.level == Guarantee.TOTAL
        keys = _split_keys(words)
        self._arrange_keys(keys)
        self._arrange_topics(keys, words)
        self.previous = self._previous(rows.node)
        self.fifo_order = self._fifo_order()
        """The ordered ones by publisher, lane, incarnation and seq."""

    def __len__(self) -> int:
        return len(self.row)

    def in_lane(self, life: Array, number: Array) -> Array:
        """A number for a life and the lane of a publication."""
        found: Array = life.astype(np.int64) * self.lanes + self.lane[number]
        return found

    @cached_property
    def authored(self) -> tuple[Array, Array]:
        """The ordered ones by life and lane (see `in_lane`), then by row; and for each a number that is in this
        order."""
        ordered = np.flatnonzero(self.ordered)
        key = self.in_lane(self.life[ordered], ordered) * self._rows + self.row[ordered]
        by_key = np.argsort(key, kind="stable")
        return ordered[by_key].astype(np.int32), key[by_key]

    def next_after(self, lane: Array, row: Array) -> Array:
        """For each life and lane (see `in_lane`) and row, the next ordered one that was made there; -1 for none."""
        order, keys = self.authored
        if not len(order):
            return np.full(len(row), -1, dtype=np.int32)
        place = np.searchsorted(keys, lane * self._rows + row)
        inside = np.minimum(place, len(keys) - 1)
        return np.where((place < len(keys)) & (keys[inside] // self._rows == lane), order[inside], np.int32(-1))

    def of_publisher(self) -> list[Array]:
        """What each client published in each lane, in order."""
        order = np.lexsort((self.lane, self.publisher))
        is_next = is_same(self.publisher[order]) & is_same(self.lane[order])
        return np.split(order, np.flatnonzero(~is_next) + 1)

    def _arrange_keys(self, keys: "_Keys") -> None:
        """Pairs of topic and key, each once in a publication, however it was written."""
        codes = self.keys.content[0]
        number = np.repeat(np.arange(len(self)), np.maximum(self.keys.length, 0))
        topic = np.where(keys.topic[codes] >= 0, keys.topic[codes], self.topic[number])
        number, topic, key = distinct(number, topic, keys.rest[codes])
        room = len(keys.rests) + 1
        names, self.pair = np.unique(topic * room + key, return_inverse=True)
        """For each place, a pair that a publication names."""
        self.pair_topic, self.pair_key = names // room, names % room
        """By pair."""
        self.pair_keys = keys.rests
        self.pair_number = number
        self.pair_start = np.searchsorted(number, np.arange(len(self) + 1))
        """Where the places of each publication begin."""
        self.pair_binds = np.ones(len(number), dtype=np.bool_)
        """For each place, whether it is in order with others there: not, if order holds within each topic and the key
        is of another one."""
        if self.is_by_topic:
            self.pair_binds = self.pair_topic[self.pair] == self.topic[number]
        self.binds_all = np.ones(len(self), dtype=np.bool_)
        """By publication, whether all its pairs do."""
        self.binds_all[number[~self.pair_binds]] = False

    def _arrange_topics(self, keys: "_Keys", words: Words) -> None:
        """Publications that name the same topics have the same `topics`."""
        self.topics = self.topic.astype(np.int64)
        self.topic_sets: list[tuple[int, ...]] = [(topic,) for topic in range(len(words.topics))]
        known = {topics: place for place, topics in enumerate(self.topic_sets)}
        named = keys.topic[self.keys.content[0]]
        number = np.repeat(np.arange(len(self)), np.maximum(self.keys.length, 0))
        for here in np.unique(number[named >= 0]).tolist():
            start, length = int(self.keys.start[here]), int(self.keys.length[here])
            others = [topic for topic in named[start : start + length].tolist() if topic >= 0]
            topics = tuple(dict.fromkeys([int(self.topic[here]), *others]))
            place = known.setdefault(topics, len(known))
            if place == len(self.topic_sets):
                self.topic_sets.append(topics)
            self.topics[here] = place

    def _previous(self, node: Array) -> Array:
        """The ordered one of its lane that its client made before it; -1 for none, and for what is not ordered."""
        ordered = np.flatnonzero(self.ordered)
        order = ordered[np.lexsort((self.lane[ordered], node[ordered]))]
        previous = np.full(len(self), -1, dtype=np.int64)
        is_next = is_same(node[order]) & is_same(self.lane[order])
        previous[order[1:]] = np.where(is_next, order[:-1], -1)
        return previous

    def _fifo_order(self) -> Array:
        ordered = np.flatnonzero(self.ordered)
        by = np.lexsort((self.seq[ordered], self.incarnation[ordered], self.lane[ordered], self.publisher[ordered]))
        found: Array = ordered[by]
        return found


def levels(words: Words) -> Array:
    """For each word of the guarantees its strength; -1 for what is none."""
    found = []
    for word in words.guarantees.texts:
        try:
            found.append(int(Guarantee.parse(word)))
        except UsageError:
            found.append(-1)
    return np.array([*found, -1])


def labels(words: Words) -> Array:
    """For each word of the guarantees the strength that is written exactly so; -1 for none."""
    known = {guarantee.label: int(guarantee) for guarantee in Guarantee}
    return np.array([*(known.get(word, -1) for word in words.guarantees.texts), -1])


def check_publish(rows: Rows, words: Words) -> None:
    if np.any(rows.publisher < 0) or np.any(rows.incarnation == NULL) or np.any(rows.seq == NULL):
        raise UnreadableError("a publish row without identity")
    if np.any(rows.stream < 0) or np.any(rows.topic < 0) or np.any(rows.node != rows.publisher):
        raise UnreadableError("a publish row without stream or topic, or of another client")
    level = levels(words)[rows.guarantee]
    streams = np.array([words.streams.find(g.stream) for g in Guarantee])
    if np.any(level < 0) or np.any(streams[level] != rows.stream):
        raise UnreadableError("a publish row with an unknown guarantee or another stream")


class _Keys(NamedTuple):
    """The words of the keys, each as topic and rest."""

    topic: Array
    """The other topic that it names, or -1."""
    rest: Array
    """The key without it."""
    rests: Vocabulary


def _split_keys(words: Words) -> _Keys:
    topics: list[int] = []
    rests = Vocabulary()
    codes: list[int] = []
    for key in words.keys.texts:
        topic, mark, rest = key.partition("#")
        topics.append(words.topics.code(topic) if mark else -1)
        codes.append(rests.code(rest if mark else key))
    return _Keys(np.array(topics, dtype=np.int64), np.array(codes, dtype=np.int64), rests)
