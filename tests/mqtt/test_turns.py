"""A connection that sends much at once is decoded in turns with others, whatever its bytes are."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

import resprout
from resprout.mqtt.actions import SaveSession, SendPacket
from resprout.mqtt.decoder import Decoded
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V5, Connect, Disconnect, Packet, Pingreq, Pingresp, Will
from resprout.mqtt.session import ServerLimits, ServerSession
from resprout.mqtt_sessions.driver import HELD_MAX, ConnectionDriver
from resprout.mqtt_sessions.embedded import EmbeddedClient
from resprout.mqtt_sessions.ports import OpenerCredentials
from resprout.net.address import Address
from resprout.net.event_loop import HeavyLine, now_us, weight_of
from resprout.net.in_process import TURN_MESSAGES
from resprout.net.mqtt.connection import FRAMED_PIECE_BYTES, PIECE_BYTES, TURN_FRAMES, TURN_PACKETS, MqttConnection
from resprout.net.mqtt.layers import Layers, WebSocketLayer
from resprout.net.mqtt.server import MqttFigures
from resprout.net.mqtt.settings import MqttSettings
from tests.mqtt.stage import mqtt_broker
from tests.net.stage import LOOPBACK, run, until

MASK = b"\0\0\0\0"
EMPTY = b"\x82\x80" + MASK
PING = b"\x89\x80" + MASK
CLOSE = b"\x88\x82" + MASK + b"\x03\xe8"
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: b0\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "
    b"dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def framed(data: bytes) -> bytes:
    assert len(data) < 126, "longer ones take another header"
    return bytes((0x82, 0x80 | len(data))) + MASK + data


class Transport:
    """Transport that counts what is written, and whether the connection reads."""

    def __init__(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class Server:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.line = HeavyLine(self.loop)
        self.settings = MqttSettings()
        self.figures = MqttFigures()
        self.call_idly = self.loop.call_later
        self.now_us = now_us

    def entered(self, connection: MqttConnection) -> None: ...
    def refused(self, connection: MqttConnection, why: str, who: str = "") -> None: ...


class Stage:
    """A connection, and the packets that it handed on in each turn."""

    def __init__(self, kind: str, layers: Layers) -> None:
        self.server = cast(Any, Server())
        self.layers = layers
        self.connection = MqttConnection(self.server, kind, layers)
        self.connection.take = self.take
        self.transport = cast(Any, Transport())
        self.connection.connection_made(self.transport)
        self.turns: list[int] = []

    def take(self, items: Sequence[Decoded]) -> None:
        self.turns.append(len(items))


@pytest.mark.parametrize("frame", [EMPTY, PING])
def test_a_flood_of_empty_frames_is_decoded_a_few_at_a_time(frame: bytes) -> None:
    async def work() -> None:
        stage = Stage("ws", Layers((WebSocketLayer(),)))
        stage.connection.data_received(UPGRADE)
        before = stage.layers.frames
        stage.connection.data_received(frame * 40_000)
        turns, most = 0, TURN_FRAMES + FRAMED_PIECE_BYTES // len(frame)
        while (now := stage.layers.frames) > before:
            assert now - before <= most
            assert stage.transport.is_reading is (now == 40_001)
            before, turns = now, turns + 1
            await asyncio.sleep(0)  # one turn of the event loop
        assert before == 40_001
        assert turns >= 40_000 // most

    run(work())


def test_a_flood_of_small_packets_is_decoded_a_piece_at_a_time() -> None:
    async def work() -> None:
        stage = Stage("listen", Layers(()))
        stage.connection.data_received(encode(Connect("c"), V5) + encode(Pingreq(), V5) * 60_000)
        assert stage.server.figures.packets_received <= PIECE_BYTES // 2
        while sum(stage.turns) < 60_001:
            await asyncio.sleep(0)
        assert max(stage.turns) == TURN_PACKETS
        assert stage.transport.is_reading

    run(work())


def test_packets_before_the_close_frame_of_a_websocket_count() -> None:
    """A browser sends DISCONNECT and the close frame together: the will must not be published."""

    async def work() -> None:
        async with mqtt_broker(settings={"listen": None, "ws": LOOPBACK}) as broker:
            place: Address = broker.server.addresses["ws"]
            async with resprout.connect(broker.native, name="watcher") as watcher:
                inbox = await watcher.subscribe("last/#")
                for leaves in (True, False):
                    reader, writer = await asyncio.open_connection(place.host, place.port)
                    writer.write(UPGRADE)
                    await reader.readuntil(b"\r\n\r\n")
                    will = Will("last/words", b"left" if leaves else b"vanished")
                    writer.write(framed(encode(Connect("browser", V5, will=will), V5)))
                    await reader.read(1_024)
                    writer.write((framed(encode(Disconnect(), V5)) if leaves else b"") + CLOSE)
                    while await reader.read(1_024):
                        pass
                    writer.close()
                assert (await inbox.next()).payload == b"vanished"

    run(work())


def test_a_client_inside_the_broker_takes_turns_with_others() -> None:
    """A read of an MQTT client becomes hundreds of frames in the process: other clients have turns in between."""

    async def work() -> None:
        async with mqtt_broker(settings={"sys_seconds": 0}) as broker:
            host = broker.running.broker.host
            near = EmbeddedClient(broker.server, "in-process", OpenerCredentials("127.0.0.1"), lambda news: None)
            near.start()
            await until(lambda: "in-process" in broker.running.sessions)
            taken: list[int] = []
            arrived = host.arrived

            def counted(number: int, frames: Sequence[Any]) -> None:
                taken.append(weight_of(frames))
                arrived(number, frames)

            host.arrived = counted  # type: ignore[method-assign]
            for number in range(1_000):
                near.subscribe(f"a/{number}")
            await until(lambda: sum(taken) >= 1_000)
            assert max(taken) <= TURN_MESSAGES
            await near.close()

    run(work())


class NoteOnItsWay:
    """A session that survives its broker. Its last note is not safe yet."""

    is_persistent, is_crowded, has_new_will, next_note = True, False, False, 1

    def save(self) -> None: ...
    def settle(self) -> None: ...


class UnsavedConnection:
    """Notes what is sent, and whether the server reads."""

    def __init__(self) -> None:
        self.sent: list[Packet] = []
        self.is_open, self.is_reading = True, True

    def send(self, packet: Packet) -> None:
        self.sent.append(packet)

    def flush(self) -> None: ...
    def hold(self) -> None:
        self.is_reading = False

    def release(self) -> None:
        self.is_reading = True


def test_packets_that_wait_for_a_note_are_bounded_and_leave_in_one_go() -> None:
    """While a repair delayed the note, a client that sent PINGREQ had 64,000 answers wait for each second. Each of them
    moved all others when it left: 200,000 took 16 s."""

    async def work() -> bool:
        connection = UnsavedConnection()
        machine = ServerSession(ServerLimits(), 0)
        driver = ConnectionDriver(cast(Any, Server()), cast(Any, connection), machine)
        driver.session = cast(Any, NoteOnItsWay())
        driver.run([SaveSession()])
        answers = [SendPacket(Pingresp())] * 500
        runs = 0
        while connection.is_reading:
            driver.run(answers)
            driver.receive([])
            runs += 1
        assert runs == HELD_MAX // 500 + 1
        assert not connection.sent
        driver.saved(1)
        assert len(connection.sent) == 500 * runs
        driver.stop_timer()
        return connection.is_reading

    assert run(work())
