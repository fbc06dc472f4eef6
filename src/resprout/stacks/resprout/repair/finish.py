"""How a coordinator ends its repair: in one step, without an event in between, it pools what everybody brought, takes
it, and becomes the centre of the star. The numbers are those of docs/protocol.md, "Finish".
"""

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from resprout.core.contract import ProtocolMessage, SetTimer
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.order.link import Link
from resprout.order.totals.handover import MemberLocks, MergedLocks, Piece
from resprout.order.totals.messages import KnownLock
from resprout.overlay.places import Place
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import Grant, Item, Stub
from resprout.stacks.resprout.outcomes import Repaired
from resprout.stacks.resprout.repair.parcels import Ask, Parcel, send_parcel, shared_rows
from resprout.stacks.resprout.repair.pool import OWN_SIDE, Inventory, Pool, Taking, in_order

if TYPE_CHECKING:
    from resprout.stacks.resprout.repair.coordinator import LedRepair


class FinishRepair:
    def __init__(self, core: Core, ghosts: Ghosts, book: ClientBook) -> None:
        self._core = core
        self._ghosts = ghosts
        self._book = book

    def run(self, repair: "LedRepair", members: list[str]) -> None:
        """`members`: all living brokers around the dead, each of which has attached."""
        core = self._core
        assert all(name in repair.got for name in members), "a repair ends when everybody is in"
        # 1. What is said on the old links' terms is said before they go.
        core.speaking.say_all()
        parcels = {name: repair.got[name][1] for name in members}
        old = [link for name, link in core.links.items() if name in repair.dead]
        inventory = Inventory(core, *old)
        pool = Pool()
        for number, name in enumerate(members, 1):
            pool.add_member(number, parcels[name].items)
        pool.add_own(inventory)
        items = pool.ordered()
        merged = self._merge_locks(repair, parcels)
        owing = [core.interest.owing(link.name) for link in old]
        # 2. A ghost that wants what was wanted behind the dead: their clients take their shares from it (I3).
        ghost = self._raise_ghost(repair, old, parcels)
        # 3. The clock and the epoch of all; links to the members in place of those to the dead.
        links = self._rewire(repair, old, parcels)
        places = [core.view.places[name] for name in links if name in core.view.places]
        self._ghosts.grant(ghost, {place.life: place.version for place in places})
        spread = len(members) >= core.faults
        # 4. Interest of the members becomes theirs; what they had confirmed to the dead counts as confirmed (I8).
        grants, later = self._merge_interest(links, parcels)
        core.handover.take_locks(merged.locks, merged.last, [link.name for link in old], list(links))
        if core.book.heard:
            core.book.replace([link.name for link in old], list(links))
        # 5. The pool, in one order for all, before anything that is logged from now on (I1, I4).
        taking = Taking(core, inventory, lambda bundle: any(owed(bundle) for owed in owing), spread=spread)
        core.forwarding.fresh = tuple(links.values())
        self._take(items, merged, taking, members, links, ghost)
        core.forwarding.fresh = ()
        assert all(link.crossed == len(items) for link in links.values()), "I5: both ends begin with the pool"
        # 6. Nothing older can be taken for new later (I1).
        for parcel in parcels.values():
            for origin, reached in parcel.seen.items():
                core.forwarding.raise_seen(origin, reached)
        # 7. The Grant is the first message of each new link; then links are open, and totals go on.
        base = core.retained.marks()
        for name in links:
            core.interest.rebase(name, base)
            self._grant(repair, members, name, items, merged, grants[name], spread)
            for message in later[name]:
                core.outbox.send(name, message)
            core.peers.open(name)
        for link in links.values():
            core.neighbours.open(link)
        core.handover.lead(merged)
        if not spread:
            self._push(taking, links)
        taking.settle()
        self._tell(repair, links)

    def _tell(self, repair: "LedRepair", links: dict[str, Link]) -> None:
        """The tree, and the other parts of this broker, that it is over."""
        core = self._core
        view = core.view
        view.mark_replaced(repair.dead)
        core.waves.start(view.publish_place(), view.reach, lambda: None)
        core.waves.share(list(links))
        core.handover.resume()
        names = tuple(repair.dead)
        core.note("repair_end", " ".join(names))
        core.outcomes.append(Repaired(names, core.seat.name))

    def _merge_locks(self, repair: "LedRepair", parcels: dict[str, Parcel]) -> MergedLocks:
        core = self._core
        pieces: list[Piece] = []
        left = dict.fromkeys(repair.dead)
        while left:
            name = next(iter(left))
            piece = [other for other in core.view.component(name) if other in left] or [name]
            for other in piece:
                del left[other]
            around = [member for member, parcel in parcels.items() if parcel.head.neighbour in piece]
            pieces.append(Piece(piece, around))
        reports = {
            name: MemberLocks(tuple(parcel.locks), tuple(parcel.last_totals)) for name, parcel in parcels.items()
        }
        return core.handover.merge(reports, pieces)

    def _raise_ghost(self, repair: "LedRepair", old: list[Link], parcels: dict[str, Parcel]) -> str:
        """Whoever was behind the dead as a client will be looked after here."""
        core = self._core
        predicates = dict.fromkeys(p for link in old for p in core.interest.index.predicates_of(link.name))
        lives = set(repair.dead.values())
        for name, life in repair.dead.items():
            place = core.view.places.get(name)
            if place is not None and place.life == life:  # and whoever it stood in for
                lives.update(place.looks_after)
        ghost = f"~ghost {repair.token} of {min(repair.dead)}"
        awaited = self._listeners(repair, old, parcels)
        self._ghosts.add(ghost, frozenset(lives), predicates, core.out, awaited)
        self._book.listeners.check(awaited if awaited is not None else (ghost,))
        core.view.looks_after = self._ghosts.lives()
        core.out.append(SetTimer(GhostOver(ghost), core.now_us + core.options.ghost_us))
        core.routes.forget()
        return ghost

    def _listeners(self, repair: "LedRepair", old: list[Link], parcels: dict[str, Parcel]) -> set[str] | None:
        """The clients of the dead, as far as they are owed anything and are not here already. None when nobody is left
        who was next to one of the dead."""
        told = {link.name: self._book.lost(link.name) for link in old}
        for parcel in parcels.values():
            if parcel.head.neighbour in repair.dead:
                told.setdefault(parcel.head.neighbour, set()).update(parcel.dead_listeners)
        if repair.dead.keys() - told.keys():
            return None
        sessions = self._core.sessions.all
        return {
            name for names in told.values() for name in names if name not in sessions or not sessions[name].attending
        }

    def _rewire(self, repair: "LedRepair", old: list[Link], parcels: dict[str, Parcel]) -> dict[str, Link]:
        core = self._core
        view = core.view
        for parcel in parcels.values():
            core.clock.raise_to(parcel.head.clock)
            view.epoch = max(view.epoch, parcel.head.epoch)
        for name in parcels:  # before the dead go: a wish that waits only for them would count as confirmed
            core.interest.add_neighbour(name)
        for link in old:
            core.confirmed(core.interest.remove_neighbour(link.name, core.outbound))
            core.neighbours.remove(link)
        if view.parent in repair.dead:
            view.parent = None
            core.totals.become_root(view.epoch + 1)
        links = {name: core.neighbours.add(name, repair.got[name][0]) for name in parcels}
        for name, parcel in parcels.items():
            self._book.meet(name, parcel)
        here = view.publish_place()
        for name, link in links.items():
            place = view.places.get(name)
            if place is None or place.incarnation != link.incarnation:
                place = Place(name, link.incarnation, 0, here.name, (), "")
            rewired = place.rewired(repair.dead, here.life)
            view.learn(msgspec.structs.replace(rewired, parent=here.name))
        return links

    def _merge_interest(
        self, links: dict[str, Link], parcels: dict[str, Parcel]
    ) -> tuple[dict[str, list[Ask]], dict[str, list[ProtocolMessage]]]:
        """By member: what the Grant asks of it, and what it is told right after that."""
        core = self._core
        for name, parcel in parcels.items():
            core.confirmed(core.interest.reconcile(name, parcel.asks, core.outbound))
        base = core.retained.marks()
        asks = {name: core.interest.standing(name)[0] for name in links}
        for name, parcel in parcels.items():
            core.confirmed(core.interest.presume(name, parcel.served, base, core.outbound))
        grants: dict[str, list[Ask]] = {}
        for name in links:
            sure = {id: confirmed for id, _, confirmed in core.interest.standing(name)[0]}
            grants[name] = [(id, predicate, sure[id]) for id, predicate, _ in asks[name]]
        later: dict[str, list[ProtocolMessage]] = {name: [] for name in links}
        others = []
        for name, message in core.outbound:
            if name not in later:
                others.append((name, message))
            elif not isinstance(message, Interested | Uninterested):  # what is asked stands in the Grant
                later[name].append(message)
        core.outbound[:] = others
        core.routes.forget()
        return grants, later

    def _take(
        self,
        items: list[Item | Stub],
        merged: MergedLocks,
        taking: Taking,
        members: list[str],
        links: dict[str, Link],
        ghost: str,
    ) -> None:
        core = self._core
        for thing in in_order(items, merged.locks):
            if isinstance(thing, KnownLock):
                taking.deliver(thing, list(links))
                entry = core.book.entry((thing.bundle.publisher, thing.bundle.incarnation, thing.bundle.first))
                if entry is not None and entry.is_backup:
                    continue  # it stands in for something that the ghost has read, if that was for it
            else:
                source = links[members[thing.side - 1]] if thing.side > 0 else None
                entry, entered = taking.take(thing, source, 0, keeps_source=thing.side == OWN_SIDE)
                for link in links.values():
                    if link is not source:
                        core.log.enter_link(link, entry, sent=True)
                    elif not entered:
                        core.log.enter_link(link, entry, sent=False)
            if entry is not None:
                self._ghosts.read(ghost, entry)

    def _grant(
        self,
        repair: "LedRepair",
        members: list[str],
        name: str,
        items: list[Item | Stub],
        merged: MergedLocks,
        asks: list[Ask],
        spread: bool,
    ) -> None:
        core = self._core
        view = core.view
        head = Grant(
            repair.token, tuple(repair.dead.values()), tuple(members), core.clock.now, view.epoch,
            view.configuration, spread,
        )  # fmt: skip
        rows = chain(shared_rows(core, asks, merged.locks, merged.last), self._book.rows(), items)
        send_parcel(partial(core.outbox.send, name), head, rows)

    def _push(self, taking: Taking, fresh: dict[str, Link]) -> None:
        """Too few take the pool to make it safe: the other neighbours keep copies, and it is shown when they have."""
        core = self._core
        others = [link for link in core.links.values() if link.name not in fresh and link.open]
        for link in others:
            for entry in taking.unspread():
                if entry.source is not link and entry.bundle is not None:
                    core.forwarding.copy(link, entry)
        others.sort(key=lambda link: link.cursor is not None)  # whoever has room takes copies at once
        kept = [link.kept() for link in others]
        for entry in taking.undelivered():
            missing = core.faults - len(fresh) - sum(id(entry) in each for each in kept)
            if missing > 0:
                entry.copies = 1 + sum(link.has(entry) for link in others)  # the dead were counted
            for link, each in zip(others, kept, strict=True):
                if missing > 0 and id(entry) not in each:
                    core.forwarding.copy(link, entry)
                    missing -= 1
        for entry in [entry for entry in core.book.entries.values() if entry.undone and entry.bundle is not None]:
            for link in others:
                core.copies.share_total(link, entry)
