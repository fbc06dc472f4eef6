"""The child's side: carries out orders from standard input with a client that knows how to send or how to receive.

When standard input ends, so does the worker.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from resprout.cli.load.orders import (
    Expect,
    Failed,
    Flood,
    Got,
    LoadReady,
    Order,
    Pace,
    Reply,
    SendProbe,
    Sent,
    Settle,
    as_line,
    read_order,
)  # fmt: skip
from resprout.cli.load.stream import PacedCheck, StreamCheck, StreamSource, Take, paced_number, probe, stamped
from resprout.cli.loop import run_loop


class Sender(Protocol):
    """A connected publisher."""

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        """Publish every payload as a message of its own; return when the client knows no more to wait for."""

    async def send(self, payload: bytes) -> None:
        """Publish one message, at once."""

    async def settle(self, payload: bytes) -> None:
        """Publish one message and return when it is safe."""

    async def close(self) -> None: ...


class Receiver(Protocol):
    """A connected subscriber."""

    async def receive(self, take: Take, batches: bool) -> None:
        """Hand over payloads until `take` has had enough."""

    async def close(self) -> None: ...


class Inlet:
    """For clients that call back in the event loop: passes payloads on to whoever takes them at the moment."""

    def __init__(self) -> None:
        self._take: Take = _ignore
        self._enough = asyncio.Event()

    def put(self, payload: bytes) -> None:
        if self._take(payload):
            self._take = _ignore
            self._enough.set()

    async def receive(self, take: Take, batches: bool = False) -> None:
        self._enough.clear()
        self._take = take
        try:
            await self._enough.wait()
        finally:
            self._take = _ignore


def run_worker(
    role: str,
    address: str,
    sender: Callable[[str], Awaitable[Sender]],
    receiver: Callable[[str], Awaitable[Receiver]],
) -> None:
    """The whole life of a worker: connects to the address as a "publisher" or "subscriber", then obeys."""
    if role == "publisher":
        run_loop(_serve(lambda: sender(address), _send))
    else:
        run_loop(_serve(lambda: receiver(address), _receive))


# -- the loop of a worker ----------------------------------------------------------------------------------------------


class _Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


async def _serve(connect: Callable[[], Awaitable[C]], work: Callable[[C, Order], Awaitable[Reply]]) -> None:
    try:
        client = await connect()
    except Exception as error:
        _say(Failed(_explain(error)))
        return
    try:
        _say(LoadReady())
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            try:
                _say(await work(client, read_order(line)))
            except Exception as error:
                _say(Failed(_explain(error)))
    finally:
        await client.close()


async def _send(client: Sender, order: Order) -> Reply:
    match order:
        case SendProbe():
            return await _measured(1, client.send(probe(order.size)))
        case Flood():
            source = StreamSource(order.size, order.count, order.seconds)
            sent = await _measured(0, client.flood(source.blocks()))
            return Sent(source.count, sent.begin_ns, sent.end_ns, sent.cpu_s)
        case Pace():
            return await _measured(order.count, _pace(client, order))
        case Settle():
            return await _measured(order.count, _settle(client, StreamSource(order.size, order.count), order.in_flight))
        case _:
            raise AssertionError(f"no order for a publisher: {order}")


async def _measured(count: int, work: Awaitable[None]) -> Sent:
    begin_ns, cpu_s = time.monotonic_ns(), time.process_time()
    await work
    return Sent(count, begin_ns, time.monotonic_ns(), time.process_time() - cpu_s)


async def _pace(client: Sender, order: Pace) -> None:
    begin_ns = time.monotonic_ns()
    for number in range(order.count):
        ahead_s = (begin_ns + number * order.interval_us * 1_000 - time.monotonic_ns()) / 1e9
        await asyncio.sleep(max(0.0, ahead_s))
        await client.send(stamped(paced_number(number, order.count), order.size))


async def _settle(client: Sender, source: StreamSource, in_flight: int) -> None:
    payloads = (payload for block in source.blocks() for payload in block)

    async def one_after_the_other() -> None:
        for payload in payloads:
            await client.settle(payload)

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))


async def _receive(client: Receiver, order: Order) -> Reply:
    if isinstance(order, SendProbe):
        async with asyncio.timeout(order.patience_s):
            await client.receive(lambda payload: payload == probe(order.size), False)
        return LoadReady()
    assert isinstance(order, Expect), f"no order for a subscriber: {order}"
    check = PacedCheck() if order.paced else StreamCheck(order.size)
    _say(LoadReady())
    cpu_s = time.process_time()
    try:
        async with asyncio.timeout(order.patience_s):
            await client.receive(check.take, order.batches)
    except TimeoutError:
        raise TimeoutError(f"after {order.patience_s:g} s not all messages had come") from None
    end_ns, cpu_s = time.monotonic_ns(), time.process_time() - cpu_s
    if check.failure is not None:
        return Failed(check.failure)
    return Got(check.count, end_ns, cpu_s, check.latencies_us if isinstance(check, PacedCheck) else [])


def _say(reply: Reply) -> None:
    sys.stdout.buffer.write(as_line(reply))
    sys.stdout.buffer.flush()


def _explain(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _ignore(payload: bytes) -> bool:
    return False
