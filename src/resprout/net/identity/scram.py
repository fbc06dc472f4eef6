"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows a secret without sending it.

The server keeps a `Verifier`, from which the secret cannot be computed back, and with which nobody can log in. The
client computes PBKDF2, which takes long on purpose; the server computes four HMACs. Which frames are sent when is in
`net.door` and `net.identity.proofs`.

Both sides sign the same text, the `auth_message`: names, nonces, salt and the channel. The channel binding says which
broker the client means to speak to, so that a broker cannot pass a proof on to another broker and be logged in there.

`resprout secret` makes a token, which is random and needs no protection against guessing, or asks for a password, whose
verifier takes long to try. A client gives either as `NAME:SECRET`; no broker ever sees it.
"""

import base64
import hashlib
import hmac
import secrets
import unicodedata
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import check_name

ITERATIONS_MIN: Final = 4_096
"""RFC 7677: a client refuses to compute fewer, because they make guessing cheaper for whoever asks for them."""
ITERATIONS_MAX: Final = 2_000_000
"""A client refuses to compute more: it would be busy for seconds because somebody says so."""
SALT_BYTES_MAX: Final = 64
DIGEST_BYTES: Final = 32
_MECHANISM: Final = "SCRAM-SHA-256"

TOKEN_BYTES: Final = 32
SALT_BYTES: Final = 16
PASSWORD_ITERATIONS: Final = 600_000
"""About half a second of the client's processor, once per process: OWASP's figure for PBKDF2 with SHA-256."""
PASSWORD_LETTERS_MIN: Final = 8
SECRET_LETTERS_MAX: Final = 512


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


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def verifier_of_token(token: str) -> Verifier:
    """Nobody guesses 256 random bits, so the client computes the least that the mechanism allows."""
    return make_verifier(check_secret(token), secrets.token_bytes(SALT_BYTES), ITERATIONS_MIN)


def verifier_of_password(password: str) -> Verifier:
    if len(password) < PASSWORD_LETTERS_MIN:
        raise UsageError(f"a password has at least {PASSWORD_LETTERS_MIN} letters")
    return make_verifier(check_secret(password), secrets.token_bytes(SALT_BYTES), PASSWORD_ITERATIONS)


def read_verifier(text: str) -> Verifier:
    """As it stands in a rules file."""
    try:
        return parse_verifier(text)
    except ValueError:
        raise UsageError("this is no SCRAM-SHA-256 verifier of a secret; `resprout secret NAME` makes one") from None


def check_secret(text: str) -> str:
    if not text or len(text) > SECRET_LETTERS_MAX or not text.isprintable():
        raise UsageError(f"a secret has 1 to {SECRET_LETTERS_MAX} letters, and all of them can be printed")
    return text


def read_login(text: str) -> tuple[str, str]:
    """`NAME:SECRET`; the secret is never part of a complaint."""
    name, colon, secret = text.strip().partition(":")
    if not colon:
        raise UsageError("a login is NAME:SECRET, and this one has no colon")
    return check_name(name, "identity"), check_secret(secret)
