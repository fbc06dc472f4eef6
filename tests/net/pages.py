"""What a broker shows to browsers and monitors, asked for over HTTP by a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from prometheus_client.parser import text_string_to_metric_families

from resprout.net.address import Address
from resprout.net.door import Door
from resprout.net.http.pages import Pages
from tests.net.stage import Running


class Reply:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split(" ")[1]) if first else 0
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def text(self) -> str:
        return self.body.decode()


async def said(address: Address, raw: bytes) -> Reply:
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    try:
        writer.write(raw)
        return Reply(await reader.read())
    finally:
        writer.close()


async def get(address: Address, path: str, *headers: str, method: str = "GET") -> Reply:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {address}", *headers, "", ""]
    return await said(address, "\r\n".join(lines).encode())


@contextlib.asynccontextmanager
async def served(running: Running | None, door: Door | None = None, opens: bool = False) -> AsyncIterator[Address]:
    pages = Pages("b0", door or Door(), opens)
    await pages.listen(Address("127.0.0.1", 0))
    if running is not None:
        pages.show(running.broker)
    try:
        yield Address("127.0.0.1", int(pages.url.rstrip("/").rpartition(":")[2]))
    finally:
        await pages.close()


async def refusals(running: Running) -> dict[str, int]:
    """What a broker has refused, by reason, as `resprout status --json` tells it."""
    return dict(running.broker.books.refusals())


def values(text: str) -> dict[tuple[str, ...], float]:
    """By name and the values of labels, in the order of their names."""
    return {
        (one.name, *[one.labels[label] for label in sorted(one.labels)]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
