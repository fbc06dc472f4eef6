"""One broker's publications: taken in, forwarded along subscriptions, shown when safe, kept until stable.

Links are FIFO and the tree has no cycles, so what is forwarded in the order it was taken in keeps FIFO and causal
order. A local client's publication goes to all neighbours, wanted or not, and is shown only when one of them has it: it
then survives the death of either. Everything else goes where somebody wants it; what is not sent on a link is told
there (`Passed`) before the next thing that is, so that `seen` is a causal cut at every broker, with one number per
client. Gaps in a client's numbers say nothing and are not looked at.
"""

from collections import deque
from typing import Any

from resprout.core.contract import ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import to_marks
from resprout.core.seen import Seen
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Serving
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.step import Step
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.retention import Retention
from resprout_lab.ginger.messages import ClientMessageId, Metadata, Passed, TotalProcessed
from resprout_lab.ginger.options import GingerOptions
from resprout_lab.ginger.peers import GingerPeers
from resprout_lab.ginger.view import View
from resprout_lab.ginger.window import GingerLink, WindowEntry


class GingerCore(Step, Retention):
    """The state that every part of a broker works on, and the ways of a publication through it."""

    def __init__(self, name: str, options: GingerOptions) -> None:
        Step.__init__(self)
        Retention.__init__(self, options.buffer)
        self.name = name
        self.options = options
        self.outbox = Outbox(self)
        self.peers = GingerPeers(self, self.outbox)
        self.view = View(self)
        self.clock = 0
        self.epoch = 0
        """Counts roots: every number that orders totals begins with it."""
        self.is_root = False
        self.seen = Seen()
        self.wishes = RecordedSubscriptions(self.seen.marks)
        self.sessions = ClientSessions(Serving("ginger", tuple(Guarantee), 1), self, self.wishes)
        self.links: dict[str, GingerLink] = {}
        """Neighbours in the tree, those that died and are not replaced yet included."""
        self.broken: dict[str, None] = {}
        """Those that died. What would pass them is kept."""
        self.log: dict[ClientMessageId, WindowEntry] = {}
        """What is not stable, in the order it was taken in."""
        self.held_back: deque[WindowEntry] = deque()
        self.charged: dict[ClientMessageId, None] = {}
        """Publications of clients here that are charged to them until they are stable."""

    @property
    def parent(self) -> GingerLink | None:
        """Which may be dead, and not replaced yet."""
        return next((link for link in self.links.values() if link.is_parent), None)

    @property
    def children(self) -> list[str]:
        return [name for name, link in self.links.items() if not link.is_parent]

    def open_links(self) -> list[GingerLink]:
        return [link for name, link in self.links.items() if name not in self.broken]

    def open_link(self, name: str) -> GingerLink | None:
        return self.links.get(name) if name not in self.broken else None

    # -- in ------------------------------------------------------------------------------------------------------------

    def arrive(self, link: GingerLink, message: Metadata) -> WindowEntry:
        """A publication is here; its place in the order comes later, when no lock holds it."""
        entry = WindowEntry(message.bundle, message.hops, link.name, message.prompt)
        self.keep(entry)
        self.count_in(link, entry)
        if message.hops == 1:
            link.urgent = True
        return entry

    def count_in(self, link: GingerLink, entry: WindowEntry) -> None:
        """It is the next one on this link."""
        self.keep_for(entry, link.name)
        link.received.add(entry)
        link.news = True

    def take_in_new(self, entry: WindowEntry) -> None:
        """A second copy is counted, because its sender counts it, and otherwise ignored."""
        if self.seen.is_new(entry.bundle):
            self.take_in(entry)

    def take_in_arrived(self, entry: WindowEntry) -> None:
        self.take_in_new(entry)
        self.let_go(entry)

    def take_in(self, entry: WindowEntry) -> None:
        """The next in this broker's order: on to the links and readers that want it."""
        bundle = entry.bundle
        self.keep(entry)
        self.clock = max(self.clock, bundle.stamp)
        self.seen.raise_to(bundle.origin, bundle.last)
        self.place(entry)
        self.log[entry.id] = entry
        wanting = self.wishes.table.matches(bundle)
        self.sessions.address(entry, bundle, wanting)
        for name, link in self.links.items():
            if name == entry.source:
                continue
            if name in self.broken:
                self.keep_for(entry, name)
            else:
                self.pass_on(link, entry, name in wanting)
        self.held_back.append(entry)
        self.show_safe()
        self.let_go(entry)

    def pass_on(self, link: GingerLink, entry: WindowEntry, wanted: bool) -> None:
        """Down a link, or past it."""
        if not wanted and entry.hops > 0 and entry.tseq < 0:
            bundle = entry.bundle
            link.skips[bundle.origin] = bundle.last
            return
        self.keep_for(entry, link.name)
        link.sent.add(entry)
        if entry.tseq < 0:
            self.say(link, Metadata(entry.bundle, entry.hops + 1, entry.prompt))
        else:
            self.say(link, TotalProcessed(entry.lock, entry.bundle.stamp, entry.tseq, entry.hops + 1))
        if not self.outbox.waiting(link.name):
            link.left = link.sent.last

    def show_safe(self) -> None:
        while self.held_back and (self.held_back[0].safe or not self.links):
            self.sessions.show(self.held_back.popleft(), self.out)

    @property
    def first_held_back(self) -> int | None:
        return self.held_back[0].no if self.held_back else None

    def hear_passed(self, link: GingerLink, message: Passed) -> None:
        for mark in message.marks:
            if mark.seq > self.seen.mark(mark.origin):
                self.seen.raise_to(mark.origin, mark.seq)
                for other in self.open_links():
                    if other is not link:
                        other.skips[mark.origin] = mark.seq

    # -- out -----------------------------------------------------------------------------------------------------------

    def say(self, link: GingerLink, message: ProtocolMessage) -> None:
        """Behind all that passed, as soon as there is room."""
        if link.skips:
            self.outbox.send(link.name, Passed(to_marks(link.skips)))
            link.skips = {}
        self.outbox.send(link.name, message)

    def writable(self, peer: str, room: int) -> None:
        left = self.outbox.writable(peer, room)
        link = self.links.get(peer)
        if left and link is not None:
            link.left += sum(isinstance(message, Metadata | TotalProcessed) for message in left)
            link.news = True

    # -- stability -----------------------------------------------------------------------------------------------------

    def keep_for(self, entry: WindowEntry, *names: str) -> None:
        """Not everyone behind these links has it."""
        for name in names:
            if name not in entry.waiting:
                entry.waiting[name] = None
                self.keep(entry)

    def through(self, entry: WindowEntry, name: str) -> None:
        """Everyone behind this link has it, or is owed it no more."""
        if entry.waiting.pop(name, 0) is None:
            self.let_go(entry)

    def let_go(self, item: Any) -> None:
        """When nobody but one link needs it, that is news there; when nobody does, for all, and it is stable."""
        entry: WindowEntry = item
        super().let_go(entry)
        if entry.needed > 1:
            return
        for name in entry.waiting if entry.needed else self.links:
            if (link := self.links.get(name)) is not None:
                link.news = True
                link.urgent |= entry.prompt
        if not entry.needed:
            self._end(entry)

    def _end(self, entry: WindowEntry) -> None:
        if self.log.get(entry.id) is entry:
            del self.log[entry.id]
            self.sessions.delivered(entry)
        if self.charged.pop(entry.id, 0) is None:
            self.charge(entry.bundle.publisher, -entry.bundle.count)

    def hear_progress(self, link: GingerLink, message: Progress) -> None:
        arrived, through = link.hear(message)
        for entry in arrived:
            entry.safe = True
        for entry in through:
            self.through(entry, link.name)
        self.show_safe()

    def report(self, all_news: bool) -> bool:
        """Tell neighbours what they wait for, or all there is. True when something is left for later."""
        later = False
        for link in self.links.values():
            if not link.news or link.name in self.broken:
                continue
            if not link.urgent and not all_news:
                later = True
                continue
            link.news = link.urgent = False
            if (progress := link.report(link.left)) is not None:
                self.outbox.pass_by(link.name, progress)
        return later
