"""What one broker is to be, from a TOML file and the command line, which wins.

    name = "b1"
    listen = "0.0.0.0:7450"
    parent = "b0.example.org:7450"
    contacts = ["b2.example.org:7450"]        # whom to ask for a place when the parent is not there; also `join`
    found = true                              # found a network if the folder remembers none and no known broker answers
    site = "s0"                               # the group of brokers that replicate each other, for stacks of such
    advertise = "b1.example.org:7450"         # where others reach it, when that is not where it listens
    data = "/var/lib/resprout/b1"             # for what must survive the process
    tls = "/etc/resprout/certificates"        # a folder, or a table of three files: see `_tls`
    client_certificates = true                # clients need one, too
    rules = "/etc/resprout/rules.toml"        # known clients and their permissions
    network_key = "/etc/resprout/network.key" # by which brokers prove themselves where there is no TLS
    insecure = false                          # true: accept every connection, also from other machines
    drain_seconds = 30                        # for how long at most it hands over what it has when it is to end
    http = "localhost:8450"                   # a live page, metrics and signs of health
    http_open = false                         # true: serve these to every machine

    [options]               # of the stack
    faults_tolerated = 2

    [links]                 # see LinkOptions
    heartbeat_us = 200_000
    silence_us = 1_000_000

    [journal]               # see JournalOptions; of what is kept in the data folder
    flush = "interval"

    [events]                # the same, of the events that are kept: `keep = ["bank/#"]` above
    retain_bytes = 10_000_000_000

    [[log]]                 # a log (docs/logs.md); all brokers have the same ones
    name = "bank"
    filter = "bank/#"
    replicas = ["b0", "b1", "b2"]

    [[roster]]              # a broker of a site (docs/stacks/sites.md); all brokers have the same ones
    name = "b1"
    site = "s0"
    parent = "b0"
    address = "b1.example.org:7450"

    [mqtt]                  # where it listens for MQTT clients (docs/mqtt.md)
    listen = "localhost:1883"
    guarantees = { "bank/#" = "total" }

    [delays]                # emulated one-way latencies, by peer
    b0 = "115ms"

Anything unknown is refused, with the file and the line.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.cli.arguments import address_of_peer, local_path
from resprout.cli.mqtt_settings import read_mqtt
from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.edge.requests import DRAIN_US
from resprout.filters.predicate import check_filter
from resprout.journal.interface import JournalOptions
from resprout.links.options import LinkOptions
from resprout.logs.declaration import LogDeclaration, check_logs
from resprout.net.address import DEFAULT_PORT, Address, parse_address
from resprout.net.broker_to_run import EVENT_OPTIONS
from resprout.net.connection_limits import BrokerLimits
from resprout.net.identity.rules import COUNT_MAX
from resprout.net.mqtt.settings import MqttSettings
from resprout.net.tls import Tls, tls_of_broker
from resprout.scenario.read_logs import parse_log, read_logs
from resprout.scenario.read_nodes import parse_roster_entry, read_roster
from resprout.scenario.reader import TomlTable, format_duration, parse_duration
from resprout.scenario.source import TomlSource, apply_overrides, parse_source, read_source
from resprout.stacks.stack import DEFAULT, RosterEntry, Stack, find_stack

_KEYS: Final = (
    "name", "listen", "parent", "join", "contacts", "site", "found", "advertise", "data", "tls", "client_certificates",
    "rules", "network_key", "insecure", "http", "http_open", "drain_seconds", "stack", "options", "links", "limits",
    "journal", "keep", "events", "delays", "log", "mqtt", "roster",
)  # fmt: skip
CONTACTS_MAX: Final = 1_000
KEPT_FILTERS_MAX: Final = 100
DELAY_US_MAX: Final = 60_000_000
DRAIN_SECONDS_MAX: Final = 3_600


class Settings(msgspec.Struct, frozen=True):
    name: str
    listen: Address
    parent: Address | None
    contacts: tuple[Address, ...]
    founds: bool
    """It begins a network when its folder remembers none, and none of those that it was told of answers."""
    advertise: Address | None
    data: Path | None
    stack: Stack[Any]
    options: Any
    """Of the stack."""
    links: LinkOptions
    delays_s: Mapping[str, float]
    site: str = ""
    journal: JournalOptions = JournalOptions()
    keep: tuple[str, ...] = ()
    """Filters of the events that are kept for readers."""
    events: JournalOptions = EVENT_OPTIONS
    tls: Tls | None = None
    """Its certificates; None: it speaks without TLS."""
    clients_certified: bool = False
    """A client needs a certificate."""
    rules: Path | None = None
    """The file with known clients and their permissions."""
    limits: BrokerLimits = BrokerLimits()
    network_key: Path | None = None
    """By which brokers prove themselves without TLS."""
    insecure: bool = False
    """Whether it accepts every connection, also from other machines."""
    drain_s: int = DRAIN_US // 1_000_000
    """For how long it may hand over what it has, when it is asked to end."""
    http: Address | None = None
    """Where it serves a page, metrics and signs of health; None: nowhere."""
    http_opens: bool = False
    logs: tuple[LogDeclaration, ...] = ()
    """All logs of the network, whichever brokers keep them."""
    roster: tuple[RosterEntry, ...] = ()
    """All brokers of the network, where they form sites."""
    mqtt: MqttSettings = MqttSettings()
    """Where it listens for MQTT clients, if anywhere."""


def read_settings(
    path: Path | None,
    given: Mapping[str, str | None],
    overrides: Iterable[str],
    delays: Iterable[str],
    contacts: Sequence[str] = (),
    keep: Sequence[str] = (),
    drain_s: int | None = None,
    logs: Sequence[str] = (),
    roster: Sequence[str] = (),
) -> Settings:
    """`given` are texts from the command line by key of the file, None where it is silent; `overrides` are
    `option=value` for the stack, `links.option=value` or `journal.option=value`; `delays` are `peer=115ms`;
    `contacts` are addresses; `logs` and `roster` are declarations, see `parse_log` and `parse_roster_entry`."""
    source = read_source(path) if path is not None else parse_source("", "command line")
    source = apply_overrides(source, map(_full_path, overrides))
    file = TomlTable(source, ())
    file.only(_KEYS)
    texts = {key: text for key, text in given.items() if text is not None}
    name = _name(file, texts)
    tls = _tls(file, texts, name)
    stack = _stack(file, texts)
    return Settings(
        name=name,
        listen=_address(file, texts, "listen", parse_address) or Address("localhost", DEFAULT_PORT),
        parent=_address(file, texts, "parent", address_of_peer),
        contacts=_contacts(file, contacts),
        founds="found" in texts or file.flag("found", False),
        advertise=_address(file, texts, "advertise", address_of_peer),
        data=_path(file, texts, "data"),
        stack=stack,
        options=_options(source, stack),
        links=_links(source),
        delays_s=_delays(source) | dict(map(_delay, delays)),
        site=_site(file, texts),
        journal=_journal(source, "journal", JournalOptions()),
        keep=_keep(file, keep),
        events=_journal(source, "events", EVENT_OPTIONS),
        tls=tls,
        clients_certified=_certified(file, texts, tls),
        rules=_path(file, texts, "rules"),
        limits=_limits(source),
        network_key=_path(file, texts, "network_key"),
        insecure="insecure" in texts or file.flag("insecure", False),
        drain_s=drain_s
        if drain_s is not None
        else file.integer("drain_seconds", 0, DRAIN_SECONDS_MAX, DRAIN_US // 1_000_000),
        http=_address(file, texts, "http", parse_address),
        http_opens="http_open" in texts or file.flag("http_open", False),
        logs=_logs(file, stack, logs),
        roster=_roster(file, stack, roster),
        mqtt=read_mqtt(source, texts, has_tls=tls is not None),
    )


def _full_path(override: str) -> str:
    """`--set faults_tolerated=2` means the stack's option; tables are named only to mean another one."""
    path = override.partition("=")[0]
    return override if "." in path else f"options.{override}"


