"""Totals between `order.totals` and the log of a broker.

`order.totals.totals` decides the order of totals, and calls `deliver` when one is closed on all sides. Every broker
then appends it to its own log; no link forwards it. Its acknowledgements go by name (`order.totals.levels`).
"""

from collections.abc import Callable, Collection
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import HOPS_MAX
from resprout.core.seen import Seen
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import (
    AlreadyOrdered,
    Closed,
    OrderedTotal,
    Submit,
    TotalCopy,
    TotalId,
    TotalPlace,
    check_locks,
    check_total,
    id_of,
    tseq_of,
)
from resprout.order.reports import Reports
from resprout.order.totals.levels import TotalAcks, TotalLevels
from resprout.order.totals.pending import LockRecord, RootPublication
from resprout.order.totals.totals import Totals
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.values import ValueDesk
from resprout.values.rows import is_retained

HEAVY_BYTES: Final = 32 << 10
"""A plain bundle of this size waits before it is carried, because every broker is given what is carried."""


class TotalDelivery:
    """Totals between `order.totals` and the log: delivery, copies, acknowledgement."""

    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        log: Log,
        clock: Clock,
        seen: Seen,
        sessions: ClientSessions,
        reports: Reports,
        delivering: Delivering,
        total_acks: TotalAcks,
        totals: Totals,
        disk: DiskLog | None,
        speaking: Speaking,
        forwarding: Forwarding,
        values: ValueDesk,
        drain: Callable[[], None],
    ) -> None:
        """`drain` is called when clients that waited behind a total may go on. It is a call and not an outcome: what
        they publish takes its place in the log between this total and the next one of the same step."""
        self._life = life
        self._links = links
        self._log = log
        self._clock = clock
        self._seen = seen
        self._sessions = sessions
        self._reports = reports
        self._delivering = delivering
        self._total_acks = total_acks
        self._totals = totals
        self._disk = disk
        self._speaking = speaking
        self._forwarding = forwarding
        self._values = values
        self._drain = drain
        self._heavy_waits: dict[str, tuple[int, TotalId]] = {}
        """By client whose next publication is heavy: its number, and the total that it waits for before it is
        carried."""

    def delays_heavy(self, client: str, bundle: Bundle) -> bool:
        """Whether a heavy plain bundle waits for the totals that were under way when its turn came. It does not wait
        for later ones."""
        if bundle.cost < HEAVY_BYTES or bundle.guarantee is Guarantee.TOTAL:
            return False
        totals = self._totals
        number, awaited = self._heavy_waits.get(client, (0, None))
        if number != bundle.first:
            own, line = totals.backlog.of(client), totals.locks.in_line()
            if not own and not line:
                return False  # the root orders it, and only those who want it are given it
            awaited = id_of(own[-1]) if own else line[-1].id
            self._heavy_waits[client] = (bundle.first, awaited)
        assert awaited is not None
        return totals.backlog.has(awaited)

    def forget(self, client: str) -> None:
        self._heavy_waits.pop(client, None)

    def deliver(self, bundle: Bundle, tseq: int, prompt: bool, is_repeat: bool) -> None:
        """Log a total that is closed on all sides; every broker does. `is_repeat`: its number was seen before, so no
        reader here gets it."""
        if is_repeat and (kept := self._total_acks.entry(id_of(bundle))) is not None:
            for name in self._links:
                self._total_acks.expect_report(kept, name)
            self._reports.all_soon()
            self._drain()
            return
        if is_repeat or (bundle.guarantee is not Guarantee.TOTAL and self._seen.has(bundle)):
            entry = self._stand_in(bundle, self._life.faults, len(self._links))
        else:
            _, readers, picks = self._find_readers(bundle)
            entry = self._append(bundle, self._life.faults, len(self._links), readers, picks)
        self._enter(entry, tseq, prompt, self._links)
        if bundle.keys and not entry.is_backup and is_retained(bundle):
            self._values.apply(bundle, tseq)
        self._delivering.show()
        self._drain()

    def _enter(self, entry: Entry, tseq: int, prompt: bool, scope: Collection[str], is_scoped: bool = False) -> None:
        """Note what is particular to a total that has entered the log. `scope`: the neighbours that have to report it,
        and are told how far it has come here."""
        entry.tseq = tseq
        entry.prompt = prompt
        if self._disk is not None:
            self._disk.keep(entry, scope)
        self._log.held_back.put_wall()  # later entries do not pass a total, nor anything before it
        self._total_acks.add(entry, scope, is_scoped)
        if entry.client is not None:
            self._sessions.published(entry.client, entry)
        self._reports.all_soon()

    def publish(self, record: LockRecord, publication: RootPublication) -> None:
        """Log a total that the root has published, and pass it on to neighbours that want it and to those that have
        submitted it. If these are too few for f + 1 copies, others are given it too. A link in repair is owed it: the
        repair hands it on."""
        faults, bundle, source = self._life.faults, record.bundle, publication.source
        if (kept := self._total_acks.entry(record.id)) is not None:
            if source is not None:
                self._total_acks.expect_report(kept, source)
            self._reports.all_soon()
            return
        wanting, readers, picks = self._find_readers(bundle)
        targets = [link for link in self._links.values() if link in wanting or link.name in publication.asked]
        if publication.hops + len([link for link in targets if link.open]) < faults:  # nobody else would have it
            targets += [link for link in self._links.values() if link.open and link not in targets][:faults]
        targets = [link for link in targets if link.name != source]
        owed = [link for link in self._links.values() if not link.open and link not in targets]
        scope = [link.name for link in (*targets, *owed)] + ([] if source is None else [source])
        if record.is_repeat or self._seen.has(bundle):
            entry = self._stand_in(bundle, publication.hops, len(scope))
        else:
            entry = self._append(bundle, publication.hops, len(scope), readers, picks)
        self._enter(entry, tseq_of(record.place), record.prompt, scope, is_scoped=True)
        message = OrderedTotal(*record.place, bundle, min(publication.hops + 1, HOPS_MAX), record.prompt)
        for link in targets:
            self._speaking.say_in_order(link.name, message)
        if source is not None and publication.hops <= faults:  # it may not be safe at its sender
            news = self._total_acks.report_one(entry, source)
            if news is not None:
                self._speaking.say_in_order(source, news)
        self._delivering.show()
        self._drain()

    def keep(self, place: TotalPlace, bundle: Bundle, neighbours: Collection[str], is_scoped: bool) -> Entry:
        """Store a total that was delivered elsewhere, before this broker joined or after it had forgotten it. It is
        kept for readers behind these neighbours, and for those of dead brokers. `is_scoped`: the root has published
        it, so that not all brokers know it."""
        life = self._life
        bundle = self._clock.admit(bundle)
        self._totals.keep(place, bundle, is_scoped)
        if is_scoped:
            self._forwarding.raise_seen(bundle.origin, bundle.last)
        entry = self._log.append(bundle, None, None, life.faults, len(neighbours), 0, ())
        entry.tseq = tseq_of(place)
        if self._disk is not None:
            self._disk.keep(entry, neighbours)
        self._log.held_back.put_wall()
        self._total_acks.add(entry, neighbours, is_scoped)
        return entry

    def submitted(self, link: Link, message: Submit) -> None:
        """A child submits a total to be ordered."""
        check_total(message.bundle)
        if not self._forwarding.is_forged_total(message.bundle):
            self._totals.take_submit(link.name, message)

    def ordered(self, link: Link, message: OrderedTotal) -> None:
        """The parent passes on a total that the root has published."""
        self._totals.published.take_ordered(link.name, message)

    def already_ordered(self, link: Link, message: AlreadyOrdered) -> None:
        """The parent has delivered a total that was submitted to it."""
        self._totals.published.take_known(link.name, message)

    def closed(self, link: Link, message: Closed) -> None:
        """A neighbour says that its side is closed for a total."""
        self._totals.take_closed(link.name, message)

    def kept(self, link: Link, message: TotalCopy) -> None:
        """A neighbour that has delivered a total sends a copy, so that another broker has it too."""
        bundle = message.bundle
        check_locks((message,))
        if self._forwarding.is_forged(bundle.origin, bundle.last):
            self._forwarding.forged += 1
            return
        id = id_of(bundle)
        if id in self._totals.locks.undelivered:
            return  # this broker will deliver it by itself, and report it to the neighbour then
        entry = self._total_acks.entry(id)
        if entry is None:
            place = (message.epoch, message.number)
            self.keep(place, bundle, (link.name,), message.is_scoped).prompt = message.prompt
        else:
            if entry.bundle is None:
                self._forwarding.keep_again(entry, self._clock.admit(bundle))
            self._total_acks.expect_report(entry, link.name)
        self._reports.all_soon()
        self._delivering.show()

    def _find_readers(self, bundle: Bundle) -> tuple[tuple[Link, ...], tuple[ClientSession, ...], Picks | None]:
        """Return who wants a total. Whoever spoiled one that cannot be read is not known, and all brokers must deliver
        it: here it has no readers."""
        try:
            return self._forwarding.find_readers(bundle)
        except WireError:
            self._forwarding.forged += 1
            return (), (), None

    def _append(
        self, bundle: Bundle, hops: int, awaited: int, readers: tuple[ClientSession, ...], picks: Picks | None
    ) -> Entry:
        """Log a total that is new here. `awaited`: how many neighbours have to report it."""
        self._seen.raise_to(bundle.origin, bundle.last)
        client = self._sessions.publisher_of(bundle)
        entry = self._log.append(bundle, None, client, hops, awaited, 0, readers)
        entry.picks = picks
        return entry

    def _stand_in(self, bundle: Bundle, hops: int, awaited: int) -> Entry:
        """Log a carried bundle that has come here plainly before, without readers. Neighbours wait for its delivery,
        which counts when the plain entry is delivered."""
        plain = self._find_plain(bundle) if bundle.guarantee is not Guarantee.TOTAL else None
        entry = self._log.append(bundle, None, None, hops, awaited, 0, ())
        entry.is_backup = True
        self._log.held_back.pop()
        self._sessions.show(entry, self._life.out)
        if plain is not None and not plain.delivered:
            self._delivering.stand_in(plain, entry)
        return entry

    def _find_plain(self, bundle: Bundle) -> Entry | None:
        """Return the plain entry of a bundle that was carried too."""
        wanted = (bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)
        crossed = (link.arrived.entries for link in self._links.values())
        for entries in (self._log.entries, *crossed):
            for entry in entries.values():
                if (entry.publisher, entry.stream, entry.incarnation, entry.first) == wanted:
                    return entry
        return None

    # -- acknowledged --------------------------------------------------------------------------------------------------

    def take_levels(self, link: Link, message: TotalLevels) -> None:
        """A neighbour reports how far totals have come."""
        self._total_acks.hear(link.name, message, self._totals.locks.undelivered.__contains__)
        self._delivering.show()

    def report(self, only_done: bool = False) -> None:
        """Report totals to neighbours, and forget those that all brokers are through with."""
        listening = [name for name, link in self._links.items() if link.open and not link.silent]
        for name, news in self._total_acks.reports(listening, only_done):
            self._speaking.say_in_order(name, news)  # a total must be known before anything is said of it
        for id in self._total_acks.forget(self._links):
            self._totals.forget(id)
