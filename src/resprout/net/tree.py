"""The brokers of a scenario as processes on this machine.

    async with LocalTree(scenario) as tree:
        async with connect(str(tree.address("b1"))) as client:
            ...
        tree.process("b1").kill()
        await tree.restart("b1")

Each broker starts as soon as its parent listens. Latencies are emulated when asked for; bandwidths are not. When this
process goes, however it goes, the brokers stop.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from resprout.net.address import Address
from resprout.net.announce import SaidNote
from resprout.net.child import START_SECONDS_MAX, ProcessError
from resprout.net.latencies import delays_of
from resprout.net.plan import BrokerPlan
from resprout.net.process import BrokerProcess
from resprout.scenario.model import BrokerSpec, Scenario

STARTING_MAX: Final = 8
"""Processes that start at the same time: more would only slow each other down until some are too late."""


class LocalTree:
    """`port`: the first broker listens there, the next on the next one; 0 takes free ports.

    `on_note` hears what brokers have for a trace, `on_line` what they write for people.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        emulate_latency: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        links: Mapping[str, int] | None = None,
        start_seconds_max: float = START_SECONDS_MAX,
        on_note: Callable[[BrokerProcess, SaidNote], None] | None = None,
        on_line: Callable[[BrokerProcess, str], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self._host = host
        self._port = port
        self._links = links or {}
        self._start_seconds_max = start_seconds_max
        self._delays_us = delays_of(scenario) if emulate_latency else {}
        self._on_note = on_note
        self._on_line = on_line
        self._lives: Counter[str] = Counter()
        self._processes: dict[str, BrokerProcess] = {}
        self._all: list[BrokerProcess] = []
        """Every process that was ever started, those that were replaced included."""
        self._starting = asyncio.Semaphore(STARTING_MAX)
        self._fallen: asyncio.Future[BrokerProcess] | None = None

    async def __aenter__(self) -> "LocalTree":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- looking -------------------------------------------------------------------------------------------------------

    def process(self, name: str) -> BrokerProcess:
        """The latest process of a broker."""
        try:
            return self._processes[name]
        except KeyError:
            raise ProcessError(f"there is no broker {name!r} in this tree") from None

    def address(self, name: str) -> Address:
        """Where to connect to a broker; it stays the same when the broker is started again."""
        return self.process(name).address

    @property
    def processes(self) -> Iterable[BrokerProcess]:
        """In the order of the scenario, those that joined last."""
        return tuple(self._processes.values())

    async def unexpected_end(self) -> BrokerProcess:
        """Waits until a broker ends that nobody here has stopped; its `epitaph` says how."""
        return await asyncio.shield(self._first_fallen())

    # -- starting and stopping -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """All brokers of the scenario. When one cannot start the others are stopped, and its error is raised."""
        listening = {broker.name: asyncio.Event() for broker in self.scenario.brokers}
        try:
            async with asyncio.TaskGroup() as group:
                for number, broker in enumerate(self.scenario.brokers):
                    self._add(self._plan(broker, self._port + number if self._port else 0))
                    group.create_task(self._start_below(broker, listening))
        except BaseExceptionGroup as errors:
            await self.stop()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.stop()
            raise

    async def join(self, broker: BrokerSpec) -> Address:
        """Start one more broker, below one that listens."""
        self._add(self._plan(broker, 0))
        return await self._launch(broker)

    async def restart(self, name: str) -> Address:
        """Start a broker that has ended again: a new life at the same address."""
        old = self.process(name)
        if old.running:
            raise ProcessError(f"broker {name} is still running")
        process = self._add(msgspec.structs.replace(old.plan, listen=old.address))
        return await process.start(self._start_seconds_max)

    async def stop(self) -> None:
        """All of them at once. Afterwards none is left."""
        await asyncio.gather(*(process.stop() for process in self._all))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _plan(self, broker: BrokerSpec, port: int) -> BrokerPlan:
        return BrokerPlan(
            name=broker.name,
            listen=Address(self._host, port),
            stack=self.scenario.stack,
            options=self.scenario.options,
            links=self._links,
            delays_us=self._delays_us.get(broker.name, {}),
        )

    def _add(self, plan: BrokerPlan) -> BrokerProcess:
        self._lives[plan.name] += 1
        plan = msgspec.structs.replace(plan, incarnation=self._lives[plan.name])
        process = BrokerProcess(plan, on_note=self._on_note, on_line=self._on_line, on_end=self._ended)
        self._processes[plan.name] = process
        self._all.append(process)
        return process

    async def _start_below(self, broker: BrokerSpec, listening: dict[str, asyncio.Event]) -> None:
        if broker.parent is not None:
            await listening[broker.parent].wait()
        await self._launch(broker)
        listening[broker.name].set()

    async def _launch(self, broker: BrokerSpec) -> Address:
        process = self.process(broker.name)
        if broker.parent is not None:
            process.plan = msgspec.structs.replace(process.plan, parent=self.address(broker.parent))
        async with self._starting:
            return await process.start(self._start_seconds_max)

    def _ended(self, process: BrokerProcess) -> None:
        fallen = self._first_fallen()
        if not process.deliberate and not fallen.done():
            fallen.set_result(process)

    def _first_fallen(self) -> "asyncio.Future[BrokerProcess]":
        if self._fallen is None:
            self._fallen = asyncio.get_running_loop().create_future()
        return self._fallen
