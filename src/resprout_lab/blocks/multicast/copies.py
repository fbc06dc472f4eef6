"""Which brokers have a publication, as far as one must know: to call it safe, and to make good what a dead one owed.

Over each link both ends count what came (`blocks.crossing`). A broker tells a neighbour how much of what that one sent
is here, how much of it all others next to here and all readers here have, and the same of what was sent to it. So each
knows what a neighbour may still owe to its other neighbours and to its clients, whichever way it came: that is kept,
and sent around it when it dies, and handed over to its clients.
"""

from collections.abc import Callable

from resprout_lab.blocks.crossing import CrossedLink, Progress
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.blocks.retention import KeptItem


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

    def done_but_for(self, peer: str) -> bool:
        """The peer counts as well: nothing is said of what it has not got."""
        return not self.lacking and not self.item.needed


class LinkCopies:
    def __init__(self, safe: Callable[[], None]) -> None:
        """`safe`: another broker has something now that it had not."""
        self._safe = safe
        self._has_news = False
        self._links: dict[str, CrossedLink[Copy]] = {}
        self._numbers = 0

    def begin(self, name: str) -> None:
        self._links[name] = CrossedLink(name)

    def has(self, name: str) -> bool:
        return name in self._links

    def make(self, item: KeptItem, message: MulticastMessage) -> Copy:
        self._numbers += 1
        return Copy(self._numbers, item, message)

    def came(self, name: str, copy: Copy) -> None:
        self._has_news = True
        self._links[name].received.add(copy)

    def sent(self, name: str, copy: Copy) -> None:
        copy.lacking += 1
        self._links[name].sent.add(copy)

    def hear(self, name: str, message: Progress) -> None:
        arrived, _ = self._links[name].hear(message)
        self._has_news = True
        for copy in arrived:
            copy.lacking -= 1
            copy.others += 1
        self._safe()

    def end(self, name: str) -> list[Copy]:
        """The neighbour is gone: what it may have owed to others."""
        link = self._links.pop(name, None)
        if link is None:
            return []
        self._has_news = True
        for copy in link.sent.after(link.acknowledged):
            copy.lacking -= 1
        owed = {copy.no: copy for lane in (link.sent, link.received) for copy in lane.after(lane.theirs)}
        return [owed[no] for no in sorted(owed)]

    @property
    def is_behind(self) -> bool:
        """Readers have taken something, and a neighbour that keeps it was not told."""
        lanes = [lane for link in self._links.values() for lane in (link.received, link.sent)]
        return any(lane.mine < lane.last and lane.entries[lane.mine + 1].done_but_for("") for lane in lanes)

    def news(self, everything: bool = False) -> list[tuple[str, Progress]]:
        """Return what neighbours are to be told at the end of a step: how much has arrived; or everything."""
        if not self._has_news and not everything:
            return []
        self._has_news = False
        reports = [(name, link.report()) for name, link in self._links.items()]
        return [(name, report) for name, report in reports if report is not None]
