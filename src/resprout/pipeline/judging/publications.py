"""The publications of a run as columns, numbered in the order of rows like those of `audit.history`.

`MessageIndex` finds the number of a publication by (publisher, incarnation, stream, seq). Numbers of one client's
stream are mostly dense, so a table with one range per (publisher, stream, incarnation) answers for all rows in a few
steps; where they are not, a dictionary does.

`Lives` numbers subscribers: clients between two crashes, by name and by how many of its crashes came before. The
numbers differ from those of `audit.history`; the lives are the same.

`Operations` are the publications that are operations of a bank (`audit.bank` says which are). Amounts of more than two
thousand million cents do not fit here, and are left to the judge in Python.
"""

from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, OrderScope
from resprout.pipeline.judging.columns import (
    NEVER,
    NULL,
    Array,
    Rows,
    UnreadableError,
    Vocabulary,
    Words,
    cells_of,
    distinct,
    is_same,
    table_of,
    text_of,
    values_of,
)

_ROOM: Final = 8
"""Cells of the table per publication, at most; and as many ranges."""
_ROOM_LEAST: Final = 1 << 16

MONEY_MAX: Final = 1 << 31
KINDS: Final = ("balance", "deposit", "withdraw", "interest", "transfer")
BALANCE, DEPOSIT, WITHDRAW, INTEREST, TRANSFER = range(5)
NOTHING: Final = -1


class MessageIndex:
    def __init__(self, publisher: Array, incarnation: Array, stream: Array, seq: Array) -> None:
        """Of several rows with one identity the first gives the number: its place."""
        self._incarnations = np.unique(incarnation)
        self._names = int(publisher.max(initial=-1)) + 1
        self._streams = int(stream.max(initial=-1)) + 1
        self._sparse: dict[tuple[Any, ...], int] | None = None
        room = max(_ROOM * len(seq), _ROOM_LEAST)
        ranges = self._names * self._streams * len(self._incarnations)
        if ranges <= room and self._arrange(self._range(publisher, incarnation, stream), seq, ranges, room):
            return
        self._sparse = {}
        columns = (publisher.tolist(), incarnation.tolist(), stream.tolist(), seq.tolist())
        for place, id in enumerate(zip(*columns, strict=True)):
            self._sparse.setdefault(id, place)

    def find(self, publisher: Array, incarnation: Array, stream: Array, seq: Array) -> Array:
        """The number of each; -1 where nothing has that identity."""
        if self._sparse is not None:
            columns = (publisher.tolist(), incarnation.tolist(), stream.tolist(), seq.tolist())
            return np.array([self._sparse.get(id, -1) for id in zip(*columns, strict=True)], dtype=np.int32)
        if not len(self._table):
            return np.full(len(seq), -1, dtype=np.int32)
        inside = self._known(publisher, incarnation, stream)
        if not inside.all():
            found = np.full(len(seq), -1, dtype=np.int32)
            found[inside] = self.find(publisher[inside], incarnation[inside], stream[inside], seq[inside])
            return found
        ranges = self._range(publisher, incarnation, stream)
        low = self._low[ranges]
        there = (seq >= low) & (seq <= self._high[ranges])
        return np.where(there, self._table[np.where(there, self._base[ranges] + (seq - low), 0)], np.int32(-1))

    def _arrange(self, ranges: Array, seq: Array, count: int, room: int) -> bool:
        order = np.lexsort((seq, ranges))
        here = ranges[order]
        first = np.flatnonzero(np.r_[True, here[1:] != here[:-1]]) if len(here) else np.empty(0, dtype=np.int64)
        last = np.r_[first[1:], len(here)] - 1 if len(first) else first
        self._low = np.zeros(count, dtype=np.int64)
        self._high = np.full(count, -1, dtype=np.int64)
        self._low[here[first]] = seq[order[first]]
        self._high[here[first]] = seq[order[last]]
        widths = [int(high) - int(low) + 1 for low, high in zip(seq[order[first]], seq[order[last]], strict=True)]
        if sum(widths) > room:
            return False
        self._base = np.zeros(count, dtype=np.int64)
        self._base[here[first]] = np.cumsum([0, *widths[:-1]]) if widths else 0
        self._table = np.full(sum(widths), -1, dtype=np.int32)
        slots = self._base[ranges] + (seq - self._low[ranges])
        self._table[slots[::-1]] = np.arange(len(seq) - 1, -1, -1)
        return True

    def _known(self, publisher: Array, incarnation: Array, stream: Array) -> Array:
        places = np.minimum(np.searchsorted(self._incarnations, incarnation), len(self._incarnations) - 1)
        inside: Array = self._incarnations[places] == incarnation
        inside &= (publisher >= 0) & (publisher < self._names) & (stream >= 0) & (stream < self._streams)
        return inside

    def _range(self, publisher: Array, incarnation: Array, stream: Array) -> Array:
        place: Array = publisher.astype(np.int64) * self._streams + stream
        if len(self._incarnations) > 1:
            place = place * len(self._incarnations) + np.searchsorted(self._incarnations, incarnation)
        return place


