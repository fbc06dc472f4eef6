"""Durable subscriptions on arrays: what their consumers were handed together; the rule is that of `audit.durable`.

What is broken by the rows of consumers alone is known at once. Whether something is missing is known when it is known
what is owed.
"""

from typing import Final

import numpy as np

from resprout.audit.durable import LONG_US
from resprout.audit.history import QUIET_US, CalmTimes
from resprout.core.errors import UsageError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.pipeline.judging.columns import (
    NEVER,
    NULL,
    Array,
    Rows,
    UnreadableError,
    Words,
    cells_of,
    is_same,
    spread,
    text_of,
)
from resprout.pipeline.judging.publications import MessageIndex, Publications
from resprout.pipeline.judging.wishes import SubscriberWishes
from resprout.trace import kinds

CONSUMING: Final = (
    kinds.CONSUME,
    kinds.CONSUMING,
    kinds.HANDED,
    kinds.DROPS_TOLD,
    kinds.ACKNOWLEDGED,
    kinds.CONSUME_OVER,
)
ENDING: Final = (kinds.CRASH, kinds.LEAVE)


class ConsumedRows:
    """The rows of all consumers, and where clients end."""

    def __init__(self, rows: Rows, words: Words) -> None:
        self.rows, self._words = rows, words
        self.is_end = np.isin(rows.kind, words.kinds.find_all(ENDING))
        cells = cells_of(rows.attributes)
        self._texts = {
            name: text_of(cells, words.attributes.find(name), len(rows))
            for name in (
                "durable",
                "group",
                "redelivered",
                "dropped",
                "drop_oldest",
                "deliveries",
                "max_deliver",
                "ack_wait",
            )
        }
        self.name = self._texts["durable"]
        if np.any((self.name < 0) & ~self.is_end):
            raise UnreadableError("a row of a consumer without the name of a durable subscription")
        self.names = np.unique(self.name[~self.is_end]).tolist()
        self.life = self._lives()
        self.begun_us = np.zeros(int(self.life.max(initial=0)) + 1, dtype=np.int64)
        """By life, when it was first seen."""
        lives, first = np.unique(self.life, return_index=True)
        self.begun_us[lives] = rows.time_us[first]
        self.over_row, self.over_us = self._ends()
        self.asked = self._asked()
        """By name: what it asks for, and whether it is a group."""

    def at(self, kind: str, name: int) -> Array:
        """Places of rows of one kind about one subscription."""
        return np.flatnonzero((self.rows.kind == self._words.kinds.find(kind)) & (self.name == name) & ~self.is_end)

    def says(self, what: str, places: Array) -> Array:
        found: Array = self._texts[what][places] >= 0
        return found

    def dropped(self, name: int) -> int:
        """How many messages were dropped, as far as consumers were told."""
        said = np.unique(self._texts["dropped"][self.at(kinds.DROPS_TOLD, name)]).tolist()
        texts = [self._words.values.texts[text] if text >= 0 else "" for text in said]
        if not all(text.isascii() and text.isdigit() for text in texts):
            raise UnreadableError("a row of a consumer with a number of dropped messages that is none")
        return max([int(text) for text in texts], default=0)

    def numbers(self, what: str, places: Array, default: int) -> list[int]:
        """An attribute of rows as a number."""
        texts = [self._words.values.texts[text] if text >= 0 else str(default) for text in self._texts[what][places]]
        if not all(text.isascii() and text.isdigit() for text in texts):
            raise UnreadableError(f"a row of a consumer whose {what} is no number")
        return [int(text) for text in texts]

    def present(self, name: int) -> dict[int, int]:
        """Who consumes it at the end, and since when."""
        begins = self._words.kinds.find(kinds.CONSUMING)
        steps = self._words.kinds.find_all((kinds.CONSUMING, kinds.CONSUME, kinds.CONSUME_OVER))
        is_step = self.is_end | ((self.name == name) & np.isin(self.rows.kind, steps))
        found: dict[int, int] = {}
        for place in np.flatnonzero(is_step).tolist():
            node = int(self.rows.node[place])
            if self.rows.kind[place] == begins:
                found.setdefault(node, int(self.rows.time_us[place]))
            else:
                found.pop(node, None)
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

    def _ends(self) -> tuple[Array, Array]:
        """By life, the row and the time at which it was over: its client is gone, was told so, or begins anew."""
        lives, begins = np.unique(self.life, return_index=True)
        begins = begins[~self.is_end[begins]]
        told = np.flatnonzero(self.rows.kind == self._words.kinds.find(kinds.CONSUME_OVER))
        row, time_us = (np.full(int(lives.max(initial=0)) + 1, NEVER, dtype=np.int64) for _ in range(2))
        current: dict[int, dict[int, int]] = {}
        for place in np.unique(np.concatenate((begins, told, np.flatnonzero(self.is_end)))).tolist():
            mine = current.setdefault(int(self.rows.node[place]), {})
            name, life = int(self.name[place]), int(self.life[place])
            over = list(mine.values()) if self.is_end[place] else [mine[name]] if mine.get(name, life) != life else []
            if not self.is_end[place]:
                mine[name] = life
            if self.rows.kind[place] == self._words.kinds.find(kinds.CONSUME_OVER):
                over.append(life)
            for each in over:
                if row[each] == NEVER:
                    row[each], time_us[each] = self.rows.row[place], self.rows.time_us[place]
        return row, time_us

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
        calm: CalmTimes,
        calm_brokers: CalmTimes,
        ended_us: int,
    ) -> None:
        """`calm_brokers`: what happens to consumers does not count."""
        self._calm_brokers = calm_brokers
        self._consumers, self._publications, self._wishes = consumers, publications, wishes
        self._calm, self._ended_us = calm, ended_us
        self.count = len(consumers.names)
        self.unjudged = 0
        """In how many it is not judged what is missing."""
        self.is_broken = False
        """By what was handed out."""
        self._never: list[tuple[Array, int]] = []
        """Publications that were to be handed out, if they are owed, and were not, or not again; and how many of them
        consumers were told to be dropped."""
        self.may_hold = np.zeros(len(publications), dtype=np.bool_)
        """Publications that may not be delivered everywhere, because nobody has acknowledged them."""
        self.may_block = np.zeros(len(publications), dtype=np.bool_)
        """Publications that may wait at their publishers, because nobody consumes at the end."""
        for name in consumers.names:
            handed, acknowledged = consumers.at(kinds.HANDED, name), consumers.at(kinds.ACKNOWLEDGED, name)
            number, done = self._numbers(index, handed), self._numbers(index, acknowledged)
            self.is_broken |= self._hands_wrongly(name, handed, number, acknowledged, done)
            self.is_broken |= self._breaks_order(name, handed, number)
            self.is_broken |= self._hands_out_though_known(handed, number, acknowledged, done)
            self.is_broken |= self._counts_wrongly(name, handed, number)
            self.is_broken |= self._in_two_hands(name, handed, number, acknowledged, done)
            never = self._never_handed(name, handed, number) if judges_loss else None
            self.unjudged += never is None
            if never is not None:
                never = np.concatenate((never, self._lost_with_a_consumer(name, handed, number, done)))
                self._never.append((never, consumers.dropped(name)))
            begun = consumers.at(kinds.CONSUME, name)
            self._hold(name, done, bool(consumers.says("drop_oldest", begun).any()))
        del (
            self._consumers,
            self._wishes,
            self._publications,
            self._calm,
            self._calm_brokers,
        )  # read by now, and not small

    def misses(self, owed: Array) -> bool:
        return any(int(np.count_nonzero(owed[never])) > dropped for never, dropped in self._never)

    def _numbers(self, index: MessageIndex, places: Array) -> Array:
        """The publication of each row; -1 for none."""
        rows = self._consumers.rows.take(places, "row", "publisher", "incarnation", "stream", "seq")
        if np.any(rows.publisher < 0) or np.any(rows.stream < 0):
            raise UnreadableError("a row of a consumer without publisher or stream")
        if np.any(rows.incarnation == NULL) or np.any(rows.seq == NULL):
            raise UnreadableError("a row of a consumer without incarnation or seq")
        number = index.find(rows.publisher, rows.incarnation, rows.stream, rows.seq)
        return np.where(number < len(self._publications), number, -1)

    def _hands_wrongly(self, name: int, handed: Array, number: Array, acknowledged: Array, done: Array) -> bool:
        consumers = self._consumers
        row = consumers.rows.row
        if np.any(number < 0) or np.any(row[handed] < self._publications.row[number]):
            return True
        asked = consumers.asked.get(name)
        if asked is not None and not self._wishes.matches(asked[0], number).all():
            return True
        first = number[~consumers.says("redelivered", handed)]
        if len(np.unique(first)) < len(first):
            return True
        if consumers.says("ack_wait", consumers.at(kinds.CONSUME, name)).any():
            return False
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

    def _hands_out_though_known(self, handed: Array, number: Array, acknowledged: Array, done: Array) -> bool:
        """What was acknowledged, and has been known everywhere since."""
        consumers, time_us = self._consumers, self._consumers.rows.time_us
        latest = np.full(len(self._publications) + 1, -1, dtype=np.int64)
        np.maximum.at(latest, number, time_us[handed])
        known: dict[int, int] = {}
        for place, n in zip(acknowledged.tolist(), done.tolist(), strict=True):
            if n >= 0 and latest[n] > time_us[place]:
                quiet = self._calm.quiet_after(int(time_us[place]), int(consumers.over_us[consumers.life[place]]))
                known[n] = min(quiet, known.get(n, NEVER))
        moments = zip(number.tolist(), time_us[handed].tolist(), strict=True)
        return any(at_us > known.get(n, NEVER) for n, at_us in moments)

    def _counts_wrongly(self, name: int, handed: Array, number: Array) -> bool:
        """Whether a message says that it was handed out less often than is known, or more often than it may be."""
        consumers = self._consumers
        most = max(consumers.numbers("max_deliver", consumers.at(kinds.CONSUME, name), 0), default=0)
        times: dict[int, list[tuple[int, int, int]]] = {}
        said, lives = consumers.numbers("deliveries", handed, 1), consumers.life[handed].tolist()
        moments = consumers.rows.time_us[handed].tolist()
        for n, at_us, life, deliveries in zip(number.tolist(), moments, lives, said, strict=True):
            times.setdefault(n, []).append((at_us, life, deliveries))
        for each in times.values():
            counted: list[tuple[int, int]] = []
            for i, (at_us, life, deliveries) in enumerate(each):
                is_prompt = self._calm.covers(at_us, at_us)  # its consumer was not frozen when it was sent
                sent_us = max(int(consumers.begun_us[life]), at_us - QUIET_US if is_prompt else 0)
                known = sum([other == life or sent_us > before_us for before_us, other in counted])
                if deliveries < known + 1 or 0 < most < max(deliveries, known + 1):
                    return True
                if i + 1 < len(each):
                    told_us = min(each[i + 1][0] + QUIET_US, each[-1][0])
                    if self._calm_brokers.covers(at_us, told_us):
                        counted.append((at_us, life))
        return False

    def _in_two_hands(self, name: int, handed: Array, number: Array, acknowledged: Array, done: Array) -> bool:
        """Whether one consumer was handed something of a key while another had something of it."""
        consumers, publications, asked = self._consumers, self._publications, self._consumers.asked.get(name)
        has_ack_wait = bool(consumers.says("ack_wait", consumers.at(kinds.CONSUME, name)).any())
        if asked is None or not asked[1] or has_ack_wait:
            return False
        rows, start = consumers.rows, publications.pair_start
        is_key = [bool(key) for key in publications.pair_keys.texts]
        finished: dict[int, list[int]] = {}
        for place, n in zip(acknowledged.tolist(), done.tolist(), strict=True):
            finished.setdefault(n, []).append(int(rows.row[place]))
        held: dict[int, list[tuple[int, int, int]]] = {}
        for place, n in zip(handed.tolist(), number.tolist(), strict=True):
            if n < 0:
                continue
            row, time_us, life = int(rows.row[place]), int(rows.time_us[place]), int(consumers.life[place])
            until = min([at for at in (*finished.get(n, ()), int(consumers.over_row[life])) if at > row], default=NEVER)
            for pair in publications.pair[start[n] : start[n + 1]].tolist():
                if not is_key[publications.pair_key[pair]]:
                    continue
                mine = held[pair] = [one for one in held.get(pair, ()) if one[0] > row]
                others = [since for _, other, since in mine if other != life]
                if any(self._calm.covers(since, time_us) for since in others):
                    return True
                mine.append((until, life, time_us))
        return False

    def _lost_with_a_consumer(self, name: int, handed: Array, number: Array, done: Array) -> Array:
        """What nobody has acknowledged, and only consumers were handed that are gone."""
        consumers, latest = self._consumers, self._ended_us - LONG_US
        asked, since = consumers.asked.get(name), consumers.present(name)
        if asked is None or min(since.values()) > latest:
            return np.zeros(0, dtype=np.int64)
        confirmed = consumers.rows.row[consumers.at(kinds.CONSUMING, name)][0]
        is_left = np.zeros(len(self._publications), dtype=np.bool_)
        is_left[number[number >= 0]] = True
        is_left[done[done >= 0]] = False
        is_there = consumers.over_us[consumers.life[handed]] > latest
        is_left[number[is_there & (number >= 0)]] = False
        return np.flatnonzero(is_left & (self._publications.row > confirmed))

    def _hold(self, name: int, done: Array, drops: bool) -> None:
        consumers, asked = self._consumers, self._consumers.asked.get(name)
        begun = consumers.rows.row[consumers.at(kinds.CONSUME, name)]
        if asked is None or not len(begun):
            return
        is_left = np.ones(len(self._publications), dtype=np.bool_)
        if consumers.present(name):
            is_left = self._publications.row > begun[0]
            is_left[done[done >= 0]] = False
        left = np.flatnonzero(is_left)
        matching = left[self._wishes.matches(asked[0], left)]
        self.may_hold[matching] = True
        if len(consumers.at(kinds.CONSUMING, name)) and not consumers.present(name) and not drops:
            self.may_block[matching[self._publications.row[matching] > begun[0]]] = True

    def _never_handed(self, name: int, handed: Array, number: Array) -> Array | None:
        """None: it is not judged."""
        consumers, asked = self._consumers, self._consumers.asked.get(name)
        confirmed = consumers.rows.row[consumers.at(kinds.CONSUMING, name)]
        if not len(confirmed) or not consumers.present(name):
            return None
        is_left = self._publications.row > confirmed[0]
        is_left[number[number >= 0]] = False
        left = np.flatnonzero(is_left)
        return left[self._wishes.matches(asked[0], left)] if asked is not None else left[:0]
