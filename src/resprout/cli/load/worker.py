"""The child's side: carries out orders from standard input with a client that knows how to send or how to receive.

Orders and replies are one JSON object a line. When standard input ends, so does the worker.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from resprout.cli.load.stream import (
    BLOCK,
    CrowdCheck,
    CrowdSource,
    PacedCheck,
    StreamCheck,
    StreamSource,
    Take,
    paced_number,
    probe,
    shares,
    stamped,
)
from resprout.cli.loop import run_loop

FlightWay = Literal["workers", "window", "batches"]
"""How a publisher keeps publications in flight: one task for each; one task that waits for the oldest before it
publishes the next (a sliding window); one task that publishes all of them and waits for the last."""

CONNECTING_MAX: Final = 25
"""Publishers of a crowd that connect at the same time."""


class SendProbe(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: send one message that counts for nothing. To a subscriber: wait until one of them has come."""

    size: int
    patience_s: float


class Flood(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: publish as fast as it goes."""

    size: int
    count: int | None = None
    """How many messages, of all clients together; None: for `seconds`."""
    seconds: float | None = None
    per_turn: int = BLOCK
    """So many of each client, then the event loop has its turn."""


class Pace(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: publish at a steady rate, each message with the time at which it was."""

    size: int
    count: int
    interval_us: int


class Settle(msgspec.Struct, frozen=True, tag=True):
    """To the publisher: publish with so many in flight, each until it is known to be safe."""

    size: int
    count: int
    in_flight: int
    way: FlightWay = "workers"


class Expect(msgspec.Struct, frozen=True, tag=True):
    """To a subscriber: a stream of messages is about to come. It answers `LoadReady`, and `Got` when all have come."""

    size: int
    patience_s: float
    paced: bool = False
    batches: bool = False
    """Take messages as they come together, where the client can do that."""
    streams: int = 1
    """So many clients publish, each a stream of its own."""


class LoadReady(msgspec.Struct, frozen=True, tag=True):
    """The worker is connected, or has prepared what it was told to expect."""


class Sent(msgspec.Struct, frozen=True, tag=True):
    """The publisher has published, and knows as much of the outcome as its client can tell it."""

    count: int
    begin_ns: int
    end_ns: int
    cpu_s: float


class Got(msgspec.Struct, frozen=True, tag=True):
    """Everything has come, in order. Times are on the clock that all processes of a machine share."""

    count: int
    end_ns: int
    cpu_s: float
    latencies_us: list[int] = []


class Failed(msgspec.Struct, frozen=True, tag=True):
    reason: str


LoadOrder = SendProbe | Flood | Pace | Settle | Expect
Reply = LoadReady | Sent | Got | Failed

_orders: Final[msgspec.json.Decoder[LoadOrder]] = msgspec.json.Decoder(LoadOrder)
_replies: Final[msgspec.json.Decoder[Reply]] = msgspec.json.Decoder(Reply)


def as_line(said: LoadOrder | Reply) -> bytes:
    return msgspec.json.encode(said) + b"\n"


def read_order(line: bytes) -> LoadOrder:
    return _orders.decode(line)


def read_reply(line: bytes) -> Reply:
    """msgspec.MsgspecError for a line that is none."""
    return _replies.decode(line)


class Sender(Protocol):
    """A connected publisher."""

    async def flood(self, blocks: Iterable[Sequence[bytes]]) -> None:
        """Publish every payload as a message of its own, and give way to the event loop after each block; return when
        the client knows no more to wait for."""

    async def send(self, payload: bytes) -> None:
        """Publish one message, at once."""

    async def settle(self, payload: bytes) -> None:
        """Publish one message and return when it is safe."""

    async def close(self) -> None: ...


class SafeReceipt(Protocol):
    async def safe(self) -> None: ...


@runtime_checkable
class ReceiptSender(Protocol):
    """A publisher whose client has receipts."""

    async def begin(self, payload: bytes) -> SafeReceipt:
        """Publish one message."""


class Receiver(Protocol):
    """A connected subscriber."""

    async def receive(self, take: Take, batches: bool) -> None:
        """Hand over payloads until `take` has had enough."""

    async def close(self) -> None: ...


class Inlet:
    """For clients that call back in the event loop: passes payloads to the current callback."""

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
    """The whole life of a worker: connects to the address as a "publisher" or "subscriber", then obeys. As
    "publisher*50" it is so many clients, each with a connection of its own."""
    what, _, count = role.partition("*")
    if what == "publisher":
        run_loop(_serve(lambda: _Crowd.connect(sender, address, int(count or 1)), _send))
    else:
        run_loop(_serve(lambda: receiver(address), _receive))


# -- the loop of a worker ----------------------------------------------------------------------------------------------


class _Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class _Crowd:
    """Publishers of one process: one as a rule."""

    def __init__(self, members: Sequence[Sender]) -> None:
        self.members = members
        self.first = members[0]

    @classmethod
    async def connect(cls, sender: Callable[[str], Awaitable[Sender]], address: str, count: int) -> "_Crowd":
        """Some at a time: one after the other takes long, and all at once some would give up."""
        members: list[Sender] = []
        while len(members) < count:
            coming = min(CONNECTING_MAX, count - len(members))
            members += await asyncio.gather(*(sender(address) for _ in range(coming)))
        return cls(members)

    async def flood(self, order: Flood) -> Sent:
        if len(self.members) == 1:
            source = StreamSource(order.size, order.count, order.seconds, order.per_turn)
            sent = await _measured(0, self.first.flood(source.blocks()))
            return Sent(source.count, sent.begin_ns, sent.end_ns, sent.cpu_s)
        assert order.count is not None, "a crowd is not limited by time"
        each = shares(order.count, len(self.members))
        streams = [CrowdSource(at, order.size, each, order.per_turn) for at in range(len(self.members))]
        floods = [member.flood(stream.blocks()) for member, stream in zip(self.members, streams, strict=True)]
        return await _measured(each * len(floods), _together(floods))

    async def close(self) -> None:
        await _together([member.close() for member in self.members])


async def _together(works: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*works)


async def _serve(connect: Callable[[], Awaitable[C]], work: Callable[[C, LoadOrder], Awaitable[Reply]]) -> None:
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


async def _send(crowd: _Crowd, order: LoadOrder) -> Reply:
    client = crowd.first
    match order:
        case SendProbe():
            return await _measured(1, client.send(probe(order.size)))
        case Flood():
            return await crowd.flood(order)
        case Pace():
            return await _measured(order.count, _pace(client, order))
        case Settle():
            source = StreamSource(order.size, order.count)
            payloads = (payload for block in source.blocks() for payload in block)
            return await _measured(order.count, _WAYS[order.way](client, payloads, order.in_flight))
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


async def _settle_window(client: Sender, payloads: Iterator[bytes], in_flight: int) -> None:
    assert isinstance(client, ReceiptSender), "only our client is asked for this"
    receipts: deque[SafeReceipt] = deque()
    for payload in payloads:
        receipts.append(await client.begin(payload))
        if len(receipts) == in_flight:
            await receipts.popleft().safe()
    for receipt in receipts:
        await receipt.safe()


async def _settle_batches(client: Sender, payloads: Iterator[bytes], in_flight: int) -> None:
    assert isinstance(client, ReceiptSender), "only our client is asked for this"
    while batch := list(islice(payloads, in_flight)):
        for payload in batch:
            receipt = await client.begin(payload)
        await receipt.safe()


async def _settle_workers(client: Sender, payloads: Iterator[bytes], in_flight: int) -> None:
    async def one_after_the_other() -> None:
        for payload in payloads:
            await client.settle(payload)

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))


_WAYS: Final[dict[FlightWay, Callable[[Sender, Iterator[bytes], int], Awaitable[None]]]] = {
    "workers": _settle_workers, "window": _settle_window, "batches": _settle_batches,
}  # fmt: skip


async def _receive(client: Receiver, order: LoadOrder) -> Reply:
    if isinstance(order, SendProbe):
        async with asyncio.timeout(order.patience_s):
            await client.receive(lambda payload: payload == probe(order.size), False)
        return LoadReady()
    assert isinstance(order, Expect), f"no order for a subscriber: {order}"
    check = _check_for(order)
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


def _check_for(order: Expect) -> PacedCheck | StreamCheck | CrowdCheck:
    if order.paced:
        return PacedCheck()
    return StreamCheck(order.size) if order.streams == 1 else CrowdCheck(order.streams)


def _say(reply: Reply) -> None:
    sys.stdout.buffer.write(as_line(reply))
    sys.stdout.buffer.flush()


def _explain(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _ignore(payload: bytes) -> bool:
    return False
