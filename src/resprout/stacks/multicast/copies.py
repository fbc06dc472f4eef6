"""Which brokers have a publication, as far as one must know: to call it safe, and to make good what a dead one owed.

Over each link both ends count what came. A broker tells a neighbour (`LinkCounts`) how much of what that one sent is
here, how much of it all others next to here have, and how much of what was sent to it all others have. So each knows
what a neighbour may still owe to its other neighbours, whichever way it came: that is kept, and sent around it when it
dies.
"""

from collections import deque
from collections.abc import Callable

from resprout.core.errors import PeerError
from resprout.edge.broker.item import KeptItem
from resprout.stacks.multicast.messages import LinkCounts, MulticastMessage


class Copy:
    """A publication at this broker."""

    __slots__ = ("item", "lacking", "message", "no", "others")

    def __init__(self, no: int, item: KeptItem, message: MulticastMessage) -> None:
        self.no = no
        self.item = item
        self.message = message
        """As it goes on."""
        self.lacking = 0
        """Neighbours that were sent it and have not said that they have it."""
        self.others = 0
        """Those that have."""


class _Link:
    __slots__ = ("came", "going", "heard", "owed", "passing", "received", "sent", "told")

    def __init__(self) -> None:
        self.sent: deque[Copy] = deque()
        """Not known to have arrived."""
        self.going: deque[Copy] = deque()
        """Sent, and not known to be at all its other neighbours."""
        self.came: deque[Copy] = deque()
        """Received, and not known to be at all its other neighbours."""
        self.passing: deque[Copy] = deque()
        """Received; the first of them is not at all the others here."""
        self.owed: deque[Copy] = deque()
        """Sent; the first of them is not at all the others here."""
        self.received = 0
        self.told = LinkCounts(0, 0, 0)
        self.heard = LinkCounts(0, 0, 0)


class LinkCopies:
    def __init__(self, safe: Callable[[], None]) -> None:
        """`safe`: another broker has something now that it had not."""
        self._safe = safe
        self._has_news = False
        self._links: dict[str, _Link] = {}
        self._numbers = 0

    def begin(self, name: str) -> None:
        self._links[name] = _Link()

    def has(self, name: str) -> bool:
        return name in self._links

    def make(self, item: KeptItem, message: MulticastMessage) -> Copy:
        self._numbers += 1
        return Copy(self._numbers, item, message)

    def came(self, name: str, copy: Copy) -> None:
        link = self._links[name]
        self._has_news = True
        link.received += 1
        link.came.append(copy)
        link.passing.append(copy)

    def sent(self, name: str, copy: Copy) -> None:
        link = self._links[name]
        copy.lacking += 1
        link.sent.append(copy)
        link.going.append(copy)
        link.owed.append(copy)

    def hear(self, name: str, got: LinkCounts) -> None:
        self._has_news = True
        link = self._links[name]
        before, link.heard = link.heard, got
        if got.received < before.received or got.passed < before.passed or got.settled < before.settled:
            raise PeerError(f"{name} had more before")
        for _ in range(got.received - before.received):
            copy = _first(link.sent)
            copy.lacking -= 1
            copy.others += 1
        for _ in range(got.passed - before.passed):
            _first(link.going)
        for _ in range(got.settled - before.settled):
            _first(link.came)
        self._safe()

    def end(self, name: str) -> list[Copy]:
        """The neighbour is gone: what it may have owed to others."""
        link = self._links.pop(name, None)
        if link is None:
            return []
        self._has_news = True
        for copy in link.sent:
            copy.lacking -= 1
        owed = {copy.no: copy for copy in (*link.going, *link.came)}
        return [owed[no] for no in sorted(owed)]

    def news(self) -> list[tuple[str, LinkCounts]]:
        """At the end of a step: what neighbours are to be told."""
        if not self._has_news:
            return []
        self._has_news = False
        found = []
        for name, link in self._links.items():
            passed, settled = _settle(link.passing), _settle(link.owed)
            if passed or settled or link.received > link.told.received:
                told = link.told
                link.told = LinkCounts(link.received, told.passed + passed, told.settled + settled)
                found.append((name, link.told))
        return found


def _settle(copies: deque[Copy]) -> int:
    count = 0
    while copies and not copies[0].lacking:
        copies.popleft()
        count += 1
    return count


def _first(copies: deque[Copy]) -> Copy:
    if not copies:
        raise PeerError("more than was sent")
    return copies.popleft()
