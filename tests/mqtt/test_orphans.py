"""Wills and expiry of sessions whose broker died together with its client."""

import asyncio
import contextlib

import pytest
from tools.mqtt_conformance import free_ports

from resprout.mqtt.packets import Properties, Will
from resprout.mqtt_sessions import orphans
from resprout.mqtt_sessions.wills import packed_will, unpacked_will
from resprout.net.address import Address
from resprout.net.tree import LocalTree
from resprout.scenario.load import parse_scenario
from tests.mqtt.peer import mqtt_peer
from tests.net.stage import run

TREE = """
options = { heartbeat_us = 200_000, lease_us = 1_000_000, ghost_us = 2_000_000 }
topology = { kind = "tree", brokers = 3, degree = 2, latency = "1ms", clients_per_broker = 0 }
"""
WILL = Will("wills/x", b"gone", 1, True, Properties(content_type="text/plain", will_delay=1))


def test_a_will_survives_its_encoding() -> None:
    plain = Will("w", b"", 0, False, Properties(user=(("a", "b"),), message_expiry=5))
    assert unpacked_will(packed_will(plain)) == plain
    without_delay = Will(WILL.topic, WILL.payload, 1, True, Properties(content_type="text/plain"))
    assert unpacked_will(packed_will(WILL)) == without_delay
    for damaged in (b"", b"\x30", b"\xc0\x00", b"\xff" * 9, packed_will(WILL)[:-1]):
        assert unpacked_will(damaged) is None


@pytest.mark.parametrize("expiry", [0, 600])
def test_the_will_of_a_client_that_dies_with_its_broker_is_published_once(expiry: int) -> None:
    async def work() -> None:
        port = free_ports(3)
        async with (
            LocalTree(parse_scenario(TREE), mqtt_port=port) as tree,
            mqtt_peer(Address("127.0.0.1", port)) as watcher,
            mqtt_peer(Address("127.0.0.1", port + 2)) as gone,
            mqtt_peer(Address("127.0.0.1", port + 2)) as polite,
        ):
            await watcher.connect("watcher")
            await watcher.subscribe("wills/#")
            await gone.connect("gone", will=WILL, properties=Properties(session_expiry=expiry))
            await polite.connect("polite", will=Will("wills/polite", b"x"))
            polite.leave()
            await gone.publish("wills/alive", b"x", 2)  # the note is ordered before it
            assert (await watcher.receive()).payload == b"x"
            tree.process("b2").kill()
            message = await watcher.receive()
            assert (message.topic, message.payload, message.properties.content_type) == (
                "wills/x", b"gone", "text/plain",
            )  # fmt: skip
            await asyncio.sleep(orphans.CHECK_SECONDS * 2)  # a second copy would come with a later check
            await watcher.publish("wills/end", b"end")
            assert (await watcher.receive()).payload == b"end"

    run(work())


def test_a_client_that_returns_at_another_broker_takes_its_will_back() -> None:
    async def work() -> None:
        port = free_ports(3)
        async with contextlib.AsyncExitStack() as stack:
            tree = await stack.enter_async_context(LocalTree(parse_scenario(TREE), mqtt_port=port))
            watcher = await stack.enter_async_context(mqtt_peer(Address("127.0.0.1", port)))
            await watcher.connect("watcher")
            await watcher.subscribe("wills/#")
            one = await stack.enter_async_context(mqtt_peer(Address("127.0.0.1", port + 2)))
            await one.connect("one", will=WILL)
            await one.publish("wills/alive", b"x", 1)
            tree.process("b2").kill()
            await one.ended()
            while True:
                again = await stack.enter_async_context(mqtt_peer(Address("127.0.0.1", port + 1)))
                with contextlib.suppress(OSError, EOFError):
                    if not (await again.connect("one")).reason:
                        break
                await asyncio.sleep(0.1)
            assert (await watcher.receive()).topic == "wills/alive"
            await asyncio.sleep(orphans.CHECK_SECONDS * 2 + orphans.GONE_SECONDS + 2)
            await watcher.publish("wills/end", b"end")
            assert (await watcher.receive()).topic == "wills/end"

    run(work())


def test_a_session_whose_broker_died_expires_and_its_durable_subscriptions_end() -> None:
    async def work() -> None:
        port = free_ports(3)
        values = Properties(session_expiry=1)
        async with (
            LocalTree(parse_scenario(TREE), mqtt_port=port) as tree,
            mqtt_peer(Address("127.0.0.1", port)) as watcher,
            mqtt_peer(Address("127.0.0.1", port + 2)) as gone,
        ):
            await watcher.connect("watcher")
            await gone.connect("gone", properties=values)
            await gone.subscribe("t", qos=1)
            assert await watcher.publish("t", b"x", 1) == 0
            tree.process("b2").kill()
            while await watcher.publish("t", b"x", 1) == 0:  # until no subscription matches any more
                await asyncio.sleep(0.2)
            async with mqtt_peer(Address("127.0.0.1", port)) as again:
                answer = await again.connect("gone", clean_start=False, properties=values)
                assert not answer.session_present

    run(work())
