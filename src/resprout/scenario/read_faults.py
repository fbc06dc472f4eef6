"""Faults of a scenario file: `[[fault]]`, and whether they can happen one after the other.

Whom a fault befalls is named, or a share of the brokers that it can befall by then. Such a share is drawn here, from
the seed, so that every driver strikes the same ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from resprout.core.limits import check_name
from resprout.scenario.model import LINK_LATENCY_US, BrokerSpec, ClientSpec, FaultKind, FaultSpec, random_for
from resprout.scenario.read_nodes import read_contacts
from resprout.scenario.reader import TomlTable, suggestion

FAULTS_MAX: Final = 10_000
FAULT_NODES_MAX: Final = 100_000

_COMMON: Final = ("at", "kind", "nodes")
_OWN: Final[Mapping[FaultKind, tuple[str, ...]]] = {
    FaultKind.CRASH: ("host",),
    FaultKind.RECOVER: ("disk", "first", "found"),
    FaultKind.JOIN: ("parent", "latency", "bandwidth", "site", "contacts", "disk_latency"),
    FaultKind.DOUBLE: ("parent", "latency"),
    FaultKind.LEAP: ("by",),
}
_AROUND_BROKERS: Final = (
    FaultKind.DISK_LOW, FaultKind.DISK_FULL, FaultKind.DISK_FREE, FaultKind.UNRESOLVE, FaultKind.RESOLVE,
)  # fmt: skip
"""Whatever a broker's process does meanwhile."""
_LINKS: Final = (FaultKind.CUT, FaultKind.HEAL)
_SHARED: Final = (
    FaultKind.CRASH, FaultKind.RECOVER, FaultKind.FREEZE, FaultKind.UNFREEZE, FaultKind.HANG, FaultKind.UNHANG,
    FaultKind.PARTITION, FaultKind.LEAVE, *_AROUND_BROKERS,
)  # fmt: skip
"""What a share of the brokers can be drawn for."""

_OF_BROKERS: Final = (FaultKind.HANG, FaultKind.RESTART, FaultKind.SUSPEND, FaultKind.LEAP)
"""What happens to brokers only."""

_CHANGES: Final[Mapping[FaultKind, tuple[tuple[str, ...], str]]] = {
    FaultKind.CRASH: (("up", "frozen", "hung", "suspended"), "down"),
    FaultKind.RECOVER: (("down",), "up"),
    FaultKind.FREEZE: (("up",), "frozen"),
    FaultKind.UNFREEZE: (("frozen",), "up"),
    FaultKind.HANG: (("up",), "hung"),
    FaultKind.UNHANG: (("hung",), "up"),
    FaultKind.SUSPEND: (("up",), "suspended"),
    FaultKind.RESUME: (("suspended",), "up"),
    FaultKind.LEAP: (("up",), "up"),
    FaultKind.LEAVE: (("up",), "gone"),
    FaultKind.JOIN: (("gone", "absent"), "up"),
    FaultKind.RESTART: (("up",), "up"),
}
"""What a node must be for a fault to happen to it, and what it is afterwards."""


def read_faults(file: TomlTable, time_limit_us: int) -> tuple[list[TomlTable], list[FaultSpec]]:
    """The faults in the order of time (those of one moment in the order of the file), each with its table."""
    tables = file.tables("fault", FAULTS_MAX, "fault")
    faults = [_fault(table, time_limit_us) for table in tables]
    order = sorted(range(len(faults)), key=lambda i: faults[i].at_us)
    return [tables[i] for i in order], [faults[i] for i in order]


