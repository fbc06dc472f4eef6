"""Programs that are nothing but handlers."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from resprout.client.app import Application
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import RequestFailedError
from resprout.core.errors import UsageError
from resprout.core.message import Message
from tests.net.stage import broker, run


class Order(msgspec.Struct):
    article: str
    count: int = 1


class Invoice(msgspec.Struct):
    price: float


def app_for(address: str) -> Application:
    app = Application(address, name="billing")

    @app.subscriber("orders/+", where="urgent is null")
    @app.publisher("invoices")
    @app.publisher("books/sales", guarantee="fifo")
    async def bill(order: Order) -> Invoice:
        if order.article == "gold":
            raise LookupError("none is left")
        return Invoice(2.5 * order.count)

    @app.subscriber("raw")
    async def raw(payload: bytes) -> bytes:
        return payload.upper()

    @app.subscriber("whole")
    async def whole(message: Message) -> None:
        assert app.client is not None
        await app.client.publish("seen", message.topic.encode())

    return app


@asynccontextmanager
async def running() -> AsyncIterator[Client]:
    async with broker() as one, connect(str(one.address), name="shop") as client:
        ready = asyncio.Event()
        serving = asyncio.create_task(app_for(str(one.address)).serve(ready))
        await ready.wait()
        yield client
        serving.cancel()
        await asyncio.wait((serving,))


def test_what_a_handler_returns_is_published_and_is_the_reply() -> None:
    async def story() -> None:
        async with running() as client:
            inbox = await client.subscribe("invoices", type=Invoice)
            await client.subscribe("books/sales", into=inbox, type=Invoice)
            await client.publish("orders/1", Order("bread", 2))
            both = [await inbox.next(), await inbox.next()]
            assert sorted(message.topic for message in both) == ["books/sales", "invoices"]
            assert {message.value.price for message in both} == {5.0}
            assert (await client.request("orders/2", Order("salt"), type=Invoice)).value == Invoice(2.5)
            assert (await client.request("raw", b"abc")).payload == b"ABC"

    run(story())


def test_a_handler_is_given_what_its_parameter_says_and_may_use_the_client() -> None:
    async def story() -> None:
        async with running() as client:
            inbox = await client.subscribe("seen")
            assert (await client.request("whole", b"")).payload == b"", "it returns nothing"
            assert (await inbox.next()).payload == b"whole"

    run(story())


def test_an_error_concerns_one_message(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with running() as client:
            with pytest.raises(RequestFailedError, match="LookupError: none is left"):
                await client.request("orders/1", Order("gold"))
            with pytest.raises(RequestFailedError, match="MistypedPayloadError: orders/1: "):
                await client.request("orders/1", b"{")
            assert (await client.request("orders/1", Order("salt"), type=Invoice)).value == Invoice(2.5)

    with caplog.at_level(logging.CRITICAL + 1, "resprout"):
        run(story())


async def _nothing() -> None: ...
async def _two(one: bytes, other: bytes) -> None: ...
async def _unsaid(one) -> None: ...  # type: ignore[no-untyped-def]
def _plain(one: bytes) -> None: ...
async def _odd(one: Application) -> None: ...


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (_nothing, "must take one argument"),
        (_two, "must take one argument"),
        (_unsaid, "the first parameter of _unsaid has no annotation"),
        (_plain, "is no `async def`"),
        (_odd, "messages cannot be decoded to it"),
    ],
)
def test_a_handler_that_cannot_be_one_is_refused_where_it_is_written(handler: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Application("localhost:1").subscriber("t")(handler)


def test_wrong_topics_and_filters_are_refused_at_once_and_so_is_an_app_that_does_nothing() -> None:
    app = Application("localhost:1")
    with pytest.raises(UsageError):
        app.subscriber("a/#/b")(_two)
    with pytest.raises(UsageError):
        app.publisher("a/+")
    with pytest.raises(UsageError, match="nothing to do"):
        run(app.serve())
