"""A small HTTP server for a few pages that are read: GET, one request on a connection, no bodies, and limits on all.

Not here: what is served, and who may see it (`pages`). There is no TLS: beyond this machine it belongs behind
something that has it.
"""

import asyncio
import contextlib
import ipaddress
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from typing import Final, cast

import msgspec

from resprout.core.errors import escape, escape_json
from resprout.net.address import Address, ListenError, reason_of
from resprout.net.connection_limits import source_of

HEAD_BYTES_MAX: Final = 8 << 10
HEADERS_MAX: Final = 64
HEAD_SECONDS_MAX: Final = 5.0
"""From the first byte of a connection to the end of what is asked."""
ANSWER_SECONDS_MAX: Final = 20.0
"""To find the answer, and for the other side to take it."""
CONNECTIONS_MAX: Final = 64
"""Connections that have not sent their request yet. For one more, the oldest of the address that has most is closed: a
client that sends slowly is only in the way of itself, and one that sends at once is answered."""
ANSWERS_MAX: Final = 64
"""Requests that are being answered. More are told to come again; signs of health are answered all the same."""

_SAFE: Final = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


JSON: Final = "application/json"
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


class HttpRequest(msgspec.Struct, frozen=True):
    path: str
    """Without the question behind it."""
    headers: Mapping[str, str]
    """By name in small letters."""
    source: str
    """The address of who asks."""


class HttpAnswer(msgspec.Struct, frozen=True):
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}


class HttpRefusal(Exception):  # noqa: N818 (it is no error of ours)
    """What is asked is not answered."""

    def __init__(self, status: HTTPStatus, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.answer = HttpAnswer(f"{reason}\n".encode(), status, headers=headers or {})


class HttpServer:
    """`answer` is asked for what is to be served. Whoever calls it by a name that is not its own is refused: a page
    from elsewhere could have given that name to this address, to read what is served here. `always`: paths that
    are answered however many others are."""

    def __init__(self, answer: Callable[[HttpRequest], Awaitable[HttpAnswer]], always: Collection[str] = ()) -> None:
        self._answer = answer
        self._always = always
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()
        self._reading: dict[asyncio.Task[None], str] = {}
        """Those that have not sent their request yet, with where they come from, the oldest first."""
        self._answering = 0
        self._names: frozenset[str] = frozenset()
        self.address = Address("", 0)

    async def listen(self, address: Address) -> None:
        """ListenError when it cannot."""
        try:
            self._server = await asyncio.start_server(
                self._accept, address.host or None, address.port, limit=HEAD_BYTES_MAX
            )
        except OSError as error:
            raise ListenError(address, reason_of(error), error.errno or 0) from None
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(address.host, port)
        self._names = frozenset({address.host.lower(), "localhost"})

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in list(self._busy):
                task.cancel()
            await asyncio.gather(*self._busy, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._reading) >= CONNECTIONS_MAX:
            self._one_too_many().cancel()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._busy.add(task)
        self._reading[task] = source_of(_source(writer))
        task.add_done_callback(self._forget)
        task.add_done_callback(lambda _: writer.transport.abort())  # also when it was cancelled before it began

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._busy.discard(task)
        self._reading.pop(task, None)

    def _one_too_many(self) -> asyncio.Task[None]:
        """The oldest one of the address that has most of them."""
        most, _ = Counter(self._reading.values()).most_common(1)[0]
        task = next(task for task, source in self._reading.items() if source == most)
        del self._reading[task]
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_head = counts = False
        try:
            try:
                async with asyncio.timeout(HEAD_SECONDS_MAX):
                    method, request = await self._read(reader, _source(writer))
                self._reading.pop(cast(asyncio.Task[None], asyncio.current_task()), None)
                is_head = method == "HEAD"
                counts = self._take_place(request.path)
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    answer = await self._answer(request)
            except HttpRefusal as refusal:
                answer = refusal.answer
            except TimeoutError:
                answer = HttpAnswer(b"that took too long\n", HTTPStatus.REQUEST_TIMEOUT)
            writer.write(encoded(answer, is_head))
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError):
            pass  # it is gone, or does not read
        finally:
            self._answering -= counts

    def _take_place(self, path: str) -> bool:
        """Among the requests that are being answered; False for one that needs none."""
        if path in self._always:
            return False
        if self._answering >= ANSWERS_MAX:
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many want to look", {"Retry-After": "5"})
        self._answering += 1
        return True

    async def _read(self, reader: asyncio.StreamReader, source: str) -> tuple[str, HttpRequest]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise HttpRefusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "that is too long") from None
        method, path, headers = _parse(head)
        if method not in ("GET", "HEAD"):
            raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here", {"Allow": "GET, HEAD"})
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "nothing is taken here")
        if not self._is_own(headers.get("host", "")):
            raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, "that is not the name of this server: use its address")
        return method, HttpRequest(path, headers, source)

    def _is_own(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name.partition("%")[0])
            return True
        return name.lower() in self._names


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].startswith("/"):
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "that is no request")
    if len(lines) > HEADERS_MAX:
        raise HttpRefusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "those are too many headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "that is no header, or stands there twice")
        headers[name.lower()] = value.strip()
    return words[0], words[1].partition("?")[0], headers


def encoded(answer: HttpAnswer, is_head: bool) -> bytes:
    status = answer.status
    body = _escaped(answer)
    headers = {
        "Content-Type": answer.kind, "Content-Length": str(len(body)), **_SAFE, **answer.headers,
    }  # fmt: skip
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *[f"{name}: {value}" for name, value in headers.items()],
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + (b"" if is_head else body)


def _escaped(answer: HttpAnswer) -> bytes:
    """The body without anything that steers a terminal: people look at these pages with `curl`, too."""
    if answer.body.isascii() and not _CONTROLS.search(answer.body):
        return answer.body
    text = answer.body.decode()
    return (escape_json(text) if answer.kind == JSON else escape(text, keep="\t\n")).encode()


def _source(writer: asyncio.StreamWriter) -> str:
    place = writer.get_extra_info("peername")
    return str(place[0]) if isinstance(place, tuple | list) and place else ""
