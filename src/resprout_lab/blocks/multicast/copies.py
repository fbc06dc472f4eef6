"""Which brokers have a publication: needed to call it safe, and to repair what a dead broker owed.

Both ends of a link count the messages that came over it (`blocks.crossing`). A broker tells each neighbour how many of
its messages have arrived here, and how many of these all other neighbours and all readers here have; and the second
number for messages in the other direction. So each broker knows what a neighbour may still owe to others and to its
clients. It keeps these messages. When the neighbour dies, the broker sends them around it, and hands them over to the
clients of the dead one.

Each end also knows of which messages the other end has heard: those that crossed the link, and those that are named in
a header that did. An entry of a header that the other end has not heard of did not cross the link, because nothing
behind the link subscribes to it. It is marked as skipped, and the other end does not wait for it.
"""

from collections.abc import Callable

from resprout_lab.blocks.crossing import CrossedLink, Progress
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.blocks.retention import KeptItem

ClockEntry = tuple[str, str]
"""(group, member)."""
Entries = list[tuple[ClockEntry, int]]
"""Messages of a member to a group, up to a number."""


class Copy:
    """A publication at this broker."""

    __slots__ = ("entries", "is_late", "item", "lacking", "message", "no", "number", "others")

    def __init__(self, no: int, item: KeptItem, message: MulticastMessage, number: int, entries: Entries) -> None:
        self.no = no
        self.item = item
        self.message = message
        """The message as it is passed on."""
        self.number = number
        self.entries = entries
        """Earlier messages that its header names."""
        self.lacking = 0
        """Number of neighbours that were sent it and have not confirmed it."""
        self.others = 0
        """Number of neighbours that are known to have it."""
        self.is_late = False
        """Whether it came around a dead broker and was not subscribed here when that broker had it. Readers here may
        already have messages that depend on it, so it goes only to others around that broker, and to its clients."""

    @property
    def entry(self) -> ClockEntry:
        return self.message.group, self.message.sender

    def done_but_for(self, peer: str) -> bool:
        """Whether all neighbours and readers have it, the peer included: nothing is reported about a message that the
        peer lacks."""
        return not self.lacking and not self.item.needed


class LinkCopies:
    def __init__(self, safe: Callable[[], None]) -> None:
        """`safe` is called when another broker has confirmed something."""
        self._safe = safe
        self._has_news = False
        self._links: dict[str, CrossedLink[Copy]] = {}
        self._heard_of: dict[str, dict[ClockEntry, int]] = {}
        """Messages of each member to each group that both ends have heard of, by link."""
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
        """Count a message that is sent, and return the indices of the header entries that the other end has not heard
        of."""
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
        """Forget a neighbour that is gone. Return what it may have owed to others."""
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
        """Whether readers have taken something and a neighbour that keeps it was not told."""
        lanes = [lane for link in self._links.values() for lane in (link.received, link.sent)]
        return any(lane.mine < lane.last and lane.entries[lane.mine + 1].done_but_for("") for lane in lanes)

    def news(self, everything: bool = False) -> list[tuple[str, Progress]]:
        """Return the reports for neighbours at the end of a step: those that have changed, or all."""
        if not self._has_news and not everything:
            return []
        self._has_news = False
        reports = [(name, link.report()) for name, link in self._links.items()]
        return [(name, report) for name, report in reports if report is not None]
