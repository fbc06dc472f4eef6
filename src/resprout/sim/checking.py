"""Checks the invariants (`sim.invariants`) while a simulated run goes on.

A full check looks at everything that a broker stores, so a broker is not checked after every step: it is due after
`period` steps, and later the more its log holds. A counter that is wrong stays wrong, so a later check finds it; with
`period` 1 every step is checked, which names the step that broke it. The same run is checked in the same steps.

Tests and swarms check (`PERIOD`); `resprout sim` and rehearsals of swarms do not.
"""

from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Any, Final

from resprout.core.bundle import Origin
from resprout.core.contract import Effect, Event
from resprout.core.message_fields import Reached
from resprout.links.links import Links
from resprout.order.entry import Entry
from resprout.order.messages import TotalId, TotalPlace
from resprout.overlay.messages import Life
from resprout.sim.faults import HungStack
from resprout.sim.invariants import (
    InvariantError,
    check_broker,
    check_copies,
    check_link_ends,
    check_seen_grows,
    check_session_ends,
)
from resprout.sim.nodes import Process, Step
from resprout.sim.value_invariants import EqualValues
from resprout.sim.world import World
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.parts import BrokerParts

CHECKED_STACK: Final = "resprout"
PERIOD: Final = 8
"""Steps of a broker between two checks; more than that costs a swarm more than a quarter of its time."""
ENTRIES_PER_STEP: Final = 4
"""A broker is due one step later for so many entries in its log."""
COPIES_PERIOD: Final = 16
"""Checks of brokers between two looks at all of them together."""


class Checking:
    """Checks all brokers of the default stack in one world. Other stacks have other invariants."""

    def __init__(self, world: World, period: int = PERIOD) -> None:
        self._world = world
        self._period = period
        self._order = OneOrder()
        self._values = EqualValues()
        self._checks = 0
        self._brokers: dict[Process, ResproutBroker] = {}
        """Brokers of the default stack by process, of every life: to look inside each machine again takes longer."""
        world.watch = self.watch

    def watch(self, process: Process) -> Step:
        """Return the step of a process, with the checks behind it."""
        links, step = process.machine, process.take_step
        if not isinstance(links, Links):  # MQTT
            return step
        broker = broker_of(links)
        if broker is None:
            return step
        self._brokers[process] = broker
        checked = CheckedBroker(self, process, broker)
        return checked.step

    def check_all(self) -> None:
        """Check every broker that runs, whether it is due or not; at the end of a run."""
        alive: set[Life] = set()
        for node in self._world.nodes.values():
            if node.process is not None and (broker := broker_of(node.process.machine)) is not None:
                self.before_step(node.process, broker)
                self._check(node.process, broker)
                if not broker.life.retired and not self._is_declared_dead(node.process):
                    alive.add(Life(node.name, node.process.incarnation))
        self._check_copies()
        self._order.check_stamps(alive)

    def after_step(self, process: Process, broker: ResproutBroker) -> int:
        """Check a broker. Returns after how many steps it is due again."""
        self._check(process, broker)
        self._checks += 1
        if self._period == 1 or self._checks % COPIES_PERIOD == 0:
            self._check_copies()
        return 1 if self._period == 1 else self._period + len(broker.parts.log.entries) // ENTRIES_PER_STEP

    def before_step(self, process: Process, broker: ResproutBroker) -> None:
        """Compare its totals with those of others, if everybody may know of them.

        What waits for the disk of a broker may die with it, and was never delivered then. A broker that others have
        declared dead counts as crashed.
        """
        if not process.held and not self._is_declared_dead(process):
            self._order.check(broker.parts)
            self._values.check(broker.parts)

    def _is_declared_dead(self, process: Process) -> bool:
        for node in self._world.nodes.values():
            other = self._brokers.get(node.process) if node.process is not None else None
            if other is not None and other.life.view.tombstones.get(process.name, -1) >= process.incarnation:
                return True
        return False

    def _check(self, process: Process, broker: ResproutBroker) -> None:
        links = process.machine
        assert isinstance(links, Links)
        if broker.life.retired or isinstance(links.machine, HungStack):  # a stack that hangs has not heard everything
            return
        check_broker(broker, links._up)
        for peer in links._up:
            self._check_both_ends(process, broker, links, peer)

    def _check_both_ends(self, process: Process, broker: ResproutBroker, links: Links, peer: str) -> None:
        session = links._up[peer]
        far_process = self._running(peer)
        if far_process is None or far_process.incarnation != session.incarnation:
            return
        far_links = far_process.machine
        if not isinstance(far_links, Links):  # an MQTT client, of the same name as its embedded client
            return
        far = far_links._up.get(process.name)
        if far is None or (far.epoch, far.incarnation) != (session.epoch, process.incarnation):
            return
        if far.is_opener == session.is_opener:  # each has opened one of its own, and one of the two will go
            return
        check_session_ends(process.name, session, far)
        check_session_ends(far_process.name, far, session)
        far_broker = broker_of(far_links)
        if far_broker is None or isinstance(far_links.machine, HungStack):
            return
        link, far_link = broker.parts.links.get(peer), far_broker.parts.links.get(process.name)
        if link is not None and far_link is not None and link.open and far_link.open:
            check_link_ends(broker.parts, link, far_link)
            check_link_ends(far_broker.parts, far_link, link)

    def _check_copies(self) -> None:
        """Only while nothing is on its way, and all brokers that are there have a place and know each other. A broker
        that others have declared dead counts as crashed."""
        brokers = []
        for node in self._world.nodes.values():
            broker = broker_of(node.process.machine) if node.process is not None else None
            if broker is None or node.process is None or self._is_declared_dead(node.process):
                continue
            parts, life = broker.parts, broker.life
            is_settled = life.is_settled and not life.leaving and not life.retired
            if node.process.step is None or not is_settled or not self._has_said_all(node.process):
                return
            brokers.append(parts)
        if (
            len({parts.life.view.network for parts in brokers}) == 1
            and sum(len(parts.links) for parts in brokers) == 2 * len(brokers) - 2
        ):
            check_copies(brokers, lambda entry: self._order.is_forgotten(entry, brokers))

    def _has_said_all(self, process: Process) -> bool:
        """Whether its neighbours have received everything, and it has no copies to send."""
        links, broker = process.machine, broker_of(process.machine)
        assert isinstance(links, Links) and broker is not None
        for name, link in broker.parts.links.items():
            session, far_process = links._up.get(name), self._running(name)
            if session is None or far_process is None or link.copies or link.after or link.cursor is not None:
                return False
            far_links = far_process.machine
            assert isinstance(far_links, Links)
            far = far_links._up.get(process.name)
            if far is None or far.received != session.sent or isinstance(far_links.machine, HungStack):
                return False
        return True

    def _running(self, name: str) -> Process | None:
        node = self._world.nodes.get(name)
        return node.process if node is not None else None


