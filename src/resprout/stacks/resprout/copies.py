"""How many brokers have a copy of what somebody still has to take, and who is to keep more of them.

`safe` tells on how many brokers a publication rests (`CopyCount`): fewer than f + 1 where the whole tree has fewer. The
next neighbour that comes is given what was published in a tree that was too small, or whose other copies have died
(`Copies`).
"""

from collections.abc import Mapping

from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.totals.levels import TotalBook
from resprout.order.totals.messages import TotalCopy
from resprout.order.totals.totals import Totals
from resprout.overlay import lineage
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.speaking import Speaking


class CopyCount:
    def __init__(self, life: BrokerLife, links: Mapping[str, Link]) -> None:
        self._life = life
        self._links = links
        self._few = 0
        """The last count, if it was below f + 1; otherwise 0."""

    def of(self, entry: Entry) -> int:
        """Return on how many brokers a local publication rests that is safe. Where it is known to be everywhere within
        f hops (`Log.is_safe`), it is at as many brokers as there are: f + 1, unless the whole tree has fewer."""
        life, links = self._life, self._links
        usual = life.faults + 1
        copies = usual if len(links) >= life.faults else min(usual, len(self._near()))
        few = copies if copies < usual else 0
        if few != self._few:
            self._few = few
            if few:
                life.note(
                    "few_copies", f"what is called safe here rests on {few} of {usual} brokers: the tree is small"
                )
            else:
                life.note("enough_copies", f"what is called safe here rests on {usual} brokers")
        return copies

    def _near(self) -> list[str]:
        """Return the brokers within f hops, this one included."""
        view = self._life.view
        if not self._links:
            return [view.name]
        return [name for name in lineage.branches(view, self._life.faults) if not view.is_dead(name)]


class Copies:
    def __init__(
        self,
        faults: int,
        links: Mapping[str, Link],
        log: Log,
        total_acks: TotalBook,
        totals: Totals,
        speaking: Speaking,
        forwarding: Forwarding,
    ) -> None:
        self._faults = faults
        self._links = links
        self._log = log
        self._total_acks = total_acks
        self._totals = totals
        self._speaking = speaking
        self._forwarding = forwarding

    def is_only_here(self, entry: Entry) -> bool:
        """Whether a client that has not taken it here may get it from no other broker: there were too few brokers for
        f + 1 copies, or those that had the others are dead. Of a bundle, brokers on its way here count, too, if they
        have sent it for themselves: of what a repair or a newcomer was given, only neighbours are known to keep it."""
        faults, links = self._faults, self._links
        if not entry.pins or not faults or (entry.tseq >= 0 and entry.is_backup):
            return False
        if entry.tseq >= 0:
            return self._total_acks.holders(entry) < min(faults, len(links))
        holders = sum(link.keeps(entry) for link in links.values())
        return holders == 0 or (entry.copies <= faults and holders < min(faults, len(links)))

    def share(self, link: Link) -> None:
        """Send a neighbour that has just come copies of what somebody has still to take, and too few others keep. It
        came too late to be given it otherwise. Of what is delivered on this side, a reader behind its source may not
        have taken it; then the source keeps it, too."""
        kept = {other: other.kept() for other in self._links.values() if other is not link}
        for entry in list(self._log.entries.values()):
            if entry.tseq >= 0:
                if entry.undone:
                    self.share_total(link, entry)
            elif entry.undone:
                if sum(id(entry) in each for each in kept.values()) < self._faults:
                    self._forwarding.copy(link, entry)
            elif entry.source in kept:
                others = sum(id(entry) in each for other, each in kept.items() if other is not entry.source)
                if 1 + others < self._faults:
                    self._forwarding.copy(link, entry)

    def share_total(self, link: Link, entry: Entry) -> None:
        """Like `share`, for one total. A total that stands in for a plain entry needs no copy: that entry has its
        own."""
        record = self._totals.locks.records.get((entry.publisher, entry.incarnation, entry.first))
        if record is None or entry.is_backup or self._total_acks.is_kept_by(entry, link.name):
            return
        if sum(self._total_acks.is_kept_by(entry, name) for name in self._links) < self._faults:
            self._total_acks.meet(entry, link.name)
            self._speaking.say_in_order(link.name, TotalCopy(*record.place, record.bundle, entry.prompt))
