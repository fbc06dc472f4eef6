"""All measurements of one run, and of many runs side by side: messages, traffic and load, in all and node by node.

A run with counts in place of its clients' rows (`trace.summary`) is measured from those. On Spark a task takes
some runs from beginning to end and reads their files itself: rows of different runs never meet, so nothing is shuffled,
and nothing but the results leaves a worker. Runs are dealt out by size.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resprout.core.errors import UsageError
from resprout.pipeline import results
from resprout.pipeline.archive import verify
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.metrics.observed import (
    Numbers,
    Observed,
    RunKey,
    Setting,
    faults_tolerated,
    key_of,
    labels_of,
    observe,
    setting_of,
)
from resprout.pipeline.metrics.repairs import ObservedRepair, Stars, latency_rows, repairs_in, trouble_in
from resprout.pipeline.places import RunPlace, find_runs, is_archive, place_of
from resprout.pipeline.results import MEASURED, LatencyRow, LoadRow, RepairRow, RunRow, TrafficRow
from resprout.pipeline.stores import Location, location, source_of
from resprout.pipeline.tasks import cores_of, run_each
from resprout.stacks.stack import Family, find_stack
from resprout.trace import kinds
from resprout.trace.summary import latency_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        frames=_sum_of([row.frames_sent for row in load]),
        frame_bytes=_sum_of([row.bytes_sent for row in load]),
        messages=messages or None,
        messages_by_type=_by_type(observed) or None,
        messages_per_publication=sent / publications if sent is not None and publications else None,
        messages_per_delivery=sent / deliveries if sent is not None and deliveries else None,
        paper_bytes=_sum_of([row.paper_bytes for row in load]),
        paper_messages=_sum_of([row.paper_messages for row in load]),
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


def _sum_of(counts: list[int | None]) -> int | None:
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


ByGuarantee = dict[str, dict[str, int]]

TASKS_PER_CORE: Final = 4
"""More than one, because runs differ; not many more, because a task costs as much as a small run."""
RUNS_AT_ONCE: Final = 250
"""Results are kept after so many runs, so that an interruption costs little."""


class Measurements(msgspec.Struct):
    """Rows of the tables, of any number of runs."""

    runs: list[RunRow] = []
    latency: list[LatencyRow] = []
    repairs: list[RepairRow] = []
    traffic: list[TrafficRow] = []
    load: list[LoadRow] = []


def measure_run(place: RunPlace) -> Measurements:
    run, setting, observed = key_of(place), setting_of(place), observe(place)
    repairs = repairs_in(observed.events)
    clients = frozenset(client.name for client in setting.clients)
    stars = Stars(setting)
    load = load_rows(run, observed, setting)
    row, traffic = _run_row(run, place, setting, observed, clients), traffic_row(run, setting.stack, observed, load)
    latency = latency_rows(run, observed, trouble_in(observed.events, repairs, clients))
    if is_counted(place):
        counts = counts_of(place)
        row, traffic, latency = counted_run(row, counts), counted_traffic(traffic, counts), counted_latency(run, counts)
    return Measurements(
        runs=[row],
        latency=latency,
        repairs=[_repair_row(run, repair, repairs, stars) for repair in repairs],
        traffic=[traffic],
        load=load,
    )


def _run_row(run: RunKey, place: RunPlace, setting: Setting, observed: Observed, clients: frozenset[str]) -> RunRow:
    info = place.info
    back = {node: is_back for node, is_back in _crashed(observed).items() if node not in clients}
    return RunRow(
        **run,
        stack=setting.stack,
        seed=info.seed,
        scenario=setting.name,
        labels=labels_of(setting.name) or labels_of(Path(place.run).name),
        options={name: msgspec.json.encode(value).decode() for name, value in info.options.items()},
        faults=len(back),
        gone=sum(not is_back for is_back in back.values()),
        keys=setting.workloads[0].keys if setting.workloads else None,
        faults_tolerated=faults_tolerated(place, setting.stack),
        brokers=len(setting.brokers),
        clients=len(setting.clients),
        ended=info.ended,
        duration_us=observed.last_us - observed.first_us,
        publications=len(observed.publications.row),
        deliveries=len(observed.deliveries.row),
        rows=observed.rows,
    )


def _crashed(observed: Observed) -> dict[str, bool]:
    """Who ever crashed, and whether it was back at the end."""
    back: dict[str, bool] = {}
    for event in observed.events:
        if event.kind == kinds.CRASH:
            back[event.node] = False
        elif event.kind == kinds.RECOVER and event.node in back:
            back[event.node] = True
    return back


def _repair_row(run: RunKey, repair: ObservedRepair, repairs: list[ObservedRepair], stars: Stars) -> RepairRow:
    ended_us = repair.ended_us
    has_rounds = any(other.rounds for other in repairs)
    return RepairRow(
        **run,
        node=repair.node,
        dead=tuple(repair.dead),
        cause=repair.cause,
        began_us=repair.began_us,
        placed_us=repair.placed_us,
        ended_us=ended_us,
        duration_us=None if ended_us is None else ended_us - repair.began_us,
        detection_us=None if repair.struck_us is None else repair.began_us - repair.struck_us,
        rounds=repair.rounds if has_rounds else None,
        round_trip_us=stars.round_trip_us(repair),
    )


def is_counted(place: RunPlace) -> bool:
    return place.info.scenario.get("trace") == "counts"


def counts_of(place: RunPlace) -> ByGuarantee:
    """What the rows of counts say, by guarantee."""
    found: ByGuarantee = {}
    for part in place.parts:
        table = pq.read_table(source_of(part.path), columns=["kind", "guarantee", "attributes"], use_threads=False)
        for cells in table.filter(pc.equal(table["kind"], kinds.COUNTS)).to_pylist():
            if cells["guarantee"] is not None:
                found[cells["guarantee"]] = {name: int(text) for name, text in cells["attributes"]}
    return found


def counted_run(row: RunRow, counts: ByGuarantee) -> RunRow:
    return msgspec.structs.replace(row, publications=_sum(counts, "published"), deliveries=_sum(counts, "delivered"))


def counted_latency(run: RunKey, counts: ByGuarantee) -> list[LatencyRow]:
    """Of the whole run: when something was published is not known, so there are no phases."""
    rows = []
    for guarantee, of in counts.items():
        if "latency_max_us" in of:
            latency = latency_in(of, "latency")
            mean_us = of["latency_sum_us"] / latency.count
            rows.append(
                LatencyRow(
                    **run, guarantee=guarantee, phase="all", count=latency.count, mean_us=mean_us,
                    median_us=latency.median_us, p95_us=latency.p95_us, p99_us=latency.p99_us, max_us=latency.max_us,
                )
            )  # fmt: skip
    return rows


def counted_traffic(row: TrafficRow, counts: ByGuarantee) -> TrafficRow:
    published, delivered = _sum(counts, "published"), _sum(counts, "delivered")
    if not published or not delivered:
        return row
    begin_us = min(of["first_publish_us"] for of in counts.values() if of["published"])
    span_us = max(of["last_delivery_us"] for of in counts.values()) - begin_us
    sent = (row.messages or {}).get("publications", 0) + (row.messages or {}).get("reports", 0)
    return msgspec.structs.replace(
        row,
        throughput=delivered * 1e6 / span_us if span_us > 0 else None,
        converged_us=max(0, span_us),
        hops_mean=_sum(counts, "hops") / delivered,
        metadata_bytes_mean=_sum(counts, "metadata_bytes") / delivered,
        metadata_bytes_max=max(of["metadata_bytes_max"] for of in counts.values()),
        payload_bytes_mean=_sum(counts, "payload_bytes") / delivered,
        messages_per_publication=sent / published if row.messages else None,
        messages_per_delivery=sent / delivered if row.messages else None,
    )


def _sum(counts: ByGuarantee, name: str) -> int:
    return sum(of[name] for of in counts.values())


class _Order(msgspec.Struct, frozen=True):
    number: int
    folder: str
    experiment: str
    run: str


def measure_runs(spark: "SparkSession | None", places: Sequence[RunPlace]) -> Measurements:
    """All tables but those of verdicts, rows in the order of the runs. Without Spark, one run after the other here."""
    if not places:
        return Measurements()
    if spark is None:
        [orders_here] = _dealt(places, 1)
        return _together((order.number, _measured(order)) for order in orders_here)
    dealt = _dealt(places, TASKS_PER_CORE * cores_of(spark))
    done = run_each(spark, lambda orders: [(order.number, _measured(order)) for order in orders], dealt, together=True)
    return _together(found for portion in done for found in portion)


def measure(
    archive: Location, spark: "SparkSession | None", progress: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Measures the runs of an archive that were never measured, or have changed since; how many those were."""
    if not is_archive(archive):
        raise PipelineError(f"{archive}: not an archive; results are kept only beside archived runs")
    places = results.missing(archive, MEASURED, find_runs([archive]))
    for begin in range(0, len(places), RUNS_AT_ONCE):
        progress(begin, len(places))
        some = places[begin : begin + RUNS_AT_ONCE]
        found = measure_runs(spark, some)
        results.append(archive, LatencyRow, found.latency, some)
        results.append(archive, RepairRow, found.repairs, some)
        results.append(archive, TrafficRow, found.traffic, some)
        results.append(archive, LoadRow, found.load, some)
        results.append(archive, RunRow, found.runs, some)
    progress(len(places), len(places))
    return len(places)


def _together(found: Iterable[tuple[int, Measurements]]) -> Measurements:
    """In the order of the numbers."""
    whole = Measurements()
    for _, one in sorted(found, key=lambda item: item[0]):
        for name in Measurements.__struct_fields__:
            getattr(whole, name).extend(getattr(one, name))
    return whole


def _measured(order: _Order) -> Measurements:
    place = place_of(location(order.folder), order.experiment, order.run)
    verify(place)
    return measure_run(place)


def _dealt(places: Sequence[RunPlace], tasks: int) -> list[list[_Order]]:
    """Each run to one task, the largest first and each to the next task in turn."""
    orders = [_Order(number, place.folder, place.experiment, place.run) for number, place in enumerate(places)]
    orders.sort(key=lambda order: -places[order.number].info.rows)
    return [orders[task::tasks] for task in range(min(tasks, len(orders)))]
