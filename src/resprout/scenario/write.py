"""From a `Scenario` back to TOML: loading the text gives an equal scenario. Defaults are left out, topologies listed.

Made for reproductions: a swarm prints the scenario that failed, and the text is all that is needed to run it again.
`describe` says a scenario in a few lines for people, `run_info` is what `run.json` says about a run of it.
"""

import json
import platform
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from resprout import __version__
from resprout.logs.declaration import LogDeclaration
from resprout.scenario.model import (
    CLIENT_LATENCY_US,
    LINK_LATENCY_US,
    PROTOCOLS,
    TIME_LIMIT_US,
    BrokerSpec,
    ClientSpec,
    FaultSpec,
    Mix,
    ReaderSpec,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)
from resprout.scenario.read_workloads import BANK_START_US
from resprout.scenario.reader import format_duration, format_rate
from resprout.stacks.stack import find_stack
from resprout.trace.store import RunInfo

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")

Lines = list[str]


def to_toml(scenario: Scenario) -> str:
    lines = [_pair("name", scenario.name)]
    lines += _unless(scenario.stack == "resprout", "stack", scenario.stack)
    lines += [_pair("seed", scenario.seed)]
    lines += _unless(scenario.time_limit_us == TIME_LIMIT_US, "time_limit", format_duration(scenario.time_limit_us))
    lines += _unless(not scenario.has_free_client_links, "client_links", "free")
    lines += _unless(not scenario.counts_bytes, "count_bytes", True)
    lines += _unless(scenario.trace == "rows", "trace", scenario.trace)
    if scenario.options:
        lines += ["", "[options]", *(_pair(key, value) for key, value in scenario.options.items())]
    everybody = tuple(client.name for client in scenario.clients)
    blocks: list[tuple[str, Lines]] = [
        *(("broker", _broker(broker)) for broker in scenario.brokers),
        *(("client", _client(client)) for client in scenario.clients),
        *(("workload", _workload(workload, everybody)) for workload in scenario.workloads),
        *(("fault", _fault(fault)) for fault in scenario.faults),
        *(("log", _log(log)) for log in scenario.logs),
        *(("reader", _reader(reader)) for reader in scenario.readers),
    ]
    for kind, block in blocks:
        lines += ["", f"[[{kind}]]", *block]
    return "\n".join(lines) + "\n"


def _broker(broker: BrokerSpec) -> Lines:
    return [
        _pair("name", broker.name),
        *_unless(broker.parent is None, "parent", broker.parent),
        *_place(broker),
        *_unless(not broker.keep, "keep", list(broker.keep)),
    ]


def _place(spec: BrokerSpec | FaultSpec) -> Lines:
    """What a broker of the start and one that joins have in common."""
    return [
        *_unless(spec.latency_us == LINK_LATENCY_US, "latency", format_duration(spec.latency_us)),
        *([] if spec.bandwidth_bps is None else [_pair("bandwidth", format_rate(spec.bandwidth_bps))]),
        *_unless(spec.site is None, "site", spec.site),
        *_unless(not spec.contacts, "contacts", list(spec.contacts)),
        *_unless(not spec.disk_latency_us, "disk_latency", format_duration(spec.disk_latency_us)),
    ]


def _client(client: ClientSpec) -> Lines:
    return [
        _pair("name", client.name),
        _pair("broker", client.broker),
        *_unless(client.latency_us == CLIENT_LATENCY_US, "latency", format_duration(client.latency_us)),
        *_unless(not client.subscriptions, "subscribe", [_subscription(s) for s in client.subscriptions]),
        *_unless(client.called is None, "called", client.called),
        *_unless(not client.reading_us, "reading", format_duration(client.reading_us)),
        *_idle(client),
        *_unless(client.when_full == "disconnect", "when_full", client.when_full),
        *_unless(not client.repeats, "repeats", client.repeats),
        *_unless(client.protocol == PROTOCOLS[0], "protocol", client.protocol),
        *_unless(client.qos == 1, "qos", client.qos),
    ]