class CheckedBroker:
    """The steps of one life of a broker."""

    __slots__ = ("_broker", "_checking", "_due", "_process", "_seen", "_step")

    def __init__(self, checking: Checking, process: Process, broker: ResproutBroker) -> None:
        self._checking = checking
        self._process = process
        self._broker = broker
        self._step = process.take_step
        self._due = 1
        self._seen: dict[Origin, Reached] = {}

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self._due -= 1
        if self._due <= 0:
            self._checking.before_step(self._process, self._broker)
        effects = self._step(event, now_us)
        if self._due <= 0:
            self._due = self._checking.after_step(self._process, self._broker)
            self._seen = check_seen_grows(self._broker.parts, self._seen)
        return effects


def broker_of(machine: Any) -> ResproutBroker | None:
    """The broker of the default stack inside a machine: below its links, and perhaps a recorder of events."""
    while machine is not None and not isinstance(machine, ResproutBroker):
        machine = getattr(machine, "machine", None)
    return machine


class OneOrder:
    """All totals that any broker of a run has delivered, by network: each place has one total, and one stamp at all
    brokers that live to the end.

    A broker that dies may have delivered a total with a lower stamp, if nobody heard of it (protocol.md, I7; seed
    38261052 of the swarm class `unread`). So stamps are compared at the end of a run, when it is known who lives.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, TotalPlace], TotalId] = {}
        self._stamps: dict[tuple[str, TotalPlace], dict[Life, int]] = {}

    def check(self, parts: BrokerParts) -> None:
        """Compare what a broker has delivered with what others have."""
        network = parts.life.view.network
        for id, record in parts.totals.locks.records.items():
            if record.stamp is None:
                continue
            known = self._known.setdefault((network, record.place), id)
            if known != id:
                life = life_of(parts)
                detail = f"the total at {record.place} is {id}, elsewhere {known}"
                raise InvariantError(f"{life.name}.{life.incarnation}", "I7", detail)
            self._stamps.setdefault((network, record.place), {})[life_of(parts)] = record.stamp

    def is_forgotten(self, entry: Entry, brokers: Sequence[BrokerParts]) -> bool:
        """Whether one of these brokers has delivered a total, and has dropped its lock since."""
        id = (entry.publisher, entry.incarnation, entry.first)
        lives = {life for total, stamps in self._stamps.items() if self._known[total] == id for life in stamps}
        return any(life_of(parts) in lives and id not in parts.totals.locks.records for parts in brokers)

    def check_stamps(self, alive: Set[Life]) -> None:
        """Compare the stamps of each total at these brokers."""
        for (_, place), stamps in self._stamps.items():
            compared = [(stamp, life) for life, stamp in stamps.items() if life in alive]
            for (stamp, one), (other_stamp, other) in pairwise(compared):
                if stamp != other_stamp:
                    detail = f"the total at {place} has stamp {stamp}, at {other.name} it has {other_stamp}"
                    raise InvariantError(f"{one.name}.{one.incarnation}", "I7", detail)


def life_of(parts: BrokerParts) -> Life:
    return Life(parts.life.seat.name, parts.life.seat.incarnation)
