"""Sessions of MQTT clients that have ended are freed at once: brokers collect garbage rarely."""

import asyncio
import gc

from resprout.mqtt.packets import Properties
from tests.mqtt.peer import mqtt_peer
from tests.mqtt.stage import MqttBroker, mqtt_broker
from tests.net.stage import run, until

CLIENTS = 20
KINDS = ("TreeSession", "ConnectionDriver", "MqttConnection", "EmbeddedClient", "EmbeddedConsumer", "ClientMachine",
         "ConsumerMachine", "Links", "InProcessHost", "Reception", "DurableSource")  # fmt: skip


def alive() -> int:
    return sum(type(each).__name__ in KINDS for each in gc.get_objects())


async def come_and_go(broker: MqttBroker, name: str, expiry: int) -> None:
    async with mqtt_peer(broker.address) as one:
        await one.connect(name, properties=Properties(session_expiry=expiry))
        await one.subscribe("a/#", "$share/g/b/#")
        await one.publish("a/b", b"x")
        await one.receive()
        async with mqtt_peer(broker.address) as again:
            await again.connect(name, clean_start=False, properties=Properties(session_expiry=expiry))
    async with mqtt_peer(broker.address) as last:
        await last.connect(name)
        last.leave()
    await until(lambda: name not in broker.server.sessions)


def test_sessions_that_have_ended_leave_nothing_for_the_garbage_collector() -> None:
    async def work() -> None:
        async with mqtt_broker(settings={"sys_seconds": 0}) as broker:
            await come_and_go(broker, "first", 0)
            gc.collect()
            gc.disable()
            try:
                before = alive()
                for number in range(CLIENTS):
                    await come_and_go(broker, f"c{number}", 60 * (number % 2))
                await until(lambda: alive() <= before + len(KINDS))
            finally:
                gc.enable()
            await asyncio.sleep(0)

    run(work())
