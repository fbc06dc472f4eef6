"""What moved in a run and what it cost, in all and node by node."""

from functools import cache
from typing import Final

import numpy as np

from resprout.core.errors import UsageError
from resprout.pipeline.metrics.observed import Numbers, Observed, RunKey, Setting
from resprout.pipeline.results import LoadRow, TrafficRow
from resprout.stacks.registry import find_stack
from resprout.stacks.stack import Family
from resprout.trace import kinds

_MICROSECONDS: Final = 1e6


def load_rows(run: RunKey, observed: Observed, setting: Setting) -> list[LoadRow]:
    """Brokers and clients of the scenario in its order, then whoever else did something."""
    clients = {client.name for client in setting.clients}
    brokers = setting.all_brokers
    published = _by_node(observed, observed.publications.node)
    delivered = _by_node(observed, observed.deliveries.node)
    others = [*observed.load, *sorted(published.keys() | delivered.keys())]
    rows = []
    for node in dict.fromkeys((*brokers, *(client.name for client in setting.clients), *others)):
        is_client = node in clients or (node not in brokers and node in published.keys() | delivered.keys())
        counts = observed.load.get(node, {})
        rows.append(
            LoadRow(
                **run,
                node=node,
                role="client" if is_client else "broker",
                frames_sent=counts.get("frames_sent"),
                bytes_sent=counts.get("bytes_sent"),
                frames_received=counts.get("frames_received"),
                bytes_received=counts.get("bytes_received"),
                published=published.get(node, 0),
                delivered=delivered.get(node, 0),
                busy_share=_share(counts.get("busy_us"), observed.last_us),
                paper_bytes=counts.get("paper_bytes"),
                paper_messages=counts.get("paper_messages"),
                paper_bytes_max=counts.get("paper_bytes_max"),
            )
        )
    return rows


def traffic_row(run: RunKey, stack: str, observed: Observed, load: list[LoadRow]) -> TrafficRow:
    publications, deliveries = len(observed.publications.row), len(observed.deliveries.row)
    messages = _messages(stack, observed)
    sent = messages.get(Family.PUBLICATIONS, 0) + messages.get(Family.REPORTS, 0) if messages else None
    return TrafficRow(
        **run,
        throughput=_throughput(observed),
        steady_throughput=_steady_throughput(observed),
        converged_us=_until_last_delivery(observed, first=True),
        settled_us=_until_last_delivery(observed, first=False),
        hops_mean=observed.hops.mean,
        metadata_bytes_mean=observed.metadata_bytes.mean,
        metadata_bytes_max=observed.metadata_bytes.most,
        payload_bytes_mean=observed.payload_bytes.mean,
        frames=_sum([row.frames_sent for row in load]),
        frame_bytes=_sum([row.bytes_sent for row in load]),
        messages=messages or None,
        messages_by_type=_by_type(observed) or None,
        messages_per_publication=sent / publications if sent is not None and publications else None,
        messages_per_delivery=sent / deliveries if sent is not None and deliveries else None,
        paper_bytes=_sum([row.paper_bytes for row in load]),
        paper_messages=_sum([row.paper_messages for row in load]),
        paper_bytes_max=max((row.paper_bytes_max for row in load if row.paper_bytes_max is not None), default=None),
    )


def _share(busy_us: int | None, time_us: int) -> float | None:
    """Virtual time begins at 0."""
    return busy_us / time_us if busy_us is not None and time_us > 0 else None


def _throughput(observed: Observed) -> float | None:
    published_us, delivered_us = observed.publications.time_us, observed.deliveries.time_us
    if not len(published_us) or not len(delivered_us):
        return None
    span_us = int(delivered_us.max()) - int(published_us.min())
    return len(delivered_us) * _MICROSECONDS / span_us if span_us > 0 else None


def _until_last_delivery(observed: Observed, first: bool) -> int | None:
    """Since the first publication, or the last."""
    published_us, delivered_us = observed.publications.time_us, observed.deliveries.time_us
    if not len(published_us) or not len(delivered_us):
        return None
    return max(0, int(delivered_us.max()) - int(published_us.min() if first else published_us.max()))


def _steady_throughput(observed: Observed) -> float | None:
    """Each subscriber by itself, from the first quarter of its deliveries to the last: neither the beginning counts,
    when links find out what they carry, nor how far from the publishers anybody stands. What comes at one moment came
    together, and took the time since whatever came before it."""
    nodes, times_us = observed.deliveries.node, observed.deliveries.time_us
    order = np.lexsort((times_us, nodes))
    total = 0.0
    for own in np.split(times_us[order], np.flatnonzero(np.diff(nodes[order])) + 1):
        total += _steady_rate(own)
    return total or None


def _steady_rate(own: Numbers) -> float:
    """Per second, of times in order; 0 where all is one moment."""
    moments, counts = np.unique(own, return_counts=True)
    if len(moments) < 2:
        return 0.0
    there = np.cumsum(counts)
    first = min(int(np.searchsorted(there, len(own) // 4, side="right")), len(moments) - 2)
    last = max(int(np.searchsorted(there, len(own) * 3 // 4, side="right")), first + 1)
    return float(there[last] - there[first]) * _MICROSECONDS / float(moments[last] - moments[first])


def _messages(stack: str, observed: Observed) -> dict[str, int]:
    """What was sent, by family; nothing at all when nobody counted."""
    messages: dict[str, int] = {}
    for name, count in _by_type(observed).items():
        family = family_of(stack, name).value
        messages[family] = messages.get(family, 0) + count
    return dict(sorted(messages.items()))


def _by_type(observed: Observed) -> dict[str, int]:
    sent: dict[str, int] = {}
    for counts in observed.load.values():
        for name, count in counts.items():
            if name.startswith(kinds.SENT):
                word = name.removeprefix(kinds.SENT)
                sent[word] = sent.get(word, 0) + count
    return dict(sorted(sent.items()))


def _by_node(observed: Observed, nodes: Numbers) -> dict[str, int]:
    counts = np.bincount(nodes, minlength=len(observed.nodes))
    return {name: int(count) for name, count in zip(observed.nodes, counts, strict=True) if count}


def _sum(counts: list[int | None]) -> int | None:
    """Of what was recorded; None when nothing was."""
    there = [count for count in counts if count is not None]
    return sum(there) if there else None


@cache
def family_of(stack: str, message: str) -> Family:
    """By the name of its type; what a stack does not know, or a stack that is not installed here, is `OTHER`."""
    try:
        return find_stack(stack).family_of(message)
    except UsageError:
        return Family.OTHER