def _fault(table: TomlTable, time_limit_us: int) -> FaultSpec:
    kind = FaultKind(table.choice("kind", list(FaultKind)))
    own = _OWN.get(kind, ())
    for other in (key for keys in _OWN.values() for key in keys if key not in own):
        if other in table:
            table.fail(other, f"a {kind} takes no {other!r}")
    table.only((*_COMMON, *own, *(("share", "except") if kind in _SHARED else ())))
    at_us = table.duration("at")
    if at_us > time_limit_us:
        table.fail("at", "it would happen after the time limit")
    return FaultSpec(
        at_us=at_us,
        kind=kind,
        nodes=() if kind in _LINKS else _nodes(table, kind),
        links=_links(table, kind) if kind in _LINKS else (),
        host=table.flag("host", False),
        disk=table.flag("disk", True),
        first=table.flag("first", False),
        found=table.flag("found", False),
        parent=_parent(table, kind),
        latency_us=table.duration("latency", LINK_LATENCY_US),
        bandwidth_bps=table.rate("bandwidth", None),
        site=table.checked("site", check_name) if "site" in table else None,
        contacts=read_contacts(table),
        disk_latency_us=table.duration("disk_latency", 0),
        by_us=table.duration("by") if kind is FaultKind.LEAP else 0,
    )


def _parent(table: TomlTable, kind: FaultKind) -> str | None:
    """Whoever joins asks somebody for a place: its parent, or whom it knows."""
    if kind is FaultKind.DOUBLE or (kind is FaultKind.JOIN and ("parent" in table or "contacts" not in table)):
        return table.text("parent")
    return None


def _nodes(table: TomlTable, kind: FaultKind) -> tuple[str, ...]:
    if "share" in table:
        if "nodes" in table:
            table.fail("share", "a fault has nodes or a share of the brokers, not both")
        return ()  # drawn when it is known who is there by then
    if "except" in table:
        table.fail("except", "it needs a share: brokers without a name are not affected")
    nodes = table.texts("nodes", FAULT_NODES_MAX)
    if not nodes:
        table.fail("nodes", f"a {kind} needs at least one node")
    if kind is FaultKind.JOIN:
        for i, name in enumerate(nodes):
            table.attempt(("nodes", i), check_name, name)
    return nodes


def _links(table: TomlTable, kind: FaultKind) -> tuple[tuple[str, str], ...]:
    """Two nodes are one link; a list of pairs is several; only a heal may name none."""
    rows = table.rows("nodes", FAULT_NODES_MAX)
    if not rows and kind is FaultKind.CUT:
        table.fail("nodes" if "nodes" in table else "", 'a cut needs nodes: ["b0", "b1"], or a list of such pairs')
    if rows and all(isinstance(row, str) for row in rows):
        return (_pair(table, ("nodes",), rows),)
    return tuple(dict.fromkeys(_pair(table, ("nodes", i), row) for i, row in enumerate(rows)))


def _pair(table: TomlTable, path: tuple[str | int, ...], row: Any) -> tuple[str, str]:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(name, str) for name in row):
        table.fail(path, 'a link is two nodes: nodes = ["b0", "b1"], or a list of such pairs')
    if row[0] == row[1]:
        table.fail(path, f"a link joins two different nodes, not {row[0]!r} and itself")
    return (row[0], row[1])


