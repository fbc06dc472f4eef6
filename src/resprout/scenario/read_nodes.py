"""Brokers and clients of a scenario file (`[[broker]]`, `[[client]]`, `[topology]`), and whether they make a network.

They do if names are unique, brokers form one tree or know each other, and every client has a broker.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NoReturn

from msgspec.structs import replace

from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.core.message_fields import NUMBER_MAX
from resprout.filters.predicate import check_filter, parse_predicate
from resprout.scenario.model import (
    CLIENT_LATENCY_US,
    DURABLE_WHEN_FULL,
    LINK_LATENCY_US,
    MQTT,
    PLAIN_WHEN_FULL,
    PROTOCOLS,
    BrokerSpec,
    ClientSpec,
    SubscriptionSpec,
    random_for,
)
from resprout.scenario.read_mqtt import check_mqtt_client
from resprout.scenario.reader import TomlTable, suggestion
from resprout.scenario.topologies import DEGREE, FLAT, KINDS, contacts_in, parents_in
from resprout.stacks.stack import RosterEntry

BROKERS_MAX: Final = 100_000
CLIENTS_MAX: Final = 100_000
SUBSCRIPTIONS_MAX: Final = 10_000
"""Of one client."""
CONTACTS_MAX: Final = 1_000
"""Of one broker."""
ACK_WAIT_MIN_US: Final = 100_000
"""Brokers refuse less."""
KEEP_MAX: Final = 64
"""Filters of one broker."""
MAX_PENDING: Final = 10_000
"""Messages that may wait for a durable subscription that drops the oldest, unless the scenario says otherwise."""
PENDING_LIMIT: Final = 1_000_000


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
        table.fail("contacts", "no broker knows another one; name a broker, or leave it out to draw one")
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
        "repeats", "protocol", "qos",
    ))  # fmt: skip
    idle_us = (table.duration("idle_from", 0), table.duration("idle_until", 0))
    subscriptions = _subscriptions(table)
    repeats = table.flag("repeats", False)
    if repeats and (subscriptions or "called" in table):
        table.fail("repeats", "a client that repeats its publications has no subscriptions, and its own name")
    is_mqtt = table.choice("protocol", PROTOCOLS, PROTOCOLS[0]) == MQTT
    check_mqtt_client(table, is_mqtt, subscriptions)
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
        protocol=MQTT if is_mqtt else PROTOCOLS[0],
        qos=table.integer("qos", 1, 2, 1),
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
    inner.only((
        "filter", "where", "durable", "group", "when_full", "max_pending", "max_deliver", "ack_wait", "poison", "flaky",
        "retained", "follow_ups",
    ))  # fmt: skip
    when_full = inner.choice("when_full", tuple(DURABLE_WHEN_FULL), "block")
    drops = when_full == "drop_oldest"
    if "max_pending" in inner and not drops:
        inner.fail(
            "max_pending", 'only a subscription with when_full = "drop_oldest" has a number of messages that may wait'
        )
    subscription = SubscriptionSpec(
        inner.text("filter"),
        inner.text("where") if "where" in inner else None,
        inner.checked("durable", check_name) if "durable" in inner else None,
        inner.flag("group", False),
        when_full,
        inner.integer("max_pending", 1, PENDING_LIMIT, MAX_PENDING) if drops else 0,
        inner.flag("retained", False),
        inner.integer("max_deliver", 1, NUMBER_MAX) if "max_deliver" in inner else 0,
        inner.duration("ack_wait", 0),
        inner.number("poison", 0, 1, 0.0),
        inner.number("flaky", 0, 1, 0.0),
        inner.number("follow_ups", 0, 1, 0.0),
    )
    _check_retries(inner, subscription)
    if subscription.retained and subscription.durable is not None:
        inner.fail("retained", "a durable subscription does not begin with last values")
    if "when_full" in inner and subscription.durable is None:
        inner.fail("when_full", "only what waits for a durable subscription waits for long: give its name, `durable`")
    if subscription.group and subscription.durable is None:
        inner.fail("group", "a group shares a durable subscription: give its name, `durable`")
    inner.attempt("filter", check_filter, subscription.filter)
    inner.attempt("where", parse_predicate, subscription.filter, subscription.where)
    return subscription


def _check_retries(table: TomlTable, subscription: SubscriptionSpec) -> None:
    if subscription.follow_ups and subscription.durable is None:
        table.fail("follow_ups", "only a durable subscription has messages to acknowledge: give its name, `durable`")
    for key in ("max_deliver", "ack_wait", "poison", "flaky"):
        if key in table and subscription.durable is None:
            table.fail(key, "only a durable subscription hands out messages again: give its name, `durable`")
    if subscription.poison and not subscription.max_deliver:
        table.fail("poison", "without max_deliver, poison is handed out for ever")
    if subscription.flaky and not subscription.retries:
        table.fail("flaky", "messages can be rejected only with max_deliver or ack_wait")
    if 0 < subscription.ack_wait_us < ACK_WAIT_MIN_US:
        table.fail("ack_wait", "it is at least 100ms")


def check_nodes(
    file: TomlTable, brokers: Sequence[BrokerSpec], clients: Sequence[ClientSpec], joining: Sequence[str]
) -> None:
    """Refuses what cannot stand; `joining` are the brokers that only come later."""
    _check_names(file, brokers, clients)
    if any(broker.site for broker in brokers):
        _check_sites(file, brokers)
    else:
        _check_tree(file, brokers)
    _check_contacts(file, brokers)
    known = dict.fromkeys([*(broker.name for broker in brokers), *joining])
    owners = {client.name: client for client in clients if client.called is None}
    called = [client.called for client in clients if client.called is not None]
    for client in clients:
        if client.called is not None and (client.called not in owners or called.count(client.called) > 1):
            blame(file, "client", client.name, "called", f"{client.called!r} is not the name of one other client")
        if client.broker not in known:
            reason = f"broker {client.broker!r} does not exist{suggestion(client.broker, known)}"
            blame(file, "client", client.name, "broker", reason)


def blame(file: TomlTable, kind: str, name: str, key: str, reason: str, *, last: bool = False) -> NoReturn:
    """Refuses a listed node at one of its keys; the topology, when that made it. `last`: the last of that name."""
    rows = list(enumerate(file.values.get(kind, [])))
    for i, row in reversed(rows) if last else rows:
        if row.get("name") == name:
            file.fail((kind, i, key), f"{kind} {name}: {reason}")
    file.fail("topology", f"{kind} {name}: {reason}")


def _check_names(file: TomlTable, brokers: Sequence[BrokerSpec], clients: Sequence[ClientSpec]) -> None:
    taken: dict[str, str] = {}
    for kind, nodes in (("broker", brokers), ("client", clients)):
        for node in nodes:
            if node.name in taken:
                blame(file, kind, node.name, "name", f"the name is taken by another {taken[node.name]}", last=True)
            taken[node.name] = kind


def _check_tree(file: TomlTable, brokers: Sequence[BrokerSpec]) -> None:
    parents = {broker.name: broker.parent for broker in brokers}
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            reason = f"parent {parent!r} does not exist{suggestion(parent, parents)}"
            blame(file, "broker", name, "parent", reason)
    roots = [broker.name for broker in brokers if broker.parent is None and not broker.contacts]
    if len(roots) > 1:
        reason = f"it has no parent and no contacts, but {roots[0]!r} is the root already"
        blame(file, "broker", roots[1], "name", reason)
    _check_acyclic(file, parents, {name: name for name in parents})


def _check_contacts(file: TomlTable, brokers: Sequence[BrokerSpec]) -> None:
    """They exist, and following them leads from everybody to one that founds the network."""
    known = {broker.name: broker for broker in brokers}
    for broker in brokers:
        if broker.contacts and broker.parent is not None:
            blame(file, "broker", broker.name, "contacts", "it has a parent, and that is whom it knows")
        for contact in broker.contacts:
            if contact not in known:
                reason = f"contact {contact!r} does not exist{suggestion(contact, known)}"
                blame(file, "broker", broker.name, "contacts", reason)
            if contact == broker.name:
                blame(file, "broker", broker.name, "contacts", "it names itself")
    if all(broker.contacts or broker.parent is not None for broker in brokers):
        blame(file, "broker", brokers[0].name, "contacts", "every broker knows another one, so none founds the network")


def _check_sites(file: TomlTable, brokers: Sequence[BrokerSpec]) -> None:
    """Sites form the tree: the first broker of a site has its parent in another one, and the others name it, or
    nobody, or a broker of that same other site."""
    site_of = {broker.name: broker.site for broker in brokers}
    firsts: dict[str, str] = {}
    parents: dict[str, str | None] = {}
    spokesman: dict[str, str] = {}
    for broker in brokers:
        if broker.site is None:
            blame(file, "broker", broker.name, "name", "other brokers have a site; it needs one too")
        firsts.setdefault(broker.site, broker.name)
        parents.setdefault(broker.site, None)
        spokesman.setdefault(broker.site, broker.name)
        if broker.parent is None:
            continue
        above = site_of.get(broker.parent)
        if above is None:
            blame(file, "broker", broker.name, "parent", f"parent {broker.parent!r} does not exist")
        elif above == broker.site:
            if broker.parent != firsts[broker.site] or broker.name == broker.parent:
                reason = f"parent {broker.parent!r} is in its own site {above!r}, and not the first broker of that"
                blame(file, "broker", broker.name, "parent", reason)
            continue
        elif parents[broker.site] not in (None, above):
            reason = f"its site {broker.site!r} has a parent in {parents[broker.site]!r} and another in {above!r}"
            blame(file, "broker", broker.name, "parent", reason)
        parents[broker.site] = above
        spokesman[broker.site] = broker.name
    roots = [site for site, parent in parents.items() if parent is None]
    if len(roots) > 1:
        reason = f"its site {roots[1]!r} has no parent, but {roots[0]!r} is the root site already"
        blame(file, "broker", spokesman[roots[1]], "site", reason)
    _check_acyclic(file, parents, spokesman)


def _check_acyclic(file: TomlTable, parents: Mapping[str, str | None], spokesman: Mapping[str, str]) -> None:
    """Every walk upwards ends at the root."""
    fine: set[str] = set()
    for start in parents:
        walk: dict[str, None] = {}
        here: str | None = start
        while here is not None and here not in fine:
            if here in walk:
                steps = list(walk)
                cycle = [*steps[steps.index(here) :], here]
                shown = cycle if len(cycle) <= 6 else [*cycle[:3], "...", *cycle[-2:]]
                reason = f"parents form a cycle: {' -> '.join(shown)}"
                blame(file, "broker", spokesman[here], "parent", reason)
            walk[here] = None
            here = parents[here]
        fine.update(walk)


_ROSTER_KEYS: Final = ("name", "site", "parent", "address")


def read_roster(file: TomlTable) -> tuple[RosterEntry, ...]:
    """Return the brokers in the `[[roster]]` tables of the configuration of a broker."""
    entries = []
    for table in file.tables("roster", BROKERS_MAX, "broker"):
        table.only(_ROSTER_KEYS)
        entries.append(
            RosterEntry(
                table.checked("name", check_name),
                table.checked("site", check_name, ""),
                table.checked("parent", check_name) if "parent" in table else None,
                table.text("address", ""),
            )
        )
    return tuple(entries)


def parse_roster_entry(text: str) -> RosterEntry:
    """Return the broker that `NAME,site=SITE,parent=NAME,address=HOST:PORT` describes; only the name is required."""
    name, *pairs = text.split(",")
    fields = dict(pair.partition("=")[::2] for pair in pairs)
    if unknown := [key for key in fields if key not in _ROSTER_KEYS[1:]]:
        raise UsageError(f"roster {text!r}: unknown key {unknown[0]!r}{suggestion(unknown[0], _ROSTER_KEYS[1:])}")
    names = {key: check_name(fields[key], key) for key in ("site", "parent") if key in fields}
    return RosterEntry(check_name(name), names.get("site", ""), names.get("parent"), fields.get("address", ""))
