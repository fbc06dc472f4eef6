"""All measurements of one run."""

from pathlib import Path

import msgspec

from resprout.pipeline.metrics.counted import counted_latency, counted_run, counted_traffic, counts_of, is_counted
from resprout.pipeline.metrics.latency import latency_rows
from resprout.pipeline.metrics.observed import Observed, observe
from resprout.pipeline.metrics.phases import trouble_in
from resprout.pipeline.metrics.repairs import ObservedRepair, repairs_in
from resprout.pipeline.metrics.setting import RunKey, Setting, faults_tolerated, key_of, labels_of, setting_of
from resprout.pipeline.metrics.stars import Stars
from resprout.pipeline.metrics.traffic import load_rows, traffic_row
from resprout.pipeline.places import RunPlace
from resprout.pipeline.tables import LatencyRow, LoadRow, RepairRow, RunRow, TrafficRow
from resprout.trace import kinds


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
