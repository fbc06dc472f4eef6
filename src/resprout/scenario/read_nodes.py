"""Brokers and clients of a scenario file: `[[broker]]`, `[[client]]`, `[topology]`."""

from random import Random
from typing import Final

from msgspec.structs import replace

from resprout.core.names import check_name
from resprout.filters.predicate import check_filter, parse_predicate
from resprout.scenario.model import (
    CLIENT_LATENCY_US,
    DURABLE_WHEN_FULL,
    LINK_LATENCY_US,
    PLAIN_WHEN_FULL,
    BrokerSpec,
    ClientSpec,
    SubscriptionSpec,
    random_for,
)
from resprout.scenario.reader import TomlTable
from resprout.scenario.topologies import DEGREE, FLAT, KINDS, contacts_in, parents_in

BROKERS_MAX: Final = 100_000
CLIENTS_MAX: Final = 100_000
SUBSCRIPTIONS_MAX: Final = 10_000
"""Of one client."""
CONTACTS_MAX: Final = 1_000
"""Of one broker."""
KEEP_MAX: Final = 64
"""Filters of one broker."""
MOST: Final = 10_000
"""Messages that may wait for a durable subscription that drops the oldest, unless the scenario says otherwise."""
MOST_MAX: Final = 1_000_000


def read_brokers(file: TomlTable, seed: int) -> tuple[BrokerSpec, ...]:
    """The brokers that are listed, or those of the topology: never both."""
    listed = tuple(_broker(table) for table in file.tables("broker", BROKERS_MAX, "broker"))
    if "topology" not in file:
        if not listed:
            file.fail("", "there is no broker; write [[broker]] tables or a [topology]")
        return listed
    if listed:
        file.fail("topology", "a scenario has [[broker]] tables or a [topology], not both")
    return _grown(TomlTable(file.source, ("topology",), "topology"), seed)


def _broker(table: TomlTable) -> BrokerSpec:
    table.only(("name", "parent", "latency", "bandwidth", "site", "contacts", "disk_latency", "keep"))
    keep = table.texts("keep", KEEP_MAX, ())
    for number, topic_filter in enumerate(keep):
        table.attempt(("keep", number), check_filter, topic_filter)
    return BrokerSpec(
        name=table.checked("name", check_name),
        parent=table.text("parent") if "parent" in table else None,
        latency_us=table.duration("latency", LINK_LATENCY_US),
        bandwidth_bps=table.rate("bandwidth", None),
        site=table.checked("site", check_name) if "site" in table else None,
        contacts=read_contacts(table),
        disk_latency_us=table.duration("disk_latency", 0),
        keep=keep,
    )


def read_contacts(table: TomlTable) -> tuple[str, ...]:
    """Of a broker that is there from the start, or joins."""
    return table.texts("contacts", CONTACTS_MAX) if "contacts" in table else ()


def _grown(table: TomlTable, seed: int) -> tuple[BrokerSpec, ...]:
    table.only((
        "kind", "brokers", "degree", "latency", "bandwidth", "clients_per_broker", "client_latency", "subscribe",
        "contacts", "disk_latency", "subtree_groups",
    ))  # fmt: skip
    shape = table.choice("kind", KINDS)
    brokers = table.integer("brokers", 1, BROKERS_MAX)
    if "degree" in table and shape in ("chain", "star", FLAT):
        table.fail("degree", f"a {shape} has no degree to choose" if shape != FLAT else "a flat one has no degree")
    if "subtree_groups" in table and table.flag("subtree_groups") and shape == FLAT:
        table.fail("subtree_groups", "a flat topology has no subtrees")
    if "contacts" in table and shape != FLAT:
        table.fail("contacts", f"only a flat topology has contacts to choose, and this is a {shape}")
    rng = random_for(seed, "topology")
    usual = BrokerSpec(
        "",
        latency_us=table.duration("latency", LINK_LATENCY_US),
        bandwidth_bps=table.rate("bandwidth", None),
        disk_latency_us=table.duration("disk_latency", 0),
    )
    if shape == FLAT:
        known = _contacts(table, brokers, rng)
        return tuple(replace(usual, name=f"b{i}", contacts=contacts) for i, contacts in enumerate(known))
    parents = parents_in(shape, brokers, table.integer("degree", 2, BROKERS_MAX, DEGREE), rng)
    return tuple(
        replace(usual, name=f"b{i}", parent=None if parent is None else f"b{parent}")
        for i, parent in enumerate(parents)
    )


def _contacts(table: TomlTable, brokers: int, rng: Random) -> list[tuple[str, ...]]:
    """Of each broker of a flat topology: so many earlier ones, drawn, or those that are named."""
    if not isinstance(table.values.get("contacts"), list):
        drawn = contacts_in(brokers, table.integer("contacts", 1, CONTACTS_MAX, 1), rng)
        return [tuple(f"b{i}" for i in contacts) for contacts in drawn]
    named = table.texts("contacts", CONTACTS_MAX)
    if not named:
        table.fail("contacts", "nobody knows anybody; name a broker, or leave it out to draw one")
    return [tuple(name for name in named if name != f"b{i}") if i else () for i in range(brokers)]


