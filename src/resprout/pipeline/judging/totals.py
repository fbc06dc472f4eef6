"""Totals and barriers: what each subscriber saw, and whether it fits together.

Subscribers mostly saw the same, so what they saw is kept once: which total followed which on a pair of topic and key,
and for each other publication on the pair the totals next to it. The rest is decided from that alone.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from resprout.pipeline.judging.columns import NULL, Array, distinct, spread, stable_order
from resprout.pipeline.judging.publications import Publications

_COLLECTED_MAX: Final = 2_000_000
"""Observations in memory before equal ones become one."""


class Places:
    """A *place* is a pair that binds an ordered publication, if it binds some total too. A total without keys
    stands at its topic with an empty key, which nothing else names."""

    def __init__(self, publications: Publications) -> None:
        closed = np.zeros(len(publications.pair_topic), dtype=np.bool_)
        binds = publications.pair_binds
        closed[publications.pair[publications.total[publications.pair_number] & binds]] = True
        kept = np.flatnonzero(closed[publications.pair] & publications.ordered[publications.pair_number] & binds)
        keyless = np.flatnonzero(publications.total & (np.diff(publications.pair_start) == 0))
        own = len(closed) + publications.topic[keyless]
        self.pairs = len(closed) + int(publications.topic.max(initial=-1)) + 1
        self.is_key = np.arange(self.pairs) < len(closed)
        """By pair, whether publications can name it."""
        number = np.concatenate((publications.pair_number[kept], keyless))
        order = np.argsort(number, kind="stable")
        self.pair = np.concatenate((publications.pair[kept], own))[order]
        self.number = number[order]
        self.is_total = publications.total[self.number]
        self.start = np.searchsorted(self.number, np.arange(len(publications) + 1))
        """Where the places of each publication begin."""

    def __len__(self) -> int:
        return len(self.pair)


class SeenTotals(msgspec.Struct):
    """What subscribers saw, each thing once."""

    delivered: Array
    """For each place, whether anybody delivered it."""
    followed: Array
    """(place of a total, place of the next one on the pair at some subscriber)."""
    before: Array
    """(place of a publication that is no total, place of the last total before it at some subscriber)."""
    after: Array

    @staticmethod
    def joined(pieces: "Sequence[SeenTotals]") -> "SeenTotals":
        if len(pieces) == 1:
            return pieces[0]
        return SeenTotals(
            np.logical_or.reduce([piece.delivered for piece in pieces]),
            _once([piece.followed for piece in pieces]),
            _once([piece.before for piece in pieces]),
            _once([piece.after for piece in pieces]),
        )


class Sightings:
    """Grows as subscribers are looked at."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._length = np.diff(places.start)
        self._delivered = np.zeros(len(places), dtype=np.bool_)
        self._followed: list[Array] = []
        self._before: list[Array] = []
        self._after: list[Array] = []
        self._size = 0
        self.places_fall = False
        """Whether somebody delivered a total after one with a higher place on a common pair."""

    def look(self, sequence: Array, claim: Array) -> None:
        """`sequence`: what one subscriber delivered, in its order; `claim`: the places that it was told, or NULL."""
        length = self._length[sequence]
        if not length.any():
            return
        places = spread(self._places.start[sequence], length)
        self._delivered[places] = True
        order = stable_order(self._places.pair[places], self._places.pairs)
        places, claim = places[order], np.repeat(claim, length)[order]
        pair, count = self._places.pair[places], np.arange(len(places))
        is_total = self._places.is_total[places]
        totals = count[is_total]
        told = totals[claim[totals] != NULL]
        falls = (claim[told[1:]] < claim[told[:-1]]) & (pair[told[1:]] == pair[told[:-1]])
        self.places_fall |= bool(falls.any())
        self._collect(self._followed, places[totals[:-1]], places[totals[1:]], pair[totals[:-1]] == pair[totals[1:]])
        last = np.maximum.accumulate(np.where(is_total, count, -1))
        following = np.minimum.accumulate(np.where(is_total, count, len(count))[::-1])[::-1]
        for collected, next_to in ((self._before, last), (self._after, following)):
            there = np.flatnonzero(~is_total & (next_to >= 0) & (next_to < len(count)))
            beside = next_to[there]
            self._collect(collected, places[there], places[beside], pair[there] == pair[beside])

    def _collect(self, collected: list[Array], one: Array, other: Array, kept: Array) -> None:
        collected.append(np.stack((one[kept], other[kept])))
        self._size += len(one)
        if self._size > _COLLECTED_MAX:
            for pieces in (self._followed, self._before, self._after):
                pieces[:] = [_once(pieces)]
            self._size = sum(len(pieces[0][0]) for pieces in (self._followed, self._before, self._after)) // 2

    def seen(self) -> SeenTotals:
        return SeenTotals(self._delivered, _once(self._followed), _once(self._before), _once(self._after))