def _stack(file: TomlTable, texts: Mapping[str, str]) -> Stack[Any]:
    """The one of the file must be there even where the command line wins."""
    written = file.checked("stack", find_stack) if "stack" in file else None
    return find_stack(texts["stack"]) if "stack" in texts else written or find_stack(DEFAULT)


def _name(file: TomlTable, texts: Mapping[str, str]) -> str:
    if "name" in texts:
        return check_name(texts["name"], "broker name")
    if "name" not in file:
        raise UsageError("--name is missing: give the broker a name, such as --name b1")
    return file.checked("name", check_name)


def _address(file: TomlTable, texts: Mapping[str, str], key: str, check: Callable[[str], Address]) -> Address | None:
    if key in texts:
        try:
            return check(texts[key])
        except UsageError as error:
            raise UsageError(f"--{key}: {error}") from None
    return file.checked(key, check) if key in file else None


def _contacts(file: TomlTable, given: Sequence[str]) -> tuple[Address, ...]:
    if given:
        try:
            return tuple(map(address_of_peer, given))
        except UsageError as error:
            raise UsageError(f"--join: {error}") from None
    if "join" in file and "contacts" in file:
        file.fail("join", "`join` and `contacts` mean the same: write one of them")
    key = "join" if "join" in file else "contacts"
    texts = file.texts(key, CONTACTS_MAX) if key in file else ()
    return tuple(file.attempt((key, place), address_of_peer, text) for place, text in enumerate(texts))


def _site(file: TomlTable, texts: Mapping[str, str]) -> str:
    if "site" in texts:
        return check_name(texts["site"], "site")
    return file.checked("site", check_name) if "site" in file else ""


def _path(file: TomlTable, texts: Mapping[str, str], key: str) -> Path | None:
    if key in texts:
        return Path(texts[key])
    return file.checked(key, local_path) if key in file else None


