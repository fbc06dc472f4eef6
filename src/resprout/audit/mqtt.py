"""MQTT sessions, judged by what their clients saw. Loss and order are judged like those of durable subscriptions
(`audit.durable`), which the subscriptions of a session are. Session expiry is not modelled: clients of scenarios come
back in time.

- A message with QoS 2 is handed to a session once, for each of its subscriptions.
- The session is there when its client connects again, unless that is a new process of the client.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from resprout.audit.records import MessageId, Naming, durable_of, identity_of, seconds
from resprout.audit.verdict import Anomaly
from resprout.trace import kinds
from resprout.trace.schema import Row

MQTT_RULES: Final = ("mqtt_twice", "mqtt_session")
NO_MQTT: Final = "the trace holds no MQTT client"
QOS_2: Final = "2"
NEW: Final = "new"
"""What the broker says of a session that it has just made (`session` in the attributes)."""


def mqtt_clients(rows: Iterable[Row]) -> frozenset[str]:
    """Return the clients that speak MQTT. Their last receipt is `safe`."""
    return frozenset([row.node for row in rows if row.kind == kinds.MQTT_CONNECTED])


def check_mqtt(rows: Sequence[Row], naming: Naming) -> Iterator[Anomaly]:
    handed: dict[tuple[str, MessageId], int] = {}
    connected: set[str] = set()
    for number, row in enumerate(rows):
        about = row.attributes or {}
        if row.kind == kinds.HANDED and about.get("qos") == QOS_2:
            id = identity_of(number, row)
            first_us = handed.get((durable_of(number, row), id))
            if first_us is None:
                handed[durable_of(number, row), id] = row.time_us
                continue
            name = naming.message(id)
            text = f"{row.node} was handed {name} with QoS 2 at {seconds(row.time_us)}, and at {seconds(first_us)}"
            yield Anomaly("mqtt_twice", row.time_us, row.node, (name,), text)
        elif row.kind in (kinds.CRASH, kinds.LEAVE):
            connected.discard(row.node)
        elif row.kind == kinds.MQTT_CONNECTED:
            if row.node in connected and about.get("session") == NEW:
                text = f"{row.node} came back at {seconds(row.time_us)}, and its MQTT session was gone"
                yield Anomaly("mqtt_session", row.time_us, row.node, (), text)
            connected.add(row.node)
