"""Hostile MQTT clients at real brokers, in one process: `python -m tests.fuzz --mqtt N`.

They speak TCP and WebSocket, come and go, take over each other's sessions and leave wills. The oracle:

- honest MQTT and native clients at both brokers get each message once and in order
- no exception is raised in the event loop
- the hostile sessions end, and the process does not grow beyond a bound
"""

import asyncio
import contextlib
import random
import resource
import tempfile
from pathlib import Path
from typing import Any, Final

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.inbox import Inbox
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V3_1, V3_1_1, V5
from resprout.net.door import Door
from resprout.net.identity.proofs import new_network_key
from resprout.net.identity.scram import verifier_of_token
from tests.fuzz.mqtt_packets import HostilePackets
from tests.mqtt.peer import MqttPeer, mqtt_peer
from tests.mqtt.stage import MqttBroker, mqtt_tree
from tests.net.stage import LOOPBACK, until
from tests.patience import PATIENCE_S

TOKEN: Final = "0123456789abcdef"
RULES: Final = f"""
[[identity]]
name = "evil"
secrets = ["{verifier_of_token("evil" + TOKEN)}"]
publish = ["evil/#"]
subscribe = ["evil/#", "honest/#", "$SYS/#"]

[[identity]]
name = "honest"
secrets = ["{verifier_of_token("honest" + TOKEN)}"]
publish = ["honest/#"]
subscribe = ["honest/#"]
"""
SETTINGS: Final = {"listen": LOOPBACK, "ws": LOOPBACK, "session_expiry_max": 2}
UPGRADE: Final = (
    b"GET / HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "
    b"dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
PACKETS_PER_CHECK: Final = 300
AT_ONCE: Final = 3
"""Hostile connections at a time."""
GROWTH_KIB_MAX: Final = 400 << 10


def fuzz_mqtt(count: int, seed: int) -> tuple[int, str]:
    """Return how many packets were said, and what is wrong; empty when nothing is."""
    return asyncio.run(_fuzz(count, seed))


async def _fuzz(count: int, seed: int) -> tuple[int, str]:
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(_told(context)))
    rng = random.Random(seed)
    hostile = HostilePackets(rng, "evil", b"evil" + TOKEN.encode())
    with tempfile.TemporaryDirectory(prefix="resprout-fuzz-") as folder:
        rules = Path(folder) / "rules.toml"
        rules.write_text(RULES)
        door = Door(rules=rules, network_key=new_network_key())
        async with contextlib.AsyncExitStack() as stack:
            brokers = await stack.enter_async_context(mqtt_tree(2, door=door, settings=SETTINGS))
            witness = await Witness.begin(stack, brokers)
            begin_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            said = 0
            trouble = await witness.check()
            while said < count and not trouble:
                some = [_converse(rng.choice(brokers), hostile, rng) for _ in range(AT_ONCE)]
                said += sum(await asyncio.gather(*some))
                if not faults and said // PACKETS_PER_CHECK > witness.count:
                    trouble = await witness.check()
                trouble = "".join(faults[:1]) or trouble
            return said, "".join(faults[:1]) or trouble or await _rest(brokers, begin_kib)


async def _rest(brokers: list[MqttBroker], begin_kib: int) -> str:
    def are_gone() -> bool:
        return not any(name.startswith("evil") for broker in brokers for name in broker.server.sessions)

    try:
        await until(are_gone)
    except (AssertionError, TimeoutError):
        return f"sessions are left: {[list(broker.server.sessions) for broker in brokers]}"
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin_kib
    return f"the process has grown by {grown_kib >> 10} MiB" if grown_kib > GROWTH_KIB_MAX else ""