class Lives:
    def __init__(self, names: int, ends_node: Array, ends_row: Array, rows: int) -> None:
        """`ends`: crash and leave rows, in order of rows; `rows`: of the whole run."""
        self._rows = rows + 1
        self._ends = np.sort(ends_node.astype(np.int64) * self._rows + ends_row)
        self.count = names + len(self._ends)
        self.node = np.repeat(np.arange(names), 1 + np.bincount(ends_node, minlength=names)) if names else ends_node
        self.end_row = np.full(self.count, NEVER, dtype=np.int64)
        """NEVER for a life that lasts."""
        self.end_row[self._ends // self._rows + np.arange(len(self._ends))] = self._ends % self._rows
        self.frozen_at_end = np.zeros(self.count, dtype=np.bool_)
        self.freezes: dict[int, list[tuple[int, int]]] = {}
        """By life, (since, until) in rows."""

    def of(self, node: Array, row: Array) -> Array:
        if not len(self._ends):
            return node
        before: Array = np.searchsorted(self._ends, node.astype(np.int64) * self._rows + row)
        return node + before

    @property
    def correct(self) -> Array:
        found: Array = (self.end_row == NEVER) & ~self.frozen_at_end
        return found

    def freeze(self, node: Array, row: Array, begins: Array, seen_node: Array, seen_row: Array) -> None:
        """`begins`: for each row of a freeze or its end, which it is. `seen`: what these nodes observed; before the
        first of it a life has not begun, and cannot be frozen."""
        begun = np.full(self.count, NEVER, dtype=np.int64)
        np.minimum.at(begun, self.of(seen_node, seen_row), seen_row)
        since: dict[int, int] = {}
        for life, here, is_freeze in zip(self.of(node, row).tolist(), row.tolist(), begins.tolist(), strict=True):
            if is_freeze and begun[life] < here:
                since.setdefault(life, here)
            elif not is_freeze and life in since:
                self.freezes.setdefault(life, []).append((since.pop(life), here))
        for life, here in since.items():
            end = int(self.end_row[life])
            self.freezes.setdefault(life, []).append((here, end))
            self.frozen_at_end[life] = end == NEVER


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


class Operations:
    def __init__(self, publications: Publications, words: Words) -> None:
        count = len(publications)
        self.kind = np.full(count, NOTHING, dtype=np.int8)
        """By publication; NOTHING for what is no operation."""
        self.amount = np.zeros(count, dtype=np.int64)
        self.account = np.full(count, -1, dtype=np.int64)
        """The pair that it changes; the one debited, for a transfer."""
        self.to = np.full(count, -1, dtype=np.int64)
        if (op := words.attributes.find("op")) < 0:
            return
        cells = cells_of(publications.attributes)
        ops = text_of(cells, op, count)
        amounts = text_of(cells, words.attributes.find("amount"), count)
        named = np.flatnonzero(ops >= 0)
        kinds = table_of([_kind(word) for word in values_of(words, ops[named])], ops[named], words)
        money = table_of([_money(value) for value in values_of(words, amounts[named])], amounts[named], words)
        kind, amount = kinds[ops[named]], money[amounts[named]]
        pairs = np.diff(publications.pair_start)[named]
        simple = (kind >= 0) & (kind < TRANSFER) & (pairs == 1) & ((kind == BALANCE) | (amount > 0))
        self._set(named[simple], kind[simple], amount[simple], publications)
        moving = named[(kind == TRANSFER) & (pairs == 2) & (amount > 0)]
        self.amount[moving] = money[amounts[moving]]
        self._set_transfers(moving, text_of(cells, words.attributes.find("to"), count), publications, words)

    @property
    def numbers(self) -> Array:
        return np.flatnonzero(self.kind >= 0)

    def _set(self, numbers: Array, kind: Array, amount: Array, publications: Publications) -> None:
        self.kind[numbers] = kind
        self.amount[numbers] = amount
        self.account[numbers] = publications.pair[publications.pair_start[numbers]]

    def _set_transfers(self, numbers: Array, to: Array, publications: Publications, words: Words) -> None:
        values = ["None" if value is None else str(value) for value in values_of(words, to[numbers])]
        topics, keys = [], []
        for value in values:
            other, mark, rest = value.partition("#")
            topics.append(words.topics.find(other) if mark else -2)
            keys.append(publications.pair_keys.find(rest if mark else value))
        topic, key = table_of(topics, to[numbers], words)[to[numbers]], table_of(keys, to[numbers], words)[to[numbers]]
        topic = np.where(topic == -2, publications.topic[numbers], topic)
        first = publications.pair[publications.pair_start[numbers]]
        second = publications.pair[publications.pair_start[numbers] + 1] if len(numbers) else first
        is_first, is_second = (
            (publications.pair_topic[pair] == topic) & (publications.pair_key[pair] == key) for pair in (first, second)
        )
        fits = is_first | is_second
        self.kind[numbers[fits]] = TRANSFER
        self.to[numbers] = np.where(is_first, first, second)
        self.account[numbers] = np.where(is_first, second, first)


def _kind(value: object) -> int:
    return KINDS.index(value) if isinstance(value, str) and value in KINDS else NOTHING


def _money(value: object) -> int:
    if isinstance(value, int) and abs(value) > MONEY_MAX:
        raise UnreadableError(f"an amount of {value}")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
