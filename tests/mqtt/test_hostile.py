"""Fuzzing: for any bytes the decoder returns packets or one MqttError, and the packets can be encoded again."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.mqtt.decoder import PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V5
from resprout.mqtt.reasons import MqttError
from tests.mqtt.examples import VERSIONS, any_packet
from tests.mqtt.test_round_trip import GOLDEN
from tests.soak import cases

BYTES_MAX = 4_096


def assert_heard(data: bytes, version: int) -> list[Any]:
    """Decode the bytes and check the result; any other exception fails the test."""
    decoder = PacketDecoder(packet_bytes_max=BYTES_MAX, connect_bytes_max=BYTES_MAX, version=version)
    heard = decoder.feed(data)
    assert decoder.held_bytes <= BYTES_MAX
    for place, packet in enumerate(heard):
        if isinstance(packet, MqttError):
            assert place == len(heard) - 1
            assert packet.reason >= 0x80
            assert 0 < len(packet.text) < 200
        else:
            again = encode(packet, decoder.version)
            assert PacketDecoder(version=decoder.version).feed(again) == [packet]
    return heard


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from((0, *VERSIONS)))
def test_any_bytes(data: bytes, version: int) -> None:
    assert_heard(data, version)


@settings(deadline=None)
@given(st.data())
def test_damaged_packets(drawn: st.DataObject) -> None:
    version = drawn.draw(st.sampled_from(VERSIONS))
    data = bytearray(encode(drawn.draw(any_packet(version)), version))
    for place, byte in drawn.draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=3)):
        data[place] = byte
    assert_heard(bytes(data), drawn.draw(st.sampled_from((0, *VERSIONS))))


@pytest.mark.parametrize("seed", range(8))
def test_damaged_streams(seed: int) -> None:
    """Valid packets in sequence, with bytes changed, removed, duplicated and moved."""
    dice = random.Random(seed)
    errors = packets = 0
    for _ in range(cases(400, 20_000)):
        version = dice.choice(VERSIONS)
        stream = bytearray()
        for _ in range(dice.randrange(1, 6)):
            stream += bytes.fromhex(dice.choice([golden for each, _, golden in GOLDEN if each == version]))
        for _ in range(dice.randrange(4)):
            begin = dice.randrange(len(stream))
            end = min(len(stream), begin + dice.randrange(1, 9))
            match dice.randrange(4):
                case 0:
                    stream[begin] = dice.randrange(256)
                case 1 if end - begin < len(stream):
                    del stream[begin:end]
                case 2:
                    stream[begin:begin] = stream[begin:end]
                case _:
                    stream[begin:end] = dice.randbytes(end - begin)
        heard = assert_heard(bytes(stream), version)
        errors += any(isinstance(each, MqttError) for each in heard)
        packets += len(heard)
    assert errors > 50
    assert packets > 400


def test_a_packet_in_many_pieces_is_kept_once() -> None:
    decoder = PacketDecoder(packet_bytes_max=BYTES_MAX, version=V5)
    whole = b"\x30\xf4\x03" + b"\0\1a\0" + b"x" * 496
    for place in range(len(whole) - 1):
        assert decoder.feed(whole[place : place + 1]) == []
        assert decoder.held_bytes == place + 1
    assert len(decoder.feed(whole[-1:] + whole[:10])) == 1
    assert decoder.held_bytes == 10
