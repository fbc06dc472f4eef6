"""PROXY protocol v2 in front of MQTT."""

import ipaddress
from typing import Any

import pytest

from resprout.cli.mqtt_settings import read_mqtt
from resprout.core.errors import UsageError
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V5, Connack, Connect
from resprout.net.connection_limits import BrokerLimits
from resprout.net.door import Door
from resprout.net.mqtt.layers import LayerError
from resprout.net.mqtt.proxy import SIGNATURE, ProxyLayer, is_proxy, parse_network
from resprout.scenario.source import parse_source
from tests.mqtt.peer import mqtt_peer
from tests.mqtt.stage import mqtt_broker
from tests.net.stage import run

CLIENT = "203.0.113.9"
PROXIES: dict[str, Any] = {"proxies": (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))}


def header(address: str = CLIENT, command: int = 0x21, more: bytes = b"") -> bytes:
    packed = ipaddress.ip_address(address).packed
    family = 0x11 if len(packed) == 4 else 0x21
    body = packed + bytes(len(packed)) + b"\x30\x39\x07\x5b" + more
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


@pytest.mark.parametrize("address", [CLIENT, "2001:db8::7"])
@pytest.mark.parametrize("more", [b"", b"\x04\x00\x02ab"])
def test_a_header_in_any_pieces_tells_the_address(address: str, more: bytes) -> None:
    data = header(address, more=more) + b"rest"
    for size in (1, 7, len(data)):
        told: list[str] = []
        layer = ProxyLayer(told.append)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert b"".join(layer.receive(part) for part in parts) == b"rest"
        assert told == [address]
        assert layer.receive(b"more") == b"more"


def test_health_checks_and_unknown_families_tell_no_address() -> None:
    told: list[str] = []
    assert ProxyLayer(told.append).receive(header(command=0x20) + b"x") == b"x"
    unknown = SIGNATURE + b"\x21\x00\x00\x00"
    assert ProxyLayer(told.append).receive(unknown + b"x") == b"x"
    assert told == []


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        encode(Connect("c", V5), V5),
        header(command=0x31),
        header(command=0x22),
        SIGNATURE + b"\x21\x11\xff\xff",
        SIGNATURE + b"\x21\x11\x00\x04" + bytes(4),
    ],
)
def test_a_header_that_is_wrong_ends_the_connection(data: bytes) -> None:
    with pytest.raises(LayerError):
        ProxyLayer(lambda address: None).receive(data)


def test_only_configured_addresses_are_proxies() -> None:
    networks = (parse_network("10.0.0.0/8"), parse_network("2001:db8::1"))
    assert is_proxy("10.1.2.3", networks)
    assert is_proxy("2001:db8::1", networks)
    assert not is_proxy("11.0.0.1", networks)
    assert not is_proxy("", networks)
    for text in ("10.0.0.1/8", "example.org", ""):
        with pytest.raises(UsageError):
            parse_network(text)


def test_proxies_are_read_from_the_file_of_a_broker() -> None:
    text = '[mqtt]\nlisten = "localhost:1883"\nproxies = ["10.0.0.0/8", "::1"]\n'
    found = read_mqtt(parse_source(text, "b0.toml"), {}, has_tls=False)
    assert [str(network) for network in found.proxies] == ["10.0.0.0/8", "::1/128"]
    with pytest.raises(UsageError, match="no address or network"):
        read_mqtt(parse_source(text.replace("::1", "here"), "b0.toml"), {}, has_tls=False)


def test_response_topics_are_read_from_the_file_of_a_broker() -> None:
    text = '[mqtt]\nlisten = "localhost:1883"\nresponse_topics = "replies"\n'
    assert read_mqtt(parse_source(text, "b0.toml"), {}, has_tls=False).response_topics == "replies"
    with pytest.raises(UsageError, match="wildcard"):
        read_mqtt(parse_source(text.replace("replies", "a/+"), "b0.toml"), {}, has_tls=False)


def test_a_client_behind_a_proxy_is_known_by_its_own_address() -> None:
    async def work() -> None:
        async with mqtt_broker(settings=PROXIES) as broker:
            async with mqtt_peer(broker.address) as one:
                one.writer.write(header())
                answer = await one.connect("one")
                assert isinstance(answer, Connack)
                assert not answer.reason
                assert broker.server.sessions["one"].who.address == CLIENT
            async with mqtt_peer(broker.address) as bare:
                bare.say(Connect("bare", V5))
                assert await bare.ended() == []

    run(work())


def test_limits_count_the_clients_behind_a_proxy_by_their_own_addresses() -> None:
    async def work() -> None:
        door = Door(limits=BrokerLimits(address_connections=1))
        async with (
            mqtt_broker(door=door, settings=PROXIES) as broker,
            mqtt_peer(broker.address) as first,
            mqtt_peer(broker.address) as second,
            mqtt_peer(broker.address) as other,
        ):
            first.writer.write(header())
            assert not (await first.connect("first")).reason
            second.writer.write(header())
            second.say(Connect("second", V5))
            assert await second.ended() == []
            other.writer.write(header("203.0.113.10"))
            assert not (await other.connect("other")).reason

    run(work())
