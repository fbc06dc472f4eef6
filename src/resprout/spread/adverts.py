"""Advertisements: behind which links somebody may publish on a topic.

They mark the brokers that take part in a topic's total order besides those with subscribers. A client advertises by an
explicit call or by its first publication on a topic, and stops when it says so or leaves.

A neighbour has been told of a topic exactly if a direction other than itself advertises it. That need not be kept: it
changes when the first direction comes or the last one goes (then for all other neighbours), and when a second one comes
or one of two goes (then for the other of the two).
"""

from collections.abc import Iterable

from resprout.spread.messages import Advertised, Unadvertised
from resprout.spread.outbound import Outbound


class Adverts:
    """Topics by the directions (neighbours and local clients) that advertised them."""

    def __init__(self, outbound: Outbound) -> None:
        """What neighbours must hear is appended to `outbound`."""
        self._outbound = outbound
        self._topics: dict[str, tuple[str, ...]] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._neighbours: dict[str, None] = {}

    def add_neighbour(self, name: str) -> None:
        self._neighbours[name] = None

    def remove_neighbour(self, name: str) -> None:
        """It is dead: nobody publishes behind it any more, and nobody there is told."""
        del self._neighbours[name]
        self.withdraw_all(name)

    def told(self, name: str) -> Outbound:
        """Everything a neighbour must know, for the beginning of its session."""
        return [(name, Advertised(topic)) for topic, directions in self._topics.items() if directions != (name,)]

    def advertise(self, direction: str, topic: str) -> None:
        before = self._topics.get(topic, ())
        if direction in before:
            return
        self._topics[topic] = (*before, direction)
        self._of.setdefault(direction, {})[topic] = None
        if len(before) <= 1:
            news = Advertised(topic)
            self._outbound.extend([(name, news) for name in self._concerned(before, direction)])

    def withdraw(self, direction: str, topic: str) -> None:
        before = self._topics.get(topic, ())
        if direction not in before:
            return
        del self._of[direction][topic]
        left = tuple([other for other in before if other != direction])
        if left:
            self._topics[topic] = left
        else:
            del self._topics[topic]
        if len(left) <= 1:
            news = Unadvertised(topic)
            self._outbound.extend([(name, news) for name in self._concerned(left, direction)])

    def withdraw_all(self, direction: str) -> None:
        for topic in list(self._of.get(direction, ())):
            self.withdraw(direction, topic)
        self._of.pop(direction, None)

    def has(self, direction: str, topic: str) -> bool:
        return topic in self._of.get(direction, ())

    def count(self, direction: str) -> int:
        return len(self._of.get(direction, ()))

    def directions(self, topic: str) -> tuple[str, ...]:
        return self._topics.get(topic, ())

    def _concerned(self, others: tuple[str, ...], direction: str) -> Iterable[str]:
        """Neighbours for which it makes a difference whether this direction advertises beside these, one at most."""
        if others:
            return [name for name in others if name in self._neighbours]
        return [name for name in self._neighbours if name != direction]
