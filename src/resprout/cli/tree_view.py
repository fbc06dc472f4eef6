"""A survey as lines: the tree, who is where in it, and what goes on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from resprout.cli.asking import counted, size
from resprout.net.account.values import BrokerAccount, MissingBroker, TreeSurvey

LIMIT: Final = "is the limit"
"""In the reasons of refusals that a limit is the cause of."""

Node = BrokerAccount | MissingBroker


def heading(survey: TreeSurvey) -> str:
    brokers = survey.brokers
    is_serving = any(one.ready for one in brokers)  # only the default stack gives its networks names
    network = f"network {survey.network}, " if survey.network else "" if is_serving else "no network yet, "
    silent = f", {len(survey.missing)} without an answer" if survey.missing else ""
    return (
        f"{network}stack {brokers[0].stack}: {counted(len(brokers), 'broker')}{silent},"
        f" {counted(sum(one.clients_count for one in brokers), 'client')},"
        f" {sum(one.rates.publications for one in brokers):.1f} publications/s,"
        f" {sum(one.rates.deliveries for one in brokers):.1f} deliveries/s"
    )


def tree_lines(survey: TreeSurvey) -> list[str]:
    """Children below their parents; all on one level where there is no tree."""
    nodes: dict[str, Node] = {one.name: one for one in survey.brokers}
    nodes.update({one.name: one for one in survey.missing})
    children: dict[str | None, list[str]] = {}
    for name, node in nodes.items():
        parent = node.parent
        above = parent if isinstance(parent, str) and parent in nodes and parent != name else None
        children.setdefault(above, []).append(name)
    tops = sorted(children.get(None, []))
    lines = [line for name in tops for line in _branch(name, nodes, children, "", "")]
    return (
        lines if len(lines) >= len(nodes) else [*lines, *[_line(node) for node in nodes.values()]]
    )  # a circle of parents


def news_lines(survey: TreeSurvey) -> list[str]:
    """Repairs that go on, limits that clients have come up against, and what people should know."""
    repairs = dict.fromkeys(
        [
            f"{repair.by or 'nobody yet'} repairs {', '.join(repair.dead)}"
            for one in survey.brokers
            for repair in one.repairs
        ]
    )
    silent = [
        f"{one.name} does not hear {', '.join(names)}"
        for one in survey.brokers
        if (names := [other.name for other in one.neighbours if other.silent])
    ]
    limits = [
        f"{one.name} has refused {counted(count, 'request')}: {reason}"
        for one in survey.brokers
        for reason, count in sorted(one.counters.refusals.items())
        if LIMIT in reason
    ]
    return [*repairs, *silent, *limits, *survey.notices]


def _branch(
    name: str, nodes: Mapping[str, Node], children: Mapping[str | None, Sequence[str]], first: str, rest: str
) -> Iterator[str]:
    yield first + _line(nodes[name])
    below = sorted(children.get(name, ()))
    for place, child in enumerate(below):
        last = place == len(below) - 1
        yield from _branch(child, nodes, children, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _line(node: Node) -> str:
    if isinstance(node, MissingBroker):
        return f"{node.name}  {'dead' if node.dead else 'no answer'}: {node.reason}"
    parts = [
        node.name, node.address, f"life {node.life}", counted(node.clients_count, "client"),
        f"{node.rates.publications:.1f}/s in", f"{node.rates.deliveries:.1f}/s out",
        f"{node.rates.carried + node.rates.passed_on:.1f}/s through",
    ]  # fmt: skip
    if node.queue_bytes:
        parts.append(f"queue {size(node.queue_bytes)}")
    if node.log_bytes is not msgspec.UNSET and node.log_bytes:
        parts.append(f"log {size(node.log_bytes)}")
    if node.spill is not msgspec.UNSET and node.spill.bytes:
        parts.append(f"on disk {size(node.spill.bytes)}")
    parts += [
        f"{store.name} disk {store.state}, {size(max(0, store.free_bytes))} free"
        for store in node.stores
        if store.state != "ok" and store.name != "spill"
    ]
    if node.site is not msgspec.UNSET:
        parts.append(f"site {node.site}")
    parts += node.roles
    if not node.ready:
        parts.append("not ready")
    return "  ".join(parts)
