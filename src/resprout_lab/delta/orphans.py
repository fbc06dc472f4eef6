"""What a dead broker left undone, and only its neighbours know of.

The report leaves a publication to its source, which sends it again around the dead. Here the source is a client, and it
may be gone as well: then somebody could have been shown what others never get. So each broker keeps the publications
that came from a neighbour, of those whose whole way back to their origin may be dead at once, until that neighbour says
that everybody has them (`settled`). When all on that way are dead, it sends them to those beyond, as the dead would
have.
"""

from resprout_lab.delta.forwarding import HopLink, Transit
from resprout_lab.delta.messages import RoutedPublication
from resprout_lab.delta.tree import KnownTree


class Orphans:
    def __init__(self, tree: KnownTree, delta: int) -> None:
        self._tree = tree
        self._delta = delta
        self._of_lost: list[Transit] = []
        """That came over links that are over, while some on the way back to their origin live."""

    def retain(self, link: HopLink, transit: Transit, message: RoutedPublication) -> None:
        if message.visited[-1].name == link.name:
            while link.retained and link.retained[0].message.visited[-1].number <= message.settled:
                link.retained.popleft()
            if message.hops <= self._delta:
                link.retained.append(transit)

    def found(self, link: HopLink) -> None:
        """It is there again, and may still say so."""
        link.retained.extend([one for one in self._of_lost if one.came_from == link.name])
        self._of_lost = [one for one in self._of_lost if one.came_from != link.name]

    def lost(self, link: HopLink) -> None:
        self._of_lost.extend(link.retained)

    def adopt(self) -> list[Transit]:
        """Somebody died: what this broker has to see to from now on, in order."""
        is_dead = self._tree.is_dead
        adopted = [one for one in self._of_lost if all(is_dead(node.name) for node in one.message.visited)]
        self._of_lost = [one for one in self._of_lost if one not in adopted]
        return sorted(adopted, key=lambda transit: transit.no)
