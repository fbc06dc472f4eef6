"""Where no session can be made there is one clear error, at once where possible."""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from resprout.client.connect import connect
from resprout.client.errors import ConnectError
from resprout.core.contract import Effect, Event
from resprout.core.errors import escape
from resprout.links.frames import Goodbye, Hello, SessionWelcome
from resprout.net.address import Address, ListenError
from resprout.net.host import Host
from resprout.net.sessions import Here, Who
from resprout.wire.codec import MAGIC
from tests.net.stage import CODEC, LOOPBACK, Bare, Behave, broker, run, somebody
from tests.patience import PATIENCE_S


def impostor(answer: Callable[[Any], Any]) -> Behave:
    """Speaks the protocol, and answers each frame as told."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Bare(reader, writer)
        while True:
            if (frame := answer(await peer.hear())) is not None:
                peer.say(frame)

    return behave


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1000):
        pass


async def leaver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)


async def from_the_future(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(MAGIC + b"\0\7\0\x09")


def wrong_meaning(frame: Any) -> Any:
    return Here("b0", "broker", 1) if isinstance(frame, Who) else Goodbye("protocol version 1; this side speaks 2")


def wrong_name(frame: Any) -> Any:
    return (
        Here("b0", "broker", 1) if isinstance(frame, Who) else SessionWelcome(1, "b9", "broker", 1, frame.epoch, 0, 9)
    )


def never_welcomes(frame: Any) -> Any:
    return Here("b0", "broker", 1) if isinstance(frame, Who) else None


def knocks_instead(frame: Any) -> Any:
    return Here("b0", "broker", 1) if isinstance(frame, Who) else Hello(1, "b0", "broker", 1, "p", None, 1, 0, 0)


def refusal(address: str, timeout: float = 5) -> str:
    async def scene() -> None:
        await connect(address, name="p", timeout=timeout)

    with pytest.raises(ConnectError) as caught:
        run(scene())
    return str(caught.value)


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (http, "the peer does not speak Resprout: it begins with b'HTTP/1.1'"),
        (leaver, "the connection was closed without an answer"),
        (from_the_future, "the peer speaks wire versions 7 to 9, this side 1 to 1: none in common"),
        (impostor(lambda _: Goodbye("closed on Sundays")), "closed on Sundays"),
        (impostor(wrong_meaning), "b0: protocol version 1; this side speaks 2"),
        (impostor(wrong_name), "b0: reached b9 instead of b0"),
        (impostor(knocks_instead), "b0: Hello instead of Welcome"),
    ],
)
def test_whoever_answers_wrongly_is_reported_at_once(behave: Behave, reason: str) -> None:
    async def scene() -> None:
        async with somebody(behave) as address:
            with pytest.raises(ConnectError) as caught:
                await connect(address, name="p", timeout=PATIENCE_S)
            assert str(caught.value) == f"{address}: {reason}"

    run(scene())


@pytest.mark.parametrize(
    ("behave", "reason"),
    [(mute, "no answer within 1.5 s"), (impostor(never_welcomes), "b0 did not open a session in time")],
)
def test_whoever_does_not_answer_is_waited_for_as_long_as_asked(behave: Behave, reason: str) -> None:
    async def scene() -> None:
        async with somebody(behave) as address:
            with pytest.raises(ConnectError) as caught:
                await connect(address, name="p", timeout=1.5)
            assert str(caught.value) == f"{address}: {reason}"

    run(scene())


def test_nobody_listens() -> None:
    async def free_port() -> str:
        async with somebody(mute) as address:
            return address

    address = run(free_port())
    assert refusal(address) == f"{address}: connection refused"


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no-such-host.invalid", "\udc80"])
def test_a_host_that_is_no_host(host: str) -> None:
    shown = escape(f"{host}:1: ")
    assert re.fullmatch(re.escape(shown) + r"[a-z ]+", refusal(f"{host}:1"))


class Deaf:
    """A machine that wants nothing."""

    def start(self, now_us: int) -> list[Effect]:
        return []

    def step(self, event: Event, now_us: int) -> list[Effect]:
        return []


def test_a_client_that_listens_is_no_broker() -> None:
    async def scene() -> None:
        host = Host(Deaf(), CODEC, Here("teller", "client", 4), lambda _: None, lambda _: None)
        address = await host.listen(LOOPBACK)
        try:
            with pytest.raises(ConnectError, match="teller, which listens there, is a client and not a broker"):
                await connect(str(address), name="p")
        finally:
            await host.close()

    run(scene())


def test_a_client_cannot_take_the_name_of_its_broker() -> None:
    async def scene() -> None:
        async with broker() as running:
            with pytest.raises(ConnectError, match="b0 is the name of this side"):
                await connect(str(running), name="b0")

    run(scene())


def test_two_brokers_on_one_port() -> None:
    async def scene() -> None:
        async with broker() as running:
            with pytest.raises(ListenError) as caught:
                async with broker("b1", listen=running.address):
                    pass
            assert str(caught.value) == f"cannot listen on {running.address}: address already in use"

    run(scene())


@pytest.mark.parametrize("host", ["a..b", "no-such-host.invalid", "203.0.113.1"])
def test_a_place_that_is_not_here_cannot_be_listened_on(host: str) -> None:
    async def scene() -> None:
        with pytest.raises(ListenError, match=rf"cannot listen on {re.escape(host)}:0: [a-z' ]+"):
            async with broker(listen=Address(host, 0)):
                pass

    run(scene())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_a_broker_is_reached_where_it_says_it_listens(host: str) -> None:
    async def scene() -> None:
        async with broker(listen=Address(host, 0)) as running:
            assert running.address.port > 0
            port = running.address.port
            names = (
                {info[4][0] for info in socket.getaddrinfo("localhost", port)} if host in ("", "localhost") else {host}
            )
            ways = {str(Address(str(name), port)) for name in names} | ({f":{port}"} if not host else set())
            for way in {str(running), *ways}:  # one port, by whichever protocol
                async with connect(way) as client:
                    await (await client.publish("t", b"x")).delivered()

    run(scene())
