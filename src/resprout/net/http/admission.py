"""Who may see a broker's pages: the same people as may ask it over the network, shown by a secret.

Without rules whoever is on this machine may. A browser asks its user for name and secret where there are rules. The
secret itself travels (HTTP Basic), so this port belongs on loopback, or behind something that speaks TLS. Every failed
login is counted and told in the log, as those at the broker's port are.
"""

import base64
import binascii
from collections.abc import Callable
from http import HTTPStatus

from resprout.core.errors import UsageError
from resprout.links.handshake import shorten
from resprout.net.address import Address, is_loopback
from resprout.net.door import Door
from resprout.net.http.basic_logins import TOO_MANY, BasicLogins
from resprout.net.http.server import HttpRefusal, HttpRequest
from resprout.net.identity.secret import read_login
from resprout.net.unidentified import is_local, source_of


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
