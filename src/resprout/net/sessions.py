"""Sessions over TCP: the frames on a connection besides those of `links`, heartbeats, incarnations, and large messages.

A node with an address and no name asks who listens there (`Who`, `Here`) before it opens a session, because sessions
are between names. Logins, proofs of membership and questions about a node's account have frames too.

An incarnation rises from life to life without a file that remembers the last one. The bytes of a large message are
those of a `Data` frame with this one message, all names in full: they do not depend on the names that a connection has
learned, so an interrupted transfer resumes in its middle on another connection.

`CODEC` and `next_incarnation` are shared by all clients of this process.
"""

import secrets
import time
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Final

import msgspec

from resprout.core import limits
from resprout.core.errors import PeerError
from resprout.core.message_fields import BoundedNumber, Derived, Otherwise
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.links.frames import FRAMES, Body, Data
from resprout.links.options import LinkOptions
from resprout.net.identity.scram import ITERATIONS_MAX, ITERATIONS_MIN
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
_latest_incarnation = 0
"""Of all clients of this process: no two have the same, however fast they follow each other."""


PIECE_BYTES: Final = 64 << 10
"""A payload column of this size or more is not copied when its message is sent in parts."""
_PIECE_MARK: Final = secrets.token_bytes(16)


class Who(msgspec.Struct, frozen=True, tag=8, array_like=True):
    """Who listens here? The only frame on its connection: the answer is followed by the end."""

    name: str
    """Who asks."""
    network: str = ""
    """Which network the asker is in, if it is a broker that has a place."""


class Here(msgspec.Struct, frozen=True, tag=9, array_like=True):
    """Answer to `Who`."""

    name: str
    role: str
    incarnation: BoundedNumber
    met: Annotated[BoundedNumber, Derived("30 days ahead of the wall clock", Otherwise.IGNORED)] = 0
    """The latest incarnation of the asker that was met here. The asker takes a higher one, whatever its clock says."""
    network: str = ""
    """Which network this broker is in; empty while it has no place."""
    notices: tuple[str, ...] = ()
    """What people should know about it, a line each."""
    stack: str = ""
    """Of a broker: those of one network have the same."""
    has_rules: bool = False
    """Of a broker: it knows which clients may do what, so those of its network have to."""
    has_key: bool = False
    """Of a broker: it believes only brokers that have the key of the network."""
    max_payload: BoundedNumber = limits.PAYLOAD_BYTES
    """Of a broker: bytes that one payload may have. All brokers of a network have the same."""


class Login(msgspec.Struct, frozen=True, tag=10, array_like=True):
    """Said before `Hello` or `AskAccount` by a client that can prove who it is by a secret; answered by `Challenge`."""

    name: str
    """The identity."""
    nonce: str


class Salt(msgspec.Struct, frozen=True, array_like=True):
    """What a secret is to be computed with."""

    salt: bytes
    iterations: Annotated[BoundedNumber, Derived(f"{ITERATIONS_MIN:,} to {ITERATIONS_MAX:,}", Otherwise.CUT_OFF)]


class Challenge(msgspec.Struct, frozen=True, tag=345, array_like=True):
    """Answer to `Login`."""

    nonce: str
    """The client's, with the broker's behind it."""
    salts: tuple[Salt, ...]
    """One for each secret that the identity may have: while one is replaced there are two."""


class ProofOfSecret(msgspec.Struct, frozen=True, tag=346, array_like=True):
    """Answer to `Challenge`, a proof for each salt; see `identity.scram`."""

    proofs: tuple[bytes, ...]


class ProofAccepted(msgspec.Struct, frozen=True, tag=347, array_like=True):
    """Answer to `ProofOfSecret`: the secret is right, and here is the proof that the broker holds its verifier."""

    which: Annotated[BoundedNumber, Derived("secrets that were asked for, from 0", Otherwise.CUT_OFF)]
    """The number of the secret, from 0."""
    signature: bytes


class MemberGreeting(msgspec.Struct, frozen=True, tag=348, array_like=True):
    """Said first by a broker where brokers prove themselves by the network's key. Answered by a `MemberProof`, which
    the opener answers by one of its own; see `identity.proofs`."""

    name: str
    incarnation: BoundedNumber
    """0 when it only asks."""
    nonce: bytes


class MemberProof(msgspec.Struct, frozen=True, tag=349, array_like=True):
    """That its sender has the network's key."""

    name: str
    incarnation: BoundedNumber
    nonce: bytes
    """Of its sender."""
    proof: bytes


class AskAccount(msgspec.Struct, frozen=True, tag=11, array_like=True):
    """What a broker knows of itself, for people: asked on a connection of its own, after a `Login` if need be."""

    name: str
    role: str
    """Who asks: a client, for somebody, or a broker."""
    what: str
    """`account`, `readers` of a topic, or `passage` of a publication."""
    about: str = ""


class AccountTold(msgspec.Struct, frozen=True, tag=12, array_like=True):
    """Answer to `AskAccount`, followed by the end."""

    name: str
    """Who tells."""
    answer: bytes
    """JSON."""


PROOFS: Final = (Login, Challenge, ProofOfSecret, ProofAccepted, MemberGreeting, MemberProof)
"""Frames by which a side proves who it is, before anything else is said."""
MORE_FRAMES: Final[tuple[type[msgspec.Struct], ...]] = (Who, Here, *PROOFS, AskAccount, AccountTold)


@cache
def make_codec(messages: tuple[type[msgspec.Struct], ...]) -> Codec:
    """For connections of nodes that exchange these messages. It keeps nothing of any of them, and takes milliseconds to
    make: one serves all of a process."""
    return Codec((*FRAMES, *MORE_FRAMES), messages)


CODEC: Final = make_codec(CLIENT_MESSAGES)


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


class JoinedBody:
    """A body in several pieces, which are not copied: a large payload is shared by all sessions that send it."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = [memoryview(piece) for piece in pieces]
        self._size = sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: slice, /) -> memoryview | bytes:
        begin, end, _ = key.indices(self._size)
        found: list[memoryview] = []
        for piece in self._pieces:
            if begin < len(piece) and end > 0:
                found.append(piece[max(0, begin) : end])
            begin -= len(piece)
            end -= len(piece)
        return found[0] if len(found) == 1 else b"".join(found)


class EncodedBodies:
    """Large messages as the bytes of a frame. `max_payload`: bytes that one payload may have."""

    def __init__(self, codec: Codec, max_payload: int = limits.PAYLOAD_BYTES) -> None:
        self._codec = codec
        self.bytes_max = limits.body_bytes(max_payload)
        self._bundle_max = limits.bundle_bytes(max_payload)

    def pack(self, number: int, message: Any) -> Body:
        encoder = self._codec.encoder(self.bytes_max)
        return JoinedBody(encoder.encode_apart(Data(number, 0, 0, (message,)), PIECE_BYTES, _PIECE_MARK))

    def unpack(self, number: int, slices: list[Any]) -> Any:
        body = b"".join(slices)
        slices.clear()  # they take as much memory as the body does
        frame = self._codec.decoder(self.bytes_max, self._bundle_max).decode(body)
        if type(frame) is not Data or frame.first != number or len(frame.messages) != 1:
            raise PeerError(f"the parts of message {number} are something else")
        return frame.messages[0]


def next_incarnation(met: int) -> int:
    """Higher than any that this process or the broker knows of, as far as a broker can be believed: this number is
    handed on from client to client."""
    global _latest_incarnation
    _latest_incarnation = max(new_incarnation(), believed(met) + 1, _latest_incarnation + 1)
    return _latest_incarnation
