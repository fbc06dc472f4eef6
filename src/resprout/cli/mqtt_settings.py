"""Reads the table `[mqtt]` of a broker's file and the MQTT options of the command line; see `net.mqtt.settings`."""

from collections.abc import Mapping
from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_topic
from resprout.filters.predicate import check_filter
from resprout.net.address import Address, parse_address
from resprout.net.mqtt.proxy import parse_network
from resprout.net.mqtt.settings import MQTT_COUNTS, MqttSettings
from resprout.scenario.reader import TomlTable
from resprout.scenario.source import TomlSource

PLACES: Final = {"listen": "mqtt", "tls": "mqtt_tls", "ws": "mqtt_ws", "wss": "mqtt_wss"}
"""Command line option by key of the table; the command line takes precedence."""
GUARANTEES_MAX: Final = 1_000
PROXIES_MAX: Final = 100


def read_mqtt(source: TomlSource, texts: Mapping[str, str], has_tls: bool) -> MqttSettings:
    """Return the MQTT settings. `texts` has the command line options. Raises UsageError, with file and line, if a
    setting is invalid."""
    given: dict[str, Any] = {}
    if "mqtt" in source.tree:
        table = TomlTable(source, ("mqtt",), "mqtt")
        table.only((*PLACES, *MQTT_COUNTS, "guarantees", "proxies", "response_topics"))
        given = {key: table.checked(key, parse_address) for key in PLACES if key in table}
        given |= {key: table.integer(key, *MQTT_COUNTS[key]) for key in MQTT_COUNTS if key in table}
        if "proxies" in table:
            given["proxies"] = tuple(
                [table.attempt("proxies", parse_network, one) for one in table.texts("proxies", PROXIES_MAX)]
            )
        if "response_topics" in table:
            given["response_topics"] = table.checked("response_topics", check_topic)
        if "guarantees" in table:
            given["guarantees"] = _guarantees(TomlTable(source, ("mqtt", "guarantees"), "mqtt, guarantees"))
    for key, option in PLACES.items():
        if option in texts:
            given[key] = _address(option, texts[option])
    settings = MqttSettings(**given)
    if not settings.is_wanted and given:
        raise UsageError("[mqtt] has no address to listen on: set `listen`, `tls`, `ws` or `wss`, as HOST:PORT")
    if not has_tls and (settings.tls or settings.wss):
        raise UsageError("MQTT with TLS uses the certificate of the broker: give --tls DIR, a folder with certificates")
    return settings


def _address(option: str, text: str) -> Address:
    try:
        return parse_address(text)
    except UsageError as error:
        raise UsageError(f"--{option.replace('_', '-')}: {error}") from None


def _guarantees(table: TomlTable) -> tuple[tuple[str, Guarantee], ...]:
    if len(table.values) > GUARANTEES_MAX:
        table.fail("", f"{len(table.values)} filters; at most {GUARANTEES_MAX}")
    found = []
    for topic_filter in table.values:
        table.attempt(topic_filter, check_filter, topic_filter)
        found.append((topic_filter, table.checked(topic_filter, Guarantee.parse)))
    return tuple(found)