def _idle(client: ClientSpec) -> Lines:
    if client.idle_us is None:
        return []
    begin_us, end_us = client.idle_us
    return [_pair("idle_from", format_duration(begin_us)), _pair("idle_until", format_duration(end_us))]


def _subscription(subscription: SubscriptionSpec) -> Any:
    if subscription == SubscriptionSpec(subscription.filter):
        return subscription.filter
    row: dict[str, Any] = {"filter": subscription.filter}
    if subscription.where is not None:
        row["where"] = subscription.where
    row |= {"retained": True} if subscription.retained else {}
    if subscription.durable is not None:
        row |= {"durable": subscription.durable, "group": subscription.group}
        row |= {"when_full": subscription.when_full} if subscription.when_full != "block" else {}
        row |= {"max_pending": subscription.max_pending} if subscription.max_pending else {}
        row |= {"max_deliver": subscription.max_deliver} if subscription.max_deliver else {}
        row |= {"ack_wait": format_duration(subscription.ack_wait_us)} if subscription.ack_wait_us else {}
        row |= {"poison": subscription.poison} if subscription.poison else {}
        row |= {"flaky": subscription.flaky} if subscription.flaky else {}
        row |= {"follow_ups": subscription.follow_ups} if subscription.follow_ups else {}
    return row


def _workload(workload: WorkloadSpec, everybody: tuple[str, ...]) -> Lines:
    usual = WorkloadSpec("", (), ())
    start_us = BANK_START_US if workload.kind == "bank" else usual.start_us
    mix = {guarantee.label: share for guarantee, share in workload.mix.shares}
    return [
        _pair("kind", workload.kind),
        *_unless(workload.clients == everybody, "clients", list(workload.clients)),
        _pair("topics", list(workload.topics)),
        *_unless(workload.keys == usual.keys, "keys", workload.keys),
        *_unless(workload.operations == usual.operations, "operations", workload.operations),
        *_unless(workload.mix == Mix(causal=1.0), "mix", mix),
        *_unless(workload.interval_us == usual.interval_us, "interval", format_duration(workload.interval_us)),
        *_unless(workload.payload == usual.payload, "payload", workload.payload),
        *_unless(workload.start_us == start_us, "start", format_duration(workload.start_us)),
        *_unless(workload.window == usual.window, "window", workload.window),
        *_unless(workload.bundle_max == usual.bundle_max, "bundle_max", workload.bundle_max),
        *_options(workload),
    ]


def _options(workload: WorkloadSpec) -> Iterable[str]:
    for field in msgspec.structs.fields(workload.options):
        value = getattr(workload.options, field.name)
        if value == field.default:
            continue
        if field.name.endswith("_us"):
            yield _pair(field.name.removesuffix("_us"), format_duration(value))
        else:
            yield _pair(field.name, value)


def _fault(fault: FaultSpec) -> Lines:
    nodes: list[Any] = [list(link) for link in fault.links] or list(fault.nodes)
    return [
        _pair("at", format_duration(fault.at_us)),
        _pair("kind", str(fault.kind)),
        *_unless(not nodes, "nodes", nodes),
        *_unless(not fault.host, "host", fault.host),
        *_unless(fault.disk, "disk", fault.disk),
        *_unless(not fault.first, "first", fault.first),
        *_unless(not fault.found, "found", fault.found),
        *_unless(fault.parent is None, "parent", fault.parent),
        *_place(fault),
    ]


def _reader(reader: ReaderSpec) -> Lines:
    usual = ReaderSpec("", "", "")
    return [
        _pair("client", reader.client),
        _pair("log", reader.log),
        _pair("filter", reader.filter),
        *_unless(not reader.start_us, "start", format_duration(reader.start_us)),
        *_unless(reader.offset < 0, "offset", reader.offset),
        *_unless(reader.size == usual.size, "size", reader.size),
        *_unless(reader.pause_us == usual.pause_us, "pause", format_duration(reader.pause_us)),
        *_unless(not reader.until_us, "until", format_duration(reader.until_us)),
    ]