def _tls(file: TomlTable, texts: Mapping[str, str], broker: str) -> Tls | None:
    """`tls = "DIR"`, with files as `resprout certificates` calls them; or, for those from elsewhere, a table
    `[tls]` with `authority`, `certificate` and `key`."""
    if "tls" in texts:
        return tls_of_broker(Path(texts["tls"]), broker)
    if "tls" not in file:
        return None
    if not isinstance(file.values["tls"], dict):
        return file.checked("tls", lambda text: tls_of_broker(local_path(text), broker))
    table = TomlTable(file.source, ("tls",), "tls")
    table.only(Tls.__struct_fields__)
    return Tls(*(table.checked(key, local_path) for key in Tls.__struct_fields__))


def _certified(file: TomlTable, texts: Mapping[str, str], tls: Tls | None) -> bool:
    wanted = "client_certificates" in texts or file.flag("client_certificates", False)
    if wanted and tls is None:
        raise UsageError("client certificates are seen with TLS only: give --tls DIR, a folder with certificates")
    return wanted


def _options(source: TomlSource, stack: Stack[Any]) -> Any:
    if "options" not in source.tree:
        return stack.parse_options({})
    table = TomlTable(source, ("options",))
    for key, value in table.values.items():
        table.attempt(key, stack.parse_options, {key: value})  # one by one, to know which one it was
    return table.attempt("", stack.parse_options, table.values)


def _links(source: TomlSource) -> LinkOptions:
    if "links" not in source.tree:
        return LinkOptions()
    table = TomlTable(source, ("links",))
    table.only(LinkOptions.__struct_fields__)
    for key, value in table.values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            table.fail(key, f"link option {key} must be a whole number, not {value!r}")
    try:
        return LinkOptions(**table.values)
    except UsageError as error:
        blamed = next((key for key in table.values if f" {key} " in f"{error} "), "")
        table.fail(blamed, str(error))


def _logs(file: TomlTable, stack: Stack[Any], given: Sequence[str]) -> tuple[LogDeclaration, ...]:
    if not given:
        return read_logs(file, stack)
    if not stack.keeps_logs:
        raise UsageError(f"--log: the stack {stack.name!r} does not keep logs")
    logs = tuple(map(parse_log, given))
    check_logs(logs)
    return logs


def _roster(file: TomlTable, stack: Stack[Any], given: Sequence[str]) -> tuple[RosterEntry, ...]:
    roster = tuple(map(parse_roster_entry, given)) or read_roster(file)
    if roster and not stack.site_brokers(stack.parse_options({})):
        raise UsageError(f"a roster: brokers of the stack {stack.name!r} form no sites")
    for entry in roster:
        if entry.address:
            address_of_peer(entry.address)
    return roster


def _keep(file: TomlTable, given: Sequence[str]) -> tuple[str, ...]:
    if given:
        return tuple(dict.fromkeys(map(check_filter, given)))
    texts = file.texts("keep", KEPT_FILTERS_MAX) if "keep" in file else ()
    return tuple(file.attempt(("keep", place), check_filter, text) for place, text in enumerate(texts))


def _journal(source: TomlSource, name: str, default: JournalOptions) -> JournalOptions:
    if name not in source.tree:
        return default
    table = TomlTable(source, (name,))
    table.only(JournalOptions.__struct_fields__)
    for key, value in table.values.items():
        try:
            msgspec.convert({key: value}, JournalOptions)
        except msgspec.ValidationError as error:
            table.fail(key, f"journal option {key} cannot be {value!r}: {error}")
    return msgspec.convert({**msgspec.to_builtins(default), **table.values}, JournalOptions)


def _limits(source: TomlSource) -> BrokerLimits:
    if "limits" not in source.tree:
        return BrokerLimits()
    table = TomlTable(source, ("limits",), "limits")
    table.only(BrokerLimits.__struct_fields__)
    return BrokerLimits(**{key: table.integer(key, 1, COUNT_MAX) for key in table.values})


def _delays(source: TomlSource) -> dict[str, float]:
    if "delays" not in source.tree:
        return {}
    table = TomlTable(source, ("delays",), "delays")
    for peer in table.values:
        table.attempt(peer, check_name, peer)
    return {peer: table.duration(peer, high=DELAY_US_MAX) / 1e6 for peer in table.values}


def _delay(text: str) -> tuple[str, float]:
    peer, equals, duration = text.partition("=")
    if not equals:
        raise UsageError(f"--delay {text}: write it as PEER=115ms")
    try:
        check_name(peer)
        delay_us = parse_duration(duration)
    except UsageError as error:
        raise UsageError(f"--delay {text}: {error}") from None
    if delay_us > DELAY_US_MAX:
        raise UsageError(f"--delay {text}: at most {format_duration(DELAY_US_MAX)}")
    return peer, delay_us / 1e6
