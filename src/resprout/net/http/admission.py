"""Who may see a broker's pages: the same people as may ask it over the network, shown by a secret.

Without rules whoever is on this machine may. A browser asks its user for name and secret where there are rules.
"""

import asyncio
import base64
import binascii
from http import HTTPStatus

from resprout.core.errors import UsageError
from resprout.links.handshake import shorten
from resprout.net.address import Address, is_loopback
from resprout.net.door import Door
from resprout.net.http.server import HttpRefusal, HttpRequest
from resprout.net.identity.logins import Logins
from resprout.net.identity.secret import read_login
from resprout.net.unidentified import is_local, source_of


class PageAdmission:
    """`opens`: whoever comes may see them."""

    def __init__(self, door: Door, opens: bool) -> None:
        self._door = door
        self._opens = opens
        self._logins = Logins(door.known)

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
        if fault:
            asked = "authorization" not in request.headers
            raise HttpRefusal(
                HTTPStatus.UNAUTHORIZED,
                "show who you are" if asked else f"{shorten(identity) or 'somebody'} may not see this: {fault}",
                {"WWW-Authenticate": 'Basic realm="resprout", charset="UTF-8"'},
            )

    async def _identify(self, request: HttpRequest) -> tuple[str, str]:
        kind, _, told = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return "", "nothing was shown"
        try:
            identity, secret = read_login(base64.b64decode(told, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError, UsageError):
            return "", "that is no login"
        judged: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def verdict(fault: str) -> None:
            if not judged.done():  # who asked may be gone
                judged.set_result(fault)

        self._logins.check(identity, secret, source_of(request.source), verdict)
        return identity, await judged


def check_pages_closed(address: Address, door: Door, opens: bool) -> None:
    """UsageError when pages would be there for other machines, and nothing says who may see them."""
    if not is_loopback(address) and not door.has_rules and not opens:
        raise UsageError(
            f"--http {address} can be reached from other machines, and nothing says who may look: give --rules, or"
            " --http-open to let everybody look"
        )
