"""Logs on arrays: the rules of `audit.logs` and `audit.log_order`, vectorised.

Violations that the rows about logs show by themselves are found at once. The others need more of the run: which
publications are owed, what depends on what, and the places of totals (`LogArrays.broken`).
"""

from typing import Final

import msgspec
import numpy as np

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.partitions import place_of
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.pipeline.judging.columns import (
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

LOGGED: Final = (
    kinds.LOG_DECLARED, kinds.LOG_FED, kinds.LOG_KEPT, kinds.LOG_GAP, kinds.LOG_END, kinds.LOG_READ, kinds.LOG_PAGE,
    kinds.LOG_COMPACTED,
)  # fmt: skip
FAR: Final = 1 << 62
_ABOUT: Final = (
    "log", "crc", "replicas", "first", "end", "runs", "from", "until", "partition", "partitions", "grace", "compacted",
    "at", "until", "empty",
)  # fmt: skip


class LogRows:
    """The rows about logs, with their attributes as texts."""

    def __init__(self, rows: Rows, words: Words) -> None:
        self.rows, self.words = rows, words
        cells = cells_of(rows.attributes)
        self.text = {name: text_of(cells, words.attributes.find(name), len(rows)) for name in _ABOUT}
        if np.any(self.text["log"] < 0):
            raise UnreadableError("a row about a log without its name")
        self.is_message = self._is(kinds.LOG_KEPT, kinds.LOG_READ, kinds.LOG_COMPACTED)
        placed = self.is_message | self._is(kinds.LOG_GAP)
        if np.any(rows.position[placed] < 0):
            raise UnreadableError("a row about a log without position")
        nameless = (rows.publisher < 0) | (rows.stream < 0) | (rows.incarnation == NULL) | (rows.seq == NULL)
        if np.any(nameless & self.is_message):
            raise UnreadableError("a row about a message of a log without identity")
        self.names = list(dict.fromkeys(self.text["log"].tolist()))
        self.predicates: dict[int, Predicate] = {}
        """Predicates of the rows that have one, by index of the row."""
        for place in np.flatnonzero(self._is(kinds.LOG_DECLARED, kinds.LOG_PAGE)).tolist():
            self.predicates[place] = self._predicate(place)

    def _is(self, *wanted: str) -> Array:
        return np.isin(self.rows.kind, self.words.kinds.find_all(wanted))

    def at(self, log: int, *wanted: str) -> Array:
        """Return the indices of the rows of these kinds about one log."""
        return np.flatnonzero(self._is(*wanted) & (self.text["log"] == log))

    def number(self, place: int, name: str) -> int:
        text = self.word(place, name)
        if not (text.isascii() and text.isdigit()):
            raise UnreadableError("a row about a log with an offset that is none")
        return int(text)

    def word(self, place: int, name: str) -> str:
        code = int(self.text[name][place])
        return self.words.values.texts[code] if code >= 0 else ""

    def _predicate(self, place: int) -> Predicate:
        filters = [*self.words.filters.texts, None]
        text = filters[self.rows.filter[place]]
        if text is None:
            raise UnreadableError("a row about a log without filter")
        try:
            return parse_predicate(text, filters[self.rows.where[place]])
        except UsageError as error:
            raise UnreadableError(str(error)) from None


class ReplicaEnd(msgspec.Struct):
    first: int = 0
    end: int = 0
    runs: bool = False
    compacted: int = 0
    """Offset behind its compacted part."""


class OneLog:
    """The rows about one log."""

    def __init__(self, rows: LogRows, log: int) -> None:
        kept, gaps = rows.at(log, kinds.LOG_KEPT), rows.at(log, kinds.LOG_GAP)
        ends = rows.at(log, kinds.LOG_END)
        declared = rows.at(log, kinds.LOG_DECLARED)
        table = rows.rows
        self.predicate = rows.predicates[int(declared[-1])] if len(declared) else None
        self.replicas = len(rows.word(int(declared[-1]), "replicas").split()) if len(declared) else 0
        self.partition, self.partitions = 0, 1
        """Of the messages that match, it keeps those of this partition."""
        if len(declared) and rows.word(int(declared[-1]), "partitions"):
            self.partition = rows.number(int(declared[-1]), "partition")
            self.partitions = rows.number(int(declared[-1]), "partitions")
            if not 0 <= self.partition < self.partitions:
                raise UnreadableError("a row about a log with a partition that is none")
        has_grace = len(declared) > 0 and rows.word(int(declared[-1]), "grace") != ""
        self.grace_us = rows.number(int(declared[-1]), "grace") if has_grace else None
        """Age at which tombstones are dropped; None unless the log is compacted."""
        self.dropped = rows.at(log, kinds.LOG_COMPACTED)
        """Indices of the rows of messages that were dropped by compaction."""
        self.fed = table.row[rows.at(log, kinds.LOG_FED)]
        self.kept = {int(node): kept[table.node[kept] == node] for node in np.unique(table.node[kept])}
        """Indices of the rows of its messages, by broker."""
        self.gaps = {int(node): gaps[table.node[gaps] == node] for node in np.unique(table.node[gaps])}
        self.ends: dict[int, ReplicaEnd] = {}
        for place in ends.tolist():
            first, end = rows.number(place, "first"), rows.number(place, "end")
            compacted = rows.number(place, "compacted") if rows.text["compacted"][place] >= 0 else 0
            self.ends[int(table.node[place])] = ReplicaEnd(first, end, rows.text["runs"][place] >= 0, compacted)
        for node in (*self.kept, *self.gaps):
            self.ends.setdefault(node, ReplicaEnd())
        in_order = sorted(self.kept, key=lambda node: rows.words.names.texts[node])
        kept_in_order = [self.kept[node] for node in in_order]
        every = np.concatenate([np.zeros(0, dtype=np.int64), *kept_in_order, self.dropped])
        position, first_of = np.unique(table.position[every], return_index=True)
        self.offset = position
        """All offsets that some replica has, sorted."""
        self.chosen = every[first_of]
        """Index of the row that stands for each offset: that of the first replica by name, or of a dropped message."""
        first_row: dict[int, int] = {}
        for place in self.dropped.tolist():
            first_row.setdefault(int(table.position[place]), int(table.row[place]))
        self.dropped_row = np.array([first_row.get(offset, FAR) for offset in position.tolist()], dtype=np.int64)
        """Row of the first note that the message at each offset was dropped; `FAR` if there is none."""

    @property
    def running(self) -> list[ReplicaEnd]:
        return [end for end in self.ends.values() if end.runs]

    def find(self, position: Array) -> Array:
        """Return for each offset the index of the row that stands for it, or -1."""
        if not len(self.offset):
            return np.full(len(position), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.offset, position), len(self.offset) - 1)
        return np.where(self.offset[at] == position, self.chosen[at], -1)


