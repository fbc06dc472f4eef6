"""Sessions after all brokers have stopped, with `durable = "journal"`."""

import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.mqtt_conformance import free_port

from resprout.mqtt.packets import (
    V3_1_1,
    V5,
    Disconnect,
    Properties,
    Publish,
    Unsuback,
    Unsubscribe,
)
from resprout.mqtt.reasons import Reason
from resprout.net.address import Address, parse_address
from tests.cli.processes import broker as process_of_broker
from tests.cli.processes import until_note
from tests.mqtt.peer import MqttPeer, mqtt_peer
from tests.mqtt.stage import MqttBroker, mqtt_broker
from tests.net.stage import run

LASTING = Properties(session_expiry=600)


@contextlib.asynccontextmanager
async def tree(folder: Path, life: int, **settings: Any) -> AsyncIterator[tuple[MqttBroker, MqttBroker]]:
    """Two brokers with journals, in their next life."""
    options = {"durable": "journal", "lease_us": 1_000_000, "heartbeat_us": 200_000}
    given: dict[str, Any] = {"options": options, "incarnation": life, "settings": settings}
    async with (
        mqtt_broker("b0", data=folder / "b0", **given) as first,
        mqtt_broker("b1", data=folder / "b1", parent=first.parent, **given) as second,
    ):
        yield first, second


async def back(peer: MqttPeer, name: str, clean: bool = False) -> bool:
    values = LASTING if peer.version == V5 else Properties()
    return (await peer.connect(name, clean_start=clean, properties=values)).session_present


@pytest.mark.parametrize("version", [V3_1_1, V5])
def test_sessions_and_their_messages_survive_the_stop_of_all_brokers(tmp_path: Path, version: int) -> None:
    async def work() -> None:
        async with (
            tree(tmp_path, 1) as (first, second),
            mqtt_peer(second.address, version) as one,
            mqtt_peer(first.address, version) as source,
        ):
            assert not await back(one, "one")
            await one.subscribe("a/+", "b")
            one.say(Unsubscribe(90, ("b",)))
            await one.hear_a(Unsuback)
            await source.connect("source")
            await source.publish("a/1", b"taken", 1)
            assert (await one.receive()).payload == b"taken"
            await source.publish("a/2", b"sent", 1)
            await one.hear_a(Publish)
            one.vanish()
            await source.publish("a/3", b"waiting", 2)
        async with (
            tree(tmp_path, 2) as (first, second),
            mqtt_peer(first.address, version) as one,
            mqtt_peer(second.address, version) as source,
        ):
            assert await back(one, "one")
            got = [(await one.receive()).payload]
            while got[-1] != b"waiting":
                got.append((await one.receive()).payload)
            assert got[-2:] == [b"sent", b"waiting"]
            assert got[:-2] in ([], [b"taken"]), "the last acknowledgements may not have been on disk"
            await source.connect("source")
            await source.publish("b", b"unsubscribed", 1)
            await source.publish("a/4", b"new", 2)
            message = await one.receive()
            assert (message.payload, message.qos) == (b"new", 2)

    run(work())


def test_sessions_that_ended_stay_ended(tmp_path: Path) -> None:
    async def work() -> None:
        async with tree(tmp_path, 1) as (first, second):
            async with mqtt_peer(first.address) as one, mqtt_peer(second.address) as other:
                await back(one, "one")
                await one.subscribe("a")
                one.say(Disconnect(0, Properties(session_expiry=0)))
                await one.ended()
                await back(other, "other")
                await other.subscribe("a")
                await other.publish("b", b"", 1)
            async with mqtt_peer(first.address) as other:
                assert not await back(other, "other", clean=True)
        async with (
            tree(tmp_path, 2) as (first, second),
            mqtt_peer(second.address) as one,
            mqtt_peer(first.address) as other,
        ):
            assert not await back(one, "one")
            assert await back(other, "other"), "the session of its last connection, which has no subscriptions"
            assert await one.publish("a", b"x", 1) == Reason.NO_MATCHING_SUBSCRIBERS

    run(work())


def test_a_session_survives_sigkill_of_all_brokers(tmp_path: Path) -> None:
    quick = ("--set", "heartbeat_us=200000", "--set", "lease_us=1000000", "--set", "ghost_us=3000000")
    words = ("--set", "durable=journal", *quick, "--mqtt", "127.0.0.1:0")
    ports = [free_port(), free_port()]  # brokers that restart look for each other where they were

    @contextlib.contextmanager
    def processes() -> Iterator[list[Address]]:
        """Two brokers, each as a process that ends with SIGKILL. Give their MQTT addresses."""
        with (
            process_of_broker("b0", "--data", str(tmp_path / "b0"), *words, listen=f"127.0.0.1:{ports[0]}") as (
                first,
                address,
            ),
            process_of_broker(
                "b1", "--data", str(tmp_path / "b1"), "--join", address, *words, listen=f"127.0.0.1:{ports[1]}"
            ) as (second, _),
        ):
            yield [parse_address(until_note(each, "mqtt").removeprefix("mqtt://")) for each in (first, second)]
            for each in (first, second):
                each.end(signal.SIGKILL)

    async def before(address: Address, other: Address) -> None:
        async with mqtt_peer(address) as one, mqtt_peer(other) as source:
            assert not await back(one, "one")
            await one.subscribe("$share/g/s", "a/+")
            await source.connect("source")
            one.vanish()
            await source.publish("a/1", b"1", 2)
            await source.publish("s", b"shared", 1)

    async def after(address: Address) -> None:
        async with mqtt_peer(address) as one:
            assert await back(one, "one")
            assert {(await one.receive()).payload for _ in range(2)} == {b"1", b"shared"}

    with processes() as (first, second):
        run(before(second, first))
    with processes() as (first, second):
        run(after(first))
