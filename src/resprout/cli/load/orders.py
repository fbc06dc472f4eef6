"""What the parent of a team tells its workers, and what they answer: one JSON object a line, each way."""

from typing import Final, Literal

import msgspec

from resprout.cli.load.stream import BLOCK

FlightWay = Literal["workers", "window", "batches"]
"""How a publisher keeps publications in flight: one task for each; one task that waits for the oldest before it
publishes the next (a sliding window); one task that publishes all of them and waits for the last."""


class SendProbe(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: send one message that counts for nothing. To a subscriber: wait until one of them has come."""

    size: int
    patience_s: float


class Flood(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: publish as fast as it goes."""

    size: int
    count: int | None = None
    """How many messages, of all clients together; None: for `seconds`."""
    seconds: float | None = None
    per_turn: int = BLOCK
    """So many of each client, then the event loop has its turn."""


class Pace(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: publish at a steady rate, each message with the time at which it was."""

    size: int
    count: int
    interval_us: int


class Settle(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: publish with so many in flight, each until it is known to be safe."""

    size: int
    count: int
    in_flight: int
    way: FlightWay = "workers"


class Expect(msgspec.Struct, frozen=True, tag=True):
    """To a subscriber: a stream of messages is about to come. It answers `LoadReady`, and `Got` when all have come."""

    size: int
    patience_s: float
    paced: bool = False
    batches: bool = False
    """Take messages as they come together, where the client can do that."""
    streams: int = 1
    """So many clients publish, each a stream of its own."""


class LoadReady(msgspec.Struct, frozen=True, tag=True):
    """The worker is connected, or has prepared what it was told to expect."""


class Sent(msgspec.Struct, frozen=True, tag=True):
    """The publisher has published, and knows as much of the outcome as its client can tell it."""

    count: int
    begin_ns: int
    end_ns: int
    cpu_s: float


class Got(msgspec.Struct, frozen=True, tag=True):
    """Everything has come, in order. Times are on the clock that all processes of a machine share."""

    count: int
    end_ns: int
    cpu_s: float
    latencies_us: list[int] = []


class Failed(msgspec.Struct, frozen=True, tag=True):
    reason: str


LoadOrder = SendProbe | Flood | Pace | Settle | Expect
Reply = LoadReady | Sent | Got | Failed

_orders: Final[msgspec.json.Decoder[LoadOrder]] = msgspec.json.Decoder(LoadOrder)
_replies: Final[msgspec.json.Decoder[Reply]] = msgspec.json.Decoder(Reply)


def as_line(said: LoadOrder | Reply) -> bytes:
    return msgspec.json.encode(said) + b"\n"


def read_order(line: bytes) -> LoadOrder:
    return _orders.decode(line)


def read_reply(line: bytes) -> Reply:
    """msgspec.MsgspecError for a line that is none."""
    return _replies.decode(line)
