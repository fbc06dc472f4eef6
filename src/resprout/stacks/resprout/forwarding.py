"""The path of a bundle through a broker: accept it once, log it, send it to the neighbours that want it, and count
their acknowledgements.

Bundles are not queued for a neighbour without room. Its link keeps a cursor into the log instead, and catches up
(`pump`) when the outbox has room again. A link in repair has a cursor too, and keeps it until the repair replaces it.
"""

from resprout.core.bundle import Bundle, Origin, split, whole
from resprout.core.errors import WireError
from resprout.core.message_fields import HOPS_MAX, Reached
from resprout.core.seen import Seen
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.quotas import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Forward, Levels, Republished
from resprout.order.reports import Reports
from resprout.stacks.peers import Outbox
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.spilling import Spilling
from resprout.stacks.routes import Routes
from resprout.wire.bundles import check_columns


class Forwarding:
    """Accepts bundles from clients and neighbours, logs them, and sends them on."""

    def __init__(
        self,
        life: BrokerLife,
        outbox: Outbox,
        links: dict[str, Link],
        log: Log,
        clock: Clock,
        seen: Seen,
        sessions: ClientSessions,
        routes: Routes,
        reports: Reports,
        delivering: Delivering,
        pressure: BackPressure,
        disk: DiskLog | None,
        spilling: Spilling,
        speaking: Speaking,
    ) -> None:
        self._life = life
        self._outbox = outbox
        self._links = links
        self._log = log
        self._clock = clock
        self._seen = seen
        self._sessions = sessions
        self._routes = routes
        self._reports = reports
        self._delivering = delivering
        self._pressure = pressure
        self._disk = disk
        self._spilling = spilling
        self._speaking = speaking
        self.fresh: tuple[Link, ...] = ()
        """Links that a repair is making: the pool is put on them, not sent."""
        self._liars: dict[str, None] = {}
        """Neighbours that passed on forged publications, as was noted in the trace: each once."""
        self.forged = 0
        """Bundles that were dropped as forged or unreadable."""
        self.restoring: Republished | None = None
        """Set while bundles of the log before a full restart are accepted."""

    # -- in ------------------------------------------------------------------------------------------------------------

    def accept(
        self,
        bundle: Bundle,
        source: Link | None,
        client: ClientSession | None,
        hops: int,
        prompt: bool,
        backup: bool = False,
    ) -> Entry | None:
        """Log a bundle and send it on; return its entry, or None when it was here before.

        `source`: the neighbour that sent it; None for a bundle that a local client published, whose session is `client`
        (None also for a bundle from this broker's disk). `hops`: links between brokers that it has crossed. `prompt`:
        its publisher waits for `delivered`. `backup`: the sender asks only to store it (`Forward.is_backup`).

        A back-up copy that was here before is stored again unless it is certainly still stored: its sender had
        forgotten it, and needs it again for a ghost. Of a bundle that is partly known, only the rest is accepted: a
        publisher that returned in the same life may repeat publications in other bundles.
        """
        originals: list[Entry] = []
        if source is not None and bundle.first <= (known := self._seen.mark(bundle.origin)):
            originals = self._log.repeats.find_originals(bundle)
            if known < bundle.last:
                bundle = split(bundle, known)[1]
        is_new = self._seen.is_new(bundle)  # and remembers it: from now on it is a repeat
        needed_again = backup and source is not None and not source.waits_with(bundle)
        if not is_new and not needed_again:
            if source is not None:
                self._take_repeat(bundle, source, hops, prompt, originals)
            return None
        bundle = self._clock.admit(bundle)
        if backup:
            return self._keep_hidden(bundle, source, hops, [])
        entry = self.append(bundle, source, client, hops, prompt)
        if originals:
            self._log.repeats.follow(entry, originals)
        if source is not None:
            self._log.let_pass(entry, source)
        return entry

    def _take_repeat(self, bundle: Bundle, source: Link, hops: int, prompt: bool, originals: list[Entry]) -> None:
        """Store a repeat beside its original while that is needed (`order.entry`); otherwise only count it."""
        if originals:
            repeat = self._keep_hidden(self._clock.admit(bundle), source, hops, originals)
            repeat.prompt = prompt
        else:
            repeat = stable_entry(bundle, source, hops, self._life.faults)
            source.arrived.add(repeat)
        self._reports.arrived(repeat, source)
        self._log.held_back.put_wall()  # its publisher moved, so a chain of causes may have gone past the links

    def _keep_hidden(self, bundle: Bundle, source: Link | None, hops: int, originals: list[Entry]) -> Entry:
        """Store a copy outside the hold-back queue: no client here reads it."""
        entry = self.keep(bundle, source, hops)
        self._log.repeats.follow(entry, originals)
        self._log.held_back.pop()
        self._sessions.show(entry, self._life.out)
        return entry

    def append(
        self, bundle: Bundle, source: Link | None, client: ClientSession | None, hops: int, prompt: bool
    ) -> Entry:
        """Log a bundle, send it to every link that wants it and has room, and let the others catch up later. While the
        bundle has crossed fewer than f links, it goes to all links, whether they want it or not. The arguments are
        those of `accept`."""
        life = self._life
        wanting, readers, picks = self.find_readers(bundle)
        flood = hops < life.faults or self.restoring is not None
        room_of, fresh = self._outbox.room, self.fresh
        behind = 0
        ready: list[Link] = []
        for link in self._links.values():
            if link is source or link in fresh:
                continue
            if link.cursor is None and room_of(link.name) <= 0:
                link.cursor = self._log.next_no  # a parcel has used up the room
            if link.cursor is not None:
                behind += 1
            elif flood or link in wanting:
                ready.append(link)
        entry = self._log.append(bundle, source, client, hops, behind + len(ready), behind, readers)
        entry.picks = picks
        entry.prompt = prompt
        entry.restored = self.restoring
        if self._disk is not None:
            late = [link.name for link in self._links.values() if link.cursor is not None and link is not source]
            self._disk.keep(entry, [*late, *[link.name for link in ready]])
        if not entry.undone:
            self._delivering.finished(entry)
        if self._spilling.filters:
            self._spilling.came(entry)
        if ready:
            restored = entry.restored
            further = min(hops + 1, HOPS_MAX)
            forward = Forward(bundle, further, prompt) if restored is None else restored.passed_on(bundle, further)
            for link in ready:
                self._send_on(link, entry, forward)
        return entry

    def keep(self, bundle: Bundle, source: Link | None, hops: int) -> Entry:
        """Store a back-up copy for others. It is in the hold-back queue, but no reader except perhaps a ghost is
        shown it."""
        entry = self._log.append(bundle, source, None, hops, 0, 0, ())
        entry.is_backup = True
        if self._disk is not None:
            self._disk.keep(entry, ())
        if self._spilling.filters:
            self._spilling.came(entry)
        return entry

    def keep_again(self, entry: Entry, bundle: Bundle) -> None:
        """Store a bundle again whose entry was stable and forgotten."""
        self._log.revive(entry, bundle)
        if self._disk is not None:
            self._disk.keep(entry, ())
        if self._spilling.filters:
            self._spilling.came(entry)

    def find_readers(self, bundle: Bundle) -> tuple[tuple[Link, ...], tuple[ClientSession, ...], Picks | None]:
        """Return the links and the sessions of local clients that want the bundle, and by client the messages that a
        condition picked for it, if not all. Raises WireError if a condition has to read the bundle and cannot."""
        wanting, readers, picks = self._routes.find(bundle)
        if picks is not None:
            # now, while its sender can be blamed: it is unpacked when it is delivered
            check_columns(bundle, self._life.options.honest_payload)
        if readers and self._sessions.returned:
            readers = tuple([session for session in readers if not session.has(bundle)])
        return wanting, readers, picks

    # -- on ------------------------------------------------------------------------------------------------------------

    def forwarded(self, link: Link, message: Forward) -> None:
        """Accept a bundle that a neighbour sends, and report its arrival. Drop it if it is forged or unreadable."""
        life = self._life
        if self.is_forged(message.bundle.origin, message.bundle.last):
            who = message.bundle.publisher
            self._drop_forged(link, message, f"{link.name} passes on what {who} never said, which is served here")
            return
        try:
            entry = self.accept(message.bundle, link, None, message.hops, message.prompt, message.is_backup)
        except WireError as error:
            if message.hops <= 1 and not message.is_backup:
                raise  # the neighbour has taken it from a client, and had to look
            self._drop_forged(link, message, f"{link.name} passes on what cannot be read: {error}")
            return
        if entry is not None:
            self._reports.arrived(entry, link)
        self._delivering.show()
        if link.held_bytes > self._pressure.most:
            self._pressure.check(link.name, link.held_bytes, life.out)

    def is_forged_total(self, bundle: Bundle) -> bool:
        """Whether a neighbour submits a total in the name of a client that publishes only here. Were it believed, the
        client would be told of a receipt for it, and its own total of that number would be dropped as a repeat."""
        if not self._publishes_here(bundle.origin):
            return False
        self.forged += 1
        return True

    def is_forged(self, origin: Origin, last: int) -> bool:
        """Whether neighbours know a later publication than this broker, of a client that publishes only here. Were it
        believed, the client's own publications up to its number would count as repeats."""
        return self._publishes_here(origin) and last > self._seen.mark(origin)

    def raise_seen(self, origin: Origin, reached: Reached) -> None:
        """Take a neighbour's mark of how far an origin has come, unless it is forged."""
        if not self.is_forged(origin, reached):
            self._seen.raise_to(origin, reached)

    def _publishes_here(self, origin: Origin) -> bool:
        """Whether the origin is a client that is served here and never was elsewhere, so that all its publications
        come from here."""
        publisher, _, incarnation = origin
        session = self._sessions.find_life(publisher, incarnation)
        return session is not None and not session.moved

    def _drop_forged(self, link: Link, message: Forward, why: str) -> None:
        """Drop a forged or unreadable bundle, but count it on the link, because its sender does. The neighbour keeps
        its session: it may only have passed the bundle on."""
        life = self._life
        self.forged += 1
        repeat = stable_entry(message.bundle, link, message.hops, life.faults)
        link.arrived.add(repeat)
        self._reports.arrived(repeat, link)
        if link.name not in self._liars:
            self._liars[link.name] = None
            life.note("note", why)

    def _send_on(self, link: Link, entry: Entry, forward: Forward | Republished) -> bool:
        """Send an entry on a link. Return False, and set the cursor, when the link has no room for more."""
        link.sent.add(entry)
        if self._outbox.send(link.name, forward) > 0:
            return True
        link.cursor = entry.no + 1
        return False

    def copy(self, link: Link, entry: Entry) -> None:
        """Send a copy to a neighbour that does not want the entry, as soon as there is room, so that enough brokers
        have it."""
        link.copies.append(entry)
        if link.cursor is None and not self._send_copies(link, self._log.next_no):
            link.cursor = self._log.next_no

    def _send_copies(self, link: Link, place: int) -> bool:
        """Send copies of entries before this place of the log. An entry that crosses the link by itself must not
        come as a copy first, because brokers behind would not be given it. Return False when there is no room for
        all."""
        life = self._life
        later: list[Entry] = []
        while link.copies:
            if self._outbox.room(link.name) <= 0:
                break
            entry = link.copies.popleft()
            if entry.bundle is None:  # everybody has taken it meanwhile
                continue
            if entry.no >= place:
                later.append(entry)
                continue
            self._log.await_one(entry)
            link.sent.add(entry)
            self._outbox.send(link.name, Forward(whole(entry.bundle), life.faults, entry.prompt, is_backup=True))
        has_room = not link.copies
        link.copies.extendleft(reversed(later))
        return has_room

    def pump(self, link: Link) -> None:
        """Let a link that fell behind catch up as far as it has room: copies first, then the log from its cursor on,
        with the messages of `Link.after` at their places."""
        if not link.open or link.cursor is None:
            return
        log, speaking = self._log, self._speaking
        place = link.cursor
        if not self._send_copies(link, place):  # first: perhaps nobody else has them, and there is always something new
            return
        link.cursor = None
        while place < log.next_no:
            if link.after:
                speaking.say_after(link, place)
            if self._outbox.room(link.name) <= 0:
                link.cursor = place
                break
            entry = log.entries.get(place)
            place += 1
            if entry is None or entry.source is link or not crosses(entry):
                continue
            if not self._send_late(link, entry):
                break
        if link.after and link.cursor is None:
            speaking.say_after(link, log.next_no)
        if link.cursor is None:
            self._send_copies(link, log.next_no)
            if self._outbox.room(link.name) <= 0:
                link.cursor = log.next_no
        self._delivering.show()

    def _send_late(self, link: Link, entry: Entry) -> bool:
        """Send an entry to a link that fell behind, or release it if the link does not want it. False when that was the
        last that the link has room for."""
        assert entry.bundle is not None, "what a link has not seen stays in the log"
        bundle = whole(entry.bundle)
        self._log.waited(entry)
        if entry.hops < self._life.faults or entry.restored is not None or self._routes.wants(link, bundle):
            restored, hops = entry.restored, min(entry.hops + 1, HOPS_MAX)
            forward = Forward(bundle, hops, entry.prompt) if restored is None else restored.passed_on(bundle, hops)
            return self._send_on(link, entry, forward)
        self._log.release(entry)
        if entry.delivered:
            self._delivering.finished(entry)
        return True

    # -- acknowledged --------------------------------------------------------------------------------------------------

    def take_levels(self, link: Link, message: Levels) -> None:
        """Count a neighbour's report of how far bundles have come: which entries it has (reach), which of them its
        readers have taken (level), and which are delivered to every reader behind it."""
        news = link.take_report(message)
        log = self._log
        for reach, entry in news.reaches:
            log.count_reach(entry, reach)
        for level, entry in news.levels:
            log.count_level(entry, level)
        for entry in news.delivered:
            if log.deliver_one(entry):
                self._delivering.finished(entry)
        if news.reaches:
            self._delivering.show()


def crosses(entry: Entry) -> bool:
    """Whether links forward the entry: it is neither a back-up copy nor a total, which every broker delivers by
    itself."""
    return not entry.is_backup and entry.tseq < 0


def stable_entry(bundle: Bundle, source: Link | None, hops: int, faults: int) -> Entry:
    """Return an entry without a bundle that is stable from the start. A bundle that is not stored, for example a repeat
    or a forged one, is still counted on its link with such an entry, because the sender counts it."""
    entry = Entry(-1, bundle, source, None, hops)
    entry.bundle = None
    entry.reach = faults
    entry.level = faults + 1
    entry.pins = 0
    entry.shown = True
    entry.reach_lacking = [0] + [1] * faults
    entry.lacking = [0] + [1] * faults
    return entry
