"""Checks secrets, so that whoever guesses neither finds out much nor keeps the broker from serving others.

Passwords take long on purpose: one at a time is computed, in a thread of its own, and few wait for their turn, fewer
from one place. Whoever was wrong often waits before it may try again. A password that was right is remembered for a
while, as a digest with a key that nobody else has: clients that reconnect after a crash do so together.
"""

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from resprout.net.identity.rules import KnownIdentity
from resprout.net.identity.secret import TOKEN, is_password, is_token

WAITING_MAX: Final = 64
WAITING_OF_ONE_MAX: Final = 16
"""Passwords that wait to be computed: of all, and from one place."""
FAILURES_MAX: Final = 10
PERIOD_S: Final = 60.0
"""So many wrong secrets from one place are looked at in so long."""
PLACES_MAX: Final = 10_000
RIGHT_MAX: Final = 1_024
"""Passwords that were right and are remembered."""

WRONG: Final = "this identity and this secret do not belong together"
TOO_OFTEN: Final = "there were too many wrong secrets from its address"
TOO_MANY: Final = "too many passwords wait to be checked"

Verdict = Callable[[str], None]
"""Told why not; empty when the secret is right."""


class Logins:
    """`find` tells who is known by a name."""

    def __init__(self, find: Callable[[str], KnownIdentity | None]) -> None:
        self._find = find
        self._failures: dict[str, tuple[float, int]] = {}
        """By place: since when, and how many."""
        self._waiting: Counter[str] = Counter()
        self._right: set[bytes] = set()
        self._turn = asyncio.Lock()
        self._key = secrets.token_bytes(32)
        self._thread: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, name: str, secret: str, place: str, verdict: Verdict) -> None:
        """`verdict` is told at once, or later when a password has to be computed."""
        loop = asyncio.get_running_loop()
        if self._is_barred(place, loop.time()):
            verdict(TOO_OFTEN)
            return
        known = self._find(name)
        digests = known.secrets if known is not None else ()
        if any(is_token(digest, secret) for digest in digests if digest.startswith(TOKEN)):
            verdict("")
            return
        passwords = tuple(digest for digest in digests if not digest.startswith(TOKEN))
        if not passwords:
            self._wrong(place, loop.time())
            verdict(WRONG)
        elif self._mark(passwords, secret) in self._right:
            verdict("")
        elif self._waiting[place] >= WAITING_OF_ONE_MAX or self._waiting.total() >= WAITING_MAX:
            verdict(TOO_MANY)
        else:
            self._waiting[place] += 1
            task = loop.create_task(self._compute(passwords, secret, place, verdict))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    async def _compute(self, passwords: tuple[str, ...], secret: str, place: str, verdict: Verdict) -> None:
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "passwords")
        mark = self._mark(passwords, secret)
        try:
            async with self._turn:
                is_right = mark in self._right or await loop.run_in_executor(self._thread, _is_any, passwords, secret)
        finally:
            self._waiting[place] -= 1
            self._waiting += Counter()  # without those that are at 0
        if is_right:
            if len(self._right) >= RIGHT_MAX:
                self._right.clear()
            self._right.add(mark)
        else:
            self._wrong(place, loop.time())
        verdict("" if is_right else WRONG)

    def _mark(self, passwords: tuple[str, ...], secret: str) -> bytes:
        """With the digests: when those change, what was right is forgotten."""
        return hmac.digest(self._key, "\0".join((*passwords, secret)).encode(), "sha256")

    def _is_barred(self, place: str, now_s: float) -> bool:
        since_s, count = self._failures.get(place, (now_s, 0))
        if now_s - since_s > PERIOD_S:
            self._failures.pop(place, None)
            return False
        return count >= FAILURES_MAX

    def _wrong(self, place: str, now_s: float) -> None:
        since_s, count = self._failures.pop(place, (now_s, 0))
        self._failures[place] = (since_s, count + 1)
        if len(self._failures) > PLACES_MAX:
            del self._failures[next(iter(self._failures))]


def _is_any(passwords: tuple[str, ...], secret: str) -> bool:
    return any(is_password(digest, secret) for digest in passwords)
