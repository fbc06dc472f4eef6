"""How many brokers have what somebody still has to take; and who is to keep more of it.

On how many `safe` rests is told: fewer than f + 1 where the whole tree has fewer. What was published in a tree that was
too small, or whose other copies have died, is given to the next that comes.
"""

from typing import TYPE_CHECKING

from resprout.core.bundle import Bundle
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.totals.messages import TotalCopy
from resprout.overlay import lineage

if TYPE_CHECKING:
    from resprout.stacks.resprout.core import Core


class Copies:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self._few = 0
        """So many, if that is fewer than f + 1; otherwise 0."""

    def count(self, entry: Entry) -> int:
        """Of a local publication that is safe: where it is known to be everywhere within f hops (`Log.is_safe`), it is
        at as many brokers as there are. That is f + 1, unless the whole tree has fewer."""
        core = self._core
        usual = core.faults + 1
        copies = usual if len(core.links) >= core.faults else min(usual, len(self._near()))
        few = copies if copies < usual else 0
        if few != self._few:
            self._few = few
            if few:
                core.note(
                    "few_copies", f"what is called safe here rests on {few} of {usual} brokers: the tree is small"
                )
            else:
                core.note("enough_copies", f"what is called safe here rests on {usual} brokers")
        return copies

    def _near(self) -> list[str]:
        """Who is within f hops, this broker included."""
        view = self._core.view
        if not self._core.links:
            return [view.name]
        return [name for name in lineage.branches(view, self._core.faults) if not view.is_dead(name)]

    def is_only_here(self, entry: Entry) -> bool:
        """A client that has not taken it here may have it from nobody else: there were too few brokers for f + 1
        copies, or those that had the others are dead. Of a bundle, those on its way here count, too, if they have sent
        it for themselves: of what a repair or a newcomer was given, only neighbours are known to keep it."""
        core = self._core
        faults, links = core.faults, core.links
        if not entry.pins or not faults or (entry.tseq >= 0 and entry.is_backup):
            return False
        if entry.tseq >= 0:
            return core.book.holders(entry) < min(faults, len(links))
        holders = sum(link.keeps(entry) for link in links.values())
        return holders == 0 or (entry.copies <= faults and holders < min(faults, len(links)))

    def take_back(self, entry: Entry, bundle: Bundle) -> None:
        """This broker was through with it and had forgotten it, and keeps it again."""
        core = self._core
        core.log.revive(entry, bundle)
        if core.disk is not None:
            core.disk.keep(entry, ())
        if core.spilling.filters:
            core.spilling.came(entry)

    def share(self, link: Link) -> None:
        """Send a neighbour that has just come copies of what somebody has still to take, and too few others keep. It
        came too late to be given it otherwise. Of what is delivered on this side, a reader behind its source may not
        have taken it; then the source keeps it, too."""
        core = self._core
        kept = {other: other.kept() for other in core.links.values() if other is not link}
        for entry in list(core.log.entries.values()):
            if entry.tseq >= 0:
                if entry.undone:
                    self.share_total(link, entry)
            elif entry.undone:
                if sum(id(entry) in each for each in kept.values()) < core.faults:
                    core.forwarding.copy(link, entry)
            elif entry.source in kept:
                others = sum(id(entry) in each for other, each in kept.items() if other is not entry.source)
                if 1 + others < core.faults:
                    core.forwarding.copy(link, entry)

    def share_total(self, link: Link, entry: Entry) -> None:
        """The same of a total. What stands in for a plain entry needs no copy: that one has its own."""
        core = self._core
        record = core.totals.locks.records.get((entry.publisher, entry.incarnation, entry.first))
        if record is None or entry.is_backup or core.book.is_kept_by(entry, link.name):
            return
        if sum(core.book.is_kept_by(entry, name) for name in core.links) < core.faults:
            core.book.meet(entry, link.name)
            core.speaking.say_in_order(link.name, TotalCopy(*record.place, record.bundle, entry.prompt))
