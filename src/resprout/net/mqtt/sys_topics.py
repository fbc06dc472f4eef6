"""Metrics of a broker as retained messages on `$SYS/brokers/NAME/...`."""

import time
from typing import TYPE_CHECKING, Final

from resprout import __version__
from resprout.core.limits import AttributeValue
from resprout.core.timing import EXPIRES
from resprout.mqtt.mapping import QOS, RETAIN
from resprout.net.event_loop import wall_us

if TYPE_CHECKING:
    from resprout.net.accounts import MqttAccount

PERIODS: Final = 3
"""Number of publication intervals after which the metrics of a stopped broker expire."""


def figures_of(broker: str, account: "MqttAccount", since_s: float) -> dict[str, str]:
    """Return the payloads by topic."""
    told = {
        "version": f"resprout {__version__}",
        "uptime": f"{time.monotonic() - since_s:.0f} seconds",
        "clients/connected": str(account.connections),
        "clients/total": str(account.sessions),
        "clients/refused": str(account.refused),
        "messages/received": str(account.packets_received),
        "messages/sent": str(account.packets_sent),
        "bytes/received": str(account.bytes_received),
        "bytes/sent": str(account.bytes_sent),
        "publish/messages/received": str(account.publications),
        "publish/messages/sent": str(account.deliveries),
        "retained messages/count": str(account.retained),
    }
    return {f"$SYS/brokers/{broker}/{name}": text for name, text in told.items()}


def attributes_for(period_s: int) -> dict[str, AttributeValue]:
    return {QOS: 0, RETAIN: True, EXPIRES: wall_us() + PERIODS * period_s * 1_000_000}
