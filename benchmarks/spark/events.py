"""The few rows of a generated run that are neither publications, deliveries nor receipts: subscriptions and faults."""

from benchmarks.spark.network import NEVER, TICK_US, Network
from resprout.trace import kinds
from resprout.trace.schema import Row

_UNSUBSCRIBING_US = 30_000
_REST_US = 100_000


def happenings(network: Network, last_us: int) -> list[Row]:
    """In order of time; `last_us` is the time of the last row of all others."""
    rows = [*_subscriptions(network), *_crashes(network), *_outage(network)]
    end_us = max(last_us, *(row.time_us for row in rows)) + _REST_US
    rows.append(Row(time_us=end_us, node="world", kind=kinds.QUIESCENT))
    return sorted(rows, key=lambda row: row.time_us)


def _subscriptions(network: Network) -> list[Row]:
    rows = []
    for life in range(network.lives):
        node = f"c{network.client_of[life]}"
        for filter_, topics in network.filters(life):
            begin_us = int(network.from_tick[life, topics[0]]) * TICK_US
            until_us = int(network.until_us[life, topics[0]])
            rows.append(Row(time_us=max(begin_us - 2, 0), node=node, kind=kinds.SUBSCRIBE, filter=filter_))
            rows.append(Row(time_us=max(begin_us - 1, 0), node=node, kind=kinds.SUBSCRIBED, filter=filter_))
            if until_us != NEVER:
                over_us = until_us + _UNSUBSCRIBING_US
                rows.append(Row(time_us=until_us, node=node, kind=kinds.UNSUBSCRIBE, filter=filter_))
                rows.append(Row(time_us=over_us, node=node, kind=kinds.UNSUBSCRIBED, filter=filter_))
    return rows


def _crashes(network: Network) -> list[Row]:
    rows = []
    for fault in network.faults:
        rows.append(Row(time_us=fault.time_us, node=f"c{fault.client}", kind=kinds.CRASH))
        if fault.back is not None:
            back_us = fault.back * TICK_US - TICK_US // 2
            rows.append(Row(time_us=back_us, node=f"c{fault.client}", kind=kinds.RECOVER))
    return rows


def _outage(network: Network) -> list[Row]:
    outage = network.outage
    dead, coordinator = f"b{outage.broker}", "b0"
    return [
        Row(time_us=outage.begin_us, node=dead, kind=kinds.CRASH),
        Row(time_us=outage.noticed_us - 1, node=coordinator, kind=kinds.SUSPECT, detail=dead),
        Row(time_us=outage.noticed_us, node=coordinator, kind=kinds.REPAIR_BEGIN, detail=dead),
        Row(time_us=outage.end_us, node=coordinator, kind=kinds.REPAIR_END, detail=dead),
    ]
