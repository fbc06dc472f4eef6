"""One broker's publications: taken in, forwarded along subscriptions, shown when safe, kept until stable.

Links are FIFO and the tree has no cycles, so what is forwarded in the order it was taken in keeps FIFO and causal
order. A local client's publication goes to all neighbours, wanted or not, and is shown only when one of them has it: it
then survives the death of either. Everything else goes where somebody wants it; what is not sent on a link is told
there (`Passed`) before the next thing that is, so that `seen` is a causal cut at every broker, with one number per
client. Gaps in a client's numbers say nothing and are not looked at.
"""

from collections import deque

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.marks import Marks, to_marks
from resprout.edge.broker.backpressure import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Serving
from resprout.order.seen import Seen
from resprout.spread.recorded import RecordedSubscriptions
from resprout.stacks.ginger.messages import MessageId, Metadata, Passed, Progress, TotalProcessed
from resprout.stacks.ginger.options import GingerOptions
from resprout.stacks.ginger.window import READERS, GingerLink, WindowEntry
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.step import Step


class GingerCore(Step):
    """The state that every part of a broker works on, and the ways of a publication through it."""

    def __init__(self, name: str, options: GingerOptions) -> None:
        super().__init__()
        self.name = name
        self.options = options
        self.outbox = Outbox(self)
        self.orphaned = False
        """This broker looks for a parent."""
        self.clock = 0
        self.epoch = 0
        """Counts roots: every number that orders totals begins with it."""
        self.is_root = False
        self.seen = Seen()
        self.wishes = RecordedSubscriptions(self.seen.marks)
        self.sessions = ClientSessions(Serving("ginger", tuple(Guarantee), 1), self, self.wishes)
        self.pressure = BackPressure(options.buffer, self._unstable_of)
        self.links: dict[str, GingerLink] = {}
        """Neighbours in the tree, those that died and are not replaced yet included."""
        self.broken: dict[str, None] = {}
        """Those that died. What would pass them is kept."""
        self.log: dict[MessageId, WindowEntry] = {}
        """What is not stable, in the order it was taken in."""
        self.held_back: deque[WindowEntry] = deque()
        self.taken_in = 0
        self.unstable: dict[str, int] = {}
        """Messages that each local client published here and that are not stable."""
        self.counted: dict[MessageId, ClientSession] = {}
        """The publications that are counted there."""

    @property
    def parent(self) -> GingerLink | None:
        return next((link for link in self.links.values() if link.is_parent), None)

    @property
    def children(self) -> list[str]:
        return [name for name, link in self.links.items() if not link.is_parent]

    def open_links(self) -> list[GingerLink]:
        return [link for name, link in self.links.items() if name not in self.broken]

    def is_old(self, bundle: Bundle) -> bool:
        return self.seen.has(bundle)

    def marks(self) -> Marks:
        return tuple(self.seen.marks())

    # -- in ------------------------------------------------------------------------------------------------------------

    def arrive(self, link: GingerLink, message: Metadata) -> WindowEntry:
        """A publication is here; its place in the order comes later, when no lock holds it."""
        entry = WindowEntry(message.bundle, message.hops, link.name, message.prompt)
        self.count_in(link, entry)
        if message.hops == 1:
            link.urgent = True
        return entry

    def count_in(self, link: GingerLink, entry: WindowEntry) -> None:
        """It is the next one on this link."""
        entry.waiting[link.name] = None
        link.received.add(entry)
        link.news = True
        link.unstable += entry.bundle.count
        self.pressure.check(link.name, link.unstable, self.out)

    def take_in_new(self, entry: WindowEntry) -> None:
        """A second copy is counted, because its sender counts it, and otherwise ignored."""
        if self.seen.is_new(entry.bundle):
            self.take_in(entry)
        else:
            entry.taken_in = True
            self._less_waiting(entry)

    def take_in(self, entry: WindowEntry) -> None:
        """The next in this broker's order: on to the links and readers that want it."""
        bundle = entry.bundle
        self.clock = max(self.clock, bundle.stamp)
        self.seen.raise_to(bundle.origin, bundle.last)
        self.taken_in += 1
        entry.no = self.taken_in
        entry.taken_in = True
        self.log[entry.id] = entry
        wanting = self.wishes.table.matches(bundle)
        self.sessions.address(entry, bundle, wanting)
        for name, link in self.links.items():
            if name == entry.source:
                continue
            if name in self.broken:
                entry.waiting[name] = None
            else:
                self.pass_on(link, entry, name in wanting)
        self.held_back.append(entry)
        self.show_safe()
        self._less_waiting(entry)

    def pass_on(self, link: GingerLink, entry: WindowEntry, wanted: bool) -> None:
        """Down a link, or past it."""
        if not wanted and entry.hops > 0 and entry.tseq < 0:
            bundle = entry.bundle
            link.skips[bundle.origin] = bundle.last
            return
        entry.waiting[link.name] = None
        link.sent.add(entry)
        self.tell_skips(link)
        if entry.tseq < 0:
            self.put(link, Metadata(entry.bundle, entry.hops + 1, entry.prompt))
        else:
            self.put(link, TotalProcessed(entry.lock, entry.bundle.stamp, entry.tseq, entry.hops + 1))
        if not self.outbox.waiting(link.name):
            link.left = link.sent.last

    def show_safe(self) -> None:
        while self.held_back and (self.held_back[0].safe or not self.links):
            self.sessions.show(self.held_back.popleft(), self.out)

    # -- what clients read (`RetentionPort`) ---------------------------------------------------------------------------

    @property
    def next_no(self) -> int:
        return self.taken_in + 1

    @property
    def first_held_back(self) -> int | None:
        return self.held_back[0].no if self.held_back else None

    def show(self, entry: WindowEntry) -> None:
        entry.shown = True

    def add_reader(self, entry: WindowEntry, session: ClientSession) -> None:
        entry.needed += 1
        entry.waiting[READERS] = None
        if not entry.shown:
            entry.readers = (*entry.readers, session)

    def took(self, entry: WindowEntry) -> bool:
        """Whether it is stable then is noticed here, and by nobody else."""
        entry.needed -= 1
        if entry.needed == 0:
            self.through(entry, READERS)
        return False

    # -- out -----------------------------------------------------------------------------------------------------------

    def tell_skips(self, link: GingerLink) -> None:
        if link.skips:
            self.put(link, Passed(to_marks(link.skips)))
            link.skips = {}

    def put(self, link: GingerLink, message: ProtocolMessage) -> None:
        """In order, as soon as there is room."""
        self.outbox.send(link.name, message)

    def writable(self, peer: str, room: int) -> None:
        left = self.outbox.writable(peer, room)
        link = self.links.get(peer)
        if left and link is not None:
            link.left += sum(isinstance(message, Metadata | TotalProcessed) for message in left)
            link.news = True

    # -- stability -----------------------------------------------------------------------------------------------------

    def through(self, entry: WindowEntry, direction: str) -> None:
        """Everyone in this direction has it, or is owed it no more."""
        if entry.waiting.pop(direction, 0) is None:
            self._less_waiting(entry)

    def _less_waiting(self, entry: WindowEntry) -> None:
        if len(entry.waiting) > 1 or not entry.taken_in:
            return
        for direction in entry.waiting or self.links:
            if (link := self.links.get(direction)) is not None:
                link.news = True
                link.urgent |= entry.prompt
        if not entry.waiting:
            self._forget(entry)

    def _forget(self, entry: WindowEntry) -> None:
        if self.log.get(entry.id) is entry:
            del self.log[entry.id]
            self.sessions.delivered(entry)
        session = self.counted.pop(entry.id, None)
        if session is not None and not session.gone:
            self.unstable[session.name] -= entry.bundle.count
        if (link := self.links.get(entry.source or "")) is not None:
            link.unstable -= entry.bundle.count

    def _unstable_of(self, source: str) -> int:
        link = self.links.get(source)
        return link.unstable if link is not None else self.unstable.get(source, 0)

    def hear_progress(self, link: GingerLink, message: Progress) -> None:
        if not link.acknowledged <= message.received <= link.sent.last:
            raise PeerError(f"{message.received} of {link.sent.last} publications received")
        for no in range(link.acknowledged + 1, message.received + 1):
            if (entry := link.sent.entries.get(no)) is not None:
                entry.safe = True
        link.acknowledged = message.received
        for entry in link.sent.hear(message.done):
            self.through(entry, link.name)
        for entry in link.received.hear(message.clear):
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
            link.received.advance(link.name)
            link.sent.advance(link.name)
            link.news = link.urgent = False
            progress = Progress(link.received.last, link.received.mine, min(link.sent.mine, link.left))
            if progress != link.told:
                link.told = progress
                self.outbox.pass_by(link.name, progress)
        return later
