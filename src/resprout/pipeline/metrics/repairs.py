"""Repairs, put together from the notes of brokers, and how far apart the brokers around a dead one are.

A broker notes `repair_begin` with the name of a dead neighbour and `repair_end` with all that were repaired together;
`repair_round` is a request for a parent, in a stack that makes any. Notes that name the same dead broker belong to one
repair, unless that broker has come back in between: then it has died again.

Distances are the latencies of the scenario. Repairs change the tree, and not every stack notes its new shape. So the
scenario's own tree tells which brokers were around the dead one; where other brokers took part, the tree has changed,
and only those that took part are known.
"""

from collections.abc import Iterable
from typing import Final

from resprout.pipeline.metrics.observed import ObservedEvent
from resprout.pipeline.metrics.setting import Setting
from resprout.sim.network import Distances
from resprout.trace import kinds

ROUND: Final = "repair_round"
JOINED: Final = "joined"
MOVED: Final = "moved"

CRASHED: Final = "crash"
FROZEN: Final = "freeze"
HUNG: Final = "hang"
LEFT: Final = "leave"
MOVES: Final = "move"

_CAUSES: Final = {kinds.CRASH: CRASHED, kinds.FREEZE: FROZEN, kinds.HANG: HUNG, kinds.LEAVE: LEFT, MOVED: MOVES}
_RETURNS: Final = frozenset((kinds.RECOVER, kinds.JOIN, JOINED))
_NOTES: Final = frozenset((kinds.REPAIR_BEGIN, kinds.REPAIR_END, ROUND))


class ObservedRepair:
    def __init__(self) -> None:
        self.dead: dict[str, None] = {}
        """Whom it replaces, in the order in which they were named."""
        self.began: list[tuple[int, str]] = []
        """When and where, in order."""
        self.ended: list[tuple[int, str]] = []
        self.rounds = 0
        self.cause: str | None = None
        """What had struck the dead: a fault, or a place given up on purpose; None when nobody knows."""
        self.struck_us: int | None = None
        self.down: frozenset[str] = frozenset()
        """All brokers that were down when it began."""

    @property
    def is_planned(self) -> bool:
        return self.cause in (LEFT, MOVES)

    @property
    def began_us(self) -> int:
        return self.began[0][0]

    @property
    def placed_us(self) -> int | None:
        return self.ended[0][0] if self.ended else None

    @property
    def ended_us(self) -> int | None:
        return self.ended[-1][0] if self.ended else None

    @property
    def node(self) -> str:
        return (self.ended or self.began)[0][1]

    @property
    def members(self) -> dict[str, None]:
        """Everybody who noted something about it."""
        return dict.fromkeys(node for _, node in (*self.began, *self.ended))


def repairs_in(events: Iterable[ObservedEvent]) -> list[ObservedRepair]:
    """In the order in which they began; those of which only an end was noted are left out."""
    history = _History()
    for event in events:
        history.take(event)
    return sorted((repair for repair in history.repairs if repair.began), key=lambda repair: repair.began_us)


