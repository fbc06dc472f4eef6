"""One order of totals, the places in it that subscribers are told, and totals as barriers.

All subscribers' sequences of totals fit into a common order. Only totals that share a (topic, key) pair are bound to
each other, so the sequences are taken per pair: each is a chain of "before", and together they must not form a cycle,
also not one over several pairs. Totals of one topic that name no key are bound to each other, as if they named one that
nothing else names.

The run may claim an order (`tseq`). When every chain grows in it, it proves the order and nothing more is needed. When
it is missing for some total, or contradicts a chain, the chains are sorted topologically instead. A claim that is wrong
while the deliveries are right is an anomaly of places only. `check_places` checks claims:

- A total has one place: all subscribers that are told one are told the same.
- A place has one total, also where several travel together; each lane has places of its own.
- Each subscriber delivers totals that are bound to each other (`Publication.lines`) in the order of the places that it
  is told. Totals that are not bound to each other may be delivered in any order. A run need not tell any place.

A total is a barrier: on each of its (topic, key) pairs, it divides all other publications alike for all subscribers.
For a pair, the totals have an order: T comes before T' when some subscriber delivered both so, or by a chain of such
observations. A publication x that names the pair violates when one subscriber delivered x before T, another one T'
before x, and T is T' or comes before it. Only `eventual` publications are not bound: no total divides them.

Counting totals per subscriber, as one would first think of, is right only where all receive the same totals; a place
between two totals in their common order is right also for late joiners and content filters. The place is taken from a
rank of the totals that is compatible with their order; since totals that nobody compared may have any rank, a suspicion
is confirmed in the order itself before it is reported. A pair whose totals contradict each other is left out.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise

from resprout.audit.history import History
from resprout.audit.records import ClaimedPlace, MessageId, listed, pair_name
from resprout.audit.verdict import Anomaly, NamedLife, Witness
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee

ByLife = dict[int, list[int]]
"""For each subscriber, the publications it delivered, by position."""

Evidence = tuple[int, Pair]
"""The subscriber that saw one total before another, and the pair that both name."""

PlacedTotal = tuple[int, MessageId, int]
"""A total at a subscriber: the place that was told for it, which it is, and its position."""

Graph = Mapping[int, list[int]]
"""For each node, its successors; a node without any may be absent."""


def by_pair(history: History) -> dict[Pair, ByLife]:
    """Only keys that some total names, since the others have no barrier; `eventual` publications have no place. Totals
    of one topic that name no key stand under an empty one."""
    publications = history.publications
    closed = {pair for p in publications if p.guarantee is Guarantee.TOTAL for pair in p.lines}
    kept = [tuple(pair for pair in p.lines if pair in closed) if p.ordered else () for p in publications]
    groups: dict[Pair, ByLife] = {}
    for life in history.lives:
        for number in life.sequence:
            for pair in kept[number]:
                groups.setdefault(pair, {}).setdefault(life.number, []).append(number)
    return dict(sorted(groups.items()))


def totals_of(history: History, group: ByLife) -> ByLife:
    publications = history.publications
    return {
        life: [number for number in numbers if publications[number].guarantee is Guarantee.TOTAL]
        for life, numbers in group.items()
    }


class TotalOrder:
    """The chains of totals of every pair, and what order they allow."""

    def __init__(self, history: History, groups: Mapping[Pair, ByLife]) -> None:
        self.chains = {pair: totals_of(history, group) for pair, group in groups.items()}
        self._claimed = history.tseq
        self._ranks: dict[Pair, Mapping[int, int] | None] = {}
        self.witnessed = all(self._grows(chain) for chains in self.chains.values() for chain in chains.values())
        """Whether the run's own `tseq` is a common order."""

    def rank(self, pair: Pair) -> Mapping[int, int] | None:
        """A place for each total of one pair that was delivered; None when its chains contradict each other."""
        if pair not in self._ranks:
            chains = self.chains[pair]
            if all(map(self._grows, chains.values())):
                self._ranks[pair] = {n: self._claimed[n] or 0 for chain in chains.values() for n in chain}
            else:
                self._ranks[pair] = topological_rank(successors(chains))
        return self._ranks[pair]

    def _grows(self, chain: list[int]) -> bool:
        last = None
        for number in chain:
            claim = self._claimed.get(number)
            if claim is None or (last is not None and claim <= last):
                return False
            last = claim
        return True


