"""Repairs, and the latencies of publications before, during and after them.

Repairs are put together from the notes of brokers. A broker notes `repair_begin` with the name of a dead neighbour and
`repair_end` with all that were repaired together; `repair_round` is a request for a parent, in a stack that makes any.
Notes that name the same dead broker belong to one repair, unless that broker has come back in between: then it has died
again.

Distances around a dead broker are the latencies of the scenario (`Stars`). Repairs change the tree, and not every stack
notes its new shape. So the scenario's own tree tells which brokers were around the dead one; where other brokers took
part, the tree has changed, and only those that took part are known.

The latency of a delivery is the time since the publish row of the same publication; a delivery belongs to the phase in
which it was *published*. Percentiles are nearest-rank, as in `trace.summary`: always a latency that was observed. The
trouble of a run (`Trouble`) begins with the first fault that a repair had to answer, and lasts until the last of those
repairs has ended at the last broker. Planned moves, and brokers that leave in good order, are no trouble.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from resprout.core.guarantee import Guarantee
from resprout.pipeline.metrics.observed import Numbers, Observed, ObservedEvent, ObservedPublications, RunKey, Setting
from resprout.pipeline.results import LatencyRow
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

ALL: Final = "all"
BEFORE: Final = "before"
DURING: Final = "during"
AFTER: Final = "after"

_FAULTS: Final = frozenset((kinds.CRASH, kinds.FREEZE, kinds.CUT, kinds.PARTITION))


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


class Trouble(msgspec.Struct, frozen=True):
    begin_us: int
    end_us: int | None
    """None when a repair never ended: there is no after."""

    def phases(self, published_us: Numbers) -> dict[str, npt.NDArray[np.bool_]]:
        before = published_us < self.begin_us
        after = np.zeros_like(before) if self.end_us is None else published_us > self.end_us
        return {BEFORE: before, DURING: ~before & ~after, AFTER: after}


def trouble_in(
    events: Iterable[ObservedEvent], repairs: Sequence[ObservedRepair], clients: frozenset[str]
) -> Trouble | None:
    """None when nothing had to be repaired."""
    forced = [repair for repair in repairs if not repair.is_planned]
    if not forced:
        return None
    begin_us = min(repair.began_us for repair in forced)
    faults_us = [event.time_us for event in events if event.kind in _FAULTS and event.node not in clients]
    ends_us = [repair.ended_us for repair in forced]
    end_us = None if None in ends_us else max(end_us for end_us in ends_us if end_us is not None)
    return Trouble(min([begin_us, *faults_us]), end_us)


class DeliveryWaits(msgspec.Struct, frozen=True):
    """One of each delivery whose publication is known."""

    guarantee: Numbers
    published_us: Numbers
    wait_us: Numbers


def latency_rows(run: RunKey, observed: Observed, trouble: Trouble | None) -> list[LatencyRow]:
    waits = _waits(observed.publications, observed.deliveries)
    rows: list[LatencyRow] = []
    for number, guarantee in _in_order(observed.guarantees):
        chosen = waits.guarantee == number
        published_us, wait_us = waits.published_us[chosen], waits.wait_us[chosen]
        phases: dict[str, npt.NDArray[np.bool_] | slice] = {ALL: slice(None)}
        if trouble is not None:
            phases |= trouble.phases(published_us)
        for phase, of_phase in phases.items():
            if len(phase_us := wait_us[of_phase]):
                rows.append(_row(run, guarantee, phase, phase_us))
    return rows


def _waits(publications: ObservedPublications, deliveries: ObservedPublications) -> DeliveryWaits:
    """Joins deliveries with the first publish row of their publication, which must stand before them."""
    seqs = np.unique(publications.seq)
    ranks = len(seqs) + 1  # the key is one number: of the source, and the rank of the sequence number, however large
    keys, first = np.unique(publications.source * ranks + np.searchsorted(seqs, publications.seq), return_index=True)
    rank = np.searchsorted(seqs, deliveries.seq)
    wanted = deliveries.source * ranks + rank
    place = np.searchsorted(keys, wanted)
    known = _equals(seqs, rank, deliveries.seq) & _equals(keys, place, wanted)
    publication = first[place[known]]
    later = publications.row[publication] < deliveries.row[known]
    published_us = publications.time_us[publication][later]
    delivered_us = deliveries.time_us[known][later]
    return DeliveryWaits(deliveries.guarantee[known][later], published_us, delivered_us - published_us)


def _equals(ordered: Numbers, place: Numbers, values: Numbers) -> npt.NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    found: npt.NDArray[np.bool_] = (place < len(ordered)) & (ordered[np.minimum(place, len(ordered) - 1)] == values)
    return found


def _in_order(found: list[str]) -> Iterator[tuple[int, str]]:
    """Known guarantees first, weakest first; words nobody knows after them."""
    labels = [guarantee.label for guarantee in Guarantee]
    for word in [*labels, *sorted(set(found) - set(labels))]:
        if word in found:
            yield found.index(word), word


def _row(run: RunKey, guarantee: str, phase: str, wait_us: Numbers) -> LatencyRow:
    ordered = np.sort(wait_us)
    n = len(ordered)
    median_us, p90_us, p95_us, p99_us, p999_us = (
        int(ordered[-(-n * thousandths // 1000) - 1]) for thousandths in (500, 900, 950, 990, 999)
    )
    return LatencyRow(
        **run,
        guarantee=guarantee,
        phase=phase,
        count=n,
        mean_us=int(ordered.sum()) / n,
        median_us=median_us,
        p90_us=p90_us,
        p95_us=p95_us,
        p99_us=p99_us,
        p999_us=p999_us,
        max_us=int(ordered[-1]),
    )
