"""Checks secrets that clients send in plain text, over HTTP or MQTT, against the SCRAM verifiers.

The broker derives the keys that a SCRAM client would derive. It checks one secret at a time in a thread, and limits the
pending checks in total and per address. Unknown identities take as long as known ones. Correct secrets are cached as a
keyed digest, so returning clients do not wait behind guesses. Wrong secrets delay the next check, as on the broker's
port.
"""

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from resprout.net.door import Door
from resprout.net.identity.rules import WRONG
from resprout.net.identity.scram import Verifier, derive_keys

WAITING_MAX: Final = 64
WAITING_OF_ONE_MAX: Final = 16
"""Maximum number of pending checks per address; `WAITING_MAX` is the limit for all addresses."""
RIGHT_MAX: Final = 1_024
"""Maximum number of cached correct secrets."""
TOO_MANY: Final = "too many checks of secrets are pending"


class BasicLogins:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._waiting: Counter[str] = Counter()
        self._right: set[bytes] = set()
        self._turn = asyncio.Lock()
        self._key = secrets.token_bytes(32)
        self._thread: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    async def check(self, identity: str, secret: str, source: str) -> str:
        """Check the secret of an identity. Return an empty string if it is correct, otherwise the reason."""
        verifiers, is_known = self._door.book.find(identity)
        mark = self._mark(identity, verifiers, secret)
        if mark in self._right:
            return ""
        if self._waiting[source] >= WAITING_OF_ONE_MAX or self._waiting.total() >= WAITING_MAX:
            return TOO_MANY
        self._waiting[source] += 1
        try:
            return await self._compute(identity, verifiers, secret, source, mark, is_known)
        finally:
            self._waiting[source] -= 1
            self._waiting += Counter()  # drop counts of 0

    async def _compute(
        self, identity: str, verifiers: Sequence[Verifier], secret: str, source: str, mark: bytes, is_known: bool
    ) -> str:
        loop, throttle = asyncio.get_running_loop(), self._door.throttle
        await asyncio.sleep(throttle.delay_s(identity, source, loop.time()))
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "secrets")
        async with self._turn:
            is_right = await loop.run_in_executor(self._thread, _is_any, verifiers, secret) and is_known
        if not is_right:
            throttle.failed(identity, source, loop.time())
            return WRONG
        if len(self._right) >= RIGHT_MAX:
            self._right.clear()
        self._right.add(mark)
        return ""

    def _mark(self, identity: str, verifiers: Sequence[Verifier], secret: str) -> bytes:
        """Return the cache key of a secret. It includes the verifiers, so that changing them invalidates the cache."""
        return hmac.digest(self._key, "\0".join((identity, *map(str, verifiers), secret)).encode(), "sha256")


def _is_any(verifiers: Sequence[Verifier], secret: str) -> bool:
    """Return whether the secret matches any verifier. Checks all of them, so that timing does not reveal which one
    matches."""
    found = [
        hmac.compare_digest(derive_keys(secret, one.salt, one.iterations).stored_key, one.stored_key)
        for one in verifiers
    ]
    return any(found)
