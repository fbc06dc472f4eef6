"""The half of whoever opens a connection and proves who it is before it says anything else.

`OpenerLogin` is a client's: it shows that it knows a secret, and is shown that the broker holds the verifier of this
secret. A proof is bound to the broker that it is meant for: by its certificate where there is TLS, by its name
otherwise.
"""

import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol

from resprout.core.errors import ResproutError
from resprout.net.frames import Challenge, Login, ProofAccepted, ProofOfSecret
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

NONCE_BYTES: Final = 18
SALTS_MAX: Final = 4
"""Secrets that an identity may have at a time."""

BY_CERTIFICATE: Final = "p=tls-server-end-point,,"
BY_NAME: Final = "p=resprout-broker,,"
Binding = tuple[str, bytes]
"""The header of a channel binding, and its data."""


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
