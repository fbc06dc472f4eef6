"""What a dead link owed and was owed, at one moment: everything that crossed it and is not forgotten, and what was to
cross it."""

from collections.abc import Iterator

from resprout.order.entry import Entry, Id
from resprout.order.link import Link
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.forwarding import crosses
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
        for crossings in self.found.values():
            if len(crossings) > 1:
                self._merge(crossings)

    def _add(self, crossed: Crossed) -> None:
        self.found.setdefault(crossed.entry.id, []).append(crossed)

    def _merge(self, crossings: list[Crossed]) -> None:
        """What crossed twice is one thing: the entry that counts who is owed it comes first, and has the bundle if it
        was forgotten and came back as a copy."""
        kept = min(crossings, key=lambda crossed: (crossed.entry.no < 0, crossed.entry.is_backup)).entry
        bundle = next((crossed.entry.bundle for crossed in crossings if crossed.entry.bundle is not None), None)
        if kept.bundle is None and bundle is not None:
            self._core.log.revive(kept, bundle)
            if self._core.disk is not None:
                self._core.disk.keep(kept, ())
        crossings.sort(key=lambda crossed: crossed.entry is not kept)

    def items(self) -> Iterator[Item | Stub]:
        for crossings in self.found.values():
            entry = crossings[0].entry
            came = any(not crossed.sent for crossed in crossings if crossed.entry is entry)  # and was perhaps sent back
            yield item_of(entry, int(not came))

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
        kept = crossings[0].entry
        for crossed in crossings:
            if crossed.entry is not kept:  # a copy or a repeat, which nobody needs beside it
                log.settle(crossed.entry)
        return kept


def item_of(entry: Entry, side: int) -> Item | Stub:
    if entry.bundle is not None:
        return Item(entry.bundle, side, entry.hops, entry.prompt)
    return Stub(entry.publisher, entry.stream, entry.incarnation, entry.first, entry.last, entry.stamp, side)
