"""What clients advertise, for a stack that wants to know where somebody may publish."""

from typing import Final

from resprout.edge.broker.ports import AdvertisementPort
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Advertise, Unadvertise

TOPICS_MAX: Final = 100_000
"""Topics of one client that are announced at a time. Advertisements are hints: it may publish on more."""


class Advertising:
    def __init__(self, adverts: AdvertisementPort) -> None:
        self._adverts = adverts
        self._has = adverts.has

    def advertise(self, session: ClientSession, message: Advertise) -> None:
        self._advertise(session.name, message.topic)

    def implied(self, session: ClientSession, topic: str) -> None:
        """By publishing."""
        if not self._has(session.name, topic):
            self._advertise(session.name, topic)

    def unadvertise(self, session: ClientSession, message: Unadvertise) -> None:
        self._adverts.withdraw(session.name, message.topic)

    def leave(self, name: str) -> None:
        """The session is over: it will publish nothing any more."""
        self._adverts.withdraw_all(name)

    def _advertise(self, name: str, topic: str) -> None:
        if self._adverts.count(name) < TOPICS_MAX:
            self._adverts.advertise(name, topic)
