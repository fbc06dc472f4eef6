"""What the program that started a broker may tell it on its standard input: one JSON object a line."""

from collections.abc import Mapping

import msgspec

from resprout.core.errors import PeerError

LINE_BYTES_MAX = 1 << 20


class Bar(msgspec.Struct, frozen=True, tag="bar"):
    """An emulated cut: the peers (and no others) that it cannot reach from now on."""

    peers: tuple[str, ...]


class Found(msgspec.Struct, frozen=True, tag="found"):
    """Where other brokers listen, by name."""

    addresses: Mapping[str, str]


BrokerOrder = Bar | Found

_decoder: msgspec.json.Decoder[BrokerOrder] = msgspec.json.Decoder(BrokerOrder)


def as_line(order: BrokerOrder) -> bytes:
    return msgspec.json.encode(order) + b"\n"


def read_order(line: bytes) -> BrokerOrder:
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{line[:80]!r} is no order for a broker: {error}") from None
