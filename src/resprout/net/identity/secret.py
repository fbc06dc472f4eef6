"""Secrets, and what a rules file holds of them.

`resprout secret` makes a token, which is random and needs no protection against guessing, or asks for a password, whose
verifier takes long to try. A client gives either as `NAME:SECRET`; no broker ever sees it (`scram`).
"""

import secrets
from typing import Final

from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.identity.scram import ITERATIONS_MIN, Verifier, make_verifier, parse_verifier

TOKEN_BYTES: Final = 32
SALT_BYTES: Final = 16
PASSWORD_ITERATIONS: Final = 600_000
"""About half a second of the client's processor, once per process: OWASP's figure for PBKDF2 with SHA-256."""
PASSWORD_LETTERS_MIN: Final = 8
SECRET_LETTERS_MAX: Final = 512


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
