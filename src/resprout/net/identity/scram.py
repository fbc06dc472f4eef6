"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows a secret without sending it.

The computations, and nothing else: who sends what when is in `proving`, what a rules file holds in `secret`. The server
keeps a `Verifier`, from which the secret cannot be computed back, and with which nobody can log in. The client computes
PBKDF2, which takes long on purpose; the server computes four HMACs.

Both sides sign the same text, the `auth_message`: names, nonces, salt and the channel. The channel binding says whom
the client means to speak to, so that a broker cannot pass a proof on to another broker and be logged in there.
"""

import base64
import hashlib
import hmac
import unicodedata
from typing import Final

import msgspec

ITERATIONS_MIN: Final = 4_096
"""RFC 7677: a client refuses to compute fewer, because they make guessing cheaper for whoever asks for them."""
ITERATIONS_MAX: Final = 2_000_000
"""A client refuses to compute more: it would be busy for seconds because somebody says so."""
SALT_BYTES_MAX: Final = 64
DIGEST_BYTES: Final = 32
_MECHANISM: Final = "SCRAM-SHA-256"


class SecretKeys(msgspec.Struct, frozen=True):
    """What a secret becomes with a salt. Only the client has the first one."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


class Verifier(msgspec.Struct, frozen=True):
    """What the server holds of a secret. Written as PostgreSQL writes it:
    `SCRAM-SHA-256$iterations:salt$stored_key:server_key`."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = map(_text, (self.salt, self.stored_key, self.server_key))
        return f"{_MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    def accepts(self, message: bytes, proof: bytes) -> bool:
        """Whether the proof was made with the secret, for this `auth_message`."""
        if len(proof) != DIGEST_BYTES:
            return False
        client_key = _xor(proof, _sign(self.stored_key, message))
        return hmac.compare_digest(hashlib.sha256(client_key).digest(), self.stored_key)

    def signature(self, message: bytes) -> bytes:
        """Shows the client that this side holds the verifier."""
        return _sign(self.server_key, message)


def derive_keys(secret: str, salt: bytes, iterations: int) -> SecretKeys:
    """Takes from a millisecond to a second: not for the thread of an event loop."""
    normal = unicodedata.normalize("NFKC", secret).encode()
    salted = hashlib.pbkdf2_hmac("sha256", normal, salt, iterations)
    client_key = _sign(salted, b"Client Key")
    return SecretKeys(client_key, hashlib.sha256(client_key).digest(), _sign(salted, b"Server Key"))


def make_verifier(secret: str, salt: bytes, iterations: int) -> Verifier:
    keys = derive_keys(secret, salt, iterations)
    return Verifier(iterations, salt, keys.stored_key, keys.server_key)


def parse_verifier(text: str) -> Verifier:
    """ValueError when it is none."""
    mechanism, cost, keys = text.split("$")
    iterations, salt = cost.split(":")
    stored, server = keys.split(":")
    count = int(iterations)
    verifier = Verifier(count, *(base64.b64decode(part, validate=True) for part in (salt, stored, server)))
    is_sound = (
        mechanism == _MECHANISM
        and ITERATIONS_MIN <= count <= ITERATIONS_MAX
        and 1 <= len(verifier.salt) <= SALT_BYTES_MAX
        and len(verifier.stored_key) == len(verifier.server_key) == DIGEST_BYTES
    )
    if not is_sound or str(verifier) != text:
        raise ValueError("not a verifier")
    return verifier


def auth_message(
    identity: str, client_nonce: str, nonce: str, salt: bytes, iterations: int, channel: str, binding: bytes
) -> bytes:
    """The text that both sides sign. `nonce` is the client's with the server's behind it; `channel` is the header of
    the channel binding (`p=tls-server-end-point,,`), `binding` its data."""
    bound = _text(channel.encode() + binding)
    return f"n={identity},r={client_nonce},r={nonce},s={_text(salt)},i={iterations},c={bound},r={nonce}".encode()


def make_proof(keys: SecretKeys, message: bytes) -> bytes:
    return _xor(keys.client_key, _sign(keys.stored_key, message))


def is_signature(keys: SecretKeys, message: bytes, signature: bytes) -> bool:
    """Whether the other side holds the verifier of this secret."""
    return hmac.compare_digest(_sign(keys.server_key, message), signature)


def _sign(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(first, second, strict=True))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
