"""The pages of a broker: what is served at which path, and who may see it.

Without rules, every process on this machine may see them. With rules, a browser asks its user for name and secret, of
an identity that may ask the broker over the network too. The secret itself travels (HTTP Basic), so this port belongs
on loopback, or behind something that speaks TLS. Every failed login is counted and logged, as those at the broker's
port are.

`net.basic_logins` checks the secret against the same verifiers as logins.
"""

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import Awaitable, Callable
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Final

import msgspec

from resprout.core.errors import UsageError, escape_json, needed_for
from resprout.links.handshake import shorten
from resprout.net.accounts import TreeSurvey
from resprout.net.address import Address, is_loopback
from resprout.net.basic_logins import TOO_MANY, BasicLogins
from resprout.net.broker import RunningBroker
from resprout.net.connection_limits import is_local, source_of
from resprout.net.door import Door
from resprout.net.http.server import JSON, HttpAnswer, HttpRefusal, HttpRequest, HttpServer
from resprout.net.identity.scram import read_login
from resprout.net.survey import Asker, survey

SURVEY_BYTES: Final = 8 << 20
"""Of the answers in a survey for a page. Brokers whose answers do not fit are missing."""
LETTERS_AT_ONCE: Final = 1 << 16
"""Escaped at once, in a thread: between two portions the broker goes on."""
FRESH_SECONDS: Final = 0.5
"""So long a survey is good for whoever else asks: many that look make no more work than one."""
HEALTH: Final = ("/healthz", "/readyz")
LOOKS_FOR: Final = "it looks for its network"


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
        who = shorten(identity) or "an unknown client"
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
            f"--http {address} can be reached from other machines, and nothing restricts who may look: give --rules, or"
            " --http-open to let everybody look"
        )


class Pages:
    """`door`: as at the broker's own port. `opens`: whoever comes may look. Begun before the broker lives, it says that
    it is there, and not ready."""

    def __init__(self, name: str, door: Door, opens: bool) -> None:
        self._door = door
        self._admission = PageAdmission(door, opens, self._refused)
        self._server = HttpServer(self._answer, HEALTH)
        self._broker: RunningBroker | None = None
        self._render_metrics: Callable[[str], tuple[bytes, str]] | None = None
        self._asker = Asker(name, "broker", door.keyring, network_key=door.network_key)
        self._survey: asyncio.Task[bytes] | None = None
        self._survey_s = 0.0
        self._paths: dict[str, Callable[[HttpRequest], Awaitable[HttpAnswer]]] = {
            "/": self._page,
            "/status.json": self._status,
            "/metrics": self._metrics_page,
        }

    @property
    def url(self) -> str:
        return f"http://{self._server.address}/"

    async def listen(self, address: Address) -> None:
        await self._server.listen(address)

    def show(self, broker: RunningBroker) -> None:
        """Serve pages about this broker from now on; before that there is nothing to tell."""
        self._broker = broker
        self._render_metrics = None
        broker.books.http = self.url

    async def close(self) -> None:
        if self._survey is not None:
            self._survey.cancel()
        self._admission.close()
        await self._server.close()

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        if request.path == HEALTH[0]:
            return HttpAnswer(f"ok\n{self._waits_for()}".encode())
        if request.path == HEALTH[1]:
            return self._ready()
        await self._admission.check(request)
        handler = self._paths.get(request.path)
        if handler is None:
            known = ", ".join((*HEALTH, *self._paths))
            raise HttpRefusal(HTTPStatus.NOT_FOUND, f"there is nothing here: there are {known}")
        return await handler(request)

    def _refused(self, who: str, why: str) -> None:
        """Count it, and tell it in the log, with what the broker's own port refuses."""
        if self._broker is not None:
            self._broker.host.reception.turned_away(who, why)

    def _waits_for(self) -> str:
        """A line, when it looks for its network and too few others do."""
        return f"{self._broker.waits_for}\n" if self._broker is not None and self._broker.waits_for else ""

    def _ready(self) -> HttpAnswer:
        if self._broker is None:
            reason = LOOKS_FOR
        elif not self._broker.books.status().serving:
            reason = self._broker.waits_for or "it has no place in the tree, or a repair goes on"
        elif (mqtt := self._broker.books.mqtt) is not None and not mqtt.is_serving:
            reason = "it does not have the MQTT sessions yet"
        else:
            return HttpAnswer(b"ready\n")
        return HttpAnswer(f"not ready: {reason}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)

    def _living(self) -> RunningBroker:
        if self._broker is None:
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, LOOKS_FOR)
        return self._broker

    async def _page(self, request: HttpRequest) -> HttpAnswer:
        body, policy = live_page()
        return HttpAnswer(body, kind="text/html; charset=utf-8", headers={"Content-Security-Policy": policy})

    async def _status(self, request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(await self._look(self._living()), kind=JSON)

    async def _metrics_page(self, request: HttpRequest) -> HttpAnswer:
        broker = self._living()
        if self._render_metrics is None:
            try:
                with needed_for("/metrics"):
                    from resprout.net.http.metrics import BrokerCollector, Metrics
            except UsageError as error:
                raise HttpRefusal(HTTPStatus.NOT_IMPLEMENTED, str(error)) from None
            self._render_metrics = Metrics(BrokerCollector(broker.books)).render
        body, kind = self._render_metrics(request.headers.get("accept", ""))
        return HttpAnswer(body, kind=kind)

    async def _look(self, broker: RunningBroker) -> bytes:
        """One at a time, for all who ask meanwhile."""
        loop = asyncio.get_running_loop()
        task = self._survey
        if task is None or (task.done() and (loop.time() - self._survey_s > FRESH_SECONDS or task.exception())):
            task = self._survey = loop.create_task(self._look_anew(broker))
            task.add_done_callback(lambda done: setattr(self, "_survey_s", loop.time()))
        return await asyncio.shield(task)

    async def _look_anew(self, broker: RunningBroker) -> bytes:
        found = await survey(self._asker, broker.books.account(), SURVEY_BYTES)
        return await asyncio.to_thread(rendered, found)


def rendered(found: TreeSurvey) -> bytes:
    """Return a survey as JSON that steers no terminal. Escaping takes a microsecond for a letter in the worst case."""
    text = msgspec.json.encode(found).decode()
    parts = [escape_json(text[at : at + LETTERS_AT_ONCE]) for at in range(0, len(text), LETTERS_AT_ONCE)]
    return "".join(parts).encode()


@cache
def live_page() -> tuple[bytes, str]:
    """The page, and what a browser may do with it: run what is written in it, and ask this server. Nothing else."""
    text = resources.files("resprout.net.http").joinpath("live.html").read_text()
    script, style = (_digest(text, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _digest(page: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    assert found is not None, f"the page has a {tag}"
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}'"
