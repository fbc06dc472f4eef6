"""The way of a total through a broker: delivered when it is closed all around, then acknowledged by name.

Which total comes when is decided in `order.totals.totals`. Here it enters the log, as it does everywhere.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.totals.levels import TotalLevels
from resprout.order.totals.messages import TotalCopy, TotalId, TotalPlace, check_locks, id_of, tseq_of

if TYPE_CHECKING:
    from resprout.stacks.resprout.core import Core


HEAVY_BYTES: Final = 32 << 10
"""From here on a bundle is worth a wait, before every broker is given it whether anybody wants it there or not."""


class TotalWay:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self.stood_in_for: dict[int, tuple[Entry, Entry]] = {}
        """Entries on whose delivery another one waits that stands in for them: see `_stand_in`."""
        self._patience: dict[str, tuple[int, TotalId]] = {}
        """Clients whose next publication is heavy: its number, and what it waits for before it is carried."""
        self.drain: Callable[[], None] = lambda: None
        """Called when clients that waited behind a total may go on. A call and no outcome: what they go on with takes
        its place in the log between this total and the next one of the same step."""

    def is_patient(self, client: str, bundle: Bundle) -> bool:
        """Whether something heavy waits for what was under way when its turn came; for nothing that came later."""
        if bundle.cost < HEAVY_BYTES or bundle.guarantee is Guarantee.TOTAL:
            return False
        totals = self._core.totals
        number, awaited = self._patience.get(client, (0, None))
        if number != bundle.first:
            own = totals.backlog.of(client)
            awaited = id_of(own[-1]) if own else totals.locks.in_line()[-1].id
            self._patience[client] = (bundle.first, awaited)
        assert awaited is not None
        return totals.backlog.has(awaited)

    def forget(self, client: str) -> None:
        self._patience.pop(client, None)

    def deliver(self, bundle: Bundle, tseq: int, prompt: bool) -> None:
        """Closed all around: it enters the log here as it does everywhere, and every neighbour will report it."""
        core = self._core
        if bundle.guarantee is not Guarantee.TOTAL and core.seen.has(bundle):
            entry = self._stand_in(bundle)
        else:
            entry = self._append(bundle)
        entry.tseq = tseq
        entry.prompt = prompt
        if core.disk is not None:
            core.disk.keep(entry, core.links)
        core.log.held_back.put_wall()  # everything stays on the side of the barrier where it is
        core.book.add(entry, core.links)
        if entry.client is not None:
            core.sessions.published(entry.client, entry)
        core.reports.all_soon()
        core.show()
        self.drain()

    def keep(self, place: TotalPlace, bundle: Bundle, neighbours: Collection[str]) -> Entry:
        """Delivered elsewhere, before this broker came or after it was through with it: nobody here is owed it. It is
        kept for readers behind these neighbours, and for those of dead brokers."""
        core = self._core
        bundle = core.clock.admit(bundle)
        core.totals.keep(place, bundle)
        entry = core.log.append(bundle, None, None, core.faults, len(neighbours), 0, ())
        entry.tseq = tseq_of(place)
        if core.disk is not None:
            core.disk.keep(entry, neighbours)
        core.log.held_back.put_wall()
        core.book.add(entry, neighbours)
        return entry

    def kept(self, link: Link, message: TotalCopy) -> None:
        """A neighbour that was here before, and has delivered it, wants somebody to have it besides."""
        core = self._core
        check_locks((message,))
        id = id_of(message.bundle)
        if id in core.totals.locks.undelivered:
            return  # it is on its way here, and then the neighbour will hear of it
        entry = core.book.entry(id)
        if entry is None:
            self.keep((message.epoch, message.number), message.bundle, (link.name,)).prompt = message.prompt
        else:
            if entry.bundle is None:
                core.copies.take_back(entry, core.clock.admit(message.bundle))
            core.book.meet(entry, link.name)
        core.reports.all_soon()
        core.show()

    def _append(self, bundle: Bundle) -> Entry:
        core = self._core
        core.seen.raise_to(bundle.origin, bundle.last)
        _, readers, picks = core.forwarding.find_readers(bundle)
        client = core.sessions.publisher_of(bundle)
        entry = core.log.append(bundle, None, client, core.faults, len(core.links), 0, readers)
        entry.picks = picks
        return entry

    def _stand_in(self, bundle: Bundle) -> Entry:
        """For something that was carried, and has come here plainly before: nobody reads it again. Others wait to hear
        that it is delivered on this side, and it is when the plain one is."""
        core = self._core
        plain = self._find_plain(bundle)
        entry = core.log.append(bundle, None, None, core.faults, len(core.links), 0, ())
        entry.is_backup = True
        core.log.held_back.pop()
        core.sessions.show(entry, core.out)
        if plain is not None and not plain.delivered:
            entry.undone += 1
            self.stood_in_for[id(plain)] = (plain, entry)
        return entry

    def _find_plain(self, bundle: Bundle) -> Entry | None:
        core = self._core
        wanted = (bundle.publisher, bundle.stream, bundle.incarnation, bundle.first)
        crossed = (link.arrived.entries for link in core.links.values())
        for entries in (core.log.entries, *crossed):
            for entry in entries.values():
                if (entry.publisher, entry.stream, entry.incarnation, entry.first) == wanted:
                    return entry
        return None

    def finished(self, entry: Entry) -> None:
        """Nobody on this side is owed the entry any more, nor what stands in for it."""
        if (pair := self.stood_in_for.pop(id(entry), None)) is not None:
            self._core.log.deliver_one(pair[1])

    # -- acknowledged --------------------------------------------------------------------------------------------------

    def take_levels(self, link: Link, message: TotalLevels) -> None:
        core = self._core
        core.book.hear(link.name, message, core.totals.locks.undelivered.__contains__)
        core.show()

    def report(self, only_done: bool = False) -> None:
        """With the other reports; and forget those that everybody is through with."""
        core = self._core
        listening = [name for name, link in core.links.items() if link.open and not link.silent]
        for name, news in core.book.reports(listening, only_done):
            core.speaking.say_in_order(name, news)  # a total must be known before anything is said of it
        for id in core.book.forget(core.links):
            core.totals.forget(id)
