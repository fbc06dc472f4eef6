"""The parent's side: a publisher, brokers and subscribers in processes of their own, and the results of their work.

`LoadProcess` is one worker: a process, a line to it, a line from it. `OurChain` starts our brokers in a row, each the
child of the one before, or in a tree. `cpu_seconds` is the processor time of another process.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

import resprout
from resprout.cli.load.worker import (
    Expect,
    Failed,
    Flood,
    Got,
    LoadOrder,
    LoadReady,
    Pace,
    Reply,
    SendProbe,
    Sent,
    Settle,
    as_line,
    read_reply,
)
from resprout.core.errors import ResproutError
from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, OptionValue, Scenario

T = TypeVar("T")

PATIENCE_S: Final = 60.0
"""For a load that is not limited by time."""
PROBE_SIZE: Final = 16
PROBE_INTERVAL_S: Final = 0.05

START_SECONDS_MAX: Final = 90.0
"""Many clients in one process take their time to connect."""
STOP_SECONDS_MAX: Final = 5.0
LINE_BYTES_MAX: Final = 16 << 20
"""The latencies of a long paced stream are one line."""

R = TypeVar("R", bound=msgspec.Struct)


class LoadError(ResproutError):
    """A load could not be put on the network, or did not arrive whole."""


class LoadProcess:
    """`name` is what it is called in complaints."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._command = command
        self._environment = environment if environment is not None else package_environment()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it is connected."""
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                limit=LINE_BYTES_MAX,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the parent, which stops its workers itself
            )
        except OSError as error:
            raise LoadError(f"{self.name} cannot be started: {error.strerror or error}") from None
        await self.answer(LoadReady, START_SECONDS_MAX)

    async def ask(self, order: LoadOrder, kind: type[R], patience_s: float) -> R:
        await self.tell(order)
        return await self.answer(kind, patience_s)

    async def tell(self, order: LoadOrder) -> None:
        stdin = self._started().stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # that it is gone shows when it does not answer
            stdin.write(as_line(order))
            await stdin.drain()

    async def answer(self, kind: type[R], patience_s: float) -> R:
        """Its next answer; LoadError when that is not of the kind, or does not come."""
        stdout = self._started().stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(patience_s):
                line = await stdout.readline()
        except TimeoutError:
            raise LoadError(f"{self.name} has not answered for {patience_s:g} s") from None
        reply = self._read(line)
        if isinstance(reply, Failed):
            raise LoadError(f"{self.name}: {reply.reason}")
        if not isinstance(reply, kind):
            raise LoadError(f"{self.name} answered {type(reply).__name__} where {kind.__name__} was due")
        return reply

    async def stop(self) -> None:
        """Nothing of it is left afterwards."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        if process.returncode is None:
            process.kill()
            await process.wait()

    def _read(self, line: bytes) -> Reply:
        if not line:
            raise LoadError(f"{self.name} ended before it had answered")
        try:
            return read_reply(line)
        except msgspec.MsgspecError:
            raise LoadError(f"{self.name} said {line[:80]!r}, which is no answer") from None

    def _started(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "a worker is started first"
        return self._process


def package_environment() -> dict[str, str]:
    """The same package for the child as for this process, installed or not."""
    paths = [str(Path(resprout.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


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
        patience_s = expect.patience_s + PATIENCE_S  # a process that notices a missing message can say more about it
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


class OurChain:
    """`Brokers` for a team, with the settings that they have by default, or with others. Each has up to `children` of
    its own; with one they are in a row."""

    def __init__(self, length: int, children: int = 1, options: Mapping[str, OptionValue] | None = None) -> None:
        brokers = tuple(BrokerSpec(f"b{at}", f"b{(at - 1) // children}" if at else None) for at in range(length))
        self._tree = LocalTree(Scenario(name="a chain", brokers=brokers, options=dict(options or {})))
        self.first = self.last = ""
        self.pids: Sequence[int] = ()

    async def start(self) -> None:
        await self._tree.start()
        processes = list(self._tree.processes)
        self.first, self.last = str(processes[0].address), str(processes[-1].address)
        self.pids = [process.pid for process in processes]

    async def stop(self) -> None:
        await self._tree.stop()


def cpu_seconds(pid: int) -> float | None:
    """That the process has used so far, all threads, user and system; None where the system does not tell.

    On Linux the number of such a clock is made from the pid (see clock_getcpuclockid); it counts nanoseconds, where
    /proc counts hundredths of a second.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except (AttributeError, OSError, OverflowError):
        return None


def spent(before: list[float | None], after: list[float | None]) -> list[float | None]:
    """By each process in between."""
    return [None if begin is None or end is None else end - begin for begin, end in zip(before, after, strict=True)]
