"""Whether the nodes of a scenario make a network: names are unique, brokers form one tree or know each other, clients
have brokers."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from resprout.scenario.model import BrokerSpec, ClientSpec
from resprout.scenario.reader import TomlTable, suggestion


def check_nodes(
    file: TomlTable, brokers: Sequence[BrokerSpec], clients: Sequence[ClientSpec], joining: Sequence[str]
) -> None:
    """Refuses what cannot stand; `joining` are the brokers that only come later."""
    _check_names(file, brokers, clients)
    if any(broker.site for broker in brokers):
        _check_sites(file, brokers)
    else:
        _check_tree(file, brokers)
    _check_contacts(file, brokers)
    known = dict.fromkeys([*(broker.name for broker in brokers), *joining])
    owners = {client.name: client for client in clients if client.called is None}
    called = [client.called for client in clients if client.called is not None]
    for client in clients:
        if client.called is not None and (client.called not in owners or called.count(client.called) > 1):
            blame(file, "client", client.name, "called", f"{client.called!r} is not the name of one other client")
        if client.broker not in known:
            reason = f"broker {client.broker!r} does not exist{suggestion(client.broker, known)}"
            blame(file, "client", client.name, "broker", reason)


def blame(file: TomlTable, kind: str, name: str, key: str, reason: str, *, last: bool = False) -> NoReturn:
    """Refuses a listed node at one of its keys; the topology, when that made it. `last`: the last of that name."""
    rows = list(enumerate(file.values.get(kind, [])))
    for i, row in reversed(rows) if last else rows:
        if row.get("name") == name:
            file.fail((kind, i, key), f"{kind} {name}: {reason}")
    file.fail("topology", f"{kind} {name}: {reason}")


def _check_names(file: TomlTable, brokers: Sequence[BrokerSpec], clients: Sequence[ClientSpec]) -> None:
    taken: dict[str, str] = {}
    for kind, nodes in (("broker", brokers), ("client", clients)):
        for node in nodes:
            if node.name in taken:
                blame(file, kind, node.name, "name", f"the name is taken by another {taken[node.name]}", last=True)
            taken[node.name] = kind


def _check_tree(file: TomlTable, brokers: Sequence[BrokerSpec]) -> None:
    parents = {broker.name: broker.parent for broker in brokers}
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            reason = f"parent {parent!r} does not exist{suggestion(parent, parents)}"
            blame(file, "broker", name, "parent", reason)
    roots = [broker.name for broker in brokers if broker.parent is None and not broker.contacts]
    if len(roots) > 1:
        reason = f"it has no parent and no contacts, but {roots[0]!r} is the root already"
        blame(file, "broker", roots[1], "name", reason)
    _check_acyclic(file, parents, {name: name for name in parents})


def _check_contacts(file: TomlTable, brokers: Sequence[BrokerSpec]) -> None:
    """They exist, and following them leads from everybody to one that founds the network."""
    known = {broker.name: broker for broker in brokers}
    for broker in brokers:
        if broker.contacts and broker.parent is not None:
            blame(file, "broker", broker.name, "contacts", "it has a parent, and that is whom it knows")
        for contact in broker.contacts:
            if contact not in known:
                reason = f"contact {contact!r} does not exist{suggestion(contact, known)}"
                blame(file, "broker", broker.name, "contacts", reason)
            if contact == broker.name:
                blame(file, "broker", broker.name, "contacts", "it names itself")
    if all(broker.contacts or broker.parent is not None for broker in brokers):
        blame(file, "broker", brokers[0].name, "contacts", "everybody knows somebody: nobody founds the network")


def _check_sites(file: TomlTable, brokers: Sequence[BrokerSpec]) -> None:
    """Sites form the tree: the first broker of a site has its parent in another one, and the others name it, or
    nobody, or a broker of that same other site."""
    site_of = {broker.name: broker.site for broker in brokers}
    firsts: dict[str, str] = {}
    parents: dict[str, str | None] = {}
    spokesman: dict[str, str] = {}
    for broker in brokers:
        if broker.site is None:
            blame(file, "broker", broker.name, "name", "other brokers have a site; it needs one too")
        firsts.setdefault(broker.site, broker.name)
        parents.setdefault(broker.site, None)
        spokesman.setdefault(broker.site, broker.name)
        if broker.parent is None:
            continue
        above = site_of.get(broker.parent)
        if above is None:
            blame(file, "broker", broker.name, "parent", f"parent {broker.parent!r} does not exist")
        elif above == broker.site:
            if broker.parent != firsts[broker.site] or broker.name == broker.parent:
                reason = f"parent {broker.parent!r} is in its own site {above!r}, and not the first broker of that"
                blame(file, "broker", broker.name, "parent", reason)
            continue
        elif parents[broker.site] not in (None, above):
            reason = f"its site {broker.site!r} has a parent in {parents[broker.site]!r} and another in {above!r}"
            blame(file, "broker", broker.name, "parent", reason)
        parents[broker.site] = above
        spokesman[broker.site] = broker.name
    roots = [site for site, parent in parents.items() if parent is None]
    if len(roots) > 1:
        reason = f"its site {roots[1]!r} has no parent, but {roots[0]!r} is the root site already"
        blame(file, "broker", spokesman[roots[1]], "site", reason)
    _check_acyclic(file, parents, spokesman)


def _check_acyclic(file: TomlTable, parents: Mapping[str, str | None], spokesman: Mapping[str, str]) -> None:
    """Every walk upwards ends at the root."""
    fine: set[str] = set()
    for start in parents:
        walk: dict[str, None] = {}
        here: str | None = start
        while here is not None and here not in fine:
            if here in walk:
                steps = list(walk)
                cycle = [*steps[steps.index(here) :], here]
                shown = cycle if len(cycle) <= 6 else [*cycle[:3], "...", *cycle[-2:]]
                reason = f"parents form a cycle: {' -> '.join(shown)}"
                blame(file, "broker", spokesman[here], "parent", reason)
            walk[here] = None
            here = parents[here]
        fine.update(walk)
