"""The pool of a repair: all bundles that were on their way through the dead, in one order for all brokers, and how a
broker takes them into its log. Each broker brings the *inventory* of its dead link: the bundles that had crossed it and
are not forgotten, and those that were still to cross it.

The order is that of stamps, which puts causes before effects. Each bundle has a *side*: the broker of the star from
which it came. With it both ends of each new link count the bundle in the same direction.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from resprout.core.bundle import Bundle, shadow, split, whole
from resprout.core.errors import PeerError, WireError
from resprout.core.seen import Seen
from resprout.order.clock import Clock
from resprout.order.entry import Entry, Id
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import KnownLock, id_of
from resprout.order.reports import Reports
from resprout.order.totals.handover import Handover
from resprout.order.totals.levels import TotalAcks
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.forwarding import Forwarding, crosses, stable_entry
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import Item, Stub
from resprout.stacks.resprout.total_delivery import TotalDelivery

OWN_SIDE: Final = 0
"""The side of a bundle that came from the coordinator's side. The members have sides from 1 on, in the order of
`Grant.members`."""
DEAD_SIDE: Final = -1
"""The side of a bundle whose publisher was a client of a dead broker: no living broker passed it on first."""
WAITED: Final = -1
"""`Crossed.number` of a copy that waited for room: no link has counted it yet."""


class Crossed:
    """One entry on a dead link. `number`: its number in the track; 0 if it had not been sent yet; or `WAITED`. `sent`:
    whether this broker sent it; otherwise it came from the dead."""

    __slots__ = ("entry", "link", "number", "sent")

    def __init__(self, entry: Entry, link: Link, number: int, sent: bool) -> None:
        self.entry = entry
        self.link = link
        self.number = number
        self.sent = sent


class Inventory:
    """What a dead link owed and was owed at one moment: entries that crossed it and are not forgotten, and entries
    that were to cross."""

    def __init__(self, log: Log, *links: Link) -> None:
        self._log = log
        self._links = links
        self.snapshot = log.next_no
        """The first place in the log that is not in the inventory."""
        self.found: dict[Id, list[Crossed]] = {}
        for link in links:
            for number, entry in link.sent.entries.items():
                self._add(Crossed(entry, link, number, True))
            for number, entry in link.arrived.entries.items():
                self._add(Crossed(entry, link, number, False))
            if link.cursor is not None:
                for no in range(link.cursor, self.snapshot):
                    late = log.entries.get(no)
                    if late is not None and late.source is not link and crosses(late):
                        self._add(Crossed(late, link, 0, True))
            for copy in link.copies:
                if copy.bundle is not None and copy.undone:
                    self._add(Crossed(copy, link, WAITED, True))
        for crossings in self.found.values():  # the entry that counts readers comes first
            crossings.sort(key=lambda crossed: (crossed.entry.no < 0, crossed.entry.is_backup))

    def _add(self, crossed: Crossed) -> None:
        self.found.setdefault(crossed.entry.id, []).append(crossed)

    def items(self) -> Iterator[Item | Stub]:
        for crossings in self.found.values():
            yield item_of(crossings, int(not self.has_come(crossings)))

    def has_come(self, crossings: list[Crossed]) -> bool:
        """Whether the entry came from the dead side. Of two dead links, it may have come over one that has forgotten
        it, and gone on over the other."""
        entry = crossings[0].entry
        return entry.source in self._links or any(not one.sent for one in crossings if one.entry is entry)

    def leave(self, id: Id) -> Entry | None:
        """Take an entry off the dead links and return it; the new links count it from now on."""
        crossings = self.found.pop(id, None)
        if crossings is None:
            return None
        log = self._log
        for crossed in crossings:
            if crossed.number == WAITED:
                continue
            if crossed.number:
                log.leave_link(crossed.link, crossed.entry, crossed.number, crossed.sent)
            else:
                log.waited(crossed.entry)
                log.unawait(crossed.entry)
        kept = crossings[0].entry
        for crossed in crossings:
            if crossed.entry is not kept:  # a copy or a repeat, which nobody needs beside it
                log.settle(crossed.entry)
        return kept


def item_of(crossings: list[Crossed], side: int) -> Item | Stub:
    """Return an entry as an item of a repair, with the bundle of a copy if the entry itself is stable."""
    entry = crossings[0].entry
    bundle = next((one.entry.bundle for one in crossings if one.entry.bundle is not None), None)
    if bundle is not None:
        return Item(whole(bundle), side, entry.hops, entry.prompt)
    return Stub(entry.publisher, entry.stream, entry.incarnation, entry.first, entry.last, entry.stamp, side)


def id_of_item(item: Item | Stub | Bundle) -> Id:
    if isinstance(item, Stub):
        return (item.stamp, item.publisher, item.stream, item.incarnation, item.first)
    return (item.bundle if isinstance(item, Item) else item).causal_key


class Pool:
    """The items of all members and of the coordinator, each once, with its side."""

    def __init__(self) -> None:
        self._items: dict[Id, Item | Stub] = {}
        self._sides: dict[Id, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add_member(self, number: int, items: Iterable[Item | Stub]) -> None:
        for item in items:
            id = id_of_item(item)
            self._put(id, item)
            if item.side == 1:
                self._sides[id] = number
            else:
                self._sides.setdefault(id, DEAD_SIDE)

    def add_own(self, inventory: Inventory) -> None:
        """Add the coordinator's inventory, after those of the members. What a member sent, or came from the dead, is
        not of the coordinator's side."""
        for id, crossings in inventory.found.items():
            self._put(id, item_of(crossings, OWN_SIDE))
            if inventory.has_come(crossings):
                self._sides.setdefault(id, DEAD_SIDE)
            elif self._sides.get(id, DEAD_SIDE) == DEAD_SIDE:
                self._sides[id] = OWN_SIDE

    def _put(self, id: Id, item: Item | Stub) -> None:
        if isinstance(item, Item) or id not in self._items:
            self._items[id] = item

    def ordered(self) -> list[Item | Stub]:
        """Return the items in the order of their stamps, each with its side."""
        return [with_side(self._items[id], self._sides[id]) for id in sorted(self._items)]


