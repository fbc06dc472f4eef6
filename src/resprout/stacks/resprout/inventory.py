"""What a dead link owed and was owed, at one moment: everything that crossed it and is not forgotten, and what was to
cross it."""

from collections.abc import Iterator

from resprout.order.entry import Entry, Id
from resprout.order.link import Link
from resprout.stacks.resprout.core import Core, crosses
from resprout.stacks.resprout.messages import Item, Stub


class Crossed:
    """One entry on a dead link. `number`: its place among what was sent or came; 0 for what had not been sent yet."""

    __slots__ = ("entry", "link", "number", "sent")

    def __init__(self, entry: Entry, link: Link, number: int, sent: bool) -> None:
        self.entry = entry
        self.link = link
        self.number = number
        self.sent = sent


class Inventory:
    def __init__(self, core: Core, *links: Link) -> None:
        self._core = core
        self.snapshot = core.log.next_no
        """What is logged from here on is not in it."""
        self.found: dict[Id, list[Crossed]] = {}
        for link in links:
            for number, entry in link.sent.entries.items():
                self._add(Crossed(entry, link, number, True))
            for number, entry in link.arrived.entries.items():
                self._add(Crossed(entry, link, number, False))
            if link.cursor is not None:
                for no in range(link.cursor, self.snapshot):
                    late = core.log.entries.get(no)
                    if late is not None and late.source is not link and crosses(late):
                        self._add(Crossed(late, link, 0, True))

    def _add(self, crossed: Crossed) -> None:
        self.found.setdefault(crossed.entry.id, []).append(crossed)

    def items(self) -> Iterator[Item | Stub]:
        for crossings in self.found.values():
            crossed = crossings[0]
            yield item_of(crossed.entry, int(crossed.sent))

    def leave(self, id: Id) -> Entry | None:
        """Take an entry off the dead links; what replaces them counts it from now on."""
        crossings = self.found.pop(id, None)
        if crossings is None:
            return None
        log = self._core.log
        for crossed in crossings:
            if crossed.number:
                log.leave_link(crossed.link, crossed.entry, crossed.number, crossed.sent)
            else:
                log.waited(crossed.entry)
                log.unawait(crossed.entry)
        return next((crossed.entry for crossed in crossings if crossed.entry.no >= 0), crossings[0].entry)


def item_of(entry: Entry, side: int) -> Item | Stub:
    if entry.bundle is not None:
        return Item(entry.bundle, side, entry.hops, entry.prompt)
    return Stub(entry.publisher, entry.stream, entry.incarnation, entry.first, entry.last, entry.stamp, side)