def _told(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return f"{context['message']}: {error!r}"


class Witness:
    """Honest clients of both protocols at two brokers."""

    def __init__(self, publisher: MqttPeer, subscribers: list[MqttPeer], native: Client, inbox: Inbox) -> None:
        self._publisher = publisher
        self._subscribers = subscribers
        self._native = native
        self._inbox = inbox
        self.count = 0

    @staticmethod
    async def begin(stack: contextlib.AsyncExitStack, brokers: list[MqttBroker]) -> "Witness":
        login: dict[str, Any] = {"username": "honest", "password": b"honest" + TOKEN.encode()}
        peers = []
        for number, broker in enumerate((brokers[0], *brokers)):
            peer = await stack.enter_async_context(mqtt_peer(broker.address))
            assert not (await peer.connect(f"honest.{number}", **login)).reason
            peers.append(peer)
        for peer in peers[1:]:
            assert (await peer.subscribe("honest/#", qos=2)).reasons == (2,)
        credentials = f"honest:honest{TOKEN}"
        place = connect(brokers[1].native, name="honest.native", timeout=PATIENCE_S, login=credentials)
        native = await stack.enter_async_context(place)
        return Witness(peers[0], peers[1:], native, await native.subscribe("honest/#"))

    async def check(self) -> str:
        """What is wrong; empty when everything came once and in order."""
        self.count += 1
        sent = [b"%d with QoS %d" % (self.count, qos) for qos in (1, 2)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                for qos, payload in enumerate(sent, 1):
                    await self._publisher.publish("honest/news", payload, qos)
                got = [[(await peer.receive()).payload for _ in sent] for peer in self._subscribers]
                got.append([(await self._inbox.next()).payload for _ in sent])
        except TimeoutError:
            return f"{sent} is not delivered"
        except (EOFError, ConnectionError):
            return "an honest client was disconnected"
        return "" if got == [sent] * len(got) else f"{sent} was published, {got} came"


async def _converse(broker: MqttBroker, hostile: HostilePackets, rng: random.Random) -> int:
    """One connection, until it is closed or has said enough. Return how many packets were said."""
    kind = rng.choice(("listen", "listen", "ws"))
    place = broker.server.addresses[kind]
    reader, writer = await asyncio.open_connection(place.host, place.port)
    version = rng.choice((V3_1, V3_1_1, V5, V5))
    heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    drain = asyncio.create_task(_read(reader, kind, heard))
    said = 0
    try:
        if kind == "ws":
            writer.write(UPGRADE)
        first = encode(hostile.connect(version), version) if rng.random() < 0.97 else hostile.packet(version)
        _send(writer, first, kind, rng)
        if rng.random() < 0.9:  # most of the rest finds an open session
            await asyncio.wait((heard,), timeout=2)
        for _ in range(rng.randint(1, 60)):
            _send(writer, hostile.packet(version), kind, rng)
            said += 1
            if rng.random() < 0.3:
                await asyncio.sleep(0.001)  # the broker reads, and closes the connection if it has to
            if drain.done():
                break
        await asyncio.wait((drain,), timeout=rng.choice((0.0, 0.01, 0.05)))
    except ConnectionError:
        pass
    finally:
        if rng.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()
        drain.cancel()
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await writer.wait_closed()
    return said + 1


def _send(writer: asyncio.StreamWriter, data: bytes, kind: str, rng: random.Random) -> None:
    """Write a packet, as one or several frames of a WebSocket, or as bytes of a stream."""
    if kind != "ws":
        writer.write(data)
        return
    at = 0
    while at < len(data) or at == 0:
        piece = data[at : at + rng.choice((1, 7, 125, 60_000))]
        at += max(1, len(piece))
        size = bytes((0x80 | len(piece),)) if len(piece) < 126 else b"\xfe" + len(piece).to_bytes(2, "big")
        opcode = 0x82 if rng.random() < 0.999 else rng.randrange(256)
        writer.write(bytes((opcode,)) + size + b"\0\0\0\0" + piece)


async def _read(reader: asyncio.StreamReader, kind: str, heard: asyncio.Future[None]) -> None:
    """Read everything. `heard` is done once the broker has answered CONNECT, or closed the connection."""
    with contextlib.suppress(ConnectionError, EOFError):
        if kind == "ws":
            await reader.readuntil(b"\r\n\r\n")
        while await reader.read(1 << 16):
            if not heard.done():
                heard.set_result(None)
    if not heard.done():
        heard.set_result(None)