def _log(log: LogDeclaration) -> Lines:
    usual = LogDeclaration("", "", ())
    return [
        _pair("name", log.name),
        _pair("filter", log.filter),
        _pair("replicas", list(log.replicas)),
        *_unless(log.compact or log.retain_bytes == usual.retain_bytes, "retain_bytes", log.retain_bytes),
        *_unless(log.retain_us == usual.retain_us, "retain", format_duration(log.retain_us)),
        *_unless(log.flush == usual.flush, "flush", str(log.flush)),
        *_unless(log.segment_bytes == usual.segment_bytes, "segment_bytes", log.segment_bytes),
        *_unless(log.partitions == usual.partitions, "partitions", log.partitions),
        *_unless(not log.compact, "compact", True),
        *_unless(
            log.compact_grace_us == usual.compact_grace_us, "compact_grace", format_duration(log.compact_grace_us)
        ),
        *_unless(log.compact_bytes == usual.compact_bytes, "compact_bytes", log.compact_bytes),
    ]


def _unless(left_out: bool, key: str, value: Any) -> Lines:
    return [] if left_out else [_pair(key, value)]


def _pair(key: str, value: Any) -> str:
    return f"{key if _BARE_KEY.fullmatch(key) else _value(key)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_pair(key, inner) for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return repr(value)


def describe(scenario: Scenario) -> str:
    """What was drawn, in a few lines: printed before a run, so that a run that never ends has said what it is."""
    latencies = [broker.latency_us for broker in scenario.brokers[1:]] or [0]
    narrow = sum(broker.bandwidth_bps is not None for broker in scenario.brokers)
    subscriptions = [s for client in scenario.clients for s in client.subscriptions]
    filtered = sum(s.where is not None for s in subscriptions)
    options = ", ".join(f"{name} {value}" for name, value in scenario.options.items()) or "none"
    lines = [f"{scenario.name}: stack {scenario.stack}, options: {options}"]
    lines.append(
        f"  {len(scenario.brokers)} brokers ({narrow} with a bandwidth), links {format_duration(min(latencies))}"
        f" to {format_duration(max(latencies))}, {len(scenario.clients)} clients with {len(subscriptions)}"
        f" subscriptions ({filtered} by content), {len(scenario.faults)} faults"
    )
    for workload in scenario.workloads:
        mix = ", ".join(f"{guarantee.label} {share:g}" for guarantee, share in workload.mix.shares)
        lines.append(
            f"  {workload.kind}: {len(workload.clients)} clients x {workload.operations} operations on"
            f" {len(workload.topics)} topics, {mix}, every {format_duration(workload.interval_us)},"
            f" window {workload.window}, payload {workload.payload}, {workload.keys} keys"
        )
    return "\n".join(lines)


def run_info(scenario: Scenario, ended: str, traffic: Mapping[str, int] | None = None) -> RunInfo:
    """`traffic`: totals over all nodes, of a driver that counts them."""
    return RunInfo(
        scenario=scenario_data(scenario),
        options=dict(scenario.options),
        seed=scenario.seed,
        versions={"resprout": __version__, "python": platform.python_version()},
        ended=ended,
        promise=find_stack(scenario.stack).promise(),
        traffic=dict(traffic or {}),
    )


def scenario_data(scenario: Scenario) -> dict[str, Any]:
    """As it comes back from `run.json`."""
    values = msgspec.to_builtins(scenario)
    if scenario.bank_initial is not None:
        values["bank_initial"] = scenario.bank_initial  # the judge counts money from there
    for name in ("logs", "readers"):
        if not values[name]:
            del values[name]
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(values))
    return plain
