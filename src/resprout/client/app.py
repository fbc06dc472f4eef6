"""Handlers by decorator, for programs that consist of handlers.

    app = resprout.Application("localhost:7450", name="billing")

    @app.subscriber("orders/+", durable="billing", retries=3)
    @app.publisher("invoices")
    async def bill(order: Order) -> Invoice:
        return Invoice(order.article, 4.2 * order.count)

    app.run()

The annotation of the handler's argument decides what it receives: `bytes` the payload, `resprout.Message` the message,
any other type the decoded payload (`client.inbox`). The result is published where `publisher` says, and is the reply
when the message is a request. Messages of one subscription are handled one after the other.

With `durable` or `group` a message is acknowledged after its handler has returned and its results are safe, so a crash
loses nothing. Without them a message counts as delivered when its handler begins.

A handler that raises is tried again `retries` times. Then the error is logged, a requester is told, and `on_error`
decides: "skip" goes on with the next message, "stop" ends the application. SIGTERM and Ctrl-C let handlers finish the
messages that they have, send their acks, and end.
"""

import asyncio
import contextlib
import inspect
import signal
import typing
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeVar

import msgspec

from resprout.client.arguments import check_count, check_filter_and_where, check_seconds, check_word, shown, wrong
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import (
    ClosedError,
    ConnectionState,
    FencedError,
    MistypedPayloadError,
    PublishError,
    SlowConsumerError,
)
from resprout.client.inbox import Inbox, TypedMessage, decoder_of
from resprout.client.redelivery import Redelivery
from resprout.client.requesting import ServedRequest
from resprout.client.terms import WhenFullWord, check_durable_only, read_policy, read_terms
from resprout.core.errors import UsageError, logger
from resprout.core.guarantee import Guarantee, GuaranteeName, ReceiptLevel
from resprout.core.limits import check_topic
from resprout.core.message import DurableMessage, Message
from resprout.core.message_fields import NUMBER_MAX

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
OnError = Literal["skip", "stop"]

STOP_SECONDS: Final = 30.0
"""How long handlers may take to finish after SIGTERM, unless told otherwise."""
RETRIES_MAX: Final = 1_000_000
RETRY_DELAY_MAX: Final = 60.0
"""Seconds between two attempts: doubled after each, up to this or to the first delay if that is longer."""
_TOPICS: Final = "__resprout_topics__"


class RetryPolicy(msgspec.Struct, frozen=True):
    """Action after a handler raises."""

    retries: int
    delay_s: float
    on_error: str

    def pause_s(self, attempt: int) -> float:
        """Seconds to wait after this attempt, the first of which is 0."""
        return min(self.delay_s * 2.0 ** min(attempt, 60), max(self.delay_s, RETRY_DELAY_MAX))


class _Route:
    """One decorated handler with its subscription."""

    def __init__(
        self, filter: str, where: str | None, handler: Handler, subscription: dict[str, Any], policy: RetryPolicy
    ) -> None:
        self.filter = filter
        self.where = where
        self.handler = handler
        self.policy = policy
        self._subscription = subscription
        self.redelivers = subscription["redelivery"] is not None
        self.is_durable = subscription["durable"] is not None or subscription["group"] is not None
        self.kind = _first_parameter(handler)
        self._decode = decoder_of(self.kind) if self.kind not in (bytes, Message) else None
        self.is_busy = False
        """Whether the handler has a message."""

    @property
    def name(self) -> str:
        return getattr(self.handler, "__name__", "a handler")

    async def subscribe(self, client: Client) -> Inbox:
        inbox: Any = await client.subscribe(
            self.filter, self.where, manual_ack=self.is_durable, **self._subscription
        )  # fmt: skip
        assert isinstance(inbox, Inbox), "no type was given"
        return inbox

    def request_of(self, client: Client, message: Message) -> ServedRequest[Any]:
        typed = TypedMessage(message, self._decode) if self._decode is not None else None
        return ServedRequest(client, message, typed)

    def argument(self, request: ServedRequest[Any]) -> Any:
        if self.kind is Message:
            return request.message
        return request.payload if self.kind is bytes else request.value


