"""Advertisements: behind which links somebody may publish on a topic.

They mark the brokers that take part in a topic's total order besides those with subscribers. A client advertises by an
explicit call or by its first publication on a topic, and stops when it says so or leaves.
"""

from resprout.spread.messages import Advertised, Unadvertised
from resprout.spread.outbound import Outbound


class Adverts:
    """Topics by the directions (neighbours and local clients) that advertised them."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, None]] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._told: dict[str, dict[str, None]] = {}

    def add_neighbour(self, name: str) -> None:
        self._told[name] = {}
        for topic in self._topics:
            self._told[name][topic] = None

    def remove_neighbour(self, name: str, outbound: Outbound) -> None:
        """It is dead: nobody publishes behind it any more, and nobody there is told."""
        del self._told[name]
        self.withdraw_all(name, outbound)

    def told(self, name: str) -> Outbound:
        """Everything a neighbour must know, for the beginning of its session."""
        return [(name, Advertised(topic)) for topic in self._told[name]]

    def advertise(self, direction: str, topic: str, outbound: Outbound) -> None:
        mine = self._of.setdefault(direction, {})
        if topic in mine:
            return
        mine[topic] = None
        self._topics.setdefault(topic, {})[direction] = None
        for name, told in self._told.items():
            if name != direction and topic not in told:
                told[topic] = None
                outbound.append((name, Advertised(topic)))

    def withdraw(self, direction: str, topic: str, outbound: Outbound) -> None:
        mine = self._of.get(direction, {})
        if topic not in mine:
            return
        del mine[topic]
        directions = self._topics[topic]
        del directions[direction]
        for name, told in self._told.items():
            if name != direction and topic in told and not any(other != name for other in directions):
                del told[topic]
                outbound.append((name, Unadvertised(topic)))
        if not directions:
            del self._topics[topic]

    def withdraw_all(self, direction: str, outbound: Outbound) -> None:
        for topic in list(self._of.get(direction, ())):
            self.withdraw(direction, topic, outbound)
        self._of.pop(direction, None)

    def has(self, direction: str, topic: str) -> bool:
        return topic in self._of.get(direction, ())

    def count(self, direction: str) -> int:
        return len(self._of.get(direction, ()))

    def directions(self, topic: str) -> tuple[str, ...]:
        return tuple(self._topics.get(topic, ()))
