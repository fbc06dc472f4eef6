"""Authentication and authorisation of MQTT clients, TLS, WebSocket, connection limits, hostile connections."""

import asyncio
import random
import socket
from pathlib import Path

import pytest

from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V3_1_1, V5, Connack, Connect, Disconnect, Pingreq, Pingresp, Properties, Publish, Will
from resprout.mqtt.reasons import Reason, ReturnCode
from resprout.net.accounts import MqttAccount
from resprout.net.door import Door
from resprout.net.identity.proofs import new_network_key
from resprout.net.identity.scram import verifier_of_token
from tests.mqtt.peer import MqttPeer, mqtt_peer
from tests.mqtt.stage import mqtt_broker, mqtt_tree
from tests.net.papers import Papers
from tests.net.stage import LOOPBACK, run, until

TOKEN = "0123456789abcdef"

RULES = f"""
[[identity]]
name = "teller"
secrets = ["{verifier_of_token(TOKEN)}"]
publish = ["bank/#"]
subscribe = ["bank/+"]

[anybody]
subscribe = ["news/#"]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return file


def guarded(rules: Path) -> Door:
    return Door(rules=rules, network_key=new_network_key())


def test_a_user_name_and_a_password_are_an_identity_and_its_secret(rules: Path) -> None:
    async def work() -> None:
        async with mqtt_broker(door=guarded(rules)) as broker:
            login = {"username": "teller", "password": TOKEN.encode()}
            for fields, name, reason in (
                ({"username": "teller", "password": b"another"}, "teller", Reason.BAD_USER_NAME_OR_PASSWORD),
                ({"username": "nobody", "password": b"another"}, "nobody", Reason.BAD_USER_NAME_OR_PASSWORD),
                ({"username": "teller"}, "teller", Reason.BAD_USER_NAME_OR_PASSWORD),
                ({"username": "teller", "password": b"\xff\xfe"}, "teller", Reason.BAD_USER_NAME_OR_PASSWORD),
                (login, "boss", Reason.CLIENT_IDENTIFIER_NOT_VALID),
                ({}, "teller.1", Reason.CLIENT_IDENTIFIER_NOT_VALID),
                (login, "teller.1", Reason.SUCCESS),
                (login, "", Reason.SUCCESS),
            ):
                async with mqtt_peer(broker.address) as one:
                    assert (await one.connect(name, **fields)).reason == reason, (fields, name)
            async with mqtt_peer(broker.address, V3_1_1) as one:
                answer = await one.connect("teller", username="teller", password=b"another")
                assert answer.reason == ReturnCode.BAD_USER_NAME_OR_PASSWORD

    run(work())


def test_rules_say_what_an_mqtt_client_may_publish_and_hear(rules: Path) -> None:
    async def work() -> None:
        async with mqtt_broker(door=guarded(rules)) as broker, mqtt_peer(broker.address) as one:
            await one.connect("teller", username="teller", password=TOKEN.encode(), will=Will("news/x", b"forbidden"))
            assert (await one.subscribe("bank/+", "bank/#", "$share/g/news/x")).reasons == (2, 0x80, 0x80)
            assert await one.publish("bank/a", b"1", 1, retain=True) == 0
            assert (await one.receive()).payload == b"1"
            assert await one.publish("news/a", b"2", 1) == Reason.NOT_AUTHORIZED
            assert await one.publish("news/a", b"2", 2) == Reason.NOT_AUTHORIZED
            async with mqtt_peer(broker.address) as other:
                await other.connect("reader")
                assert (await other.subscribe("news/#")).reasons == (2,)
                one.vanish()
                other.say(Publish("news/a", b"nobody hears it"))
                heard = await other.ended()
                assert [packet.reason for packet in heard if isinstance(packet, Disconnect)] == [Reason.NOT_AUTHORIZED]
                assert not [packet for packet in heard if isinstance(packet, Publish)]

    run(work())


def test_a_certificate_proves_who_an_mqtt_client_is(tmp_path: Path) -> None:
    async def work() -> None:
        papers = Papers(tmp_path / "certificates")
        settings = {"listen": None, "tls": LOOPBACK}
        async with mqtt_broker(door=papers.door("b0", clients_certified=True), settings=settings) as broker:
            place = broker.server.addresses["tls"]
            for certificate, name, reason in (
                ("teller", "teller", Reason.SUCCESS),
                ("teller", "teller.1", Reason.SUCCESS),
                ("teller", "another", Reason.NOT_AUTHORIZED),
                (None, "teller", Reason.NOT_AUTHORIZED),
            ):
                context = papers.context(certificate)
                reader, writer = await asyncio.open_connection(place.host, place.port, ssl=context)
                one = MqttPeer(reader, writer, V5)
                assert (await one.connect(name)).reason == reason, (certificate, name)
                if not reason:
                    await one.subscribe("a")
                    await one.publish("a", b"x" * 100_000, 2)
                    assert len((await one.receive()).payload) == 100_000
                writer.transport.abort()

    run(work())


def test_a_web_socket_carries_mqtt_in_any_pieces() -> None:
    wsproto = pytest.importorskip("wsproto")

    async def work() -> None:
        settings = {"listen": None, "ws": LOOPBACK}
        async with mqtt_broker(settings=settings) as broker:
            place = broker.server.addresses["ws"]
            reader, writer = await asyncio.open_connection(place.host, place.port)
            client = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
            events = wsproto.events
            writer.write(client.send(events.Request(host="x", target="/mqtt", subprotocols=["mqtt"])))

            async def hear() -> list[object]:
                data = await reader.read(65_536)
                client.receive_data(data or None)
                return list(client.events())

            (accepted,) = await hear()
            assert isinstance(accepted, events.AcceptConnection) and accepted.subprotocol == "mqtt"
            for byte in encode(Connect("one", V5), V5):
                writer.write(client.send(events.BytesMessage(data=bytes((byte,)))))
            decoder = PacketDecoder(version=V5)
            heard: list[object] = []
            while not heard:
                for event in await hear():
                    heard += decoder.feed(bytes(getattr(event, "data", b"")))
            assert isinstance(heard[0], Connack)
            writer.write(client.send(events.TextMessage(data="no")))
            while await reader.read(65_536):
                pass
            writer.close()

    run(work())


def test_a_connection_without_a_word_is_closed_in_time_and_makes_room_for_others() -> None:
    async def work() -> None:
        settings = {"connect_seconds": 1, "greetings_max": 4}
        async with mqtt_broker(settings=settings) as broker:
            silent = [await asyncio.open_connection(broker.address.host, broker.address.port) for _ in range(12)]
            async with mqtt_peer(broker.address) as one:
                assert not (await one.connect("one")).reason
                for reader, writer in silent:
                    assert not await _rest(reader)
                    writer.transport.abort()
                one.say(Pingreq())
                await one.hear_a(Pingresp)

    run(work())


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_rubbish_ends_its_own_connection_only() -> None:
    async def work() -> None:
        chance = random.Random(35)
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as one:
            await one.connect("one")
            await one.subscribe("a")
            for number in range(150):
                with socket.create_connection((broker.address.host, broker.address.port)) as plug:
                    plug.setblocking(False)
                    data = chance.randbytes(chance.randint(1, 300))
                    if number % 3:
                        data = encode(Connect(f"c{number}", V5), V5) + data
                    await asyncio.get_running_loop().sock_sendall(plug, data)
                    if number % 7 == 0:
                        await asyncio.sleep(0)
            assert await one.publish("a", b"still here", 2) == 0
            assert (await one.receive()).payload == b"still here"

    run(work())


def test_a_packet_that_is_too_large_ends_the_connection_before_it_has_come() -> None:
    async def work() -> None:
        async with mqtt_broker(settings={"packet_bytes_max": 2_000}) as broker, mqtt_peer(broker.address) as one:
            answer = await one.connect("one")
            assert answer.properties.maximum_packet_size == 2_000
            one.writer.write(b"\x30\xff\xff\xff\x7f")
            heard = await one.ended()
            assert [packet.reason for packet in heard if isinstance(packet, Disconnect)] == [Reason.PACKET_TOO_LARGE]

    run(work())


def test_a_subscriber_that_does_not_read_stops_nobody_else() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker, mqtt_peer(broker.address) as slow, mqtt_peer(broker.address) as one:
            await slow.connect("slow", properties=Properties(receive_maximum=1))
            await slow.subscribe("a", qos=1)
            await one.connect("one")
            await one.subscribe("b", qos=1)
            for _ in range(300):
                one.say(Publish("a", b"x" * 10_000))
            await one.publish("b", b"through", 1)
            assert (await one.receive()).payload == b"through"

    run(work())


def test_an_account_names_mqtt_clients() -> None:
    async def work() -> None:
        async with mqtt_tree(1) as (broker,), mqtt_peer(broker.address, V3_1_1) as one:
            await one.connect("one")
            await one.publish("a", b"x", 1, retain=True)
            told = broker.running.broker.books.account()
            assert [client.protocol for client in told.clients if client.name == "one"] == ["MQTT 3.1.1"]
            assert isinstance(told.mqtt, MqttAccount)
            assert (told.mqtt.sessions, told.mqtt.publications) == (1, 1)

    run(work())


def test_a_client_does_not_fill_the_retained_messages_of_others(rules: Path) -> None:
    rules.write_text(RULES + RULES.partition("[anybody]")[0].replace("teller", "other"))
    settings, options = {"sys_seconds": 0}, {"retained_bytes": 40_000}

    async def work() -> None:
        async with (
            mqtt_broker(door=guarded(rules), settings=settings, options=options) as broker,
            mqtt_peer(broker.address) as one,
            mqtt_peer(broker.address) as other,
        ):
            for peer, name in ((one, "teller"), (other, "other")):
                assert (await peer.connect(name, username=name, password=TOKEN.encode())).reason == 0
            reasons = [await one.publish(f"bank/{number}", bytes(2_000), 1, retain=True) for number in range(12)]
            assert reasons[0] < 0x80 and reasons[-1] == Reason.IMPLEMENTATION_SPECIFIC_ERROR
            assert await other.publish("bank/x", bytes(2_000), 1, retain=True) < 0x80

    run(work())


def test_packets_before_connack_are_dropped_when_one_of_them_ends_the_session() -> None:
    settings, options = {"sys_seconds": 0}, {"retained_bytes": 2_000}

    async def work() -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        async with mqtt_broker(settings=settings, options=options) as broker, mqtt_peer(broker.address, V3_1_1) as one:
            refused = Publish("a", bytes(9_000), 1, 1, retain=True)
            one.say(Connect("one", V3_1_1), refused, Publish("b", b"2", 1, 2), Publish("c", b"3", 1, 3))
            assert [type(packet) for packet in await one.ended()] == [Connack]
            async with mqtt_peer(broker.address) as other:
                assert not (await other.connect("one")).reason
        assert not faults

    run(work())


def test_wills_that_cannot_be_published_are_logged_once_in_a_while() -> None:
    async def work() -> None:
        async with mqtt_broker() as broker:
            will = Will("a", b"x", properties=Properties(user=(("resprout-guarantee", "none such"),)))
            for number in range(20):
                async with mqtt_peer(broker.address) as one:
                    await one.connect(f"c{number}", will=will)
                    one.vanish()
            await until(lambda: not [name for name in broker.server.sessions if name.startswith("c")])
            told = [note for note in broker.running.notes if "cannot be published" in str(note.columns.get("detail"))]
            assert len(told) == 1

    run(work())
