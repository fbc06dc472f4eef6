"""What every part of a broker shares, and the way of a bundle through it: accept, forward, show, report.

The other parts (`clients`, `joining`, `attach`, `flush`) change who the neighbours are; this one only looks at them. A
link that is not open is owed everything: its cursor stays where it is and the log keeps what lies beyond.
"""

import random
from collections.abc import Callable

from resprout.core.bundle import Bundle
from resprout.core.contract import Effect, Note, ProtocolMessage, Retire, Send
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.advertising import Advertising
from resprout.edge.broker.backpressure import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Extra, Refuge, Serving
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.left import Left
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Forward, Levels
from resprout.order.reports import Reports
from resprout.order.retained import Retained
from resprout.order.seen import Seen
from resprout.order.total_handover import Handover
from resprout.order.total_levels import TotalBook, TotalLevels
from resprout.order.totals import Totals
from resprout.overlay import lineage
from resprout.overlay.standing import Standing
from resprout.spread.adverts import Adverts
from resprout.spread.interest import Interest
from resprout.spread.messages import Interested, Uninterested
from resprout.spread.needs import Wish
from resprout.spread.says import Says
from resprout.stacks.resprout.client_ports import ClientAdverts, ClientInterest
from resprout.stacks.resprout.messages import ClientBegan, ListenersChanged
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.peers import Peers
from resprout.stacks.routes import Picks, Routes
from resprout.stacks.stack import BrokerSeat
from resprout.wire.columns import check_columns

GUARANTEES = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL, Guarantee.TOTAL)
NAME = "resprout"
REFUGES_MAX = 16
TO_ANY_NEIGHBOUR = (Interested, Uninterested, ListenersChanged, ClientBegan)
"""What a dead neighbour would have been told, and whoever takes its place must hear."""


