"""The opener of a connection proves who it is before it says anything else.

`OpenerLogin` is a client's: it shows that it knows a secret, and is shown that the broker holds the verifier of this
secret. A proof is bound to the broker that it is meant for: by its certificate where there is TLS, by its name
otherwise.

`OpenerMembership` is a broker's, where there are no certificates: both sides prove that they have the key that all
brokers have. The opener says who it is, with a nonce; the other side (`AcceptorMembership`) answers with its own name
and nonce and a proof; the opener proves itself in turn. Each proof is an HMAC over both names, both incarnations, both
nonces and the side that makes it, so it is of no use on another connection, for another broker, or for another life of
the same broker. The key proves who opens a connection. It encrypts nothing, and an attacker on the path between two
brokers can still change what they say: that takes TLS.
"""

import base64
import binascii
import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from resprout.core.errors import ResproutError, UsageError
from resprout.net.identity.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MAX,
    SecretKeys,
    auth_message,
    derive_keys,
    is_signature,
    make_proof,
)
from resprout.net.sessions import Challenge, Login, MemberGreeting, MemberProof, ProofAccepted, ProofOfSecret

NONCE_BYTES: Final = 18
SALTS_MAX: Final = 4
"""Secrets that an identity may have at a time."""

BY_CERTIFICATE: Final = "p=tls-server-end-point,,"
BY_NAME: Final = "p=resprout-broker,,"
Binding = tuple[str, bytes]
"""The header of a channel binding, and its data."""

KEY_BYTES: Final = 32
KEY_NONCE_BYTES: Final = 32
NO_KEY: Final = "it has not proven that it has the key of the network"
_HEADER: Final = "resprout-network-key:"


def binding_of(certificate: bytes, broker: str) -> Binding:
    """`certificate`: the SHA-256 digest of the broker's; empty without TLS."""
    return (BY_CERTIFICATE, certificate) if certificate else (BY_NAME, broker.encode())


class ProofError(ResproutError):
    """The other side has not proven what it should have. The text is a part of a sentence about it."""


class OpenersProof(Protocol):
    is_over: bool
    """Nothing more is to be proven, or heard."""

    def begin(self) -> Any:
        """The first frame."""
        ...

    def work_for(self, frame: Any) -> Callable[[], object] | None:
        """What must be computed, in a thread, before this frame is heard; None: nothing."""
        ...

    def hear(self, frame: Any) -> Any:
        """The frame to answer with; None: none. ProofError when the other side has not proven itself."""
        ...


class LoginSecret:
    """An identity and its secret; remembers what it has computed, for the next connection."""

    def __init__(self, name: str, secret: str) -> None:
        self.name = name
        self._secret = secret
        self._keys: dict[tuple[bytes, int], SecretKeys] = {}

    def has_keys(self, challenge: Challenge) -> bool:
        return all((one.salt, one.iterations) in self._keys for one in challenge.salts)

    def keys(self, salt: bytes, iterations: int) -> SecretKeys:
        """Takes up to a second the first time."""
        known = self._keys.get((salt, iterations))
        if known is None:
            if len(self._keys) >= 4 * SALTS_MAX:
                self._keys.clear()
            known = self._keys[salt, iterations] = derive_keys(self._secret, salt, iterations)
        return known


class OpenerLogin:
    """One login. `certificate`: the digest of the broker's; empty without TLS. Then the name of the `broker` counts."""

    def __init__(self, login: LoginSecret, certificate: bytes, broker: str) -> None:
        self._login = login
        self._binding = binding_of(certificate, broker)
        self._nonce = secrets.token_urlsafe(NONCE_BYTES)
        self._challenge: Challenge | None = None
        self.is_over = False

    def begin(self) -> Login:
        return Login(self._login.name, self._nonce)

    def work_for(self, frame: Any) -> Callable[[], object] | None:
        if type(frame) is not Challenge or _fault_of(frame, self._nonce) or self._login.has_keys(frame):
            return None
        return lambda: [self._login.keys(one.salt, one.iterations) for one in frame.salts]

    def hear(self, frame: Any) -> ProofOfSecret | None:
        if type(frame) is Challenge and self._challenge is None:
            if fault := _fault_of(frame, self._nonce):
                raise ProofError(fault)
            self._challenge = frame
            keys = [self._login.keys(one.salt, one.iterations) for one in frame.salts]
            return ProofOfSecret(tuple(make_proof(one, self._message(which)) for which, one in enumerate(keys)))
        if type(frame) is ProofAccepted and self._challenge is not None and frame.which < len(self._challenge.salts):
            one = self._challenge.salts[frame.which]
            if not is_signature(
                self._login.keys(one.salt, one.iterations), self._message(frame.which), frame.signature
            ):
                raise ProofError("it accepts the login and does not hold the verifier of its secret")
            self.is_over = True
            return None
        raise ProofError("it does not answer a login as a broker does")

    def _message(self, which: int) -> bytes:
        challenge = self._challenge
        assert challenge is not None
        salt = challenge.salts[which]
        return auth_message(self._login.name, self._nonce, challenge.nonce, salt.salt, salt.iterations, *self._binding)


def _fault_of(challenge: Challenge, nonce: str) -> str:
    if not challenge.nonce.startswith(nonce) or len(challenge.nonce) <= len(nonce):
        return "its challenge is not an answer to this login"
    if not 1 <= len(challenge.salts) <= SALTS_MAX:
        return f"its challenge asks for {len(challenge.salts)} secrets; allowed are 1 to {SALTS_MAX}"
    for one in challenge.salts:
        if not ITERATIONS_MIN <= one.iterations <= ITERATIONS_MAX:
            allowed = f"{ITERATIONS_MIN} to {ITERATIONS_MAX}"
            return f"its challenge asks for {one.iterations} iterations; allowed are {allowed}"
        if not 1 <= len(one.salt) <= SALT_BYTES_MAX:
            return f"its challenge has a salt of {len(one.salt)} bytes; allowed are 1 to {SALT_BYTES_MAX}"
    return ""


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
        self._greeting = MemberGreeting(name, incarnation, secrets.token_bytes(KEY_NONCE_BYTES))
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
        self._said = (name, incarnation, secrets.token_bytes(KEY_NONCE_BYTES))

    @property
    def proof(self) -> MemberProof:
        return MemberProof(*self._said, self._key.prove(b"acceptor", self.opener, *self._said))

    def accepts(self, frame: MemberProof) -> bool:
        """Whether the opener, too, has the key."""
        return hmac.compare_digest(frame.proof, self._key.prove(b"opener", self.opener, *self._said))