def settle_faults(
    tables: Sequence[TomlTable],
    faults: Sequence[FaultSpec],
    brokers: Sequence[BrokerSpec],
    clients: Sequence[ClientSpec],
    seed: int,
) -> tuple[FaultSpec, ...]:
    """Walks through the faults in the order of time, draws those who are to be drawn, and refuses what a node cannot
    undergo in its state by then. A fault that befalls nobody is left out."""
    settled: list[FaultSpec] = []
    states = dict.fromkeys([*(b.name for b in brokers), *(c.name for c in clients)], "up")
    are_brokers = {b.name for b in brokers}
    in_sites = any(b.site for b in brokers)
    for table, told in zip(tables, faults, strict=True):
        fault = told
        if "share" in table:
            fault = replace(told, nodes=_drawn(table, told.kind, states, are_brokers, seed))
            if not fault.nodes:
                continue
        settled.append(fault)
        for i, name in enumerate(fault.nodes):
            _check_node(table, fault, i, states)
            if fault.kind is FaultKind.JOIN and name not in are_brokers and name in states:
                table.fail(("nodes", i), f"only a broker can join, and {name!r} is a client")
            if fault.kind in _OF_BROKERS and name not in are_brokers:
                table.fail(("nodes", i), f"only a broker can {fault.kind}, and {name!r} is a client")
            if fault.kind in _AROUND_BROKERS and name not in are_brokers:
                table.fail(("nodes", i), f"{fault.kind} is for brokers, and {name!r} is a client")
        if fault.kind is FaultKind.DOUBLE:
            _check_double(table, fault, states, are_brokers)
        if fault.kind is FaultKind.JOIN:
            if in_sites != (fault.site is not None):
                table.fail("site", "it needs a site, as all brokers" if in_sites else "no other broker has a site")
            if fault.parent is not None:
                _check_parent(table, fault, states, are_brokers)
            for i, name in enumerate(fault.contacts):
                if name not in are_brokers or name in fault.nodes:
                    reason = f"contact {name!r} is no other broker{suggestion(name, sorted(are_brokers))}"
                    table.fail(("contacts", i), reason)
            are_brokers.update(fault.nodes)
        if fault.kind in _CHANGES:
            states.update(dict.fromkeys(fault.nodes, _CHANGES[fault.kind][1]))
        for number, link in enumerate(fault.links):
            for name in link:
                if name not in states:
                    where = ("nodes", number) if len(fault.links) > 1 else ("nodes",)
                    table.fail(where, f"node {name!r} does not exist{suggestion(name, states)}")
    return tuple(settled)


def _drawn(
    table: TomlTable, kind: FaultKind, states: Mapping[str, str], brokers: set[str], seed: int
) -> tuple[str, ...]:
    """A share of the brokers that this can happen to, in their order. Those that are spared are not counted."""
    spared = table.texts("except", FAULT_NODES_MAX, ())
    for i, name in enumerate(spared):
        if name not in brokers:
            table.fail(("except", i), f"broker {name!r} does not exist{suggestion(name, sorted(brokers))}")
    before = _CHANGES[kind][0] if kind in _CHANGES else ("up", "frozen", "hung", "down")
    able = [name for name, state in states.items() if name in brokers and state in before and name not in spared]
    count = int(table.number("share", 0, 1) * len(able) + 0.5)
    places = random_for(seed, "fault", *table.path).sample(range(len(able)), count)
    return tuple(able[place] for place in sorted(places))


def _check_node(table: TomlTable, fault: FaultSpec, number: int, states: Mapping[str, str]) -> None:
    name = fault.nodes[number]
    state = states.get(name, "absent")
    if state == "absent" and fault.kind is not FaultKind.JOIN:
        table.fail(("nodes", number), f"node {name!r} does not exist{suggestion(name, states)}")
    if fault.kind in _CHANGES and state not in _CHANGES[fault.kind][0]:
        table.fail(("nodes", number), f"{name!r} cannot {fault.kind}: it is {state} by then")


def _check_double(table: TomlTable, fault: FaultSpec, states: Mapping[str, str], brokers: set[str]) -> None:
    for number, name in enumerate(fault.nodes):
        if name not in brokers:
            table.fail(("nodes", number), f"{name!r} is no broker: only a broker's name is taken twice")
        if name == fault.parent:
            table.fail("parent", f"{name!r} would ask itself for a place")
    _check_parent(table, fault, states, brokers)


def _check_parent(table: TomlTable, fault: FaultSpec, states: Mapping[str, str], brokers: set[str]) -> None:
    parent = fault.parent
    if parent not in brokers:
        table.fail("parent", f"parent {parent!r} does not exist{suggestion(str(parent), sorted(brokers))}")
    if states[parent] == "gone":
        table.fail("parent", f"parent {parent!r} has left by then")