class Application:
    """Runs handlers. `arguments` are those of `resprout.connect`; `stop_timeout` is how many seconds handlers have to
    finish when the application is asked to stop, None for no limit."""

    def __init__(self, address: Any, *, stop_timeout: float | None = STOP_SECONDS, **arguments: Any) -> None:
        connect(address, **arguments)  # refuses wrong arguments here, not when the application runs
        self._address = address
        self._arguments = arguments
        self._stop_s = check_seconds(stop_timeout, "stop_timeout")
        self._routes: list[_Route] = []
        self._stopping: asyncio.Event | None = None
        self.client: Client | None = None
        """The client while the application runs: for handlers that publish or send requests."""

    def subscriber(
        self,
        filter: str,
        where: str | None = None,
        *,
        durable: str | None = None,
        group: str | None = None,
        when_full: WhenFullWord | None = None,
        max_pending: int | None = None,
        window: int | None = None,
        redelivery: Redelivery | None = None,
        retries: int = 0,
        retry_delay: float = 1.0,
        on_error: OnError = "skip",
    ) -> Callable[[H], H]:
        """Give every message that matches to the handler below. `durable` to `redelivery` are those of
        `Client.subscribe`.

        A handler that raises is tried again up to `retries` times, after `retry_delay` seconds, then twice as long each
        time, up to a minute. A payload that does not decode is not tried again. Then `on_error` decides: "skip" logs
        the error and goes on (a durable message is acknowledged; with `redelivery` it is rejected, `nack`, or given up,
        `term`, if its payload does not decode); "stop" ends the application with the error, and a
        durable message is delivered again to the next consumer. UsageError for a wrong argument or handler.
        """
        check_filter_and_where(filter, where)
        if durable is not None or group is not None:
            read_terms(filter, where, durable, group, when_full, max_pending, redelivery)
        else:
            check_durable_only({"max_pending": max_pending, "window": window, "redelivery": redelivery})
            if when_full is not None:
                read_policy(when_full)
        if window is not None:
            check_count(window, "window", 1, NUMBER_MAX)
        check_count(retries, "retries", 0, RETRIES_MAX)
        delay_s = check_seconds(retry_delay, "retry_delay")
        if delay_s is None:
            raise wrong("retry_delay", retry_delay, "seconds, 0 or more")
        policy = RetryPolicy(retries, delay_s, check_word(on_error, "on_error", ("skip", "stop")))
        subscription = {
            "durable": durable, "group": group, "when_full": when_full, "max_pending": max_pending, "window": window,
            "redelivery": redelivery,
        }  # fmt: skip

        def take(handler: H) -> H:
            self._routes.append(_Route(filter, where, handler, subscription, policy))
            return handler

        return take

    def publisher(self, topic: str, guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL) -> Callable[[H], H]:
        """Publish what the handler returns, unless that is None. Several may stand above each other, below
        `subscriber`."""
        check_topic(topic)
        wanted = guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)

        def mark(handler: H) -> H:
            setattr(handler, _TOPICS, (*getattr(handler, _TOPICS, ()), (topic, wanted)))
            return handler

        return mark

    def run(self) -> None:
        """Run until SIGTERM, Ctrl-C or `stop()`; handlers finish the messages that they have. A second signal ends at
        once. Raises the error of a handler with `on_error="stop"`, and ClosedError when the session is lost for
        good."""
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            asyncio.run(self._run())

    def stop(self) -> None:
        """Ask the application to end, from its event loop: handlers finish the messages that they have."""
        if self._stopping is not None:
            self._stopping.set()

    async def serve(self, ready: asyncio.Event | None = None) -> None:
        """Like `run`, in a program that has an event loop, and without signals; cancelling it cancels handlers. `ready`
        is set when every subscription is confirmed."""
        if not self._routes:
            raise UsageError("an application without a subscriber has nothing to do")
        if ready is not None and not isinstance(ready, asyncio.Event):
            raise wrong("ready", ready, "an asyncio.Event, or None")
        self._stopping = asyncio.Event()
        async with connect(self._address, **self._arguments) as client:
            self.client = client
            try:
                inboxes = [await route.subscribe(client) for route in self._routes]
                if ready is not None:
                    ready.set()
                await self._work(client, inboxes)
            finally:
                self.client = None

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        main, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert main is not None, "a coroutine runs in a task"

        def asked_to_stop() -> None:
            if self._stopping is None or self._stopping.is_set():
                main.cancel()
            else:
                logger.info("stopping: handlers finish the messages that they have")
                self._stopping.set()

        with contextlib.suppress(NotImplementedError):  # on Windows Ctrl-C raises KeyboardInterrupt, as everywhere
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, asked_to_stop)
        await self.serve()

    async def _work(self, client: Client, inboxes: list[Inbox]) -> None:
        """Handle messages until the application is to stop, or a handler ends it; raise that error."""
        assert self._stopping is not None, "it is made before"
        pairs = zip(self._routes, inboxes, strict=True)
        workers = {asyncio.create_task(self._handle_all(client, route, inbox)): route for route, inbox in pairs}
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((*workers, stop), return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            for worker, route in workers.items():
                if not route.is_busy:
                    worker.cancel()
            _, late = await asyncio.wait(workers, timeout=self._stop_s)
            for worker in late:
                logger.warning(
                    "%s was cancelled: it took longer than %g s to finish", workers[worker].name, self._stop_s
                )
        finally:
            stop.cancel()
            for worker in workers:
                worker.cancel()
            results = await asyncio.gather(*workers, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _handle_all(self, client: Client, route: _Route, inbox: Inbox) -> None:
        assert self._stopping is not None, "it is made before"
        while not self._stopping.is_set():
            try:
                message = await inbox.next()
            except (FencedError, SlowConsumerError):
                raise
            except ClosedError as error:
                if client.state is ConnectionState.CLOSED:
                    raise
                logger.warning("%s: messages may be missing, subscribing again: %s", route.name, error)
                inbox = await route.subscribe(client)
                continue
            route.is_busy = True
            try:
                await self._handle(client, route, message)
            finally:
                route.is_busy = False

    async def _handle(self, client: Client, route: _Route, message: Message) -> None:
        """Handle one message, with every attempt. Raise the error of one that is to stop the application."""
        request = route.request_of(client, message)
        attempt = 0
        while True:
            try:
                result = await route.handler(route.argument(request))
                await self._pass_on(client, route, request, result)
                break
            except Exception as error:
                if attempt < route.policy.retries and not isinstance(error, MistypedPayloadError):
                    if await self._is_tried_again(route, request, error, attempt):
                        attempt += 1
                        continue
                    if route.is_durable:
                        return  # not acknowledged: the next consumer is given it
                await self._failed(route, request, error)
                if route.policy.on_error == "stop":
                    raise
                if route.redelivers and isinstance(message, DurableMessage):
                    _reject(message, error, route.policy.delay_s)
                    return
                break
        if route.is_durable:
            message.ack()

    async def _is_tried_again(self, route: _Route, request: ServedRequest[Any], error: Exception, attempt: int) -> bool:
        """Wait before the next attempt. False when the application is to stop meanwhile."""
        assert self._stopping is not None, "it is made before"
        pause_s = route.policy.pause_s(attempt)
        logger.warning(
            "%s failed for a message on %s, attempt %d of %d, again in %g s: %s",
            route.name, request.topic, attempt + 1, route.policy.retries + 1, pause_s, _text_of(error),
        )  # fmt: skip
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)
        return not self._stopping.is_set()

    async def _pass_on(self, client: Client, route: _Route, request: ServedRequest[Any], result: Any) -> None:
        """Publish the result, and reply. Results of a durable message are safe before it is acknowledged."""
        if result is not None:
            topics = getattr(route.handler, _TOPICS, ())
            receipts = [await client.publish(topic, result, guarantee=guarantee) for topic, guarantee in topics]
            if route.is_durable:
                for receipt in receipts:
                    await (receipt.safe() if ReceiptLevel.SAFE in client.receipts else receipt.accepted())
        if request.wants_reply:
            await request.reply(result if result is not None else b"")

    async def _failed(self, route: _Route, request: ServedRequest[Any], error: Exception) -> None:
        logger.error(
            "%s could not handle a message on %s: %s", route.name, request.topic, _text_of(error), exc_info=error
        )
        if request.wants_reply:
            with contextlib.suppress(PublishError, ClosedError):
                await request.fail(_text_of(error))


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _first_parameter(handler: Handler) -> Any:
    """Return what the handler wants to be given."""
    name = getattr(handler, "__name__", shown(handler))
    if not inspect.iscoroutinefunction(handler):
        raise UsageError(f"{name} is no `async def`: handlers are")
    parameters = list(inspect.signature(handler).parameters.values())
    if len([one for one in parameters if one.default is one.empty]) != 1:
        raise UsageError(f"{name} must take one argument, the message")
    kind = typing.get_type_hints(handler).get(parameters[0].name)
    if kind is None:
        raise UsageError(f"the first parameter of {name} has no annotation: write `async def {name}(order: Order)`")
    return kind


def _reject(message: DurableMessage, error: Exception, delay_s: float) -> None:
    """Have a message delivered again, or give it up if its payload cannot be decoded."""
    if isinstance(error, MistypedPayloadError):
        message.term("its payload could not be decoded")
    else:
        message.nack(delay=delay_s)
