"""Who the neighbours are: links that begin, open, are shut and go, and the copies that a new neighbour is given.

`joining` and the two sides of a repair decide who is to be a neighbour. Every link begins in the same two steps, in one
step of the broker: `begin_links`, and `open` once both ends have put on the link what they begin with. Four places use
them: a newcomer and its parent, a coordinator and its members. A link that is not open is owed everything: its cursor
stays where it is and the log keeps what lies beyond.

`safe` tells on how many brokers a publication rests (`CopyCount`): fewer than f + 1 where the whole tree has fewer. The
next neighbour that comes is given what was published in a tree that was too small, or whose other copies have died
(`Copies`).
"""

from collections.abc import Mapping, Sequence

from resprout.edge.broker.quotas import BackPressure
from resprout.order.entry import Entry, RecentlyAcked
from resprout.order.link import Link, LinkState
from resprout.order.log import Log
from resprout.order.messages import TotalCopy
from resprout.order.totals.levels import TotalAcks
from resprout.order.totals.totals import Totals
from resprout.overlay import lineage
from resprout.overlay.messages import Life
from resprout.overlay.waves import Waves
from resprout.spread.interest import Interest
from resprout.stacks.peers import Outbox, Peers
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.repair.parcels import Parcel
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.subscribing import Wishes
from resprout.stacks.resprout.unsettled import UnreadSearch
from resprout.stacks.routes import Routes


class CopyCount:
    """Counts the brokers on which a safe publication rests."""

    def __init__(self, life: BrokerLife, links: Mapping[str, Link]) -> None:
        self._life = life
        self._links = links
        self._few = 0
        """The last count if it was below f + 1; otherwise 0."""

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
                life.note("few_copies", f"`safe` means {few} of {usual} copies here: the tree has too few brokers")
            else:
                life.note("enough_copies", f"`safe` means {usual} copies here")
        return copies

    def _near(self) -> list[str]:
        """Return the brokers within f hops, this one included."""
        view = self._life.view
        if not self._links:
            return [view.name]
        return [name for name in lineage.branches(view, self._life.faults) if not view.is_dead(name)]


class Copies:
    """Gives new neighbours copies of entries that too few brokers store."""

    def __init__(
        self,
        faults: int,
        links: Mapping[str, Link],
        log: Log,
        total_acks: TotalAcks,
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
            self._total_acks.expect_report(entry, link.name)
            is_scoped = record.publication is not None
            self._speaking.say_in_order(link.name, TotalCopy(*record.place, record.bundle, entry.prompt, is_scoped))


class Neighbours:
    """Begins, opens, shuts and removes links."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        outbox: Outbox,
        waves: Waves,
        unread: UnreadSearch,
        links: dict[str, Link],
        log: Log,
        recently_acked: RecentlyAcked,
        routes: Routes,
        pressure: BackPressure,
        forwarding: Forwarding,
        interest: Interest,
        wishes: Wishes,
        book: ClientBook,
    ) -> None:
        self._life = life
        self._peers = peers
        self._outbox = outbox
        self._waves = waves
        self._unread = unread
        self._links = links
        self._log = log
        self._recently_acked = recently_acked
        self._routes = routes
        self._pressure = pressure
        self._forwarding = forwarding
        self._interest = interest
        self._wishes = wishes
        self._book = book

    def find(self, name: str) -> Link | None:
        """Return the link to a neighbour if it is open; None for brokers that are no neighbours, or dead."""
        link = self._links.get(name)
        return link if link is not None and link.open else None

    # -- links that begin ----------------------------------------------------------------------------------------------

    def begin_links(
        self,
        lives: Mapping[str, int],
        parcels: Mapping[str, Parcel],
        replaced: Sequence[Link] = (),
        *,
        inherits: bool = False,
    ) -> dict[str, Link]:
        """Add links to new neighbours and remove the links in `replaced`; return the new links by name. `lives`: name
        and incarnation of each new neighbour. `parcels`: by new neighbour that sent one, the parcel with the clients
        that it stands for. The new links have no cursor. With `inherits` the one new neighbour takes over what the
        replaced one wanted and was asked, until it says what it wants itself; otherwise that interest is dropped."""
        if inherits:
            assert len(lives) == len(replaced) == 1
            for name in lives:
                self._interest.replace_neighbour(replaced[0].name, name)
        else:
            for name in lives:  # before the others go: a wish that waits only for them would count as confirmed
                self._interest.add_neighbour(name)
            for link in replaced:
                self._wishes.remove_neighbour(link.name)
        for link in replaced:
            self._remove(link)
        links = {name: self._add(name, incarnation) for name, incarnation in lives.items()}
        for name, parcel in parcels.items():
            self._book.meet(name, parcel)
        for link in replaced:  # a durable subscription whose wish waited only for it was confirmed, and asked it, above
            self._book.durables.lost(link.name)
        return links

    def _add(self, name: str, incarnation: int) -> Link:
        life = self._life
        link = self._links[name] = Link(name, incarnation, life.faults, None, self._recently_acked)
        life.view.neighbours[name] = True
        self._log.held_back.put_wall()  # it may depend on entries of this log that no report of its link counts
        self._routes.forget()
        return link

    def open(self, link: Link) -> None:
        """Let bundles cross the link from now on, and keep its session open."""
        assert self._peers.is_up(link.name), "a link is made within a session"
        self._peers.open(link.name)
        link.move_to(LinkState.OPEN)
        link.silent = not self._peers.is_clear(link.name)
        if link.cursor is None and self._outbox.room(link.name) <= 0:
            link.cursor = self._log.next_no
        self._forwarding.pump(link)

    # -- links that end ------------------------------------------------------------------------------------------------

    def shut(self, link: Link) -> None:
        """Shut the link to a neighbour that was declared dead: the log retains everything for it, and nothing it
        says is heard."""
        life = self._life
        if link.open:
            link.move_to(LinkState.IN_REPAIR)
            life.view.neighbours[link.name] = False
            self._unread.unwait(link.name)
            if self._pressure.holding:
                self._pressure.forget(link.name)
            if link.cursor is None:
                link.cursor = self._log.next_no

    def _remove(self, link: Link) -> None:
        """Remove a link whose state has been handed to others."""
        life = self._life
        link.move_to(LinkState.REMOVED)
        del self._links[link.name]
        del life.view.neighbours[link.name]
        self._routes.forget()

    def mark_dead(self, dead: Life) -> None:
        """Give a dead life a tombstone, and shut the link to it if there is one."""
        life = self._life
        life.view.mark_dead(dead.name, dead.incarnation)
        link = self._links.get(dead.name)
        if link is not None and link.open and link.incarnation <= dead.incarnation:
            life.note("repair_begin", dead.name)
            self.shut(link)
            self._peers.close(dead.name, f"{dead.name} was declared dead")
            self._waves.unwait(dead.name)
