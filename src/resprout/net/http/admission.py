"""Who may see a broker's pages: those that may ask it over the network, shown by a secret.

Without rules, every process on this machine may. A browser asks its user for name and secret where there are rules. The
secret itself travels (HTTP Basic), so this port belongs on loopback, or behind something that speaks TLS. Every failed
login is counted and logged, as those at the broker's port are.

`BasicLogins` checks the secret against the same verifiers as logins. Here the broker computes what a client computes in
SCRAM, so one secret at a time is computed, in a thread, and few requests wait for their turn, fewer from one address.
An identity that is not known takes as long as one that is. A secret that was right is remembered as a digest with a key
that stays in this process: a monitor that asks every few seconds waits for no guesser. Wrong ones make the next check
come later, as at the broker's port.
"""

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final

from resprout.core.errors import UsageError
from resprout.links.handshake import shorten
from resprout.net.address import Address, is_loopback
from resprout.net.connection_limits import is_local, source_of
from resprout.net.door import Door
from resprout.net.http.server import HttpRefusal, HttpRequest
from resprout.net.identity.logins import WRONG
from resprout.net.identity.scram import Verifier, derive_keys, read_login

WAITING_MAX: Final = 64
WAITING_OF_ONE_MAX: Final = 16
"""Secrets that wait to be computed: of all, and from one address."""
RIGHT_MAX: Final = 1_024
"""Secrets that were right and are remembered."""
TOO_MANY: Final = "too many secrets wait to be checked"


class PageAdmission:
    """`opens`: whoever comes may see them. `refused` is told who may not, and why, in one of a few texts."""

    def __init__(self, door: Door, opens: bool, refused: Callable[[str, str], None]) -> None:
        self._door = door
        self._opens = opens
        self._refused = refused
        self._logins = BasicLogins(door)

    def close(self) -> None:
        self._logins.close()

    async def check(self, request: HttpRequest) -> None:
        """HttpRefusal when who asks may not see anything."""
        if self._opens:
            return
        if not self._door.has_rules:
            if not is_local(source_of(request.source)):
                raise HttpRefusal(HTTPStatus.FORBIDDEN, "this is shown on this machine only")
            return
        identity, fault = await self._identify(request)
        if not fault:
            fault = self._door.judge_viewer(identity)
        if not fault:
            return
        asks = {"WWW-Authenticate": 'Basic realm="resprout", charset="UTF-8"'}
        if "authorization" not in request.headers:
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "show who you are", asks)
        who = shorten(identity) or "somebody"
        self._refused(f"{who} from {request.source}, who wants to see pages,", fault)
        if fault == TOO_MANY:
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, fault, {"Retry-After": "5"})
        raise HttpRefusal(HTTPStatus.UNAUTHORIZED, f"{who} may not see this: {fault}", asks)

    async def _identify(self, request: HttpRequest) -> tuple[str, str]:
        kind, _, told = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return "", "nothing was shown"
        try:
            identity, secret = read_login(base64.b64decode(told, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError, UsageError):
            return "", "that is no login"
        return identity, await self._logins.check(identity, secret, source_of(request.source))


def check_pages_closed(address: Address, door: Door, opens: bool) -> None:
    """UsageError when pages would be there for other machines, and nothing says who may see them."""
    if not is_loopback(address) and not door.has_rules and not opens:
        raise UsageError(
            f"--http {address} can be reached from other machines, and nothing says who may look: give --rules, or"
            " --http-open to let everybody look"
        )


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
        """Why not; empty when the secret is that of the identity."""
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
            self._waiting += Counter()  # without those that are at 0

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
        """With the verifiers: when those change, what was right is forgotten."""
        return hmac.digest(self._key, "\0".join((identity, *map(str, verifiers), secret)).encode(), "sha256")


def _is_any(verifiers: Sequence[Verifier], secret: str) -> bool:
    """All of them are computed, whichever is right."""
    found = [
        hmac.compare_digest(derive_keys(secret, one.salt, one.iterations).stored_key, one.stored_key)
        for one in verifiers
    ]
    return any(found)
