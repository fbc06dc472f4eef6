"""What sessions over TCP need that simulated sessions do not: signs of life, numbers that rise from life to life
without a file that remembers the last one, and large messages as bytes.

The bytes of a large message are those of a `Data` frame with this one message, all names in full: they do not depend on
the names that a connection has learned, so a transfer that was interrupted goes on in its middle on another connection.

`CODEC` and `next_incarnation` are shared by all clients of this process.
"""

import secrets
import time
from typing import Any, Final

import msgspec

from resprout.core.errors import PeerError
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.frames import Data
from resprout.links.options import LinkOptions
from resprout.links.parts import Body
from resprout.net.frames import make_codec
from resprout.wire.codec import Codec

HEARTBEAT_US = 500_000
SILENCE_US = 2_000_000
"""TCP alone takes from minutes to for ever to notice that the machine at the other end is gone. A silence costs a
connection and no session, so a peer that is merely slow pays little for a short one."""

FREE_ACK_US = 250_000
"""Receipts and the like are acknowledged with whatever is said next, which is a heartbeat at the latest. A frame for
each acknowledgement would cost a broker with many publishers as much as their receipts do."""

_EPOCH_S: Final = 1_767_225_600
"""The beginning of 2026: incarnations count from here, so that they stay small."""
_PER_SECOND: Final = 64
"""A process needs longer than 16 ms to start, so two lives in a row never have the same number."""

AHEAD_MAX: Final = 30 * 24 * 3600 * _PER_SECOND
"""How far the clock of another machine may be ahead, in lives: a month. A number beyond that is no mistake of a clock,
and whoever believed it could never take a higher one."""

CODEC: Final = make_codec(CLIENT_MESSAGES)
_latest_incarnation = 0
"""Of all clients of this process: no two have the same, however fast they follow each other."""


def with_signs_of_life(options: LinkOptions | None = None) -> LinkOptions:
    """The options with heartbeats, suspicion of silence, and patience where nobody waits, wherever they do not say
    anything about it."""
    given = options or LinkOptions()
    heartbeat_us = given.heartbeat_us or min(HEARTBEAT_US, (given.silence_us or SILENCE_US) // 4 or 1)
    silence_us = given.silence_us or max(SILENCE_US, 4 * heartbeat_us)
    patience_us = given.free_ack_delay_us or max(FREE_ACK_US, given.ack_delay_us)
    return msgspec.structs.replace(
        given, heartbeat_us=heartbeat_us, silence_us=silence_us, free_ack_delay_us=patience_us
    )


def random_epoch() -> int:
    """Where to begin numbering sessions: two nodes that took the same name and incarnation do not meet here."""
    return 1 + secrets.randbits(40)


def rising_epoch() -> int:
    """The same for a life that goes on in another process: above what the one before began with, by the clock. A broker
    takes no session of a life that is older than one it has met."""
    return time.time_ns() // 1_000


def incarnation_max() -> int | None:
    """The highest number that is believed now; None where the clock itself cannot be: it was never set."""
    now = int((time.time() - _EPOCH_S) * _PER_SECOND)
    return now + AHEAD_MAX if now > 0 else None


def believed(incarnation: int) -> int:
    """What somebody else has met; nothing, if that cannot be."""
    most = incarnation_max()
    return incarnation if most is None or incarnation <= most else 0


def new_incarnation() -> int:
    """Grows from one start of a node to the next, as long as the clock of the machine does."""
    return max(1, int((time.time() - _EPOCH_S) * _PER_SECOND))


class EncodedBodies:
    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def pack(self, number: int, message: Any) -> Body:
        return memoryview(self._codec.encoder().encode(Data(number, 0, 0, (message,))))

    def unpack(self, number: int, slices: list[Any]) -> Any:
        frame = self._codec.decoder().decode(b"".join(slices))
        if type(frame) is not Data or frame.first != number or len(frame.messages) != 1:
            raise PeerError(f"the parts of message {number} are something else")
        return frame.messages[0]


def next_incarnation(met: int) -> int:
    """Higher than any that this process or the broker knows of, as far as a broker can be believed: this number is
    handed on from client to client."""
    global _latest_incarnation
    _latest_incarnation = max(new_incarnation(), believed(met) + 1, _latest_incarnation + 1)
    return _latest_incarnation
