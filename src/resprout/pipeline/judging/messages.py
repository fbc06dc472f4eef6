"""Publications by identity: (publisher, incarnation, stream, seq) to a number.

Numbers of one client's stream are mostly dense, so a table with one range per (publisher, stream, incarnation) answers
for all rows in a few steps; where they are not, a dictionary does.
"""

from typing import Any, Final

import numpy as np

from resprout.pipeline.judging.arrays import Array

_ROOM: Final = 8
"""Cells of the table per publication, at most; and as many ranges."""
_ROOM_LEAST: Final = 1 << 16


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
