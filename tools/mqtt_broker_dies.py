"""Kill the broker of MQTT sessions in mid-flight and count lost and duplicated messages, with paho-mqtt clients.

    python -m tools.mqtt_broker_dies [--rounds 20] [--qos 1 2] [--messages 400] [--rate 250]

Each round starts three brokers as processes. Publisher and subscriber, both with sessions that do not end, connect to
the same broker. Its process gets SIGKILL while messages are in flight. Both clients reconnect to another broker and
resume their sessions. The publisher sends all messages; then every message must have arrived, with QoS 2 exactly once.
"""

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from typing import Any, Final

import msgspec
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from resprout.net.tree import LocalTree
from resprout.scenario.load import parse_scenario
from tools.mqtt_conformance import free_ports

TREE: Final = """
options = { heartbeat_us = 200_000, lease_us = 1_000_000 }
topology = { kind = "tree", brokers = 3, degree = 2, latency = "1ms", clients_per_broker = 0 }
"""
DIES: Final = "b2"
TOPIC: Final = "rounds/numbers"
SECONDS_MAX: Final = 90.0
"""Timeout for each step of a round."""
QUIET_SECONDS: Final = 1.5
"""Time without a message after which no more duplicates are expected."""


class Round(msgspec.Struct, frozen=True):
    qos: int
    lost: int
    duplicated: int
    resumed: int
    """Number of clients that resumed their session at the other broker."""
    seconds: float
    """Time from the kill to the last new message."""

    @property
    def is_good(self) -> bool:
        return not self.lost and self.resumed == 2 and (self.qos == 1 or not self.duplicated)


class Client:
    """paho client with a session. It connects to the first port until `move` and to the second one after it."""

    def __init__(self, name: str, ports: tuple[int, int]) -> None:
        self._ports = ports
        self._has_moved = False
        self.ready = threading.Event()
        """Set when the client is connected, and subscribed if it subscribes."""
        self.resumed = threading.Event()
        self.subscription: tuple[str, int] | None = None
        self.numbers: Counter[int] = Counter()
        self.acknowledged = 0
        self.last_new = 0.0
        self.last = 0.0
        self.paho = client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        client.max_inflight_messages_set(50)
        client.reconnect_delay_set(1, 1)
        client.on_connect = self._connected
        client.on_disconnect = client.on_connect_fail = self._away
        client.on_subscribe = lambda *_: self.ready.set()
        client.on_message = self._message
        client.on_publish = self._published

    def start(self) -> None:
        self._aim()
        self.paho.loop_start()

    def move(self) -> None:
        """Connect to the other broker from now on."""
        self._has_moved = True

    def stop(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def _aim(self) -> None:
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = 3_600
        port = self._ports[self._has_moved]
        self.paho.connect_async("127.0.0.1", port, keepalive=20, clean_start=False, properties=session)

    def _away(self, *_: Any) -> None:
        self._aim()

    def _connected(self, client: paho.Client, data: object, flags: Any, reason: Any, properties: object) -> None:
        if reason.is_failure:
            return
        if flags.session_present:
            self.resumed.set()
        elif self.subscription is not None:
            topic, qos = self.subscription
            client.subscribe(topic, qos)
            return
        self.ready.set()

    def _published(self, *_: Any) -> None:
        self.acknowledged += 1

    def _message(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        number = int(message.payload)
        self.last = time.monotonic()
        if not self.numbers[number]:
            self.last_new = self.last
        self.numbers[number] += 1


async def play(qos: int, messages: int = 400, rate: int = 250) -> Round:
    """Play one round. Raises TimeoutError if a step takes longer than `SECONDS_MAX`."""
    port = free_ports(3)
    async with LocalTree(parse_scenario(TREE), mqtt_port=port) as tree:
        ports = (port + 2, port)
        sub, pub = Client("subscriber", ports), Client("publisher", ports)
        sub.subscription = (TOPIC, qos)
        sub.start()
        await _until(sub.ready.is_set)
        pub.start()
        await _until(pub.ready.is_set)
        try:
            return await _count(tree, sub, pub, qos, messages, rate)
        finally:
            sub.stop()
            pub.stop()


async def _count(tree: LocalTree, sub: Client, pub: Client, qos: int, messages: int, rate: int) -> Round:
    killed = 0.0
    for number in range(messages):
        pub.paho.publish(TOPIC, str(number), qos)  # queued while the client is not connected
        if number == messages // 3:
            sub.move()
            pub.move()
            tree.process(DIES).kill()
            killed = time.monotonic()
        await asyncio.sleep(1 / rate)
    await _until(lambda: pub.acknowledged == messages)
    end = time.monotonic() + SECONDS_MAX / 3
    while len(sub.numbers) < messages and time.monotonic() < end:
        await asyncio.sleep(0.05)
    await _until(lambda: time.monotonic() - sub.last > QUIET_SECONDS)
    return Round(
        qos,
        lost=messages - len(sub.numbers),
        duplicated=sub.numbers.total() - len(sub.numbers),
        resumed=sub.resumed.is_set() + pub.resumed.is_set(),
        seconds=max(0.0, sub.last_new - killed),
    )


async def _until(condition: Any) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--qos", type=int, nargs="+", choices=(1, 2), default=[1, 2])
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--rate", type=int, default=250, help="messages per second")
    wanted = parser.parse_args()
    bad = 0
    print("round  QoS  lost  duplicated  resumed  seconds from the kill to the last new message")
    for number in range(wanted.rounds):
        for qos in wanted.qos:
            one = asyncio.run(play(qos, wanted.messages, wanted.rate))
            row = f"{number + 1:5}  {qos:3}  {one.lost:4}  {one.duplicated:10}  {one.resumed:7}  {one.seconds:.1f}"
            print(row + ("" if one.is_good else "  WRONG"), flush=True)
            bad += not one.is_good
    print(f"{wanted.rounds * len(wanted.qos)} rounds, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
