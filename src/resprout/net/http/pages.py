"""What is served at which path."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Final

import msgspec

from resprout.net.accounts import TreeSurvey
from resprout.net.address import Address
from resprout.net.broker import RunningBroker
from resprout.net.door import Door
from resprout.net.http.admission import PageAdmission
from resprout.net.http.metrics import BrokerCollector, Metrics
from resprout.net.http.server import JSON, HttpAnswer, HttpRefusal, HttpRequest, HttpServer
from resprout.net.survey import Asker, survey

FRESH_SECONDS: Final = 0.5
"""So long a survey is good for whoever else asks: many that look make no more work than one."""
HEALTH: Final = ("/healthz", "/readyz")
LOOKS_FOR: Final = "it looks for its network"


class Pages:
    """`door`: as at the broker's own port. `opens`: whoever comes may look. Begun before the broker lives, it says that
    it is there, and not ready."""

    def __init__(self, name: str, door: Door, opens: bool) -> None:
        self._door = door
        self._admission = PageAdmission(door, opens, self._refused)
        self._server = HttpServer(self._answer, HEALTH)
        self._broker: RunningBroker | None = None
        self._metrics: Metrics | None = None
        self._asker = Asker(name, "broker", door.keyring, network_key=door.network_key)
        self._survey: asyncio.Task[TreeSurvey] | None = None
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
        self._metrics = Metrics(BrokerCollector(broker.books))
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
        return HttpAnswer(msgspec.json.encode(await self._look(self._living())), kind=JSON)

    async def _metrics_page(self, request: HttpRequest) -> HttpAnswer:
        self._living()
        assert self._metrics is not None
        body, kind = self._metrics.render(request.headers.get("accept", ""))
        return HttpAnswer(body, kind=kind)

    async def _look(self, broker: RunningBroker) -> TreeSurvey:
        """One at a time, for all who ask meanwhile."""
        loop = asyncio.get_running_loop()
        task = self._survey
        if task is None or (task.done() and (loop.time() - self._survey_s > FRESH_SECONDS or task.exception())):
            task = self._survey = loop.create_task(survey(self._asker, broker.books.account()))
            task.add_done_callback(lambda done: setattr(self, "_survey_s", loop.time()))
        return await asyncio.shield(task)


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
