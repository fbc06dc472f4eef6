"""Secrets, and what a rules file holds of them.

A token is made here and has so much chance in it that its digest needs no protection. A password is made by people: its
digest is argon2, which takes long on purpose, for everybody who guesses and for us. Both are said as `NAME:SECRET`.
"""

import hashlib
import hmac
import re
import secrets
from typing import Any, Final

from resprout.core.errors import UsageError
from resprout.core.names import check_name

TOKEN_BYTES: Final = 32
SECRET_LETTERS_MAX: Final = 512
TOKEN: Final = "sha256:"
PASSWORD: Final = "$argon2"


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest_of_token(token: str) -> str:
    return TOKEN + hashlib.sha256(token.encode()).hexdigest()


def digest_of_password(password: str) -> str:
    """UsageError where argon2 is not installed."""
    return str(_argon2().PasswordHasher().hash(check_secret(password)))


def is_token(digest: str, secret: str) -> bool:
    return hmac.compare_digest(digest, digest_of_token(secret))


def is_password(digest: str, secret: str) -> bool:
    """Takes a good part of a second, and much memory: not for the thread of an event loop."""
    argon2 = _argon2()
    try:
        return bool(argon2.PasswordHasher().verify(digest, secret))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def check_digest(text: str) -> str:
    """As it stands in a rules file."""
    if re.fullmatch(TOKEN + "[0-9a-f]{64}", text):
        return text
    if text.startswith(PASSWORD) and text.count("$") == 5:
        _argon2()
        return text
    raise UsageError("this is no digest of a secret; `resprout secret NAME` makes one")


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


def _argon2() -> Any:
    try:
        import argon2
    except ImportError:
        raise UsageError("passwords need `argon2-cffi`: pip install 'resprout[secure]'") from None
    return argon2