def read_clients(file: TomlTable, brokers: tuple[BrokerSpec, ...]) -> tuple[ClientSpec, ...]:
    """The clients that come with the topology, then those that are listed."""
    dealt: tuple[ClientSpec, ...] = ()
    if "topology" in file:
        dealt = _dealt(TomlTable(file.source, ("topology",), "topology"), brokers)
    return dealt + tuple(_client(table) for table in file.tables("client", CLIENTS_MAX, "client"))


def _dealt(table: TomlTable, brokers: tuple[BrokerSpec, ...]) -> tuple[ClientSpec, ...]:
    count = table.integer("clients_per_broker", 0, CLIENTS_MAX, 1) * len(brokers)
    if count > CLIENTS_MAX:
        table.fail("clients_per_broker", f"{count} clients; at most {CLIENTS_MAX}")
    latency_us = table.duration("client_latency", CLIENT_LATENCY_US)
    usual = _subscriptions(table)
    groups = _groups_of(brokers) if "subtree_groups" in table and table.flag("subtree_groups") else {}
    homes = [brokers[i % len(brokers)].name for i in range(count)]
    return tuple(
        ClientSpec(f"c{i}", home, latency_us, tuple(dict.fromkeys((*usual, *groups.get(home, ())))))
        for i, home in enumerate(homes)
    )


def _groups_of(brokers: tuple[BrokerSpec, ...]) -> dict[str, tuple[SubscriptionSpec, ...]]:
    """By broker: a group for each broker with children on the way to the root, its own included. Parents come first."""
    parents = {broker.parent for broker in brokers}
    groups: dict[str, tuple[SubscriptionSpec, ...]] = {}
    for broker in brokers:
        own = (SubscriptionSpec(f"group/{broker.name}"),) if broker.name in parents else ()
        groups[broker.name] = (*(groups[broker.parent] if broker.parent is not None else ()), *own)
    return groups


def _client(table: TomlTable) -> ClientSpec:
    table.only((
        "name", "broker", "latency", "subscribe", "called", "reading", "idle_from", "idle_until", "when_full",
        "repeats",
    ))  # fmt: skip
    idle_us = (table.duration("idle_from", 0), table.duration("idle_until", 0))
    subscriptions = _subscriptions(table)
    repeats = table.flag("repeats", False)
    if repeats and (subscriptions or "called" in table):
        table.fail("repeats", "a client that repeats its publications has no subscriptions, and its own name")
    return ClientSpec(
        name=table.checked("name", check_name),
        broker=table.text("broker"),
        latency_us=table.duration("latency", CLIENT_LATENCY_US),
        subscriptions=subscriptions,
        called=table.text("called") if "called" in table else None,
        reading_us=table.duration("reading", 0),
        idle_us=idle_us if idle_us[0] < idle_us[1] else None,
        when_full=table.choice("when_full", tuple(PLAIN_WHEN_FULL), "disconnect"),
        repeats=repeats,
    )


def _subscriptions(table: TomlTable) -> tuple[SubscriptionSpec, ...]:
    rows: dict[SubscriptionSpec, None] = {}
    for i, row in enumerate(table.rows("subscribe", SUBSCRIPTIONS_MAX)):
        subscription = _subscription(table, i, row)
        if subscription in rows:
            table.fail(("subscribe", i), f"it subscribes to {subscription.filter!r} twice")
        rows[subscription] = None
    if len(rows) > 1 and any(row.durable is not None for row in rows):
        table.fail("subscribe", "a client that consumes a durable subscription does nothing else")
    return tuple(rows)


def _subscription(table: TomlTable, number: int, row: object) -> SubscriptionSpec:
    if isinstance(row, str):
        table.attempt(("subscribe", number), check_filter, row)
        return SubscriptionSpec(row)
    if not isinstance(row, dict):
        table.fail(("subscribe", number), 'a subscription is "a/topic" or { filter = "a/topic", where = "..." }')
    inner = TomlTable(table.source, (*table.path, "subscribe", number), table.what)
    inner.only(("filter", "where", "durable", "group", "when_full", "most"))
    when_full = inner.choice("when_full", tuple(DURABLE_WHEN_FULL), "block")
    drops = when_full == "drop_oldest"
    if "most" in inner and not drops:
        inner.fail("most", 'only a subscription with when_full = "drop_oldest" has a number of messages that may wait')
    subscription = SubscriptionSpec(
        inner.text("filter"),
        inner.text("where") if "where" in inner else None,
        inner.checked("durable", check_name) if "durable" in inner else None,
        inner.flag("group", False),
        when_full,
        inner.integer("most", 1, MOST_MAX, MOST) if drops else 0,
    )
    if "when_full" in inner and subscription.durable is None:
        inner.fail("when_full", "only what waits for a durable subscription waits for long: give its name, `durable`")
    if subscription.group and subscription.durable is None:
        inner.fail("group", "a group shares a durable subscription: give its name, `durable`")
    inner.attempt("filter", check_filter, subscription.filter)
    inner.attempt("where", parse_predicate, subscription.filter, subscription.where)
    return subscription
