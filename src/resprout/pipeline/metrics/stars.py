"""How far apart the brokers around a dead one are, by the latencies of the scenario.

Repairs change the tree, and not every stack notes its new shape. So the scenario's own tree tells who was around the
dead; where brokers took part that were not, the tree has changed, and those who took part are all that is known.
"""

from collections.abc import Iterable

from resprout.pipeline.metrics.repairs import ObservedRepair
from resprout.pipeline.metrics.setting import Setting
from resprout.sim.distances import Distances


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