class LogArrays:
    def __init__(
        self,
        rows: LogRows,
        index: MessageIndex,
        publications: Publications,
        wishes: SubscriberWishes,
        judges_loss: bool,
        first_shock_us: int,
    ) -> None:
        """`first_shock_us`: the time of the first fault of a node or a link."""
        self._rows, self._publications, self._wishes = rows, publications, wishes
        self._number = self._numbers(index)
        self.logs = [OneLog(rows, log) for log in rows.names]
        is_divided = any(log.partitions > 1 for log in self.logs)
        self._places = self._places_of_all(rows.words) if is_divided else np.zeros(0, dtype=np.int64)
        self.count = len(self.logs)
        self._is_judged = [
            judges_loss and len(log.fed) > 0 and log.predicate is not None and 2 * len(log.running) > log.replicas
            for log in self.logs
        ]
        self.unjudged = self._is_judged.count(False)
        self.may_hold = np.zeros(len(publications), dtype=np.bool_)
        """Whether a publication may wait for ever, because some matching log has no majority of its replicas."""
        for log in self.logs:
            if log.predicate is not None and 2 * len(log.running) <= log.replicas:
                self.may_hold |= self._keeps(log, np.arange(len(publications)))
        self.reads = 0
        """Number of pages that clients have read."""
        self._broken: set[str] = set()
        for log, name in zip(self.logs, rows.names, strict=True):
            self._note("log_kept", any(self._violates_kept(log, node) for node in log.ends))
            self._note("log_kept", len(log.dropped) > 0 and self._violates_dropped(log))
            self._note("log_same", self._differs(log, name) or self._gaps_differ(log))
            gaps = [rows.rows.time_us[places] for places in log.gaps.values()]
            self._note("log_gap", any(bool(np.any(times <= first_shock_us)) for times in gaps))
            self._note("log_read", self._violates_read(log, name))
        self._missing = [
            self._lacks(log) if judged else None for log, judged in zip(self.logs, self._is_judged, strict=True)
        ]
        self._sequences = [self._sequence(log) for log in self.logs]
        del self._wishes

    def _note(self, rule: str, is_broken: bool) -> None:
        if is_broken:
            self._broken.add(rule)

    def _numbers(self, index: MessageIndex) -> Array:
        """Return the publication of each row about a message, or -1."""
        table, found = self._rows.rows, np.full(len(self._rows.rows), -1, dtype=np.int64)
        at = np.flatnonzero(self._rows.is_message)
        if len(at):
            number = index.find(table.publisher[at], table.incarnation[at], table.stream[at], table.seq[at])
            found[at] = np.where(number < len(self._publications), number, -1)
        return found

    def _keeps(self, log: OneLog, number: Array) -> Array:
        """Return which of these publications the log keeps, as it is declared."""
        assert log.predicate is not None, "it is judged"
        found = self._wishes.matches(log.predicate, number)
        return found if log.partitions == 1 else found & (self._places[number] % log.partitions == log.partition)

    def _places_of_all(self, words: Words) -> Array:
        """Return the number that decides on the partition, for each publication."""
        publications = self._publications
        of_topic = np.array([place_of(topic, ()) for topic in words.topics.texts] or [0], dtype=np.int64)
        of_key = np.array([place_of("", (key,)) for key in words.keys.texts] or [0], dtype=np.int64)
        places: Array = of_topic[publications.topic]
        keyed = np.flatnonzero(publications.keys.length > 0)
        places[keyed] = of_key[publications.keys.content[0][publications.keys.start[keyed]]]
        return places

    # -- what the rows of a log say ------------------------------------------------------------------------------------

    def _violates_kept(self, log: OneLog, node: int) -> bool:
        table, none = self._rows.rows, np.zeros(0, dtype=np.int64)
        places, gaps = log.kept.get(node, none), log.gaps.get(node, none)
        number = self._number[places]
        if np.any(number < 0) or np.any(self._publications.row[number] > table.row[places]):
            return True
        if log.predicate is not None and len(number) and not self._keeps(log, number).all():
            return True
        position = table.position[places]
        if len(np.unique(np.stack((number, position)), axis=1).T) > len(np.unique(number)):
            return True
        end = log.ends[node]
        line = np.concatenate(([end.first - 1], position, [end.end]))
        if np.any(np.diff(line) < 1):
            return True
        dropped = table.position[log.dropped]
        free = np.concatenate((table.position[gaps], dropped[dropped < end.compacted]))
        marks = np.setdiff1d(free, position)
        inside = np.count_nonzero((marks >= end.first) & (marks < end.end))
        return bool(len(position) + inside != end.end - end.first)

    def _violates_dropped(self, log: OneLog) -> bool:
        """Whether a message was dropped that is the last one of its key, and no old tombstone."""
        table, rows, publications = self._rows.rows, self._rows, self._publications
        number = self._number[log.dropped]
        if log.grace_us is None or np.any(number < 0) or np.any(publications.row[number] > table.row[log.dropped]):
            return True
        if log.predicate is not None and not self._keeps(log, number).all():
            return True
        keys = publications.keys

        def key_of(one: int) -> tuple[int, ...]:
            start = int(keys.start[one])
            return (int(publications.topic[one]), *keys.content[0][start : start + int(keys.length[one])].tolist())

        last: dict[tuple[int, ...], int] = {}
        there = self._number[log.chosen]
        for offset, one in zip(log.offset[there >= 0].tolist(), there[there >= 0].tolist(), strict=True):
            last[key_of(one)] = offset
        for place, one in zip(log.dropped.tolist(), number.tolist(), strict=True):
            age_us = rows.number(place, "until") - rows.number(place, "at")
            is_old = rows.text["empty"][place] >= 0 and age_us >= log.grace_us
            if last.get(key_of(one), -1) <= int(table.position[place]) and not is_old:
                return True
        return False

    def _differs(self, log: OneLog, name: int) -> bool:
        table = self._rows.rows
        pages = self._rows.at(name, kinds.LOG_PAGE)
        reads = self._rows.at(name, kinds.LOG_READ)
        last = {int(table.node[place]): int(table.row[place]) for place in pages}
        over = np.array([last.get(int(node), -1) for node in table.node[reads]], dtype=np.int64)
        here = np.concatenate([*log.kept.values(), reads[table.row[reads] < over], log.dropped])
        there = log.find(table.position[here])
        here, there = here[there >= 0], there[there >= 0]
        other = table.node[here] != table.node[there]
        here, there = here[other], there[other]
        differs = self._rows.text["crc"][here] != self._rows.text["crc"][there]
        for column in ("publisher", "incarnation", "stream", "seq"):
            differs |= getattr(table, column)[here] != getattr(table, column)[there]
        tseq, told = table.tseq[here], table.tseq[there]
        differs |= (tseq != NULL) & (told != NULL) & (tseq != told)
        return bool(np.any(differs))

    def _gaps_differ(self, log: OneLog) -> bool:
        table = self._rows.rows
        marks = {node: set(table.position[places].tolist()) for node, places in log.gaps.items()}
        return any(
            end.first <= position < end.end and position not in marks.get(node, ())
            for positions in marks.values()
            for position in positions
            for node, end in log.ends.items()
        )

    def _violates_read(self, log: OneLog, name: int) -> bool:
        table, rows = self._rows.rows, self._rows
        waiting: dict[int, list[int]] = {}
        read = rows.rows.kind == rows.words.kinds.find(kinds.LOG_READ)
        is_wrong = False
        for place in rows.at(name, kinds.LOG_READ, kinds.LOG_PAGE).tolist():
            node = int(table.node[place])
            if read[place]:
                waiting.setdefault(node, []).append(place)
                continue
            self.reads += 1
            begin, end = rows.number(place, "from"), rows.number(place, "until")
            given = np.array(waiting.pop(node, ()), dtype=np.int64)
            is_wrong |= self._page_violates(log, place, given, begin, end)
        return is_wrong

    def _page_violates(self, log: OneLog, page: int, given: Array, begin: int, end: int) -> bool:
        asked, row = self._rows.predicates[page], int(self._rows.rows.row[page])
        position = self._rows.rows.position[given]
        line = np.append(begin - 1, position)
        if np.any(np.diff(line) < 1) or np.any(position >= end):
            return True
        number = self._number[given]
        number = number[number >= 0]
        if len(number) and not self._wishes.matches(asked, number).all():
            return True
        inside = (log.offset >= begin) & (log.offset < end) & (log.dropped_row >= row)
        kept = self._number[log.chosen[inside]]
        offset = log.offset[inside][kept >= 0]
        kept = kept[kept >= 0]
        if not len(kept):
            return False
        wanted = offset[self._wishes.matches(asked, kept)]
        return not bool(np.isin(wanted, position).all())

    def _lacks(self, log: OneLog) -> tuple[Array, int]:
        """Return the publications that violate `log_complete` if they are owed, and how many of them may be missing."""
        ends = {end.end for end in log.running}
        self._note("log_complete", len(ends) > 1)
        since = int(log.fed.max() if log.gaps else log.fed.min())
        is_left = self._publications.row > since
        there = self._number[log.chosen]
        is_left[there[there >= 0]] = False
        left = np.flatnonzero(is_left)
        assert log.predicate is not None, "it is judged"
        return left[self._keeps(log, left)], min(end.first for end in log.running)

    def _sequence(self, log: OneLog) -> tuple[Array, Array, Array]:
        """Return the publications in the order of the log, each at its first offset; their offsets; and the places of
        totals."""
        number = self._number[log.chosen]
        known = np.flatnonzero(number >= 0)
        _, first = np.unique(number[known], return_index=True)
        at = known[np.sort(first)]
        return number[at], log.offset[at], self._rows.rows.tseq[log.chosen[at]]

    # -- with all that is known of the run -----------------------------------------------------------------------------

    def misses(self, owed: Array) -> bool:
        lacking = [found for found in self._missing if found is not None]
        return any(int(np.count_nonzero(owed[left])) > dropped for left, dropped in lacking)

    def broken(self, owed: Array, orders: "LogOrders") -> set[str]:
        found = set(self._broken)
        if self.misses(owed):
            found.add("log_complete")
        if any(orders.contradicts(*sequence) for sequence in self._sequences):
            found.add("log_order")
        return found


