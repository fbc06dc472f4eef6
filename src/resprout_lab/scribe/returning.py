"""Clients that come from another broker, with their subscriptions and how far they have come on each topic.

Before such a client is served, the leaders of its topics are asked what they still hold (`AskTopic`). If their logs
have all that lies behind its positions, it goes on: its subscriptions stay confirmed, and trees are rewound to where it
was. Otherwise, or if the leaders do not answer in time, it is told that it may have missed messages, and subscribes
again.
"""

from collections.abc import Callable, Iterable
from typing import Final

from resprout.edge.broker.owed import read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend
from resprout.filters.predicate import is_plain, topic_matches
from resprout_lab.scribe.wishes import DIRECTORY

WAIT_US: Final = 9_000_000
"""For so long a client waits for the leaders of its topics: longer than a leader takes to be replaced, and shorter than
clients wait for a broker."""
LOOKS_MAX: Final = 3
"""Answers of one leader that know less than the client, which may be old, before the log is taken for another one."""


class _Return:
    __slots__ = ("checks", "is_refused", "looks", "places")

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.checks: dict[str, int] = {}
        """Topics whose leaders have not answered yet, and how far the client has come on each."""
        self.looks = 0
        self.is_refused = False
        """Something that it missed is not kept."""


class ReturningClients:
    def __init__(self, read: Callable[[str], None]) -> None:
        """`read` asks how far a topic has come (`has_come`)."""
        self._read = read
        self._all: dict[str, _Return] = {}

    def door(self, session: ClientSession, attend: Attend, waited_us: int) -> bool:
        """Whether a client can be served by now."""
        if not attend.subscriptions:
            return True
        found = self._all.get(session.name)
        if found is None:
            found = self._all[session.name] = _begin(attend)
            for topic in found.checks if not found.is_refused else ():
                self._read(topic)
        found.is_refused = found.is_refused or (waited_us >= WAIT_US and bool(found.checks))
        return found.is_refused or not found.checks

    def take(self, client: str) -> dict[str, int] | None:
        """The client is served: how far it has come on each topic; None if it cannot go on from there."""
        found = self._all.pop(client, None)
        return found.places if found is not None and not found.is_refused else None

    def has_come(self, topic: str, position: int, kept_after: int) -> None:
        """The leader has everything between these."""
        is_read = False
        for one in self._all.values():
            after = one.checks.get(topic)
            if after is None or one.is_refused:
                continue
            if after < kept_after:
                one.is_refused = True
            elif after <= position:
                del one.checks[topic]
            elif one.looks < LOOKS_MAX:
                one.looks += 1
                is_read = True
            else:
                one.is_refused = True
        if is_read:
            self._read(topic)

    def left(self, client: str) -> None:
        self._all.pop(client, None)


def _begin(attend: Attend) -> _Return:
    """A filter with wildcards goes on with the topics that its client knew of; those that were announced since are read
    from their beginning (`TopicWishes`)."""
    places = {place.topic: place.position for place in attend.places}
    begun = _Return(places)
    for held in read_held(attend.subscriptions):
        for topic in _topics_of(held.predicate.filter, places):
            if topic in places:
                begun.checks[topic] = places[topic]
            else:
                begun.is_refused = True
    return begun


def _topics_of(filter: str, places: Iterable[str]) -> list[str]:
    if is_plain(filter):
        return [filter]
    return [DIRECTORY, *(topic for topic in places if topic != DIRECTORY and topic_matches(filter, topic))]
