"""What a connection says besides the frames of the links floor: who listens here, and how is it?

Whoever has an address and no name asks before it opens a session; sessions are between names.
"""

from functools import cache
from typing import Annotated, Final

import msgspec

from resprout.core.message_fields import BoundedNumber, Derived, Otherwise
from resprout.links.frames import FRAMES
from resprout.net.identity.scram import ITERATIONS_MAX, ITERATIONS_MIN
from resprout.wire.codec import Codec


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
    the opener answers by one of its own; see `identity.network_key`."""

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
