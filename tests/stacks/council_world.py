"""Real brokers without clients in the virtual world: what their councils do under crashes, freezes and partitions.

The world, its links and its faults are those of the simulator. What is added here is how far brokers are from each
other (drawn, and not along the tree: news overtake each other), a history of what was declared and repaired, and a look
at everybody again and again while it runs.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal
from unittest import mock

import msgspec

from resprout.core.contract import Machine, Note, Request
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.overlay.messages import Life
from resprout.sim.faults import VirtualFaults
from resprout.sim.network import Distances
from resprout.sim.nodes import Process
from resprout.sim.world import World
from resprout.stacks.resprout import ResproutOptions, parts
from resprout.stacks.resprout.messages import Repaired
from resprout.stacks.resprout.repair.coordinator import Coordinator
from resprout.stacks.stack import BrokerSeat
from tests.stacks.stage import Accuse, Accuser

HEARTBEAT_US = 500_000
LEASE_US = 3_000_000
LINKS = LinkOptions(heartbeat_us=HEARTBEAT_US, silence_us=LEASE_US // 2)
FORMED_LEASES = 40
"""By then everybody has a place."""
LOOK_EVERY = 40
"""Events: what is looked for would not pass quickly."""

What = Literal["declared", "repaired", "fenced"]


class DrawnDistances(Distances):
    """Near or far, drawn for each pair."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(f"distances {seed}")
        self._drawn: dict[frozenset[str], int] = {}

    def between(self, one: str, other: str) -> int:
        pair = frozenset((one, other))
        if pair not in self._drawn:
            chance = self._chance
            self._drawn[pair] = chance.choice((chance.randrange(7_000, 40_000), chance.randrange(17_000, 260_000)))
        return self._drawn[pair]


class Forget(msgspec.Struct, frozen=True):
    """To a broker: the operator says that these never return."""

    names: tuple[str, ...]


class Witness(Accuser):
    """A broker that tells what it declares, and what it has repaired as coordinator."""

    def __init__(
        self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random, tell: Callable[[What, list[Life]], None]
    ) -> None:
        def watched(*given: Any) -> Coordinator:
            return WitnessedCoordinator(tell, *given)

        with mock.patch.object(parts, "Coordinator", watched):
            super().__init__(seat, options, rng)
        self._tell = tell

    def _request(self, event: Request) -> None:
        if isinstance(event.body, Forget):
            self.parts.council.forget(event.body.names, self.life.now_us)
        else:
            super()._request(event)

    def _repaired(self, outcome: Repaired) -> None:
        if outcome.successor == self.name:
            self._tell("repaired", [Life(name, self.life.view.replaced[name]) for name in outcome.dead])
        super()._repaired(outcome)

    @property
    def name(self) -> str:
        return self.life.seat.name

    @property
    def incarnation(self) -> int:
        return self.life.seat.incarnation


class WitnessedCoordinator(Coordinator):
    def __init__(self, tell: Callable[[What, list[Life]], None], *parts: Any) -> None:
        super().__init__(*parts)
        self._tell = tell

    def declared(self, names: Iterable[str]) -> None:
        names = list(names)
        self._tell("declared", [self._life.view.life(name) for name in names])
        super().declared(names)


class CouncilWorld:
    def __init__(self, seed: int, parents: Mapping[str, str | None], faults: int, remembers: bool = False) -> None:
        """`remembers`: brokers keep on disk what they have agreed to."""
        self._remembers = remembers
        self.random = random.Random(seed)
        self.faults = faults
        self.brokers: dict[str, Witness] = {}
        """In their latest lives."""
        self.history: list[tuple[int, str, What, tuple[Life, ...]]] = []
        """(when, who, what, about whom)."""
        self.watch: Callable[[], None] = lambda: None
        """Called now and then."""
        self._parents = parents
        self._options = ResproutOptions(faults_tolerated=faults, heartbeat_us=HEARTBEAT_US, lease_us=LEASE_US)
        self._world = World(seed, DrawnDistances(seed), busy=lambda: True, on_note=self._note)
        self._struck = VirtualFaults(self._world)
        for name in parents:
            self._world.add(name, partial(self._make, name))
        for node in self._world.nodes.values():
            self._world.boot(node)
        self._world.at_event(LOOK_EVERY, self._look)

    def _make(self, name: str, incarnation: int, rng: random.Random) -> Machine:
        parent = self._world.nodes[name].toward or self._parents[name]
        others = [other for other in self._parents if other != name]
        contacts = others if incarnation > 1 else [parent] if parent is not None else []
        memory = self._world.nodes[name].memory if self._remembers else b""
        seat = BrokerSeat(name, incarnation, parent, tuple(contacts), remembers=self._remembers, memory=memory)
        machine = self.brokers[name] = Witness(seat, self._options, rng, partial(self._tell, name))
        return Links(machine, name=name, role="broker", incarnation=incarnation, rng=rng, options=LINKS)

    def _note(self, process: Process, note: Note) -> None:
        if note.kind == "fenced":
            self._tell(process.name, "fenced", [Life(process.name, process.incarnation)])

    def _tell(self, name: str, what: What, lives: list[Life]) -> None:
        self.history.append((self.now_us, name, what, tuple(lives)))

    def _look(self) -> None:
        self.watch()
        self._world.at_event(self._world.events + LOOK_EVERY, self._look)

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        return self._world.now_us

    def run(self, leases: float) -> None:
        self._world.run(self.now_us + int(leases * LEASE_US))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self._world.at(self.now_us + delay_us, lambda first, second: action())

    # -- who lives -----------------------------------------------------------------------------------------------------

    def lives(self, name: str) -> bool:
        return self._world.nodes[name].process is not None

    def living(self) -> list[Witness]:
        return [broker for name, broker in self.brokers.items() if self.lives(name)]

    def dead(self) -> set[str]:
        return {name for name in self.brokers if not self.lives(name)}

    def was_fenced(self, name: str) -> bool:
        return any(who == name and what == "fenced" for _, who, what, _ in self.history)

    def count(self, wanted: What) -> int:
        return sum(len(lives) for _, _, what, lives in self.history if what == wanted)

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def crash(self, name: str, refuses: bool | None = None) -> None:
        """`refuses`: its host lives, and says so."""
        self._struck.crash(name, host=self.random.random() < 0.5 if refuses is None else not refuses)

    def revive(self, name: str, disk: bool = True) -> None:
        """The next life begins, unless it has by itself."""
        self._struck.recover(name, disk)

    def freeze(self, name: str) -> None:
        self._struck.freeze(name)

    def thaw(self, name: str) -> None:
        self._struck.unfreeze(name)

    def partition(self, names: Iterable[str]) -> None:
        self._struck.partition(sorted(names))

    def sever(self, one: str, other: str) -> None:
        self._struck.cut(one, other)

    def heal(self) -> None:
        self._struck.heal_all()

    def ask(self, name: str, body: Accuse | Forget) -> None:
        process = self._world.nodes[name].process
        if process is not None:
            self._world.request(process, body)


def draw_tree(chance: random.Random, size: int) -> dict[str, str | None]:
    """The root is b00; from long chains to wide stars."""
    names = [f"b{number:02}" for number in range(size)]
    parents: dict[str, str | None] = {names[0]: None}
    for number in range(1, size):
        least = max(0, number - chance.choice((1, 2, 4, 20)))
        parents[names[number]] = names[chance.randrange(least, number)]
    return parents