def successors(chains: ByLife) -> dict[int, list[int]]:
    """The graph of consecutive totals; every total is a node."""
    graph: dict[int, dict[int, None]] = {}
    for chain in chains.values():
        for before, after in pairwise(chain):
            graph.setdefault(before, {})[after] = None
        if chain:
            graph.setdefault(chain[-1], {})
    return {node: list(after) for node, after in graph.items()}


def check_totals(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    """One anomaly for each knot of totals that contradict each other, with a shortest cycle in it."""
    if order.witnessed:
        return
    evidence: dict[tuple[int, int], Evidence] = {}
    graph: dict[int, list[int]] = {}
    for pair, chains in order.chains.items():
        for life, chain in chains.items():
            for before, after in pairwise(chain):
                if (before, after) not in evidence:
                    evidence[before, after] = (life, pair)
                    graph.setdefault(before, []).append(after)
    for knot in knots(graph):
        yield contradiction(history, _cycle(graph, knot), evidence, len(knot))


def _cycle(graph: Graph, knot: list[int]) -> list[int]:
    """A shortest cycle through the first total of the knot; it begins and ends with it."""
    inside = set(knot)
    begin = [node for node in graph[knot[0]] if node in inside]
    way = shortest_way(graph, begin, {knot[0]}, inside)
    assert way is not None, "a knot has a cycle through each of its nodes"
    return [knot[0], *way]


def contradiction(
    witness: Witness, cycle: list[int], evidence: Mapping[tuple[int, int], Evidence], knot: int = 0
) -> Anomaly:
    """`cycle`: totals, each before the next one as somebody saw them, and the last is the first. `knot`: how many
    contradict each other in this way."""
    words, moment = [], 0
    steps = _steps(cycle, evidence)
    for number, pair, before, after in steps:
        (here, here_us), (there, there_us) = witness.place(number, before), witness.place(number, after)
        words.append(
            f"{witness.life_of(number).name} delivered {_name(witness, before)} at {here} before "
            f"{_name(witness, after)} at {there} (both name {pair_name(pair)})"
        )
        moment = max(moment, here_us, there_us)
    more = f"; {knot} totals contradict each other in this way" if knot > len(steps) else ""
    messages = tuple(_name(witness, before) for _, _, before, _ in steps)
    return Anomaly("total", moment, witness.life_of(steps[0][0]).node, messages, f"{listed(words)}{more}")


def _steps(cycle: list[int], evidence: Mapping[tuple[int, int], Evidence]) -> list[tuple[int, Pair, int, int]]:
    """Who saw what before what, all around, from the oldest total on; what one subscriber saw of one pair in a row is
    said in one step."""
    turn = cycle.index(min(cycle))
    cycle = [*cycle[turn:-1], *cycle[:turn], cycle[turn]]
    steps: list[tuple[int, Pair, int, int]] = []
    for before, after in pairwise(cycle):
        life, pair = evidence[before, after]
        if steps and steps[-1][:2] == (life, pair):
            before = steps.pop()[2]
        steps.append((life, pair, before, after))
    if len(steps) > 2 and steps[0][:2] == steps[-1][:2]:
        steps[0] = (*steps[0][:2], steps.pop()[2], steps[0][3])
    return steps


def _name(witness: Witness, number: int) -> str:
    return witness.naming.message(witness.id_of(number))


def check_places(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    yield from _told_differently(history)
    yield from _shared(history)
    yield from _against_the_order(history, order)


def _told_differently(history: History) -> Iterator[Anomaly]:
    for number, other in history.other_claims.items():
        yield told_differently(history, history.id_of(number), other, history.claims[number])


def _shared(history: History) -> Iterator[Anomaly]:
    """All totals at one place but the one that was published first."""
    owners: dict[tuple[str, int], int] = {}
    for number in sorted(history.claims):
        claim = history.claims[number]
        owner = owners.setdefault((history.publications[number].lane, claim.tseq), number)
        if owner != number:
            yield shared(history, history.id_of(number), claim, history.id_of(owner))


def _against_the_order(history: History, order: TotalOrder) -> Iterator[Anomaly]:
    """Each total once that a subscriber delivered after one with a higher place."""
    if order.witnessed:
        return
    told: set[tuple[int, int]] = set()
    for pair, chains in order.chains.items():
        for life_number, chain in chains.items():
            life = history.lives[life_number]
            highest: PlacedTotal | None = None
            for number in chain:
                d = life.first[number]
                if d.tseq is None:
                    continue
                if highest is None or d.tseq > highest[0]:
                    highest = (d.tseq, d.id, d.position)
                elif d.tseq < highest[0] and (life_number, number) not in told:
                    told.add((life_number, number))
                    placed = (d.tseq, d.id, d.position)
                    yield against_the_order(history, life, pair, placed, d.time_us, highest)


def told_differently(w: Witness, id: MessageId, claim: ClaimedPlace, first: ClaimedPlace) -> Anomaly:
    name = w.naming.message(id)
    text = f"{claim.name} was told that {name} has the place {claim.tseq}, but {first.name} that it has {first.tseq}"
    return Anomaly("tseq", claim.time_us, claim.node, (name,), text)


def shared(w: Witness, id: MessageId, claim: ClaimedPlace, owner: MessageId) -> Anomaly:
    """`owner`: the total that has the place."""
    name, other = w.naming.message(id), w.naming.message(owner)
    text = f"{claim.name} was told that {name} has the place {claim.tseq}, which {other} has"
    return Anomaly("tseq", claim.time_us, claim.node, (name, other), text)


def against_the_order(
    w: Witness, life: NamedLife, pair: Pair, placed: PlacedTotal, time_us: int, highest: PlacedTotal
) -> Anomaly:
    name, other = w.naming.message(placed[1]), w.naming.message(highest[1])
    text = (
        f"{life.name} delivered {name} at {placed[2]} after {other} at {highest[2]}, though their places are "
        f"{placed[0]} and {highest[0]} (both name {pair_name(pair)})"
    )
    return Anomaly("tseq", time_us, life.node, (name, other), text)


def topological_rank(graph: Graph) -> dict[int, int] | None:
    """A place for each node after all its predecessors, smaller numbers first where nothing decides; None for a graph
    with a cycle."""
    waiting: dict[int, int] = {}
    for node, successors in graph.items():
        waiting.setdefault(node, 0)
        for successor in successors:
            waiting[successor] = waiting.get(successor, 0) + 1
    free = sorted((node for node, count in waiting.items() if count == 0), reverse=True)
    rank: dict[int, int] = {}
    while free:
        node = free.pop()
        rank[node] = len(rank)
        for successor in graph.get(node, ()):
            waiting[successor] -= 1
            if waiting[successor] == 0:
                free.append(successor)
    return rank if len(rank) == len(waiting) else None


def knots(graph: Graph) -> list[list[int]]:
    """The strongly connected components of more than one node, each sorted, by smallest node (Tarjan's algorithm)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    stacked: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(graph):
        if root in index:
            continue
        calls = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        stacked.add(root)
        while calls:
            node, successors = calls[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    stacked.add(successor)
                    calls.append((successor, iter(graph.get(successor, ()))))
                    break
                if successor in stacked:
                    low[node] = min(low[node], index[successor])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == index[node]:
                    component = _unstack(stack, stacked, node)
                    if len(component) > 1:
                        found.append(sorted(component))
    return sorted(found)


def shortest_way(graph: Graph, begin: list[int], goals: set[int], inside: set[int] | None = None) -> list[int] | None:
    """Nodes from one of `begin` to the nearest goal, both included; only through `inside` when that is given."""
    back: dict[int, int | None] = dict.fromkeys(begin)
    level = list(back)
    while level:
        following: list[int] = []
        for node in level:
            if node in goals:
                way = [node]
                while (before := back[way[-1]]) is not None:
                    way.append(before)
                return way[::-1]
            for successor in graph.get(node, ()):
                if successor not in back and (inside is None or successor in inside):
                    back[successor] = node
                    following.append(successor)
        level = following
    return None


def _unstack(stack: list[int], stacked: set[int], node: int) -> list[int]:
    component = []
    while True:
        top = stack.pop()
        stacked.discard(top)
        component.append(top)
        if top == node:
            return component


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
