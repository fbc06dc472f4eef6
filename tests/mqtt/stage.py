"""Real brokers with MQTT in the event loop of a test."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.mqtt.server import MqttServer
from resprout.net.mqtt.settings import MqttSettings
from tests.net.stage import LOOPBACK, Running, broker


class MqttBroker:
    """Broker with an MQTT server."""

    def __init__(self, running: Running, server: MqttServer) -> None:
        self.running = running
        self.server = server

    @property
    def address(self) -> Address:
        """Address for MQTT clients."""
        return self.server.addresses["listen"]

    @property
    def native(self) -> str:
        """Address for native clients."""
        return str(self.running.address)

    @property
    def parent(self) -> tuple[str, Address]:
        """Name and address for its child brokers."""
        return self.running.broker.name, self.running.address


@contextlib.asynccontextmanager
async def mqtt_broker(
    name: str = "b0", door: Door | None = None, settings: dict[str, Any] | None = None, **given: Any
) -> AsyncIterator[MqttBroker]:
    async with broker(name, door=door, **given) as running:
        server = MqttServer(
            MqttSettings(**{"listen": LOOPBACK, **(settings or {})}), running.broker.door, running.notes.append
        )
        await server.take_places()
        server.begin(running.broker)
        try:
            await server.serving.wait()
            yield MqttBroker(running, server)
        finally:
            await server.close()


@contextlib.asynccontextmanager
async def mqtt_tree(count: int = 2, **given: Any) -> AsyncIterator[list[MqttBroker]]:
    """Start brokers in a chain, each the parent of the next."""
    async with contextlib.AsyncExitStack() as stack:
        brokers: list[MqttBroker] = []
        for number in range(count):
            parent = brokers[-1].parent if brokers else None
            brokers.append(await stack.enter_async_context(mqtt_broker(f"b{number}", parent=parent, **given)))
        yield brokers
