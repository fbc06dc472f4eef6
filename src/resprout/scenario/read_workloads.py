"""Workloads of a scenario file: `[[workload]]`."""

import typing
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, check_offered
from resprout.core.limits import check_topic
from resprout.filters.predicate import topic_matches
from resprout.scenario.model import (
    OPTIONS,
    BankOptions,
    ClientSpec,
    Mix,
    RandomOptions,
    ValueOptions,
    WorkloadOptions,
    WorkloadSpec,
)
from resprout.scenario.read_nodes import CLIENTS_MAX
from resprout.scenario.reader import TomlTable, suggestion

WORKLOADS_MAX: Final = 1_000
TOPICS_MAX: Final = 10_000
KEYS_MAX: Final = 1_000_000
OPERATIONS_MAX: Final = 10_000_000
WINDOW_MAX: Final = 1_000_000
AT_ONCE_MAX: Final = 10_000
"""Operations of a client that pauses for nothing."""

COMMON: Final = (
    "kind", "clients", "topics", "keys", "operations", "mix", "interval", "payload", "start", "window", "bundle_max",
)  # fmt: skip

BANK_START_US: Final = 2_000_000
"""A bank opens late by default, so that its replicas are subscribed by then: see `workloads.bank`."""

_MIX_TOLERANCE: Final = 0.001


def read_workloads(
    file: TomlTable, clients: Sequence[ClientSpec], offered: Sequence[Guarantee]
) -> tuple[WorkloadSpec, ...]:
    """`offered`: the guarantees of the stack that the scenario runs on."""
    filters = list(dict.fromkeys(s.filter for client in clients for s in client.subscriptions))
    workloads: list[WorkloadSpec] = []
    for table in file.tables("workload", WORKLOADS_MAX, "workload"):
        workload = _workload(table, clients)
        _check_mix(table, workload, offered)
        _check_topics(table, workload, filters)
        _check_sizes(table, workload)
        _check_company(table, workload, workloads)
        workloads.append(workload)
    return tuple(workloads)


def _workload(table: TomlTable, clients: Sequence[ClientSpec]) -> WorkloadSpec:
    kind = table.choice("kind", OPTIONS)
    bank = kind == "bank"
    table.only((*COMMON, *(_written(field) for field in OPTIONS[kind].__struct_fields__)))
    named = _clients(table, clients)
    employed = set(named)
    return WorkloadSpec(
        kind=kind,
        clients=named,
        topics=_topics(table, [client for client in clients if client.name in employed]),
        keys=table.integer("keys", 1 if bank else 0, KEYS_MAX, 100),
        operations=table.integer("operations", 0, OPERATIONS_MAX, 100),
        mix=_mix(table) if "mix" in table else Mix(causal=1.0),
        interval_us=table.duration("interval", 50_000),
        payload=table.integer("payload", 0, limits.PAYLOAD_BYTES_MAX, 32),
        start_us=table.duration("start", BANK_START_US if bank else 0),
        window=table.integer("window", 0, WINDOW_MAX, 0),
        bundle_max=table.integer("bundle_max", 1, limits.BUNDLE_MESSAGES, 0),
        options=_options(table, OPTIONS[kind]),
    )


def _topics(table: TomlTable, clients: Sequence[ClientSpec]) -> tuple[str, ...]:
    """Those that are named, or where clients keep to their subscriptions, all of these that are topics."""
    if "subscribed" not in table or not table.flag("subscribed"):
        return table.texts("topics", TOPICS_MAX)
    theirs = [_exact_topics(client) for client in clients]
    topics = table.texts("topics", TOPICS_MAX, tuple(dict.fromkeys(topic for some in theirs for topic in some)))
    for client, some in zip(clients, theirs, strict=True):
        if not set(topics).intersection(some):
            table.fail("subscribed", f"client {client.name!r} subscribes to none of the topics")
    return topics


def _exact_topics(client: ClientSpec) -> list[str]:
    return [one.filter for one in client.subscriptions if "+" not in one.filter and "#" not in one.filter]


