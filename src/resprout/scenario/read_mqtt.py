"""Checks of MQTT clients in scenario files (`protocol = "mqtt"`): what MQTT has no words for is refused."""

from collections.abc import Sequence
from typing import Final

from resprout.scenario.model import MQTT, ChatterOptions, ClientSpec, RandomOptions, SubscriptionSpec, WorkloadSpec
from resprout.scenario.reader import TomlTable

NATIVE_KEYS: Final = ("called", "reading", "idle_from", "idle_until", "when_full", "repeats")
STACK: Final = "resprout"


def check_mqtt_client(table: TomlTable, is_mqtt: bool, subscriptions: Sequence[SubscriptionSpec]) -> None:
    if not is_mqtt:
        if "qos" in table:
            table.fail("qos", 'only an MQTT client has a QoS: write protocol = "mqtt"')
        return
    for key in NATIVE_KEYS:
        if key in table:
            table.fail(key, f"an MQTT client has no {key!r}")
    for number, one in enumerate(subscriptions):
        if one != SubscriptionSpec(one.filter):
            table.fail(("subscribe", number), "a subscription of an MQTT client is a filter and nothing else")


def check_mqtt(
    file: TomlTable, stack: str, trace: str, clients: Sequence[ClientSpec], workloads: Sequence[WorkloadSpec]
) -> None:
    """Refuse what a scenario with MQTT clients cannot have."""
    speakers = {client.name for client in clients if client.protocol == MQTT}
    if not speakers:
        return
    if stack != STACK:
        file.fail("stack", f"MQTT clients need the stack {STACK!r}; this one is {stack!r}")
    if trace != "rows":
        file.fail("trace", "a run with MQTT clients is recorded in rows")
    for number, workload in enumerate(workloads):
        if speakers.isdisjoint(workload.clients):
            continue
        options = workload.options
        place = ("workload", number)
        if isinstance(options, RandomOptions):
            for key in ("churn", "delays", "expiries", "priorities", "foreign_keys"):
                if getattr(options, key):
                    file.fail((*place, key), f"{key} is not for MQTT clients")
        elif not isinstance(options, ChatterOptions):
            file.fail((*place, "kind"), f"a workload of the kind {workload.kind!r} is not for MQTT clients")
