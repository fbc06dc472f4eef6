"""One order of totals: all subscribers' sequences of totals fit into a common order.

Only totals that share a (topic, key) pair are bound to each other, so the sequences are taken per pair: each is a chain
of "before", and together they must not form a cycle, also not one over several pairs. Totals of one topic that name no
key are bound to each other, as if they named one that nothing else names.

The run may claim an order (`tseq`). When every chain grows in it, it is a witness and nothing more is needed. When it
is missing for some total, or contradicts a chain, the chains are sorted topologically instead; a claim that is wrong
while the deliveries are right is no anomaly here, but one of `audit.places`.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from resprout.audit.graph import Graph, knots, shortest_way, topological_rank
from resprout.audit.groups import ByLife, totals_of
from resprout.audit.history import History
from resprout.audit.naming import listed, pair_name
from resprout.audit.verdict import Anomaly
from resprout.audit.witness import Witness
from resprout.core.keys import Pair

Evidence = tuple[int, Pair]
"""The subscriber that saw one total before another, and the pair that both name."""


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
