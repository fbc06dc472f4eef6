"""The brokers of a scenario as processes on this machine.

    async with LocalTree(scenario) as tree:
        async with connect(str(tree.address("b1"))) as client:
            ...
        tree.process("b1").kill()
        await tree.restart("b1")

Each broker starts as soon as its parent listens, and is told where all the others listen. One that starts again, or
joins, may ask any of those that run for a place. When this process goes, however it goes, the brokers stop.

Latencies are emulated when asked for; bandwidths are not. `delays_of` says what each node must add when it sends. Every
pair of brokers is covered, neighbours or not, and every client with every broker: a repair makes links that the
scenario does not list, and such a link is as long as the way along the tree. Brokers that join later count as well.
Latencies below `EMULATED_US_MIN` are left out, because handing bytes from one process to another takes about as long.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from resprout.net.address import Address
from resprout.net.orders import Bar, Found, SaidNote
from resprout.net.process import START_SECONDS_MAX, BrokerPlan, BrokerProcess, ProcessError
from resprout.scenario.model import BrokerSpec, FaultKind, Scenario
from resprout.stacks.stack import find_stack

STARTING_MAX: Final = 8
"""Processes that start at the same time: more would only slow each other down until some are too late."""

EMULATED_US_MIN: Final = 500


class LocalTree:
    """`port`: the first broker listens there, the next on the next one; 0 takes free ports.

    `data`: what brokers keep is there, in a folder for each, with these options of the `journal`; None: they keep
    nothing. `tls`: a folder with certificates for all of them; None: they speak without. `rules`: which clients are
    known. `network_key`: the file with the key by which they prove themselves to each other. `insecure`: they let in
    whoever comes, wherever they listen. `http_port`: the first broker serves its page
    there, the next on the next one, on this machine only; 0 takes free ports, None: they serve none. `on_note` hears
    what brokers have for a trace, `on_line` what they write for people.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        emulate_latency: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        links: Mapping[str, int] | None = None,
        journal: Mapping[str, str | int] | None = None,
        start_seconds_max: float = START_SECONDS_MAX,
        data: Path | None = None,
        tls: Path | None = None,
        rules: Path | None = None,
        network_key: Path | None = None,
        insecure: bool = False,
        http_port: int | None = None,
        mqtt_port: int | None = None,
        on_note: Callable[[BrokerProcess, SaidNote], None] | None = None,
        on_line: Callable[[BrokerProcess, str], None] | None = None,
        is_traced: bool = False,
    ) -> None:
        self._is_traced = is_traced
        self.scenario = scenario
        stack = find_stack(scenario.stack)
        self._roster = scenario.roster() if stack.site_brokers(stack.parse_options(scenario.options)) else ()
        self._host = host
        self._port = port
        self._links = links or {}
        self._journal = journal or {}
        self._start_seconds_max = start_seconds_max
        self._data = data
        self._tls = tls
        self._rules = rules
        self._network_key = network_key
        self._insecure = insecure
        self._http_port = http_port
        self._mqtt_port = mqtt_port
        self._delays_us = delays_of(scenario) if emulate_latency else {}
        self._on_note = on_note
        self._on_line = on_line
        self._parents: dict[str, str | None] = {}
        """As the scenario has them; repairs and joins by way of others are not known here."""
        self._contacts: dict[str, tuple[str, ...]] = {}
        """By broker: the brokers that it is told of at its start. Empty: all that run."""
        self._processes: dict[str, BrokerProcess] = {}
        self._all: list[BrokerProcess] = []
        """Every process that was ever started, those that were replaced included."""
        self._barred: dict[str, Bar] = {}
        self._starting = asyncio.Semaphore(STARTING_MAX)
        self._fallen: asyncio.Queue[BrokerProcess] = asyncio.Queue()

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
        """Return the next broker that ends without having been stopped here; its `epitaph` says how it ended."""
        return await self._fallen.get()

    # -- starting and stopping -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """All brokers of the scenario. When one cannot start the others are stopped, and its error is raised."""
        listening = {broker.name: asyncio.Event() for broker in self.scenario.brokers}
        try:
            async with asyncio.TaskGroup() as group:
                for number, broker in enumerate(self.scenario.brokers):
                    self._add(self._plan(broker, self._port + number if self._port else 0))
                    group.create_task(self._start_below(broker, listening))
            self._introduce()
        except BaseExceptionGroup as errors:
            await self.stop()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.stop()
            raise

    async def join(self, broker: BrokerSpec) -> Address:
        """Start one more broker, or one that has left; it asks its parent for a place, or any other that runs."""
        plan = self._plan(broker, 0)
        old = self._processes.get(broker.name)
        if old is not None:
            if old.running:
                raise ProcessError(f"broker {broker.name} is still running")
            plan = msgspec.structs.replace(plan, listen=old.address)
        above = self.process(broker.parent) if broker.parent is not None else None
        return await self._enter(plan, above)

    async def restart(self, name: str, disk: bool = True, first: bool = False, found: bool = False) -> Address:
        """Start a broker that has ended again: a new life at the same address. Without `disk`, what it kept is gone.
        `first`: as it was started at first; then it knows its parent, and whom its folder remembers. `found`: it begins
        the network anew."""
        old = self.process(name)
        if old.running:
            raise ProcessError(f"broker {name} is still running")
        if not disk and old.plan.data is not None:
            await asyncio.to_thread(shutil.rmtree, old.plan.data, ignore_errors=True)
        plan = msgspec.structs.replace(old.plan, listen=old.address, forces=False)
        above = next((process for process in self.processes if process.name == self._parents.get(name)), None)
        return await self._enter(plan, None if found else above, alone=first or found, forces=found)

    async def stop(self) -> None:
        """All of them at once. Afterwards none is left."""
        await asyncio.gather(*(process.stop() for process in self._all))

    def bar(self, peers: Mapping[str, Iterable[str]]) -> None:
        """Emulate a cut. `peers`: by broker, those that it cannot reach from now on; it reaches all others. Brokers
        that start later obey as soon as they start."""
        self._barred = {name: Bar(tuple(others)) for name, others in peers.items()}
        for process in self._processes.values():
            process.order(self._barred.get(process.name, Bar(())))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _plan(self, broker: BrokerSpec, port: int) -> BrokerPlan:
        self._parents[broker.name] = broker.parent
        self._contacts[broker.name] = broker.contacts
        return BrokerPlan(
            name=broker.name,
            listen=Address(self._host, port),
            stack=self.scenario.stack,
            options=self.scenario.options,
            links=self._links,
            journal=self._journal,
            delays_us=self._delays_us.get(broker.name, {}),
            data=self._data / broker.name if self._data is not None else None,
            keep=broker.keep if self._data is not None else (),
            logs=self.scenario.logs,
            tls=self._tls,
            rules=self._rules,
            network_key=self._network_key,
            insecure=self._insecure,
            site=broker.site or "",
            roster=self._roster,
            is_traced=self._is_traced,
            http=self._page_of(broker.name),
            mqtt=self._mqtt_of(broker.name),
            founds=broker.parent is None and not broker.contacts and self._data is not None and not self._processes,
        )

    def _page_of(self, name: str) -> Address | None:
        """Where a broker serves its page: by its place among all that ever were here."""
        if self._http_port is None:
            return None
        number = list(self._parents).index(name)
        return Address("127.0.0.1", self._http_port + number if self._http_port else 0)

    def _mqtt_of(self, name: str) -> Address | None:
        """Where a broker listens for MQTT clients: by the same place, beside its own port."""
        if self._mqtt_port is None:
            return None
        return Address(self._host, self._mqtt_port + list(self._parents).index(name))

    def _add(self, plan: BrokerPlan) -> BrokerProcess:
        old = self._processes.get(plan.name)
        life = old.incarnation + 1 if old is not None else 1
        plan = msgspec.structs.replace(plan, incarnation=life)
        process = BrokerProcess(plan, on_note=self._on_note, on_line=self._on_line, on_end=self._ended)
        self._processes[plan.name] = process
        self._all.append(process)
        return process

    async def _start_below(self, broker: BrokerSpec, listening: dict[str, asyncio.Event]) -> None:
        process = self.process(broker.name)
        if broker.parent is not None:
            await listening[broker.parent].wait()
            process.plan = msgspec.structs.replace(process.plan, parent=self.address(broker.parent))
        if contacts := self._contacts_before(broker):
            for contact in contacts:
                await listening[contact].wait()
            addresses = tuple(map(self.address, contacts))
            process.plan = msgspec.structs.replace(process.plan, contacts=addresses)
        async with self._starting:
            await process.start(self._start_seconds_max)
        listening[broker.name].set()

    def _contacts_before(self, broker: BrokerSpec) -> list[str]:
        """Return the contacts of a broker that start before it, so that no two brokers wait for each other. All brokers
        are told the other addresses when all listen."""
        before = [other.name for other in self.scenario.brokers[: self.scenario.brokers.index(broker)]]
        return [contact for contact in broker.contacts if contact in before]

    async def _enter(
        self, plan: BrokerPlan, above: BrokerProcess | None, alone: bool = False, forces: bool = False
    ) -> Address:
        """Start a broker while others run. If none of them can give it a place, it waits for its parent, or for the
        brokers that its folder remembers. `alone`: it is told of its parent only. `forces`: it founds a new network."""
        awake = [p for p in self.processes if p.listening and not p.frozen and p.name != plan.name]
        known = self._contacts[plan.name] or tuple(process.name for process in awake if not alone)
        contacts = tuple(process.address for process in awake if process is not above and process.name in known)
        parent = above.place if above is not None and (above in awake or not contacts) else None
        process = self._add(msgspec.structs.replace(plan, parent=parent, contacts=contacts, forces=forces))
        async with self._starting:
            address = await process.start(self._start_seconds_max, [self._barred.get(plan.name, Bar(()))])
        self._introduce()
        return address

    def _introduce(self) -> None:
        """Tell everybody where everybody listens."""
        known = {process.name: str(process.address) for process in self._processes.values() if process.listening}
        for process in self._processes.values():
            process.order(Found(known))

    def _ended(self, process: BrokerProcess) -> None:
        if not process.deliberate:
            self._fallen.put_nowait(process)


