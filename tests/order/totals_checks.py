"""What must be true of the logs of all brokers at rest: by brute force, from the definitions."""

from itertools import combinations

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.core.keys import pairs_of
from resprout.order.totals.messages import id_of
from tests.order.totals_net import Net


def faults_of(net: Net) -> list[str]:
    """Everything that is wrong, in words; empty when all is well."""
    return [*_unfinished(net), *_unequal(net), *_barriers(net), *_causality(net), *_publishers(net)]


def _unfinished(net: Net) -> list[str]:
    found = []
    published = {id_of(b) for bundles in net.published.values() for b in bundles}
    for node in net.alive:
        ids = [id_of(b) for b in node.log]
        if len(ids) != len(set(ids)):
            found.append(f"{node.name} has something twice")
        if set(ids) != published:
            found.append(f"{node.name} lacks {sorted(published - set(ids))}")
        if node.totals.pending or node.totals.waiting() or any(node.queues.values()):
            found.append(f"{node.name} still waits: {node.totals.waiting()} {node.queues}")
    return found


def _unequal(net: Net) -> list[str]:
    found = []
    stamps: dict[object, set[int]] = {}
    places: dict[object, set[int]] = {}
    for node in net.alive:
        for bundle in node.log:
            stamps.setdefault(id_of(bundle), set()).add(bundle.stamp)
        for id, tseq in node.tseqs.items():
            places.setdefault(id, set()).add(tseq)
    for what, values in (("stamp", stamps), ("tseq", places)):
        found += [f"{id} has more than one {what}: {sorted(v)}" for id, v in values.items() if len(v) > 1]
    if len({min(p) for p in places.values()}) < len(places):
        found.append("two totals have one place")
    return found


def _barriers(net: Net) -> list[str]:
    """One order at all brokers for a total and whatever shares a key with it; and stamps and places follow it."""
    nodes = net.alive
    position = {node.name: {id_of(b): i for i, b in enumerate(node.log)} for node in nodes}
    found = []
    for one, other in combinations(nodes[0].log, 2):
        if not _bound(one, other):
            continue
        a, b = id_of(one), id_of(other)
        before = {node.name for node in nodes if a in (p := position[node.name]) and b in p and p[a] < p[b]}
        if len(before) != len(nodes):
            found.append(f"{one!r} is before {other!r} only at {sorted(before)}")
        if one.stamp >= other.stamp:
            found.append(f"{one!r} is before {other!r}, but not by its stamp")
        if one.guarantee is other.guarantee and (places := nodes[0].tseqs).get(a, 0) >= places.get(b, 1 << 63):
            found.append(f"{one!r} is before {other!r}, but not by its place")
    return found


def _bound(one: Bundle, other: Bundle) -> bool:
    totals = [bundle for bundle in (one, other) if bundle.guarantee is Guarantee.TOTAL]
    if len(totals) == 2 and not one.keys and not other.keys and one.topic == other.topic:
        return True
    return bool(totals) and not set(pairs_of(one.topic, one.keys)).isdisjoint(pairs_of(other.topic, other.keys))


def _publishers(net: Net) -> list[str]:
    """What one publisher made is in order, by position and by stamp; among equal stamps its numbers decide."""
    found = []
    for node in net.alive:
        last: dict[str, Bundle] = {}
        for bundle in node.log:
            before = last.get(bundle.publisher)
            if before is not None and (before.stamp, before.first) >= (bundle.stamp, bundle.first):
                found.append(f"{node.name} has {before!r} before {bundle!r}")
            last[bundle.publisher] = bundle
    return found


def _causality(net: Net) -> list[str]:
    found = []
    for node in net.alive:
        before: set[object] = set()
        for bundle in node.log:
            if missing := net.known[id_of(bundle)] - before:
                found.append(f"{node.name} has {bundle!r} before {sorted(missing)}")
            before.add(id_of(bundle))
    return found
