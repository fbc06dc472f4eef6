"""Brokers as processes, one of which is killed: sessions resume at another broker, with their messages in flight."""

import asyncio
import contextlib

from tools.mqtt_conformance import free_ports

from resprout.mqtt.packets import Properties, Puback, Pubcomp, Publish, Pubrec, Pubrel
from resprout.net.address import Address
from resprout.net.tree import LocalTree
from resprout.scenario.load import parse_scenario
from tests.mqtt.peer import MqttPeer, mqtt_peer
from tests.net.stage import run

TREE = """
options = { heartbeat_us = 200_000, lease_us = 1_000_000 }
topology = { kind = "tree", brokers = 3, degree = 2, latency = "1ms", clients_per_broker = 0 }
"""
SURVIVES = Properties(session_expiry=600)
COUNT = 60


async def served(stack: contextlib.AsyncExitStack, address: Address, name: str, clean_start: bool) -> MqttPeer:
    """Connect to the broker, retrying while it refuses because a repair is running."""
    while True:
        try:
            one = await stack.enter_async_context(mqtt_peer(address))
            answer = await one.connect(name, clean_start=clean_start, properties=SURVIVES)
        except (OSError, EOFError):
            await asyncio.sleep(0.05)
            continue
        if not answer.reason:
            assert answer.session_present is not clean_start
            return one
        await asyncio.sleep(0.05)


def test_a_killed_broker_loses_nothing_of_its_sessions_and_doubles_nothing_of_qos_2() -> None:
    async def work() -> None:
        port = free_ports(3)
        async with LocalTree(parse_scenario(TREE), mqtt_port=port) as tree, contextlib.AsyncExitStack() as stack:
            root, dies = (Address("127.0.0.1", port + number) for number in (0, 2))
            sub, pub = await served(stack, dies, "sub", True), await served(stack, dies, "pub", True)
            await sub.subscribe("t", qos=2)
            numbers = list(range(1, COUNT + 1))
            pub.say(*[Publish("t", b"%d" % number, 2, number) for number in numbers])
            for _ in range(5):
                await pub.hear_a(Pubrec)
            taken = [(await sub.hear_a(Publish)) for _ in range(4)]
            sub.say(Pubrec(taken[0].packet_id), Pubrec(taken[1].packet_id))
            await sub.hear_a(Pubrel)
            tree.process("b2").kill()
            await asyncio.gather(sub.ended(), pub.ended())

            pub = await served(stack, root, "pub", False)
            pub.say(*[Publish("t", b"%d" % number, 2, number, dup=True) for number in numbers])
            for number in numbers:
                await pub.hear_a(Pubrec, lambda ack, number=number: ack.packet_id == number)  # type: ignore[misc]
                pub.say(Pubrel(number))
                await pub.hear_a(Pubcomp, lambda ack, number=number: ack.packet_id == number)  # type: ignore[misc]

            sub = await served(stack, root, "sub", False)
            kept = {message.packet_id: message.payload for message in taken}
            got = [taken[0].payload, taken[1].payload]
            done = {taken[0].packet_id, taken[1].packet_id}
            unreleased = {taken[2].packet_id, taken[3].packet_id}
            while len(got) < COUNT:
                packet = await sub.hear()
                if isinstance(packet, Publish):
                    # A client without PUBREL still knows the packet identifier, so it accepts the message once.
                    if packet.packet_id in unreleased:
                        assert packet.payload == kept[packet.packet_id]
                    assert packet.packet_id not in done or packet.payload != kept.get(packet.packet_id)
                    got.append(packet.payload)
                    sub.say(Pubrec(packet.packet_id))
                elif isinstance(packet, Pubrel):
                    done.discard(packet.packet_id)
                    sub.say(Pubcomp(packet.packet_id))
            assert sorted(map(int, got)) == numbers
            await pub.publish("t", b"0", 2)
            while not isinstance(packet := await sub.hear(), Publish):
                assert not isinstance(packet, Puback)
            assert packet.payload == b"0"

    run(work())
