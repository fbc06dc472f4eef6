"""The one log of a broker: what it accepted, in the order it accepted it.

Entries are *shown* to local readers only when they are safe: known to be at f + 1 brokers (or at every broker of a
smaller tree), so that nothing a subscriber has seen can vanish; in log order, but for those that may pass what is not
safe yet (`order.log_holdback`). An entry leaves the log when it is stable (`order.entry`). The log never evicts. It
counts bytes against two kinds of sources, which are held back separately:

- A neighbour is charged for its bundles that wait for a link that has fallen behind. In a tree, and never back to
  where they came from, such waiting cannot go in a circle.
- A local publisher is charged for its bundles that are not safe yet, or that wait for such a link.

Neither is charged for readers that have not taken an entry. Each reader has a share of its own
(`edge.broker.sessions`), and only publishers of its topics wait when that is full. So memory is bounded by what is
charged here and by the shares of the readers, here and within f hops.
"""

from collections.abc import Callable
from typing import Any

from resprout.core.bundle import Bundle, StowedBundle
from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry, Repeats, SpillState
from resprout.order.link import Link
from resprout.order.log_holdback import LogHoldBack

_EVENTUAL = Guarantee.EVENTUAL.stream


class Log:
    """The entries of a broker by their place, and the counts that decide when each is shown and forgotten. Routing
    is decided elsewhere."""

    __slots__ = (
        "_faults", "_rose", "bytes_held", "entries", "held_back", "local", "local_bytes", "next_no", "next_to_show",
        "patient", "repeats", "stuck", "stuck_bytes",
    )  # fmt: skip

    def __init__(self, faults_tolerated: int, rose: Callable[[Entry], None] = lambda entry: None) -> None:
        self._faults = faults_tolerated
        self._rose = rose
        """Called when the reach or the level of an entry has risen: neighbours may have to be told."""
        self.entries: dict[int, Entry] = {}
        """Entries that are not stable, by their place in the log."""
        self.next_no = 0
        """Place of the next entry."""
        self.held_back = LogHoldBack(self.is_safe)
        self.next_to_show = self.held_back.take
        """`LogHoldBack.take`: returns the next entry to show, which must then be shown at once; None if there is
        none."""
        self.repeats = Repeats()
        self.bytes_held = 0
        """Bytes of all entries in `entries`."""
        self.local_bytes = 0
        """Bytes of local publications that are not safe yet, or wait for a link that has fallen behind."""
        self.local: dict[str, int] = {}
        """`local_bytes` by publisher; publishers without such bytes are left out."""
        self.patient: dict[Entry, int] = {}
        """Entries that were shown to readers that let them wait on disk (durable subscriptions that spill): how many
        such readers have not taken them."""
        self.stuck: dict[Entry, None] = {}
        """Copies for other brokers that should be on disk, where there was no room for them."""
        self.stuck_bytes = 0

    def append(
        self,
        bundle: Bundle,
        source: Link | None,
        client: Any,
        hops: int,
        awaited: int,
        behind: int,
        readers: tuple[Any, ...],
    ) -> Entry:
        """Add an entry and return it. `source`: the neighbour that it came from; None for a local publication, of which
        `client` is the session. `hops`: links that it has crossed. It goes to `awaited` neighbours, all of which have
        to report it; `behind` of them must catch up first. `readers`: sessions of local clients that it will be shown
        to."""
        entry = Entry(self.next_no, bundle, source, client, hops)
        self.next_no += 1
        faults = self._faults
        entry.undone = awaited + len(readers)
        entry.readers = readers
        entry.pins = 1 + len(readers)
        self.bytes_held += entry.cost
        self.entries[entry.no] = entry
        self.repeats.add(entry)
        self.held_back.append(entry)
        further = awaited if source is None else awaited + 1  # the source has it: it will report the higher levels
        entry.reach_lacking = [awaited, *[further] * (faults - 1)] if faults else []
        entry.lacking = [awaited + 1, *[further] * faults]
        if source is None:
            self._charge(entry.publisher, entry.cost)
        else:
            source.arrived.add(entry)
        if behind:
            self.wait(entry, behind)
        if awaited == 0:
            self.settle(entry)
        return entry

    # -- the ladders ---------------------------------------------------------------------------------------------------

    def count_reach(self, entry: Entry, reach: int) -> None:
        """Count one neighbour's report that the entry has this reach there. Reach 0: the neighbour has it."""
        if reach == 0:
            entry.copies += 1
            entry.lacking[0] -= 1
        if reach < self._faults:
            entry.reach_lacking[reach] -= 1
        self.settle(entry)

    def count_level(self, entry: Entry, level: int) -> None:
        """Count one neighbour's report that the entry has this level there, 1 or more."""
        entry.lacking[level] -= 1
        if entry.lacking[level] == 0 and entry.level == level:
            self.settle(entry)

    def await_one(self, entry: Entry) -> None:
        """Count one more neighbour that the entry goes to."""
        for lacking in (entry.reach_lacking, entry.lacking):
            for level in range(len(lacking)):
                lacking[level] += 1
        entry.undone += 1

    def release(self, entry: Entry) -> None:
        """Count out a neighbour that does not want the entry after all, and settle."""
        self.unawait(entry)
        self.settle(entry)

    def unawait(self, entry: Entry) -> None:
        """Count out a neighbour from which no report will come."""
        for lacking in (entry.reach_lacking, entry.lacking):
            for level in range(len(lacking)):
                lacking[level] -= 1
        self.deliver_one(entry)

    def settle(self, entry: Entry) -> None:
        """Raise reach and level as far as the counts allow, and drop the bundle when the entry is stable."""
        before = entry.level + entry.reach
        faults = self._faults
        lacking = entry.reach_lacking
        while entry.reach < faults and lacking[entry.reach] == 0:
            entry.reach += 1
        lacking = entry.lacking
        while entry.level <= faults and lacking[entry.level] == 0:
            entry.level += 1
        if entry.level + entry.reach > before:
            self._rose(entry)
            if self.repeats.followers:
                self.repeats.touch(entry)
            if entry.level > faults:
                self._drop(entry)

    def advance_repeats(self) -> None:
        """At the end of a step, let repeats come as far as their originals."""
        self.repeats.advance(self._faults, self.settle)

    def is_safe(self, entry: Entry) -> bool:
        """Whether f + 1 brokers certainly have the entry, or all brokers of a smaller tree have it (then its reach
        is f)."""
        faults = self._faults
        return entry.hops >= faults or entry.copies > faults or entry.reach >= faults

    def revive(self, entry: Entry, bundle: Bundle) -> None:
        """Store a bundle again whose entry was stable and forgotten."""
        assert entry.bundle is None and entry.no >= 0
        if entry.cost != bundle.cost:
            self.weigh(entry, bundle.cost)
        entry.bundle = bundle
        entry.level = min(entry.level, self._faults)
        self.entries[entry.no] = entry
        self.repeats.add(entry)
        self.bytes_held += entry.cost

    # -- a link is replaced by another ---------------------------------------------------------------------------------

    def leave_link(self, link: Link, entry: Entry, number: int, sent: bool) -> None:
        """Remove a dead link from the counts of an entry: its outstanding reports will not come. `number`: the
        entry's place in the track."""
        heard = link.heard
        if sent:
            for level, count in enumerate(heard.have):
                if count < number and level < self._faults:
                    entry.reach_lacking[level] -= 1
            if heard.have[0] < number:
                entry.lacking[0] -= 1
            else:
                entry.copies -= 1
            firm = heard.firm
            if number not in heard.done:
                self.deliver_one(entry)
        else:
            firm = heard.back_firm
            for index, count in enumerate(heard.back_have):
                if count < number:
                    entry.reach_lacking[index + 1] -= 1
        for index, reported in enumerate(firm):
            if number not in reported:
                entry.lacking[index + 1] -= 1

    def enter_link(self, link: Link, entry: Entry, sent: bool) -> None:
        """Put an entry on a new link in a repair, as if it had been sent there, or had come from there."""
        if sent:
            self.await_one(entry)
            link.sent.add(entry)
        else:
            for lacking in (entry.reach_lacking, entry.lacking):
                for level in range(1, len(lacking)):  # it has level 0, and will report the higher ones
                    lacking[level] += 1
            link.arrived.add(entry)

    # -- readers -------------------------------------------------------------------------------------------------------

    def let_pass(self, entry: Entry, source: Link) -> None:
        """Let the last entry, which has just come from this neighbour, pass those that it cannot depend on."""
        if entry.hops >= self._faults:
            self.held_back.let_pass(entry, source.upto)
        elif entry.stream != _EVENTUAL:  # what follows it on this way may depend on it
            source.upto = entry.no

    @property
    def first_held_back(self) -> int | None:
        """The lowest place of an entry that is not shown; None if all are."""
        first = self.held_back.first
        return None if first is None else first.no

    def show(self, entry: Entry) -> None:
        """Mark an entry as shown: its readers are given it."""
        entry.shown = True
        if entry.source is None and not entry.waits:
            self._charge(entry.publisher, -entry.cost)
        self._unpin(entry)

    def add_reader(self, entry: Entry, reader: Any) -> None:
        """Count a reader that was not known when the entry was accepted. The level counts again from 0."""
        if entry.pins == 0:
            entry.lacking[0] += 1
            entry.level = 0
        entry.pins += 1
        entry.undone += 1
        if not entry.shown:
            entry.readers = (*entry.readers, reader)

    def took(self, entry: Entry) -> bool:
        """Count a local reader that has taken the entry, or is gone. Return True when no reader on this side of the
        source is owed it any more."""
        self._unpin(entry)
        return self.deliver_one(entry)

    def deliver_one(self, entry: Entry) -> bool:
        """Count one neighbour or local reader as delivered: nobody there is owed the entry any more. Return True when
        it was the last one."""
        entry.undone -= 1
        if entry.tseq >= 0:
            self._rose(entry)  # each neighbour of a total is told when all the others have it
        if entry.undone:
            return False
        if entry.source is not None:
            entry.source.moved(entry)
        return True

    def wait(self, entry: Entry, count: int) -> None:
        """Charge the source until `count` more links have caught up with the entry."""
        if entry.waits == 0:
            if entry.source is not None:
                entry.source.held_bytes += entry.cost
            elif entry.shown:
                self._charge(entry.publisher, entry.cost)
        entry.waits += count

    def waited(self, entry: Entry) -> None:
        """One such link has caught up: stop charging the source when it was the last."""
        entry.waits -= 1
        if entry.waits == 0:
            if entry.source is not None:
                entry.source.held_bytes -= entry.cost
            elif entry.shown:
                self._charge(entry.publisher, -entry.cost)

    def change_source(self, entry: Entry, source: Link | None) -> None:
        """Make another link the source of an entry."""
        if entry.source is source:
            return
        if entry.waits and entry.source is not None:
            entry.source.held_bytes -= entry.cost
        if entry.waits and source is not None:
            source.held_bytes += entry.cost
        if entry.waits or not entry.shown:
            if entry.source is None:
                self._charge(entry.publisher, -entry.cost)
            elif source is None:
                self._charge(entry.publisher, entry.cost)
        entry.source = source

    def _charge(self, publisher: str, cost: int) -> None:
        self.local_bytes += cost
        charged = self.local.get(publisher, 0) + cost
        if charged:
            self.local[publisher] = charged
        else:
            del self.local[publisher]

    # -- what waits on disk --------------------------------------------------------------------------------------------

    def be_patient(self, entry: Entry) -> None:
        """Count a reader that was shown the entry and lets it wait on disk."""
        self.patient[entry] = self.patient.get(entry, 0) + 1

    def took_patiently(self, entry: Entry) -> None:
        """Count such a reader that has taken it, or is gone; `took` follows."""
        if self.patient[entry] > 1:
            self.patient[entry] -= 1
        else:
            del self.patient[entry]

    def is_idle(self, entry: Entry) -> bool:
        """Whether the entry has been sent and shown, and every reader that has not taken it lets it wait on disk."""
        return entry.shown and not entry.waits and entry.pins == self.patient.get(entry, 0)

    def stow(self, entry: Entry, stowed: StowedBundle) -> None:
        """Replace the columns of an entry by their place on disk. A copy that is fetched later counts nothing."""
        assert type(entry.bundle) is Bundle, "columns are put on disk once"
        entry.to_spill_state(SpillState.DISK)
        entry.bundle = stowed
        if entry.restored is not None:
            entry.restored = entry.restored.passed_on(stowed, entry.restored.hops)
        self.unstick(entry)

    def weigh(self, entry: Entry, cost: int) -> None:
        """Change the bytes that an entry counts: its columns are put on disk, or are back."""
        more = cost - entry.cost
        entry.cost = cost
        if entry.bundle is not None:
            self.bytes_held += more
        if entry in self.stuck:
            self.stuck_bytes += more
        if entry.source is not None:
            if entry.waits:
                entry.source.held_bytes += more
        elif entry.waits or not entry.shown:
            self._charge(entry.publisher, more)

    def stick(self, entry: Entry) -> None:
        """Note that the disk has no room for this entry (see `Shares`)."""
        self.stuck[entry] = None
        self.stuck_bytes += entry.cost

    def unstick(self, entry: Entry) -> None:
        if entry in self.stuck:
            del self.stuck[entry]
            self.stuck_bytes -= entry.cost

    def _unpin(self, entry: Entry) -> None:
        entry.pins -= 1
        if entry.pins == 0:
            entry.lacking[0] -= 1
            if entry.lacking[0] == 0 and entry.level == 0:
                self.settle(entry)

    def _drop(self, entry: Entry) -> None:
        bundle = entry.bundle
        if bundle is None:
            return
        if self.stuck:
            self.unstick(entry)
        entry.bundle = None
        if type(bundle) is StowedBundle:
            bundle.forget()
            entry.to_spill_state(SpillState.MEMORY)
        del self.entries[entry.no]
        self.repeats.drop(entry)
        self.bytes_held -= entry.cost