def delays_of(scenario: Scenario) -> dict[str, dict[str, int]]:
    """By node, then by peer: one way, in microseconds."""
    brokers = list(scenario.brokers)
    for fault in scenario.faults:
        if fault.kind is FaultKind.JOIN:
            brokers += scenario.joining(fault)
    up = {broker.name: (broker.parent, broker.latency_us) for broker in brokers}
    ways = {name: _way_up(name, up) for name in up}
    delays: dict[str, dict[str, int]] = {
        one: {other: _between(way, ways[other]) for other in up if other != one} for one, way in ways.items()
    }
    for client in scenario.clients:
        home = ways[client.broker]
        delays[client.name] = {broker: client.latency_us + _between(home, way) for broker, way in ways.items()}
        for broker, far_us in delays[client.name].items():
            delays[broker][client.name] = far_us
    return {node: {peer: us for peer, us in peers.items() if us >= EMULATED_US_MIN} for node, peers in delays.items()}


def _way_up(name: str, up: dict[str, tuple[str | None, int]]) -> dict[str, int]:
    """The broker and everything above it, with the distance to each."""
    way: dict[str, int] = {}
    at: str | None = name
    far_us = 0
    while at is not None and at not in way:
        way[at] = far_us
        at, latency_us = up.get(at, (None, 0))
        far_us += latency_us
    return way


def _between(ours: dict[str, int], theirs: dict[str, int]) -> int:
    """Through the lowest broker that is above both; 0 when there is none."""
    return next((ours[place] + far_us for place, far_us in theirs.items() if place in ours), 0)