class Core:
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        self.seat = seat
        self.options = options
        self.rng = rng
        self.faults = options.faults_tolerated
        self.out: list[Effect] = []
        self.now_us = 0
        self.retired = False
        self.standing = Standing(seat.name, seat.incarnation, seat.address, self.faults)
        self.peers = Peers(self.out)
        self.clock = Clock()
        self.seen = Seen()
        self.log = Log(self.faults, self._rose)
        self.interest = Interest(lambda: self.retained.marks())
        self.adverts = Adverts()
        self.links: dict[str, Link] = {}
        self.reports = Reports(self.links, self.faults, options.ack_delay_us)
        self.pressure = BackPressure(options.log_bytes, self._held_of)
        self.says: Says = []
        serving = Serving(NAME, GUARANTEES, self.faults, extras=tuple(Extra))
        self.wishes = ClientInterest(self.interest, self.says, lambda: self.routes.forget())
        self.lobby = ClientSessions(serving, self.log, self.wishes, self.finished)
        self.advertising = Advertising(ClientAdverts(self.adverts, self.says))
        self.lobby.copies_of = self._copies_of
        self.few_copies = 0
        """On so many brokers `safe` rests here, if that is fewer than f + 1; otherwise 0."""
        self.guests = self.lobby.all
        self.routes = Routes(self.interest.index, self.links, self.guests)
        self.fresh: tuple[Link, ...] = ()
        """Links that a repair is making: the pool is put on them, not sent."""
        self.totals = Totals(self.standing, self.clock, self._say_of_totals, self._deliver_total, self.seen.has)
        self.handover = Handover(self.totals)
        self.left = Left()
        self.book = TotalBook(self.log, self.faults, self.finished, self.left)
        self.retained = Retained(self.log, self.links, self.book, self.left)
        self._plain: dict[int, tuple[Entry, Entry]] = {}
        """Entries on whose delivery another one waits that stands in for them: see `_stand_in`."""
        self.unsaid: dict[str, list[ProtocolMessage]] = {}
        """By dead neighbour: what was to be said on its link since this broker handed over what it had said before."""
        self.drain: Callable[[], None] = lambda: None
        """Called when clients that waited behind a total may go on."""

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def begin(self, now_us: int) -> list[Effect]:
        """Of a step."""
        self.now_us = now_us
        self.out = self.peers.out = []
        return self.out

    def end(self) -> None:
        """Of a step: tell what is to be told."""
        self.say_all()
        self.lobby.flush(self.out)
        self.pressure.release(self.out)
        if self.lobby.patient:
            self.reports.taken_soon = True
        if not self.links and len(self.book):
            self.report_totals()  # nobody is told, and no timer comes: forget what is delivered
        self.reports.flush(self.now_us, self.out)

    def add_link(self, name: str, incarnation: int) -> Link:
        """A neighbour that has kept up with everything so far. Interest in it is the business of whoever adds it."""
        link = self.links[name] = Link(name, incarnation, self.faults, None, self.left)
        self.standing.neighbours[name] = True
        self.log.unshown.put_wall()  # it may have heard of what is in the log, and nobody counted how far
        self.adverts.add_neighbour(name)
        self.routes.forget()
        return link

    def open_link(self, link: Link) -> None:
        """Bundles may cross from now on, behind what was said before."""
        peer = self.peers.get(link.name)
        assert peer is not None and peer.up, "a link is made within a session"
        link.open = True
        link.room = 0 if peer.queue else peer.room
        link.quiet = not self.peers.is_clear(link.name)
        if link.cursor is None and link.room <= 0:
            link.cursor = self.log.next_no
        self.says.extend(self.adverts.told(link.name))
        self.pump(link)

    def shut_link(self, link: Link) -> None:
        """The neighbour is declared dead: from now on its link is owed everything, and nothing is heard from it."""
        if link.open:
            link.open = False
            self.standing.neighbours[link.name] = False
            self.pressure.forget(link.name)
            if link.cursor is None:
                link.cursor = self.log.next_no

    def remove_link(self, link: Link) -> None:
        """Nothing is left of it; what it owed and was owed has been handed to others."""
        del self.links[link.name]
        del self.standing.neighbours[link.name]
        self.adverts.remove_neighbour(link.name, self.says)
        self.unsaid.pop(link.name, None)
        self.routes.forget()

    def tick(self) -> None:
        """What was said to neighbours a while ago has arrived, if all of them are heard."""
        if not any(link.quiet for link in self.links.values()):
            self.left.turn(self.now_us, self.options.lease_us)

    def say_all(self) -> None:
        """What neighbours must hear. One that does not listen hears everything at the beginning of its session, or, if
        it is dead, whoever takes its place does."""
        while self.says:
            says = self.says[:]
            self.says.clear()
            for name, message in says:
                link = self.links.get(name)
                if link is not None and link.open:
                    self.peers.send(name, message)
                elif name in self.unsaid and isinstance(message, TO_ANY_NEIGHBOUR):
                    self.unsaid[name].append(message)  # answers to the dead are for nobody else

    def note(self, kind: str, detail: str) -> None:
        self.out.append(Note(kind, {"detail": detail}))

    def retire(self, reason: str, again: bool = True, kind: str = "fenced", toward: str | None = None) -> None:
        """The next life is above everything that anybody has called dead, or it would be fenced in turn."""
        if not self.retired:
            self.retired = True
            if again:
                self.note(kind, reason)
            self.out.append(Retire(reason, again, toward, self.standing.outlived))

    def refuse(self, reason: str) -> None:
        """The network does not take this broker, and trying again would not help."""
        if not self.retired:
            self.retired = True
            self.note("name_refused", reason)
            self.out.append(Retire(reason, again=False, refused=True))

    def refuges(self) -> tuple[Refuge, ...]:
        """Where clients turn when this broker dies: to whoever will lead the repair first."""
        standing = self.standing
        names: dict[str, None] = {}
        above = standing.parent
        while above is not None and above not in names and len(names) <= self.faults:
            names[above] = None
            above = standing.places[above].parent if above in standing.places else None
        names.update(dict.fromkeys((*standing.succession.names, *standing.neighbours, *standing.places)))
        names.pop(standing.name, None)
        known = [
            (name, standing.places[name]) for name in names if name in standing.places and not standing.is_dead(name)
        ]
        return tuple([Refuge(name, place.address) for name, place in known[:REFUGES_MAX]])

    # -- accept and forward --------------------------------------------------------------------------------------------

    def accept(
        self,
        bundle: Bundle,
        source: Link | None,
        client: ClientSession | None,
        hops: int,
        prompt: bool,
        backup: bool = False,
    ) -> Entry | None:
        """Log a bundle and send it on; None when it was here before. A copy that comes back is kept all the same unless
        it is certainly here: its sender was through with it, and needs it again for a ghost."""
        is_new = self.seen.is_new(bundle)
        needed_again = backup and source is not None and not source.waits_with(bundle)
        if not is_new and not needed_again:
            if source is not None:
                repeat = nothing_more_to_do(bundle, source, hops, self.faults)
                source.arrived.add(repeat)
                self.reports.arrived(repeat, source)
                self.log.unshown.put_wall()  # what is still waiting here has been elsewhere, too
            return None
        self.clock.raise_to(bundle.stamp)
        if backup:
            entry = self.keep(bundle, source, hops)
            self.log.unshown.pop()
            self.lobby.show(entry, self.out)
            return entry
        entry = self.append(bundle, source, client, hops, prompt)
        if source is not None:
            self.log.let_pass(entry, source)
        return entry

    def append(
        self, bundle: Bundle, source: Link | None, client: ClientSession | None, hops: int, prompt: bool
    ) -> Entry:
        """To the log, and to whoever wants it."""
        wanting, readers, picks = self.find_readers(bundle)
        flood = hops < self.faults
        behind = 0
        now: list[Link] = []
        for link in self.links.values():
            if link is source or link in self.fresh:
                continue
            if link.cursor is not None:
                behind += 1
            elif flood or link in wanting:
                now.append(link)
        entry = self.log.append(bundle, source, client, hops, behind + len(now), behind, readers)
        entry.picks = picks
        entry.prompt = prompt
        if entry.delivered:
            self.finished(entry)
        if now:
            forward = Forward(bundle, hops + 1, prompt)
            for link in now:
                self._send_on(link, entry, forward)
        return entry

    def keep(self, bundle: Bundle, source: Link | None, hops: int) -> Entry:
        """A copy for others: nobody on this side is owed it. It stands in line to be shown, to nobody or a ghost."""
        entry = self.log.append(bundle, source, None, hops, 0, 0, ())
        entry.is_backup = True
        return entry

    def find_readers(self, bundle: Bundle) -> tuple[tuple[Link, ...], tuple[ClientSession, ...], Picks | None]:
        wanting, readers, picks = self.routes.find(bundle)
        if picks is not None:
            check_columns(bundle)  # it will be taken apart here, when its source may no longer be there to blame
        if readers and self.lobby.returned:
            readers = tuple([guest for guest in readers if not guest.has(bundle)])
        return wanting, readers, picks

    def _send_on(self, link: Link, entry: Entry, forward: Forward) -> bool:
        """False when that was the last that the link has room for."""
        link.sent.add(entry)
        self.out.append(Send(link.name, forward))
        link.room -= forward.cost
        if link.room > 0:
            return True
        link.cursor = entry.no + 1
        return False

    def send_copy(self, link: Link, entry: Entry, forward: Forward) -> None:
        """To a neighbour that does not want it, so that enough brokers have it."""
        self.log.await_one(entry)
        link.sent.add(entry)
        self.out.append(Send(link.name, forward))
        link.room -= forward.cost
        if link.room <= 0:
            link.cursor = self.log.next_no

    def pump(self, link: Link) -> None:
        """Let a link that fell behind catch up as far as it has room."""
        if not link.open or link.cursor is None:
            return
        log = self.log
        place = link.cursor
        link.cursor = None
        while place < log.next_no:
            if link.after:
                self._say_after(link, place)
            if link.room <= 0:
                link.cursor = place
                break
            entry = log.entries.get(place)
            place += 1
            if entry is None or entry.source is link or not crosses(entry):
                continue
            bundle = entry.bundle
            assert bundle is not None, "what a link has not seen stays in the log"
            log.waited(entry)
            if entry.hops < self.faults or self.routes.wants(link, bundle):
                if not self._send_on(link, entry, Forward(bundle, entry.hops + 1, entry.prompt)):
                    break
            else:
                log.release(entry)
                if entry.delivered:
                    self.finished(entry)
        if link.after and link.cursor is None:
            self._say_after(link, log.next_no)
        if link.cursor is None and link.room <= 0:
            link.cursor = log.next_no
        self.show()

    def say_in_order(self, name: str, message: ProtocolMessage) -> None:
        """To a neighbour, but not before everything that is in the log now; within its window."""
        link = self.links.get(name)
        if link is None or not link.open:
            return
        if link.cursor is None:
            self._say(link, message)
            if link.room <= 0:
                link.cursor = self.log.next_no
        else:
            link.after.append((self.log.next_no, message))

    def _say(self, link: Link, message: ProtocolMessage) -> None:
        self.peers.send(link.name, message)
        link.room -= message.cost

    def _say_after(self, link: Link, place: int) -> None:
        """What stands before this place, as far as there is room."""
        after = link.after
        while after and after[0][0] <= place and (link.room > 0 or not after[0][1].cost):
            self._say(link, after.popleft()[1])

    # -- acknowledge and show ------------------------------------------------------------------------------------------

    def take_levels(self, link: Link, message: Levels) -> None:
        news = link.take_report(message)
        log = self.log
        for reach, entry in news.reached:
            log.reached(entry, reach)
        for level, entry in news.firmer:
            log.firmer(entry, level)
        for entry in news.delivered:
            if log.deliver_one(entry):
                self.finished(entry)
        if news.reached:
            self.show()

    def _rose(self, entry: Entry) -> None:
        if entry.tseq >= 0:
            self.book.touch(entry)
        self.reports.rose(entry)

    def finished(self, entry: Entry) -> None:
        """Nobody on this side is owed the entry any more."""
        if entry.source is None:
            self.lobby.delivered(entry)
        else:
            self.reports.delivered(entry, entry.source)
        if self._plain and (pair := self._plain.pop(id(entry), None)) is not None:
            self.log.deliver_one(pair[1])

    def show(self) -> None:
        while (entry := self.log.next_to_show()) is not None:
            self.lobby.show(entry, self.out)

    def _held_of(self, source: str) -> int:
        """What counts against it; all local publishers share one account (`order.log`)."""
        link = self.links.get(source)
        return link.held_bytes if link is not None else self.log.local_bytes

    def _copies_of(self, entry: Entry) -> int:
        """Of a local publication that is safe. Where it is known to be everywhere within f hops (`Log.is_safe`), it is
        at as many brokers as there are: f + 1, unless the whole tree has fewer."""
        usual = self.faults + 1
        if len(self.links) >= self.faults or (entry.tseq < 0 and max(entry.hops + 1, entry.copies) >= usual):
            copies = usual
        else:
            near = [name for name in lineage.branches(self.standing, self.faults) if not self.standing.is_dead(name)]
            copies = min(usual, max(len(near), 1 if entry.tseq >= 0 else entry.copies))
        few = copies if copies < usual else 0
        if few != self.few_copies:
            self.few_copies = few
            if few:
                self.note(
                    "few_copies", f"what is called safe here rests on {few} of {usual} brokers: the tree is small"
                )
            else:
                self.note("enough_copies", f"what is called safe here rests on {usual} brokers")
        return copies

    # -- totals --------------------------------------------------------------------------------------------------------

    def _deliver_total(self, bundle: Bundle, tseq: int) -> None:
        """Closed all around: it enters the log here as it does everywhere, and every neighbour will report it."""
        if bundle.guarantee is not Guarantee.TOTAL and self.seen.has(bundle):
            entry = self._stand_in(bundle)
        else:
            entry = self._append_total(bundle)
        entry.tseq = tseq
        self.log.unshown.put_wall()  # everything stays on the side of the barrier where it is
        self.book.add(entry, self.links)
        if entry.client is not None:
            self.lobby.published(entry.client, entry)
        self.reports.all_soon()
        self.show()
        self.drain()

    def _append_total(self, bundle: Bundle) -> Entry:
        self.seen.raise_to(bundle.origin, bundle.last)
        _, readers, picks = self.find_readers(bundle)
        entry = self.log.append(bundle, None, self.lobby.publisher_of(bundle), self.faults, len(self.links), 0, readers)
        entry.picks = picks
        return entry

    def _stand_in(self, bundle: Bundle) -> Entry:
        """For something that was carried, and has come here plainly before: nobody reads it again. Others wait to hear
        that it is delivered on this side, and it is when the plain one is."""
        plain = self._find_plain(bundle)
        entry = self.log.append(bundle, None, None, self.faults, len(self.links), 0, ())
        entry.is_backup = True
        self.log.unshown.pop()
        self.lobby.show(entry, self.out)
        if plain is not None and not plain.delivered:
            entry.undone += 1
            self._plain[id(plain)] = (plain, entry)
        return entry

    def _find_plain(self, bundle: Bundle) -> Entry | None:
        wanted = (bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)
        crossed = (link.arrived.entries for link in self.links.values())
        for entries in (self.log.entries, *crossed):
            for entry in entries.values():
                if (entry.publisher, entry.stream, entry.incarnation, entry.first) == wanted:
                    return entry
        return None

    def _say_of_totals(self, name: str, message: ProtocolMessage) -> None:
        """In the order of the log: `Closed` comes behind all that it closes behind, and what is submitted behind what
        its publisher had published before. Who has the one has the other, should everybody else die."""
        self.say_in_order(name, message)

    def take_total_levels(self, name: str, message: TotalLevels) -> None:
        self.book.hear(name, message, self.totals.locks.undelivered.__contains__)
        self.show()

    def report_totals(self, only_done: bool = False) -> None:
        """With the other reports; and forget those that everybody is through with."""
        listening = [name for name, link in self.links.items() if link.open and not link.quiet]
        for name, news in self.book.reports(listening, only_done):
            self.say_in_order(name, news)  # a total must be known before anything is said of it
        for id in self.book.forget(self.links):
            self.totals.forget(id)

    def confirmed(self, wishes: list[Wish]) -> None:
        """Wishes of local clients; and interest has changed."""
        self.lobby.confirm(wishes, self.out)
        self.routes.forget()


def crosses(entry: Entry) -> bool:
    """Whether it is a bundle that links pass on: not a mere copy, and not a total, which every broker delivers."""
    return not entry.is_backup and entry.tseq < 0


def nothing_more_to_do(bundle: Bundle, source: Link | None, hops: int, faults: int) -> Entry:
    """What was through here before is counted, because its sender counts it, and is through with at once."""
    entry = Entry(-1, bundle, source, None, hops)
    entry.bundle = None
    entry.reach = faults
    entry.level = faults + 1
    entry.pins = 0
    entry.shown = True
    entry.reach_lacking = [0] + [1] * faults
    entry.lacking = [0] + [1] * faults
    return entry