class _History:
    """Of a run, as far as it has been read."""

    def __init__(self) -> None:
        self.repairs: list[ObservedRepair] = []
        self._latest: dict[str, ObservedRepair] = {}
        """By a dead broker's name."""
        self._returned: set[str] = set()
        """Names whose latest repair is about an earlier life."""
        self._struck: dict[str, ObservedEvent] = {}
        """What happened to a broker last, while it is down."""

    def take(self, event: ObservedEvent) -> None:
        if event.kind in _CAUSES:
            self._struck[event.node] = event
        elif event.kind in _RETURNS:
            self._struck.pop(event.node, None)
            self._returned.add(event.node)
        elif event.kind in _NOTES and (dead := event.detail.split()):
            self._note(event, dead)

    def _note(self, event: ObservedEvent, dead: list[str]) -> None:
        if event.kind == kinds.REPAIR_BEGIN:
            repair = self._repair_of(dead[:1], is_new=True)
            repair.began.append((event.time_us, event.node))
            self._look_for_cause(repair, event.time_us)
        elif event.kind == kinds.REPAIR_END:
            self._repair_of(dead, is_new=False).ended.append((event.time_us, event.node))
        else:
            self._repair_of(dead, is_new=False).rounds += 1

    def _repair_of(self, dead: list[str], is_new: bool) -> ObservedRepair:
        """The repair of all these; an end that names several makes one of what began as several."""
        if is_new:
            for name in self._returned.intersection(dead):
                self._latest.pop(name, None)
                self._returned.discard(name)
        known = list(dict.fromkeys(self._latest[name] for name in dead if name in self._latest))
        repair = known[0] if known else ObservedRepair()
        if not known:
            self.repairs.append(repair)
        for other in known[1:]:
            _merge(repair, other)
            self.repairs.remove(other)
        for name in (*dead, *repair.dead):
            repair.dead[name] = None
            self._latest[name] = repair
        return repair

    def _look_for_cause(self, repair: ObservedRepair, now_us: int) -> None:
        if len(repair.began) > 1:
            return
        repair.down = frozenset(name for name, event in self._struck.items() if event.kind == kinds.CRASH)
        strikes = [self._struck[name] for name in repair.dead if name in self._struck]
        if strikes:
            first = min(strikes, key=lambda event: event.time_us)
            repair.cause, repair.struck_us = _CAUSES[first.kind], first.time_us


def _merge(repair: ObservedRepair, other: ObservedRepair) -> None:
    repair.began = sorted(repair.began + other.began)
    repair.ended = sorted(repair.ended + other.ended)
    repair.rounds += other.rounds
    repair.dead |= other.dead
    repair.down |= other.down
    if other.struck_us is not None and (repair.struck_us is None or other.struck_us < repair.struck_us):
        repair.cause, repair.struck_us = other.cause, other.struck_us


class Stars:
    """Of one run."""

    def __init__(self, setting: Setting) -> None:
        self._parents = {name: broker.parent for name, broker in setting.all_brokers.items()}
        self._distances: Distances = setting.distances()

    def round_trip_us(self, repair: ObservedRepair) -> int | None:
        """There and back over the slowest link between who leads the repair and a living broker around the dead.
        None where a place was given up on purpose: nobody was waited for."""
        if repair.is_planned:
            return None
        leader, members = self._around(self._dead_with(repair))
        if leader is None or not repair.members.keys() <= {leader, *members}:
            leader, members = repair.node, list(repair.members)
        ways_us = [self._distances.between(leader, member) for member in members if member != leader]
        return 2 * max(ways_us) if ways_us and self._knows((leader, *members)) else None

    def _knows(self, names: Iterable[str]) -> bool:
        return all(name in self._distances for name in names)

    def _dead_with(self, repair: ObservedRepair) -> set[str]:
        """The dead of a repair, and whoever was down next to them: those are found dead while it goes on."""
        dead: set[str] = set()
        found = list(repair.dead)
        while found:
            name = found.pop()
            dead.add(name)
            beside = [self._parents.get(name), *(child for child, parent in self._parents.items() if parent == name)]
            found += [other for other in beside if other in repair.down and other not in dead and other is not None]
        return dead

    def _around(self, dead: set[str]) -> tuple[str | None, list[str]]:
        """Who leads, and the rest: the parent of the dead, or the child that is nearest to a dead root."""
        parents = self._parents
        orphans = [name for name, parent in parents.items() if parent in dead and name not in dead]
        above = [parent for name in parents if name in dead and (parent := parents[name]) and parent not in dead]
        if above:
            return above[0], [*orphans, *above[1:]]
        roots = [name for name in parents if name in dead and parents[name] is None]
        successors = [name for name in orphans if parents[name] in roots]
        if not successors:
            return None, []
        leader = min(successors, key=lambda name: self._distances.between(roots[0], name))
        return leader, [name for name in orphans if name != leader]
