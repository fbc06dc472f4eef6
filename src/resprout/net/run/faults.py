"""What can go wrong, done to real processes: by signal where there is one for it.

| fault | how |
|---|---|
| crash | SIGKILL; with `host` SIGSTOP for good: nothing comes from it any more, and no peer is told |
| recover | the process is started again: same name and address, next incarnation; without `disk` its folder is empty,
with `first` it is told of its first parent only, with `found` of no broker |
| freeze, unfreeze | SIGSTOP, SIGCONT |
| cut, partition, heal | brokers and clients are told whom they cannot reach |
| join | the process is started |
| restart | as a broker that leaves; then it is started again, and the next one leaves when it has its place |
| leave | a client ends its session and its application; a broker is asked to leave (SIGTERM), and ends by itself |

A fault that has nothing to do changes nothing and is told as a note.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from resprout.net.event_loop import now_us
from resprout.net.process import BrokerProcess, Child, ProcessError
from resprout.net.run.crew import Crew, WorkerProcess
from resprout.net.run.schedule import first_event_us
from resprout.net.tree import LocalTree
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.topologies import Cuts
from resprout.trace import kinds

Tell = Callable[[str, str, str | None], None]
"""Told of each fault: the kind of row, the node, and a detail."""

STOPPED_SECONDS: Final = 0.005
"""By then a process that was sent SIGSTOP does nothing any more."""


class ProcessFaults:
    def __init__(self, scenario: Scenario, tree: LocalTree, crew: Crew, tell: Tell) -> None:
        self._scenario = scenario
        self._tree = tree
        self._crew = crew
        self._tell = tell
        self._clients = {client.name for client in scenario.clients}
        joining = [name for fault in scenario.faults if fault.kind is FaultKind.JOIN for name in fault.nodes]
        self._brokers = tuple(dict.fromkeys([*(broker.name for broker in scenario.brokers), *joining]))
        self._cuts = Cuts()
        self._silent: set[str] = set()
        """Nodes whose machine has crashed: stopped for good."""
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._restarts = 0
        self._one_restart = asyncio.Lock()
        self._placed: dict[str, asyncio.Event] = {}
        """Brokers that are being started again, and whether they have a place."""
        self.latest_us: int | None = None
        """When something was last done, on the clock of the machine."""

    async def play(self, start_us: int, held_us: asyncio.Future[int]) -> None:
        """Every fault of the scenario at its time; returns when all of them are done. `held_us`: how much later the
        schedule is played from its first event on, once that is known."""
        first_us = first_event_us(self._scenario)
        try:
            for fault in self._scenario.faults:
                later_us = await held_us if fault.at_us >= first_us else 0
                await asyncio.sleep(max(0, start_us + later_us + fault.at_us - now_us()) / 1e6)
                await self._strike(fault)
                self.latest_us = now_us()
            if self._starting:
                await asyncio.gather(*self._starting.values())
                self.latest_us = now_us()
        finally:
            for start in self._starting.values():
                start.cancel()
            await asyncio.gather(*self._starting.values(), return_exceptions=True)

    async def _strike(self, fault: FaultSpec) -> None:
        match fault.kind:
            case FaultKind.CUT:
                for one, other in fault.links:
                    self._tell(kinds.CUT, one, other)
                    self._cuts.cut(one, other)
                self._enforce()
            case FaultKind.PARTITION:
                side = self._scenario.side(fault)
                for name in side:
                    self._tell(kinds.PARTITION, name, None)
                self._cuts.partition(side)
                self._enforce()
            case FaultKind.HEAL:
                self._heal(fault)
            case FaultKind.JOIN:
                for broker in self._scenario.joining(fault):
                    self._begin(broker.name, self._join(fault, broker.name, self._starting.get(broker.name)))
            case FaultKind.RESTART:
                self._restarts += 1
                self._begin(f"restart {self._restarts}", self._restart(fault.nodes))
            case FaultKind.CRASH if not fault.host:
                await self._crash_together(fault.nodes)
            case _:
                for name in fault.nodes:
                    await self._settled(name)
                    await self._strike_node(fault, name)

    async def _strike_node(self, fault: FaultSpec, name: str) -> None:
        if fault.kind is FaultKind.RECOVER:
            self._recover(name, fault)
        elif not self._runs(name):
            self._ignored(name, fault.kind, "it does not run")
        elif fault.kind is FaultKind.CRASH:
            await self._silence(name)
        elif fault.kind is FaultKind.FREEZE:
            if self._process(name).frozen:
                self._ignored(name, fault.kind, "it is frozen already")
            else:
                self._tell(kinds.FREEZE, name, None)
                self._process(name).freeze()
        elif fault.kind is FaultKind.UNFREEZE:
            if not self._process(name).frozen:
                self._ignored(name, fault.kind, "it is not frozen")
            else:
                self._tell(kinds.UNFREEZE, name, None)
                self._process(name).unfreeze()
        elif self._process(name).frozen:
            self._ignored(name, fault.kind, "it is frozen")
        elif name in self._clients:
            self._crew.leave(name)  # its row is written by the client, after everything that it saw
        else:
            self._tell(kinds.LEAVE, name, None)
            process = self._tree.process(name)
            process.leave()
            self._begin(name, self._gone(process))

    # -- lives -------------------------------------------------------------------------------------------------------

    async def _crash_together(self, names: Sequence[str]) -> None:
        """All are killed before any is waited for. The row of a client comes after whatever it had still seen; that of
        a broker before others notice."""
        for name in names:
            await self._settled(name)
        falling = [name for name in names if self._runs(name)]
        for name in names:
            if name not in falling:
                self._ignored(name, FaultKind.CRASH, "it does not run")
            else:
                if name not in self._clients:
                    self._tell(kinds.CRASH, name, None)
                self._process(name).kill()
        for name in falling:
            await self._process(name).wait()
            if name in self._clients:
                self._tell(kinds.CRASH, name, None)

    async def _silence(self, name: str) -> None:
        """Its whole host falls silent; rows as above."""
        if name not in self._clients:
            self._tell(kinds.CRASH, name, "host")
        self._silent.add(name)
        self._process(name).freeze()
        await asyncio.sleep(STOPPED_SECONDS)
        if name in self._clients:
            self._tell(kinds.CRASH, name, "host")

    def _recover(self, name: str, fault: FaultSpec) -> None:
        if self._runs(name):
            self._ignored(name, FaultKind.RECOVER, "it runs already")
            return
        self._tell(kinds.RECOVER, name, kinds.recovery(fault.disk, fault.found))
        self._begin(name, self._revive(name, fault))

    async def _revive(self, name: str, fault: FaultSpec) -> None:
        process = self._process(name)
        if name in self._silent:
            self._silent.discard(name)
            process.kill()
            await process.wait()
        if name in self._clients:
            await self._crew.revive(name)
        else:
            self._crew.found(name, await self._tree.restart(name, fault.disk, fault.first, fault.found))
        self._enforce()

    async def _gone(self, process: BrokerProcess) -> None:
        """A broker that leaves takes its time; what comes next for it waits."""
        await process.wait()
        if process.status:
            raise ProcessError(process.epitaph)

    async def _restart(self, names: Sequence[str]) -> None:
        """Whoever is behind, behind those that are being started again already."""
        async with self._one_restart:
            for name in names:
                await self._settled(name)
                process = self._tree.process(name)
                if not process.running or process.frozen:
                    self._ignored(name, FaultKind.LEAVE, "it is frozen" if process.frozen else "it does not run")
                    continue
                self._tell(kinds.LEAVE, name, None)
                process.leave()
                await self._gone(process)
                self._tell(kinds.JOIN, name, None)
                placed = self._placed[name] = asyncio.Event()
                self._crew.found(name, await self._tree.restart(name))
                self._enforce()
                await placed.wait()

    def noted(self, name: str, kind: str) -> None:
        """A broker says something."""
        if kind == "joined" and name in self._placed:
            self._placed.pop(name).set()

    async def _join(self, fault: FaultSpec, name: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before  # it is leaving
        self._tell(kinds.JOIN, name, None)
        broker = next(broker for broker in self._scenario.joining(fault) if broker.name == name)
        self._crew.found(name, await self._tree.join(broker))
        self._enforce()

    def _begin(self, name: str, start: Coroutine[Any, Any, None]) -> None:
        """A process takes its time to start; what happens to other nodes does not wait for it."""
        self._starting[name] = asyncio.create_task(start)

    async def _settled(self, name: str) -> None:
        if name in self._starting:
            await self._starting[name]

    # -- cuts --------------------------------------------------------------------------------------------------------

    def _heal(self, fault: FaultSpec) -> None:
        for one, other in fault.links:
            self._tell(kinds.HEAL, one, other)
            self._cuts.heal(one, other)
        if not fault.links:
            self._tell(kinds.HEAL, "world", None)
            self._cuts.heal_all()
        self._enforce()

    def _enforce(self) -> None:
        """Tell everybody whom it cannot reach. Clients open all their connections, so their side is enough."""
        brokers, between = self._brokers, self._cuts.between
        self._tree.bar({one: [other for other in brokers if between(one, other)] for one in brokers})
        self._crew.bar({one: [broker for broker in brokers if between(one, broker)] for one in sorted(self._clients)})

    # -- the rest ----------------------------------------------------------------------------------------------------

    def process_of(self, name: str) -> Child | None:
        """The latest process of a node, if it has had one."""
        if name in self._clients:
            return self._crew.worker(name)
        return next((process for process in self._tree.processes if process.name == name), None)

    def _process(self, name: str) -> WorkerProcess | BrokerProcess:
        return self._crew.worker(name) if name in self._clients else self._tree.process(name)

    def _runs(self, name: str) -> bool:
        if name in self._silent:
            return False
        return self._crew.runs(name) if name in self._clients else self._tree.process(name).running

    def _ignored(self, name: str, kind: str, why: str) -> None:
        self._tell(kinds.NOTE, name, f"{kind} ignored: {why}")