def _clients(table: TomlTable, clients: Sequence[ClientSpec]) -> tuple[str, ...]:
    """Those that are named, or so many, evenly by their place among all; or all."""
    known = dict.fromkeys(client.name for client in clients if client.consumes is None)
    if not known:
        table.fail("", "the scenario has no clients")
    if isinstance(table.values.get("clients"), int):
        count = table.integer("clients", 1, len(known))
        return tuple(list(known)[place * len(known) // count] for place in range(count))
    named = table.texts("clients", CLIENTS_MAX, tuple(known))
    for i, name in enumerate(named):
        if any(client.name == name and client.consumes is not None for client in clients):
            table.fail(("clients", i), f"client {name!r} consumes a durable subscription, and does nothing else")
        if name not in known:
            table.fail(("clients", i), f"client {name!r} does not exist{suggestion(name, known)}")
    if not named:
        table.fail("clients", "a workload needs at least one client; leave it out for all")
    return named


def _mix(table: TomlTable) -> Mix:
    inner = TomlTable(table.source, (*table.path, "mix"), f"{table.what}: mix")
    labels = [guarantee.label for guarantee in Guarantee]
    for word in inner.values:
        if word not in labels:
            inner.fail(word, f"unknown guarantee {word!r}{suggestion(word, labels)}")
    shares = {label: inner.number(label, 0, 1, 0.0) for label in labels}
    if abs(sum(shares.values()) - 1) > _MIX_TOLERANCE:
        inner.fail(next(reversed(inner.values), ""), f"the shares sum to {sum(shares.values()):g}, not to 1")
    return Mix(**shares)


def _check_mix(table: TomlTable, workload: WorkloadSpec, offered: Sequence[Guarantee]) -> None:
    for guarantee, _ in workload.mix.shares:
        try:
            check_offered(guarantee, offered)
        except UsageError as error:
            table.fail(("mix", guarantee.label), str(error))


def _check_topics(table: TomlTable, workload: WorkloadSpec, filters: Sequence[str]) -> None:
    """A topic that nobody can ever receive is a slip of the pen."""
    if not workload.topics:
        table.fail("topics", "a workload needs at least one topic")
    for i, topic in enumerate(workload.topics):
        table.attempt(("topics", i), check_topic, topic)
        if not _churns(workload) and not any(topic_matches(filter_, topic) for filter_ in filters):
            table.fail(("topics", i), f"no client subscribes to topic {topic!r}")


def _check_sizes(table: TomlTable, workload: WorkloadSpec) -> None:
    options = workload.options
    if not workload.interval_us and not workload.window and workload.operations > AT_ONCE_MAX:
        table.fail("interval", f"without a pause or a window at most {AT_ONCE_MAX} operations are made, all at once")
    if isinstance(options, RandomOptions) and (options.payload_min or 0) > workload.payload:
        table.fail("payload_min", f"payload_min is {options.payload_min}, above the payload of {workload.payload}")


def _check_company(table: TomlTable, workload: WorkloadSpec, others: Sequence[WorkloadSpec]) -> None:
    """What two workloads cannot both do with one client, or in one bank."""
    mine = set(workload.clients)
    for other in others:
        shared = [name for name in other.clients if name in mine]
        if isinstance(workload.options, BankOptions) and isinstance(other.options, BankOptions):
            if shared:
                table.fail("clients", f"client {shared[0]!r} is in another bank already; a client keeps one ledger")
            if workload.options.initial != other.options.initial:
                table.fail("initial", f"the banks of one scenario begin alike; another has {other.options.initial}")
        if shared and isinstance(workload.options, ValueOptions) and isinstance(other.options, ValueOptions):
            table.fail("clients", f"client {shared[0]!r} is in another workload with values: they would get mixed up")
        if shared and _churns(workload) and _churns(other):
            table.fail("clients", f"client {shared[0]!r} is in another workload with churn: they would get mixed up")


def _churns(workload: WorkloadSpec) -> bool:
    return isinstance(workload.options, RandomOptions | ValueOptions) and workload.options.churn > 0


def _written(field: str) -> str:
    """An option's key in TOML: a time is written with its unit, so `_us` is not in the name."""
    return field.removesuffix("_us")


def _options(table: TomlTable, kind: type[WorkloadOptions]) -> WorkloadOptions:
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        key = _written(field.name)
        if key in table:
            given[field.name] = _option(table, key, field)
    return kind(**given)


def _option(table: TomlTable, key: str, field: msgspec.structs.FieldInfo) -> Any:
    if key != field.name:
        return table.duration(key, high=_bounds(field.type)[1])
    if field.type is bool:
        return table.flag(key)
    low, high = _bounds(field.type)
    if isinstance(field.default, float):
        return table.number(key, low, high)
    return table.integer(key, low, high)


def _bounds(annotation: Any) -> tuple[int, int]:
    """`ge` and `le` of an annotated number, also when None is allowed beside it."""
    for part in (annotation, *typing.get_args(annotation)):
        for meta in getattr(part, "__metadata__", ()):
            return meta.ge, meta.le
    raise AssertionError(f"an option without bounds: {annotation}")
