"""How brokers prove themselves to each other where there are no certificates: by a key that all of them have.

The opener says who it is, with a nonce; the other side answers with its own name and nonce and a proof; the opener
proves itself in turn. Each proof is an HMAC over both names, both incarnations, both nonces and the side that makes it,
so it is of no use on another connection, for another broker, or for another life of the same broker.

The key proves who opens a connection. It encrypts nothing, and whoever sits on the path between two brokers can still
change what they say: that takes TLS.
"""

import base64
import binascii
import hmac
import os
import secrets
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.net.frames import MemberGreeting, MemberProof
from resprout.net.identity.proofs import ProofError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 32
NO_KEY: Final = "it has not proven that it has the key of the network"
_HEADER: Final = "resprout-network-key:"


class NetworkKey(msgspec.Struct, frozen=True):
    secret: bytes

    def __repr__(self) -> str:
        return "NetworkKey(...)"

    def __str__(self) -> str:
        """As it stands in a file."""
        return _HEADER + base64.urlsafe_b64encode(self.secret).decode()

    def prove(self, side: bytes, opener: MemberGreeting, name: str, incarnation: int, nonce: bytes) -> bytes:
        """`side`: who makes the proof. The rest is about the other side than the opener's."""
        said = msgspec.msgpack.encode((
            side, opener.name, opener.incarnation, opener.nonce, name, incarnation, nonce,
        ))  # fmt: skip
        return hmac.digest(self.secret, said, "sha256")


def new_network_key() -> NetworkKey:
    return NetworkKey(secrets.token_bytes(KEY_BYTES))


def write_network_key(path: Path) -> Path:
    """Write a new key into a new file, for nobody but this user. OSError when that cannot be done."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{new_network_key()}\n")
    return path


def read_network_key(path: Path) -> NetworkKey:
    """UsageError when there is none in this file, or when others may read it."""
    try:
        text = path.read_text().strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeError) as error:
        raise UsageError(f"network key {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    if mode & 0o007:
        raise UsageError(f"network key {path}: everybody on this machine may read or write it; chmod 600 it")
    try:
        secret = base64.urlsafe_b64decode(text.removeprefix(_HEADER))
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(_HEADER) or len(secret) != KEY_BYTES:
        raise UsageError(f"network key {path}: there is no key in it; `resprout secret --network FILE` makes one")
    return NetworkKey(secret)


class OpenerMembership:
    """The opener's half. `peer`: whom it means to reach, if it knows."""

    def __init__(self, key: NetworkKey, name: str, incarnation: int, peer: str | None) -> None:
        self._key = key
        self._peer = peer
        self._greeting = MemberGreeting(name, incarnation, secrets.token_bytes(NONCE_BYTES))
        self.is_over = False
        self.proven: str | None = None
        """Who is there."""

    def begin(self) -> MemberGreeting:
        return self._greeting

    def work_for(self, frame: Any) -> None:
        """Nothing here takes long."""

    def hear(self, frame: Any) -> MemberProof:
        if type(frame) is not MemberProof:
            raise ProofError("it does not prove that it has the key of the network: has it the same --network-key?")
        me, said = self._greeting, (frame.name, frame.incarnation, frame.nonce)
        if not hmac.compare_digest(frame.proof, self._key.prove(b"acceptor", me, *said)):
            raise ProofError("it has another key of the network than this side")
        if self._peer not in (None, frame.name):
            raise ProofError(f"reached {frame.name} instead of {self._peer}")
        self.is_over = True
        self.proven = frame.name
        return MemberProof(me.name, me.incarnation, me.nonce, self._key.prove(b"opener", me, *said))


class AcceptorMembership:
    """The other half: `name` and `incarnation` are those of this side."""

    def __init__(self, key: NetworkKey, greeting: MemberGreeting, name: str, incarnation: int) -> None:
        self._key = key
        self.opener = greeting
        self._said = (name, incarnation, secrets.token_bytes(NONCE_BYTES))

    @property
    def proof(self) -> MemberProof:
        return MemberProof(*self._said, self._key.prove(b"acceptor", self.opener, *self._said))

    def accepts(self, frame: MemberProof) -> bool:
        """Whether the opener, too, has the key."""
        return hmac.compare_digest(frame.proof, self._key.prove(b"opener", self.opener, *self._said))