class TotalOrderArrays:
    def __init__(self, places: Places, seen: SeenTotals, claim: Array) -> None:
        self._pair, self._number = places.pair, places.number
        self._before, self._after, self._followed = seen.before, seen.after, seen.followed
        totals = np.flatnonzero(seen.delivered & places.is_total)
        self._is_key = places.is_key
        self.any_seen = bool(len(totals))
        self.any_key_seen = bool(places.is_key[self._pair[totals]].any())
        seen_pairs = np.unique(self._pair[seen.delivered])
        self.keys = int(np.count_nonzero(places.is_key[seen_pairs]))
        """Keys on which something was delivered."""
        self.is_broken = False
        """Whether totals contradict each other."""
        self.unjudged = 0
        """Keys that have no order because of that."""
        self._rank = claim[self._number]
        """By place: grows along what followed what, where the pair has an order."""
        self._has_order = np.ones(len(self._pair), dtype=np.bool_)
        one, other = self._followed
        self.is_proven = not (np.any(self._rank[totals] == NULL) or np.any(self._rank[one] >= self._rank[other]))
        """Whether the places that the run claims are an order of all totals that were delivered."""
        if not self.is_proven:
            self._sort()

    def breaks_barrier(self) -> bool:
        """Whether some publication came before a total at one subscriber, and at another after that or a later one."""
        first = _extreme(self._after, self._rank, len(self._pair), np.minimum)
        last = _extreme(self._before, self._rank, len(self._pair), np.maximum)
        has_before, has_after = (np.zeros(len(self._pair), dtype=np.bool_) for _ in range(2))
        has_before[self._before[0]], has_after[self._after[0]] = True, True
        suspects = np.flatnonzero(has_before & has_after & self._has_order & (first <= last))
        return any(
            self._leads_to(_beside(self._after, place), _beside(self._before, place), int(last[place]))
            for place in suspects.tolist()
        )

    def _sort(self) -> None:
        rank = sorted_rank(self._number[self._followed[0]], self._number[self._followed[1]])
        if rank is not None:
            self._rank = _spread_rank(rank, len(self._number), self._number)
            return
        self.is_broken = True
        pair = self._pair[self._followed[0]]
        order = np.argsort(pair, kind="stable")
        bounds = np.flatnonzero(np.r_[True, pair[order][1:] != pair[order][:-1], True])
        self._rank = np.zeros(len(self._pair), dtype=np.int64)
        for begin, end in pairwise(bounds.tolist()):
            one, other = self._followed[:, order[begin:end]]
            rank = sorted_rank(one, other)
            if rank is None:
                self.unjudged += int(self._is_key[pair[order[begin]]])
                self._has_order[self._pair == pair[order[begin]]] = False
            else:
                self._rank[rank[0]] = rank[1]

    def _leads_to(self, begin: list[int], goals: list[int], rank_max: int) -> bool:
        """Whether a chain of totals leads from one of the first places to one of the others."""
        wanted, seen = set(goals), set(begin)
        level = begin
        while level:
            if not wanted.isdisjoint(level):
                return True
            following = [there for here in level for there in _beside(self._followed, here)]
            level = sorted({there for there in following if there not in seen and self._rank[there] <= rank_max})
            seen.update(level)
        return False


def sorted_rank(before: Array, after: Array) -> tuple[Array, Array] | None:
    """The numbers that occur, and for each a rank above those of all that lead to it; None when they lead in a
    circle."""
    nodes, places = np.unique(np.concatenate((before, after)), return_inverse=True)
    before, after = distinct(places[: len(before)], places[len(before) :]) if len(before) else (before, after)
    waiting = np.bincount(after, minlength=len(nodes)).tolist()
    start = np.searchsorted(before, np.arange(len(nodes) + 1)).tolist()
    targets = after.tolist()
    free = [node for node in range(len(nodes)) if not waiting[node]]
    for node in free:  # which grows on the way
        for target in targets[start[node] : start[node + 1]]:
            waiting[target] -= 1
            if not waiting[target]:
                free.append(target)
    if len(free) < len(nodes):
        return None
    rank = np.empty(len(nodes), dtype=np.int64)
    rank[free] = np.arange(len(free))
    return nodes, rank


def _spread_rank(rank: tuple[Array, Array], size: int, numbers: Array) -> Array:
    """What was ranked by publication, by place; a total that was never next to another one may have any rank."""
    found = np.zeros(max(size, int(numbers.max(initial=-1)) + 1), dtype=np.int64)
    found[rank[0]] = rank[1]
    return found[numbers]


def _beside(pairs: Array, place: int) -> list[int]:
    begin, end = np.searchsorted(pairs[0], (place, place + 1))
    beside: list[int] = pairs[1][begin:end].tolist()
    return beside


def _once(pieces: list[Array]) -> Array:
    joined = np.concatenate(pieces, axis=1) if pieces else np.empty((2, 0), dtype=np.int64)
    return np.stack(distinct(*joined)) if joined.shape[1] else joined


def _extreme(pairs: Array, rank: Array, size: int, choose: np.ufunc) -> Array:
    """For each place the lowest or highest rank of its totals."""
    found = np.zeros(size, dtype=np.int64)
    places, totals = pairs
    if len(places):
        begins = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
        found[places[begins]] = choose.reduceat(rank[totals], begins)
    return found
