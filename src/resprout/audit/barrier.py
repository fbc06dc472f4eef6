"""Barrier: on each of its (topic, key) pairs, a total divides all other publications alike for all subscribers.

For a pair, the totals have an order: T comes before T' when some subscriber delivered both so, or by a chain of such
observations. A publication x that names the pair violates when one subscriber delivered x before T, another one T'
before x, and T is T' or comes before it. Only `eventual` publications are not bound: no total divides them.

Counting totals per subscriber, as one would first think of, is right only where all receive the same totals; a place
between two totals in their common order is right also for late joiners and content filters. The place is taken from a
rank of the totals that is compatible with their order; since totals that nobody compared may have any rank, a suspicion
is confirmed in the order itself before it is reported.

On a pair whose totals contradict each other there is no order to be a barrier in: `audit.totals` reports that, and the
pair is left out here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from resprout.audit.history import History
from resprout.audit.records import pair_name
from resprout.audit.totals import ByLife, TotalOrder, shortest_way, successors
from resprout.audit.verdict import Anomaly, Witness
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee

Neighbour = tuple[int, int, int]
"""(rank of a total, life, the total): next to a publication at a subscriber."""
Beside = tuple[int, int]
"""A total, and the life that has it beside a publication."""


def check_barrier(history: History, groups: Mapping[Pair, ByLife], order: TotalOrder) -> Iterator[Anomaly]:
    for pair in keys_of(groups):
        group = groups[pair]
        if (rank := order.rank(pair)) is not None:
            yield from _check_pair(history, pair, group, order.chains[pair], rank)


def unjudged_pairs(groups: Mapping[Pair, ByLife], order: TotalOrder) -> int:
    """Keys whose totals have no common order."""
    return 0 if order.witnessed else sum(order.rank(pair) is None for pair in keys_of(groups))


def keys_of(groups: Iterable[Pair]) -> list[Pair]:
    """Those that publications can name: totals without keys are no barrier."""
    return [pair for pair in groups if pair[1]]


def _check_pair(
    history: History, pair: Pair, group: ByLife, chains: ByLife, rank: Mapping[int, int]
) -> Iterator[Anomaly]:
    before, after = _neighbours(history, group, rank)
    ways = _Ways(chains, rank)
    for number, following in sorted(after.items()):
        preceding = before.get(number)
        if preceding and min(following)[0] <= max(preceding)[0]:
            found = _confirmed(history, number, following, preceding, ways)
            if found is not None:
                first, last = found
                yield divided(history, pair, number, (first[2], first[1]), (last[2], last[1]))


def _neighbours(
    history: History, group: ByLife, rank: Mapping[int, int]
) -> tuple[dict[int, list[Neighbour]], dict[int, list[Neighbour]]]:
    """For each publication that is no total: the last total before it and the first one after it, per subscriber."""
    before: dict[int, list[Neighbour]] = {}
    after: dict[int, list[Neighbour]] = {}
    for life, numbers in group.items():
        last: Neighbour | None = None
        since: list[int] = []
        for number in numbers:
            if history.publications[number].guarantee is Guarantee.TOTAL:
                last = (rank[number], life, number)
                for passed in since:
                    after.setdefault(passed, []).append(last)
                since.clear()
            else:
                since.append(number)
                if last is not None:
                    before.setdefault(number, []).append(last)
    return before, after


def _confirmed(
    history: History, number: int, following: list[Neighbour], preceding: list[Neighbour], ways: "_Ways"
) -> tuple[Neighbour, Neighbour] | None:
    """A total after it at one subscriber that is, or comes before, a total before it at another."""
    first, last = min(following), max(preceding)
    here, there = history.lives[first[1]].first, history.lives[last[1]].first
    for rank, _, total in (first, last):  # mostly one of the two was delivered by both, which needs no search
        if (
            total in here
            and total in there
            and here[number].position < here[total].position
            and there[total].position < there[number].position
        ):
            return (rank, first[1], total), (rank, last[1], total)
    way = ways.between([total for _, _, total in sorted(following)], {total for _, _, total in preceding})
    if way is None:
        return None
    return (
        next(n for n in sorted(following) if n[2] == way[0]),
        next(n for n in sorted(preceding) if n[2] == way[-1]),
    )


class _Ways:
    """Which totals of one pair lead to which. A way climbs in rank, so only what lies between is looked at."""

    def __init__(self, chains: ByLife, rank: Mapping[int, int]) -> None:
        self._chains = chains
        self._rank = rank

    def between(self, begin: list[int], goals: set[int]) -> list[int] | None:
        rank, by_rank = self._rank, self._by_rank
        low = bisect_left(by_rank, min(rank[total] for total in begin), key=rank.__getitem__)
        high = bisect_right(by_rank, max(rank[total] for total in goals), key=rank.__getitem__)
        inside = set(by_rank[low:high])
        return shortest_way(self._successors, [total for total in begin if total in inside], goals, inside)

    @cached_property
    def _by_rank(self) -> list[int]:
        return sorted(self._rank, key=self._rank.__getitem__)

    @cached_property
    def _successors(self) -> dict[int, list[int]]:
        return successors(self._chains)


def divided(witness: Witness, pair: Pair, number: int, first: Beside, last: Beside) -> Anomaly:
    """`first`: a total after the publication, `last`: one before it, each with a subscriber that has them so."""
    (after, here), (before, there) = first, last
    name, after_name, before_name = (witness.naming.message(witness.id_of(n)) for n in (number, after, before))
    same = "" if after == before else f", and {after_name} is ordered before {before_name}"
    (place_here, here_us), (place_there, there_us) = witness.place(here, number), witness.place(there, number)
    text = (
        f"{witness.life_of(here).name} delivered {name} at {place_here} before the total {after_name} at "
        f"{witness.place(here, after)[0]}, but {witness.life_of(there).name} delivered it at {place_there} after "
        f"{before_name} at {witness.place(there, before)[0]}{same} (all name {pair_name(pair)})"
    )
    messages = (name, after_name) if after == before else (name, after_name, before_name)
    return Anomaly("barrier", max(here_us, there_us), witness.life_of(there).node, messages, text)