class LogOrders:
    """The orders of a run that the order of a log is compared with."""

    def __init__(
        self,
        publications: Publications,
        links: Array,
        claim: Array,
        places: "PlacedTotals | None",
    ) -> None:
        """`links`: pairs of a publication and one that it depends on. `claim`: the places of totals that subscribers
        were told. `places`: None where places do not prove the order of deliveries."""
        self._publications, self._claim, self._places = publications, claim, places
        self._links = _by_dependent(publications, links)

    def contradicts(self, number: Array, offset: Array, tseq: Array) -> bool:
        if self._breaks_fifo(number) or self._breaks_causal(number, offset):
            return True
        return self._places is not None and self._breaks_totals(number, tseq)

    def _breaks_fifo(self, number: Array) -> bool:
        publications = self._publications
        rank = np.empty(len(publications), dtype=np.int64)
        rank[publications.fifo_order] = np.arange(len(publications.fifo_order))
        number = number[publications.ordered[number]]
        order = np.lexsort((publications.lane[number], publications.publisher[number]))
        line = number[order]
        same = is_same(publications.publisher[line]) & is_same(publications.lane[line])
        return bool(np.any((rank[line][1:] < rank[line][:-1]) & same))

    def _breaks_causal(self, number: Array, offset: Array) -> bool:
        publications = self._publications
        own = np.full(len(publications), -1, dtype=np.int64)
        ordered = publications.ordered[number]
        own[number[ordered]] = offset[ordered]
        reach = own.tolist()
        start, given = self._links
        for dependent in range(len(publications)):
            for at in range(start[dependent], start[dependent + 1]):
                if reach[given[at]] > reach[dependent]:
                    reach[dependent] = reach[given[at]]
        judged = publications.level[number] >= Guarantee.CAUSAL
        return bool(np.any(np.array(reach, dtype=np.int64)[number[judged]] > offset[judged]))

    def _breaks_totals(self, number: Array, tseq: Array) -> bool:
        publications, claim = self._publications, self._claim[number]
        is_total = publications.total[number]
        if np.any(is_total & (claim != NULL) & (tseq != NULL) & (claim != tseq)):
            return True
        assert self._places is not None, "it is judged"
        return self._places.contradicts(number, np.where(is_total, np.where(claim != NULL, claim, tseq), NULL))


