"""Measures of a run that recorded counts in place of its clients' rows: see `trace.counts`."""

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resprout.pipeline.metrics.setting import RunKey
from resprout.pipeline.places import RunPlace
from resprout.pipeline.stores import source_of
from resprout.pipeline.tables import LatencyRow, RunRow, TrafficRow
from resprout.trace import kinds
from resprout.trace.summary import latency_in

ByGuarantee = dict[str, dict[str, int]]


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
