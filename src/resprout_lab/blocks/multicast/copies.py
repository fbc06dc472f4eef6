"""Which brokers have a publication, as far as one must know: to call it safe, and to make good what a dead one owed.

Over each link both ends count what came (`blocks.crossing`). A broker tells a neighbour how much of what that one sent
is here, how much of it all others next to here and all readers here have, and the same of what was sent to it. So each
knows what a neighbour may still owe to its other neighbours and to its clients, whichever way it came: that is kept,
and sent around it when it dies, and handed over to its clients.

Each end also knows of which messages the other one has heard: those that crossed the link, and those that are named in
a header that did. What a header names and the other end has not heard of did not go over the link, because nobody
behind it wanted it. It is marked as skipped, and not waited for.
"""

from collections.abc import Callable

from resprout_lab.blocks.crossing import CrossedLink, Progress
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.blocks.retention import KeptItem

ClockEntry = tuple[str, str]
"""(group, member)."""
Entries = list[tuple[ClockEntry, int]]
"""The messages of a member to a group, up to a number."""


class Copy:
    """A publication at this broker."""

    __slots__ = ("entries", "is_late", "item", "lacking", "message", "no", "number", "others")

    def __init__(self, no: int, item: KeptItem, message: MulticastMessage, number: int, entries: Entries) -> None:
        self.no = no
        self.item = item
        self.message = message
        """As it goes on."""
        self.number = number
        self.entries = entries
        """Those before it that its header names."""
        self.lacking = 0
        """Neighbours that were sent it and have not said that they have it."""
        self.others = 0
        """Those that have."""
        self.is_late = False
        """It came around a dead broker, and was not wanted here when that one had it: readers here may have had what
        depends on it. It goes to others around that broker, and to its clients."""

    @property
    def entry(self) -> ClockEntry:
        return self.message.group, self.message.sender

    def done_but_for(self, peer: str) -> bool:
        """The peer counts as well: nothing is said of what it has not got."""
        return not self.lacking and not self.item.needed


class LinkCopies:
    def __init__(self, safe: Callable[[], None]) -> None:
        """`safe`: another broker has something now that it had not."""
        self._safe = safe
        self._has_news = False
        self._links: dict[str, CrossedLink[Copy]] = {}
        self._heard_of: dict[str, dict[ClockEntry, int]] = {}
        """By link: the messages of each member to each group that both ends have heard of."""
        self._numbers = 0

    def begin(self, name: str) -> None:
        self._links[name] = CrossedLink(name)
        self._heard_of[name] = {}

    def has(self, name: str) -> bool:
        return name in self._links

    def make(self, item: KeptItem, message: MulticastMessage, number: int, entries: Entries) -> Copy:
        self._numbers += 1
        return Copy(self._numbers, item, message, number, entries)

    def came(self, name: str, copy: Copy) -> None:
        self._has_news = True
        self._links[name].received.add(copy)
        self._hear_of(name, copy)

    def sent(self, name: str, copy: Copy) -> tuple[int, ...]:
        """Return the places of what it names and the other end has not heard of."""
        copy.lacking += 1
        self._links[name].sent.add(copy)
        return self._hear_of(name, copy)

    def _hear_of(self, name: str, copy: Copy) -> tuple[int, ...]:
        heard_of, new = self._heard_of[name], []
        for place, (entry, number) in enumerate(copy.entries):
            if number > heard_of.get(entry, 0):
                heard_of[entry] = number
                new.append(place)
        heard_of[copy.entry] = max(copy.number, heard_of.get(copy.entry, 0))
        return tuple(new)

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
        del self._heard_of[name]
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