def _by_dependent(publications: Publications, links: Array) -> tuple[list[int], list[int]]:
    """Return the direct dependencies of all publications in one list, and where those of each begin in it."""
    own = np.flatnonzero(publications.previous >= 0)
    dependent = np.concatenate((own, links[0]))
    given = np.concatenate((publications.previous[own], links[1]))
    order = np.argsort(dependent, kind="stable")
    start = np.searchsorted(dependent[order], np.arange(len(publications) + 1))
    return start.tolist(), given[order].tolist()


class PlacedTotals:
    """For each pair of topic and key, the totals next to the publications that subscribers delivered."""

    def __init__(self, start: Array, pair: Array, is_total: Array, before: Array, after: Array, claim: Array) -> None:
        """`start`, `pair`, `is_total`: the positions of publications on pairs. `before`, `after`: a publication that is
        no total, and the total next to it at some subscriber. `claim`: the place of each total."""
        self._start, self._pair, self._is_total = start, pair, is_total
        self._last = np.full(len(pair), -1, dtype=np.int64)
        np.maximum.at(self._last, before[0], claim[before[1]])
        self._next = np.full(len(pair), FAR, dtype=np.int64)
        np.minimum.at(self._next, after[0], claim[after[1]])

    def contradicts(self, number: Array, place_of: Array) -> bool:
        """Whether the order of a log contradicts them. `place_of`: places of the totals in the log; NULL for all
        others."""
        length = self._start[number + 1] - self._start[number]
        places = spread(self._start[number], length)
        value = np.repeat(place_of, length)
        order = np.argsort(self._pair[places], kind="stable")
        places, value = places[order], value[order]
        highest: dict[int, int] = {}
        last: dict[int, int] = {}
        waiting: dict[int, list[int]] = {}
        contradicts = False
        for place, pair, at in zip(places.tolist(), self._pair[places].tolist(), value.tolist(), strict=True):
            if not self._is_total[place]:
                contradicts |= bool(last.get(pair, -1) >= self._next[place])
                waiting.setdefault(pair, []).append(place)
            elif at != NULL:
                if at < highest.get(pair, at):
                    return True
                highest[pair] = last[pair] = at
                contradicts |= any(self._last[other] >= at for other in waiting.pop(pair, ()))
        return contradicts
