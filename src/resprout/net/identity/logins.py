"""The broker's half of a login: challenges, and whether a proof is right.

An identity that is not known is challenged like one that is, with a salt that stays the same, and its proof is checked
as long: a stranger does not find out which identities exist. A right proof is always accepted. Wrong ones make the next
challenge come later, for this identity from this address; nobody is locked out (`LoginThrottle`).
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from resprout.net.frames import Challenge, Login, ProofAccepted, ProofOfSecret, Salt
from resprout.net.identity.rules import KnownIdentity
from resprout.net.identity.scram import ITERATIONS_MIN, SALT_BYTES, Verifier, auth_message

NONCE_BYTES: Final = 18
WRONG: Final = "this identity and this secret do not belong together"

FREE_FAILURES: Final = 10
"""Wrong secrets for one identity from one address within a period that delay nothing."""
FREE_FAILURES_OF_ALL: Final = 100
"""The same of one address whatever the identity, and of one identity wherever they come from."""
PERIOD_S: Final = 60.0
DELAY_S_MIN: Final = 0.05
DELAY_S_MAX: Final = 2.0
"""Before a challenge, after more failures than that: doubled with each of them."""
COUNTED_MAX: Final = 10_000


class PendingLogin:
    """A login that was challenged."""

    def __init__(self, login: Login, verifiers: tuple[Verifier, ...], is_known: bool) -> None:
        self.identity = login.name
        self._login = login
        self._verifiers = verifiers
        self._is_known = is_known
        self._nonce = login.nonce + secrets.token_urlsafe(NONCE_BYTES)

    @property
    def challenge(self) -> Challenge:
        return Challenge(self._nonce, tuple(Salt(one.salt, one.iterations) for one in self._verifiers))

    def check(self, proof: ProofOfSecret, channel: str, binding: bytes) -> ProofAccepted | None:
        """None when it is wrong. Every verifier is tried, whichever is right."""
        accepted = None
        proofs = proof.proofs if len(proof.proofs) == len(self._verifiers) else ()
        for which, one in enumerate(proofs):
            verifier = self._verifiers[which]
            message = auth_message(
                self.identity, self._login.nonce, self._nonce, verifier.salt, verifier.iterations, channel, binding
            )
            if verifier.accepts(message, one):
                accepted = ProofAccepted(which, verifier.signature(message))
        return accepted if self._is_known else None


class LoginBook:
    """The identities that can log in, as the rules have them."""

    def __init__(self, identities: Mapping[str, KnownIdentity]) -> None:
        self._known = {name: one.secrets for name, one in identities.items() if one.secrets}
        self._shapes = tuple(tuple(one.iterations for one in verifiers) for verifiers in self._known.values())
        first = next(iter(self._known.values()), None)
        self._key = hashlib.sha256(b"salts" + (first[0].server_key if first is not None else b"")).digest()
        """Known to those who have the rules only, and the same at all brokers and after a restart."""

    def begin(self, login: Login) -> PendingLogin:
        return PendingLogin(login, *self.find(login.name))

    def find(self, identity: str) -> tuple[tuple[Verifier, ...], bool]:
        """Its verifiers, and whether it is known at all."""
        invented = self._invent(identity)  # also for one that is known: it takes time
        verifiers = self._known.get(identity)
        return verifiers or invented, verifiers is not None

    def _invent(self, identity: str) -> tuple[Verifier, ...]:
        """Verifiers for an identity that is not known: as many as one that is known has, and as slow."""
        seed = hmac.digest(self._key, identity.encode("utf-8", "replace"), "sha256")
        shapes = self._shapes or ((ITERATIONS_MIN,),)
        shape = shapes[int.from_bytes(seed[:8], "big") % len(shapes)]
        return tuple(_invented(seed, number, iterations) for number, iterations in enumerate(shape))


def _invented(seed: bytes, number: int, iterations: int) -> Verifier:
    salt, stored, server = (hmac.digest(seed, b"%d %s" % (number, part), "sha256") for part in _PARTS)
    return Verifier(iterations, salt[:SALT_BYTES], stored, server)


_PARTS: Final = (b"salt", b"stored", b"server")


class LoginThrottle:
    """Counts wrong secrets, by identity and address. One for all doors of a broker."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], tuple[float, int]] = {}
        """Since when, and how many."""

    def delay_s(self, identity: str, source: str, now_s: float) -> float:
        """How long the next challenge is put off."""
        return max(
            self._delay_of((identity, source), FREE_FAILURES, now_s),
            self._delay_of((identity, ""), FREE_FAILURES_OF_ALL, now_s),
            self._delay_of(("", source), FREE_FAILURES_OF_ALL, now_s),
        )

    def failed(self, identity: str, source: str, now_s: float) -> None:
        for key in ((identity, source), (identity, ""), ("", source)):
            since_s, count = self._failures.pop(key, (now_s, 0))
            if now_s - since_s > PERIOD_S:
                since_s, count = now_s, 0
            self._failures[key] = (since_s, count + 1)
        while len(self._failures) > COUNTED_MAX:
            del self._failures[next(iter(self._failures))]

    def _delay_of(self, key: tuple[str, str], free: int, now_s: float) -> float:
        since_s, count = self._failures.get(key, (now_s, 0))
        if count < free or now_s - since_s > PERIOD_S:
            return 0.0
        return min(DELAY_S_MAX, DELAY_S_MIN * 2.0 ** min(count - free, 10))
