"""Row groups of a run as they are read, one after the other: deliveries on one side, all other rows on the other.

Deliveries are most of a run. Whoever judges the run in portions does not keep them here; all that the rest needs to
know of them is how many there are of each client, and when a client first had one.
"""

import numpy as np

from resprout.pipeline.judging.arrays import NULL, Array, first_places
from resprout.pipeline.judging.columns import Rows, UnreadableError, Words
from resprout.pipeline.judging.lives import Lives
from resprout.trace import kinds

DELIVERY_COLUMNS = (
    "row", "node", "publisher", "incarnation", "stream", "seq", "topic", "keys", "guarantee", "position", "tseq",
)  # fmt: skip


class RowIntake:
    def __init__(self, words: Words, keeps_deliveries: bool) -> None:
        self.words = words
        self._keeps_deliveries = keeps_deliveries
        self._talk: list[Rows] = []
        self._deliveries: list[Rows] = []
        self._times: list[Array] = []
        self._seen: list[Rows] = []
        self._given = np.zeros(0, dtype=np.int64)
        self._last_time = NULL
        self.rows = 0
        self.is_in_order = True
        """Whether no clock runs backwards."""

    def add(self, rows: Rows) -> None:
        self.rows += len(rows)
        if not len(rows):
            return
        times = rows.time_us
        self.is_in_order &= bool(times[0] >= self._last_time and np.all(times[1:] >= times[:-1]))
        self._last_time = int(times[-1])
        deliveries = deliveries_of(rows, self.words)
        is_talk = np.ones(len(rows), dtype=np.bool_)
        is_talk[deliveries] = False
        self._talk.append(rows.take(np.flatnonzero(is_talk)).compact())
        if self._keeps_deliveries:
            self._deliveries.append(rows.take(deliveries, *DELIVERY_COLUMNS))
            self._times.append(times)
        else:
            self._seen.append(_first_seen(rows, deliveries, self.words))
            self._count(rows.node[deliveries])

    def arranged(self) -> tuple[Rows, list[Rows]]:
        """(all other rows, portions of the deliveries), numbered in order of time, equal times as in the trace. Of
        deliveries that are not kept: the first one of each life, perhaps with others."""
        if not self._talk:
            raise UnreadableError("a run without rows")
        talk, deliveries = Rows.joined(self._talk), self._deliveries if self._keeps_deliveries else self._seen
        self._talk, self._deliveries = [], []  # whoever asked has them, and lets them go piece by piece
        if self.is_in_order:
            return talk, deliveries
        rank = np.empty(self.rows, dtype=np.int64)
        rank[np.argsort(np.concatenate(self._times), kind="stable")] = np.arange(self.rows)
        whole = Rows.joined(deliveries).renumbered(rank)
        return talk.renumbered(rank), [whole]

    @property
    def given(self) -> Array:
        """By name, the number of deliveries; where they are not kept."""
        return np.pad(self._given, (0, len(self.words.names) - len(self._given)))

    def _count(self, nodes: Array) -> None:
        counts = np.bincount(nodes, minlength=len(self.words.names))
        counts[: len(self._given)] += self._given
        self._given = counts


def deliveries_of(rows: Rows, words: Words) -> Array:
    """Where they stand."""
    return np.flatnonzero(rows.kind == words.kinds.find(kinds.DELIVER))


def _first_seen(rows: Rows, deliveries: Array, words: Words) -> Rows:
    """The first delivery of each client, and the first after each of its crashes, in one row group."""
    ends = np.flatnonzero(np.isin(rows.kind, words.kinds.find_all((kinds.CRASH, kinds.LEAVE))))
    places = np.arange(len(rows))
    lives = Lives(len(words.names), rows.node[ends], ends, len(rows))
    first = first_places(lives.of(rows.node[deliveries], places[deliveries]), lives.count)
    return rows.take(deliveries[np.sort(first[first >= 0])], "node", "row")
