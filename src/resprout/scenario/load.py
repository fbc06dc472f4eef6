"""From a TOML file (or text) to a `Scenario`, or to a `ScenarioError` that names the place and the reason in one line.

Keys of the file: `name` (default: the file's), `stack`, `seed`, `time_limit`, `client_links`, `count_bytes`, `trace`,
`[options]` of the stack, `[[broker]]` or `[topology]`, `[[client]]`, `[[workload]]`, `[[fault]]`. What each table may
hold is listed in `model`. Anything unknown is refused: an option that is silently ignored makes
a run that nobody asked for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.core.guarantee import ReceiptLevel
from resprout.scenario.check_nodes import blame, check_nodes
from resprout.scenario.model import TIME_LIMIT_US, BrokerSpec, FaultKind, FaultSpec, OptionValue, Scenario
from resprout.scenario.read_faults import read_faults, settle_faults
from resprout.scenario.read_nodes import read_brokers, read_clients
from resprout.scenario.read_workloads import read_workloads
from resprout.scenario.reader import TomlTable
from resprout.scenario.shipped import read_shipped
from resprout.scenario.source import TomlSource, apply_overrides, parse_source
from resprout.stacks.registry import DEFAULT, find_stack
from resprout.stacks.stack import Stack

SEED_MAX: Final = 2**63 - 1
NAME_LETTERS_MAX: Final = 200

_KEYS: Final = (
    "name", "stack", "seed", "time_limit", "client_links", "count_bytes", "trace", "options", "topology", "broker",
    "client", "workload", "fault",
)  # fmt: skip


def load_scenario(path: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a file, or a scenario that comes with a package by its name.

    `overrides` are texts like `workload.0.operations=10`, see `apply_overrides`.
    """
    return build_scenario(apply_overrides(read_shipped(path, "scenarios"), overrides))


def parse_scenario(text: str, name: str = "<text>", overrides: Iterable[str] = ()) -> Scenario:
    """The same for a text that is in no file."""
    return build_scenario(apply_overrides(parse_source(text, name), overrides))


def build_scenario(source: TomlSource) -> Scenario:
    """Makes sense of a TOML tree, and checks that what it says can be run."""
    file = TomlTable(source, ())
    file.only(_KEYS)
    stack = file.checked("stack", find_stack) if "stack" in file else find_stack(DEFAULT)
    seed = file.integer("seed", 0, SEED_MAX, 1)
    time_limit_us = file.duration("time_limit", TIME_LIMIT_US)
    brokers = read_brokers(file, seed)
    clients = read_clients(file, brokers)
    fault_tables, faults = read_faults(file, time_limit_us)
    joining = [name for fault in faults if fault.kind is FaultKind.JOIN for name in fault.nodes]
    check_nodes(file, brokers, clients, joining)
    options = _options(file, stack)
    _check_sites(file, stack, brokers, faults, options)
    workloads = read_workloads(file, clients, stack.offered(stack.parse_options(options)))
    if not stack.keeps_subscriptions and (consumer := next((c for c in clients if c.consumes), None)) is not None:
        reason = f"the stack {stack.name!r} does not offer durable subscriptions"
        blame(file, "client", consumer.name, "subscribe", reason)
    dropping = {client.name for client in clients if client.when_full == "drop_oldest"}
    for number, workload in enumerate(workloads):
        if workload.kind == "bank" and (replicas := sorted(dropping.intersection(workload.clients))):
            reason = f"a replica of a bank needs every operation, but messages of {replicas[0]} may be dropped"
            file.fail(("workload", number, "clients") if workload.clients else ("workload", number), reason)
        if workload.window and ReceiptLevel.SAFE not in stack.receipts:
            reason = f"the stack {stack.name!r} does not give the receipt 'safe', which a window waits for"
            file.fail(("workload", number, "window"), reason)
    return Scenario(
        name=_name(file),
        brokers=brokers,
        stack=stack.name,
        seed=seed,
        time_limit_us=time_limit_us,
        options=options,
        clients=clients,
        workloads=workloads,
        has_free_client_links=file.choice("client_links", ("charged", "free"), "charged") == "free",
        counts_bytes=file.flag("count_bytes", False),
        trace=file.choice("trace", ("rows", "counts"), "rows"),
        faults=settle_faults(fault_tables, faults, brokers, clients, seed),
    )


def _check_sites(
    file: TomlTable,
    stack: Stack[Any],
    brokers: Sequence[BrokerSpec],
    faults: Sequence[FaultSpec],
    options: Mapping[str, OptionValue],
) -> None:
    """A site that lacks a broker never forms, and one that has too many leaves one out."""
    size = stack.site_brokers(stack.parse_options(options))
    if not size:
        return
    _check_site_contacts(file, stack, brokers, faults)
    joined = Counter(fault.site for fault in faults if fault.kind is FaultKind.JOIN for _ in fault.nodes)
    for site, count in Counter(broker.site for broker in brokers).items():
        if site is not None and count + joined[site] != size:
            first = next(broker.name for broker in brokers if broker.site == site)
            found = f"the site {site!r} has {count + joined[site]} brokers"
            wanted = f"with these options the stack {stack.name!r} has {size} in each"
            blame(file, "broker", first, "site", f"{found}; {wanted}")


def _check_site_contacts(
    file: TomlTable, stack: Stack[Any], brokers: Sequence[BrokerSpec], faults: Sequence[FaultSpec]
) -> None:
    """They lead to others of the same site. A site that knows another one only so is never told to be its child."""
    reason = f"in the stack {stack.name!r} contacts are brokers of the same site; a parent leads to another one"
    sites = {name: fault.site for fault in faults if fault.kind is FaultKind.JOIN for name in fault.nodes}
    sites |= {broker.name: broker.site for broker in brokers}
    for broker in brokers:
        if any(broker.site is None or sites[contact] != broker.site for contact in broker.contacts):
            blame(file, "broker", broker.name, "contacts", reason)
    for number, fault in enumerate(faults):
        if any(fault.site is None or sites.get(contact) != fault.site for contact in fault.contacts):
            file.fail(("fault", number, "contacts"), reason)


def _name(file: TomlTable) -> str:
    name = file.text("name", Path(file.source.name).stem)
    if not name or len(name) > NAME_LETTERS_MAX or not name.isprintable():
        file.fail("name", f"a name is one line of 1 to {NAME_LETTERS_MAX} letters")
    return name


def _options(file: TomlTable, stack: Stack[Any]) -> dict[str, OptionValue]:
    """As written, once the stack has found nothing wrong with them."""
    if "options" not in file:
        return {}
    table = TomlTable(file.source, ("options",), "options")
    for key, value in table.values.items():
        if not isinstance(value, str | int | float | bool):
            table.fail(key, f"{key} must be a text, a number, true or false")
    try:
        stack.parse_options(table.values)
    except UsageError as error:
        table.fail(_to_blame(stack, table.values, str(error)), str(error))
    return dict(table.values)


def _to_blame(stack: Stack[Any], values: Mapping[str, Any], complaint: str) -> str:
    """The option that earns the complaint by itself; none where only several together do, which may go well with each
    other and not with the defaults of the others."""
    for key, value in values.items():
        try:
            stack.parse_options({key: value})
        except UsageError as error:
            if str(error) == complaint:
                return key
    return ""
