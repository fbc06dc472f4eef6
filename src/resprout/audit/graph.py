"""Orders that may not exist: topological sort and knots of a directed graph. Plain algorithms, no recursion."""

from collections.abc import Mapping

Graph = Mapping[int, list[int]]
"""For each node, its successors; a node without any may be absent."""


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