def with_side(item: Item | Stub, side: int) -> Item | Stub:
    if isinstance(item, Item):
        return Item(item.bundle, side, item.hops, item.prompt)
    return Stub(item.publisher, item.stream, item.incarnation, item.first, item.last, item.stamp, side)


def in_order(items: Sequence[Item | Stub], locks: Iterable[KnownLock]) -> list[Item | Stub | KnownLock]:
    """Return the pool merged with the totals that some broker has delivered, in the order of stamps."""
    keyed: list[tuple[Id, Item | Stub | KnownLock]] = [(id_of_item(item), item) for item in items]
    keyed += [(id_of_item(lock.bundle), lock) for lock in locks if lock.stamp >= 0]
    return [thing for _, thing in sorted(keyed, key=lambda pair: pair[0])]


class PoolParts(NamedTuple):
    """The parts of a broker that `PoolTaker` uses."""

    life: BrokerLife
    log: Log
    clock: Clock
    seen: Seen
    reports: Reports
    delivering: Delivering
    forwarding: Forwarding
    handover: Handover
    total_acks: TotalAcks
    total_delivery: TotalDelivery


class PoolTaker:
    """Takes a pool into the log of one broker. `owed`: returns whether this side was owed a bundle over the dead link.
    `spread`: whether at least f + 1 brokers take the pool, so that it is safe."""

    def __init__(self, parts: PoolParts, inventory: Inventory, owed: Callable[[Bundle], bool], *, spread: bool) -> None:
        self._parts = parts
        self._inventory = inventory
        self._owed = owed
        self._spread = spread
        self._touched: dict[int, Entry] = {}
        parts.log.held_back.line_up()

    def take(self, item: Item | Stub, source: Link | None, hops: int, *, keeps_source: bool) -> tuple[Entry, bool]:
        """Take an item off the dead links and into the log. Return its entry, and whether the entry is new and already
        counted on the link of its source. `keeps_source`: it came from this side, so its source stays. `hops`: the
        number of other brokers that certainly have it, if the pool is not spread."""
        parts = self._parts
        entry = self._inventory.leave(id_of_item(item))
        entered = False
        hops = parts.life.faults if self._spread else hops
        if entry is None:
            if keeps_source:
                raise PeerError("a repair hands back what was never handed over")
            entry, entered = self._take_new(item, source, hops)
        else:
            self._revive(entry, item)
            if not keeps_source:
                parts.log.change_source(entry, source)
            if self._spread:
                entry.hops = max(entry.hops, hops)
            elif not entry.shown:
                entry.hops = hops
                entry.copies = 1 + hops
        self._touched[id(entry)] = entry
        return entry, entered

    def _take_new(self, item: Item | Stub, source: Link | None, hops: int) -> tuple[Entry, bool]:
        parts = self._parts
        if isinstance(item, Stub):
            parts.forwarding.raise_seen((item.publisher, item.stream, item.incarnation), item.last)
            left = shadow(item.publisher, item.stream, item.incarnation, item.first, item.last, item.stamp)
            return stable_entry(left, source, hops, parts.life.faults), False
        bundle = item.bundle
        if not parts.forwarding.is_forged(bundle.origin, bundle.last):
            with contextlib.suppress(WireError):  # a broker on the way has spoiled it
                return self._take_bundle(item, source, hops), source is not None
        parts.forwarding.forged += 1
        return stable_entry(bundle, source, hops, parts.life.faults), False

    def _take_bundle(self, item: Item, source: Link | None, hops: int) -> Entry:
        """Log a new bundle. Raises WireError, and logs nothing, when the bundle has to be read and cannot be."""
        parts, bundle = self._parts, item.bundle
        is_new = not parts.seen.has(bundle)
        if bundle.first <= (known := parts.seen.mark(bundle.origin)) < bundle.last:
            bundle = split(bundle, known)[1]  # its publisher returned, and bundled in another way
        parts.seen.raise_to(bundle.origin, bundle.last)
        bundle = parts.clock.admit(bundle)
        if is_new and self._owed(bundle):
            return parts.forwarding.append(bundle, source, None, hops, item.prompt)
        return parts.forwarding.keep(bundle, source, hops)

    def _revive(self, entry: Entry, item: Item | Stub | KnownLock) -> None:
        """Store a bundle again that was stable here. A client of the dead, or of a new neighbour, may not have taken
        it, and the dead may have had the only other copy."""
        if entry.bundle is None and entry.no >= 0 and not isinstance(item, Stub):
            self._parts.forwarding.keep_again(entry, self._parts.clock.admit(item.bundle))

    def deliver(self, lock: KnownLock, new: Sequence[str]) -> None:
        """Deliver a total that some broker has delivered. Brokers that came later, or had forgotten it, store it
        again: the dead may have had the only other copy."""
        parts = self._parts
        parts.handover.deliver_at(lock.bundle)
        entry = parts.total_acks.entry(id_of(lock.bundle))
        if entry is None and lock.is_scoped and parts.handover.may_be_missed(lock) and self._is_missed(lock.bundle):
            parts.clock.admit(lock.bundle)
            parts.handover.take_missed(lock, parts.life.faults)
        elif entry is None:
            parts.total_delivery.keep((lock.epoch, lock.number), lock.bundle, new, lock.is_scoped)
            parts.handover.tell_known(lock.bundle)
        else:
            self._revive(entry, lock)

    def _is_missed(self, bundle: Bundle) -> bool:
        """Whether the dead were to pass on this total, which the root has published, and did not."""
        parts = self._parts
        if parts.seen.has(bundle):
            return False
        if parts.handover.was_waiting(bundle):
            return True
        return self._owed(bundle) and not parts.forwarding.is_forged(bundle.origin, bundle.last)

    def unspread(self) -> list[Entry]:
        """Return the entries that were taken and that others must store before they are shown, and back-up copies."""
        return [entry for entry in self._touched.values() if not entry.shown or entry.is_backup]

    def undelivered(self) -> list[Entry]:
        """Return the entries that were shown before and that some reader has not taken. The dead may have had the
        only other copy, and other brokers may have forgotten what only the ghost reads."""
        shown = [entry for entry in self._touched.values() if entry.shown and not entry.is_backup]
        return [entry for entry in shown if entry.undone and entry.bundle is not None]

    def settle(self) -> None:
        """Settle and show everything that was taken, when all links are open."""
        parts = self._parts
        for entry in (*self._touched.values(), *parts.total_acks.entries.values()):
            parts.log.settle(entry)
            if entry.delivered:
                parts.delivering.finished(entry)
        parts.reports.all_now()
        parts.log.held_back.put_wall()  # no report tells which broker had which item of the pool, and when
        parts.delivering.show()
