"""Handlers by decorator, for programs that are nothing but handlers.

    app = resprout.Application("localhost:7450", name="billing")

    @app.subscriber("orders/+")
    @app.publisher("invoices")
    async def bill(order: Order) -> Invoice:
        return Invoice(order.article, 4.2 * order.count)

    app.run()

What a handler is given is what its first parameter says: `bytes` the payload, `resprout.Message` the message, any other
type a value that is decoded from the payload (`client.typed`). What it returns is published where `publisher` says, and
is the reply when the message is a request. Messages of one subscription are handled one after the other.

An error in a handler, or a payload that does not fit, concerns one message: it is logged, whoever asked is told, and
the next one is handled. A message counts as delivered when its handler is given it, not when it is through.
"""

import asyncio
import contextlib
import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import PublishError
from resprout.client.requesting import ServedRequest, Service
from resprout.client.typed import decoder_of
from resprout.core.errors import UsageError
from resprout.core.escaping import logger
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.message import Message
from resprout.core.names import check_topic
from resprout.filters.predicate import parse_predicate

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)

_TOPICS: Final = "__resprout_topics__"


class _Route:
    """One decorated handler."""

    def __init__(self, filter: str, where: str | None, handler: Handler) -> None:
        parse_predicate(filter, where)
        self.filter = filter
        self.where = where
        self.handler = handler
        self.kind = _first_parameter(handler)
        if self.kind not in (bytes, Message):
            decoder_of(self.kind)

    def serve(self, client: Client) -> Service[Any]:
        if self.kind in (bytes, Message):
            return client.serve(self.filter, self.where)
        return client.serve(self.filter, self.where, type=self.kind)

    def argument(self, request: ServedRequest[Any]) -> Any:
        if self.kind is Message:
            return request.message
        return request.payload if self.kind is bytes else request.value


class Application:
    """`arguments` are those of `resprout.connect`."""

    def __init__(self, address: Any, **arguments: Any) -> None:
        self._address = address
        self._arguments = arguments
        self._routes: list[_Route] = []
        self.client: Client | None = None
        """While it runs: for handlers that publish or ask by themselves."""

    def subscriber(self, filter: str, where: str | None = None) -> Callable[[H], H]:
        """What matches is given to the handler. UsageError when the filter, or what the handler takes, is wrong."""

        def take(handler: H) -> H:
            self._routes.append(_Route(filter, where, handler))
            return handler

        return take

    def publisher(self, topic: str, guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL) -> Callable[[H], H]:
        """What the handler returns, unless that is None, is published there. Several may stand above each other, below
        `subscriber`."""
        check_topic(topic)

        def mark(handler: H) -> H:
            setattr(handler, _TOPICS, (*getattr(handler, _TOPICS, ()), (topic, guarantee)))
            return handler

        return mark

    def run(self) -> None:
        """Until Ctrl-C, or until the session is lost for good."""
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(self.serve())

    async def serve(self, ready: asyncio.Event | None = None) -> None:
        """The same in a program that has an event loop; ends when it is cancelled. `ready` is set when every
        subscription is confirmed."""
        if not self._routes:
            raise UsageError("an app without a subscriber has nothing to do")
        async with connect(self._address, **self._arguments) as client:
            self.client = client
            try:
                services = [await route.serve(client).ready() for route in self._routes]
                if ready is not None:
                    ready.set()
                async with asyncio.TaskGroup() as group:
                    for route, service in zip(self._routes, services, strict=True):
                        group.create_task(self._handle_all(route, service))
            finally:
                self.client = None

    async def _handle_all(self, route: _Route, service: Service[Any]) -> None:
        async for request in service:
            try:
                result = await route.handler(route.argument(request))
                await self._pass_on(route, request, result)
            except Exception as error:
                await self._failed(route, request, error)

    async def _pass_on(self, route: _Route, request: ServedRequest[Any], result: Any) -> None:
        assert self.client is not None
        if result is not None:
            for topic, guarantee in getattr(route.handler, _TOPICS, ()):
                await self.client.publish(topic, result, guarantee=guarantee)
        if request.wants_reply:
            await request.reply(result if result is not None else b"")

    async def _failed(self, route: _Route, request: ServedRequest[Any], error: Exception) -> None:
        name = getattr(route.handler, "__name__", "a handler")
        logger.error("%s could not handle a message on %s: %s", name, request.topic, error, exc_info=error)
        if request.wants_reply:
            with contextlib.suppress(PublishError):
                await request.fail(f"{type(error).__name__}: {error}")


def _first_parameter(handler: Handler) -> Any:
    """What the handler wants to be given."""
    name = getattr(handler, "__name__", repr(handler))
    if not inspect.iscoroutinefunction(handler):
        raise UsageError(f"{name} is no `async def`: handlers are")
    parameters = list(inspect.signature(handler).parameters.values())
    if len([one for one in parameters if one.default is one.empty]) != 1:
        raise UsageError(f"{name} must take one argument, the message")
    kind = typing.get_type_hints(handler).get(parameters[0].name)
    if kind is None:
        raise UsageError(f"what is {name} to be given? Write it down: `async def {name}(order: Order)`")
    return kind
