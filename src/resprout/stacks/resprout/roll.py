"""The roll: the latest life of every client that was heard of, so that a name belongs to one session in the whole tree.

A life that is served for the first time is announced to everybody (`ClientBegan`). Where an earlier life of the same
name is served, that one is told that it is over, as if the later one had come to the same broker. A client that goes to
another broker is in the same life, and nothing is announced. New links begin with the rolls of both sides.

Nothing else depends on it: what an earlier life published is delivered like anything else, and its receipts are true
until the end of its session.
"""

from collections.abc import Iterable
from typing import Final

from resprout.edge.broker.ghosts import Ghosts
from resprout.overlay.places import Life
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import ClientBegan
from resprout.stacks.resprout.outcomes import Superseded

NAMES_KEPT: Final = 100_000
"""Names that are remembered for certain, the latest ones; up to twice as many are."""


class Roll:
    """Two generations: what is met again moves to the young one, and when that is full the old one is forgotten."""

    def __init__(self, core: Core, ghosts: Ghosts) -> None:
        self._core = core
        self._ghosts = ghosts
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def latest(self, name: str) -> int:
        return self._young.get(name) or self._old.get(name, 0)

    def lives(self) -> list[Life]:
        """Everything that is remembered."""
        return [Life(name, incarnation) for name, incarnation in {**self._old, **self._young}.items()]

    def heard(self, neighbour: str, message: ClientBegan) -> None:
        name, known = message.name, self.latest(message.name)
        if message.incarnation < known:  # whoever says so must not have heard, and may serve it
            self._core.outbound.append((neighbour, ClientBegan(name, known)))
        elif message.incarnation > known:
            self._begin(name, message.incarnation, message, neighbour)
            if name in self._core.sessions.all or self._ghosts.awaits(name):
                self._core.outcomes.append(Superseded((name,)))

    def learn(self, lives: Iterable[Life], source: str | None = None) -> None:
        """From a neighbour, or of a client that is served here. What is new is passed on to all others."""
        begun: list[str] = []
        for life in lives:
            if life.incarnation > self.latest(life.name):
                self._begin(life.name, life.incarnation, ClientBegan(life.name, life.incarnation), source)
                begun.append(life.name)
        if begun:
            self._core.outcomes.append(Superseded(tuple(begun)))

    def _begin(self, name: str, incarnation: int, news: ClientBegan, source: str | None) -> None:
        self._young[name] = incarnation
        if len(self._young) > NAMES_KEPT:
            self._old, self._young = self._young, {}
        self._core.outbound.extend([(link, news) for link in self._core.links if link != source])
