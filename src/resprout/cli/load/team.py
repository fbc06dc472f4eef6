"""A publisher, the brokers it talks to and the subscribers that hear it, and what comes of it when they get to work."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from resprout.cli.load.costs import cpu_seconds, spent
from resprout.cli.load.orders import Expect, Flood, Got, LoadReady, Pace, SendProbe, Sent, Settle
from resprout.cli.load.process import LoadError, LoadProcess

T = TypeVar("T")

PATIENCE_S: Final = 60.0
"""For a load that is not limited by time."""
PROBE_SIZE: Final = 16
PROBE_INTERVAL_S: Final = 0.05


class Brokers(Protocol):
    """Brokers in a row. The publisher talks to the first, subscribers to the last."""

    first: str
    last: str
    pids: Sequence[int]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class FloodResult(msgspec.Struct, frozen=True):
    """As fast as it goes. Processor times are microseconds per message published; None where they are not known."""

    messages: int
    subscribers: int
    seconds: float
    """From the first publication to the last delivery."""
    publisher_us: float
    brokers_us: list[float | None]
    subscriber_us: float
    """The mean of all subscribers."""

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds

    @property
    def deliveries_per_s(self) -> float:
        return self.messages * self.subscribers / self.seconds


class Team:
    def __init__(
        self, brokers: Brokers, make: Callable[[str, str], LoadProcess], subscribers: int, publishers: int = 1
    ) -> None:
        """`make` prepares the worker for a role ("publisher", "publisher*50", "subscriber") and the address of its
        broker. All publishers are clients in one process."""
        self.brokers = brokers
        self._publishers = publishers
        self._make = make
        self._count = subscribers
        self._workers: list[LoadProcess] = []

    @property
    def publisher(self) -> LoadProcess:
        return self._workers[0]

    @property
    def subscribers(self) -> Sequence[LoadProcess]:
        return self._workers[1:]

    @property
    def _role(self) -> str:
        return "publisher" if self._publishers == 1 else f"publisher*{self._publishers}"

    # -- start and end -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Team":
        try:
            await self.brokers.start()
            self._workers.append(self._make(self._role, self.brokers.first))
            self._workers += [self._make("subscriber", self.brokers.last) for _ in range(self._count)]
            await _all(worker.start() for worker in self._workers)
            await self._meet()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        await self.brokers.stop()

    async def _meet(self) -> None:
        """Until every subscriber has heard from the publisher: some networks confirm a subscription too early."""
        order = SendProbe(PROBE_SIZE, PATIENCE_S)
        heard = asyncio.ensure_future(_all(worker.ask(order, LoadReady, 2 * PATIENCE_S) for worker in self.subscribers))
        try:
            while not heard.done():
                await self.publisher.ask(order, Sent, PATIENCE_S)
                await asyncio.wait((heard,), timeout=PROBE_INTERVAL_S)
            await heard
        finally:
            heard.cancel()

    # -- work ----------------------------------------------------------------------------------------------------------

    async def flood(self, order: Flood, batches: bool = False) -> FloodResult:
        patience_s = PATIENCE_S + (order.seconds or 0.0)
        cpu_s = self._broker_cpu_s()
        sent, got = await self._run(order, Expect(order.size, patience_s, batches=batches, streams=self._publishers))
        per_message = 1e6 / sent.count
        return FloodResult(
            messages=sent.count,
            subscribers=self._count,
            seconds=(max((each.end_ns for each in got), default=sent.end_ns) - sent.begin_ns) / 1e9,
            publisher_us=sent.cpu_s * per_message,
            brokers_us=[None if s is None else s * per_message for s in spent(cpu_s, self._broker_cpu_s())],
            subscriber_us=sum(each.cpu_s for each in got) / max(1, len(got)) * per_message,
        )

    async def pace(self, order: Pace) -> list[int]:
        """The latencies of all messages to all subscribers, in microseconds."""
        patience_s = PATIENCE_S + order.count * order.interval_us / 1e6
        _, got = await self._run(order, Expect(order.size, patience_s, paced=True))
        return [latency for each in got for latency in each.latencies_us]

    async def settle(self, order: Settle) -> float:
        """Messages per second that were published and known to be safe."""
        sent, _ = await self._run(order, Expect(order.size, PATIENCE_S))
        return sent.count / (sent.end_ns - sent.begin_ns) * 1e9

    async def _run(self, order: Flood | Pace | Settle, expect: Expect) -> tuple[Sent, list[Got]]:
        patience_s = expect.patience_s + PATIENCE_S  # whoever notices that something is missing can say more about it
        await _all(worker.ask(expect, LoadReady, PATIENCE_S) for worker in self.subscribers)
        hearing = asyncio.ensure_future(_all(worker.answer(Got, patience_s) for worker in self.subscribers))
        sending = asyncio.ensure_future(self.publisher.ask(order, Sent, patience_s))
        try:
            await asyncio.gather(sending, hearing)
        finally:
            sending.cancel()
            hearing.cancel()
        sent, got = sending.result(), hearing.result()
        for each in got:
            if each.count != sent.count:
                raise LoadError(f"{sent.count} messages were published, {each.count} came")
        return sent, got

    def _broker_cpu_s(self) -> list[float | None]:
        return [cpu_seconds(pid) for pid in self.brokers.pids]


async def _all(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results; the first error, as soon as there is one."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
