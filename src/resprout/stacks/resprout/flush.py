"""The coordinator's part in a repair: the broker above the dead asks everybody around them for what was on its way,
pools it, takes it, and becomes the centre of the star. One round trip, then links are plain again.

Beside it the dead are registered (`overlay.council`), so that no other repair of the same piece can end as well.
"""

from collections.abc import Iterable

import msgspec

from resprout.core.contract import ProtocolMessage, SetTimer
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.order.link import Link
from resprout.order.total_merge import MemberLocks, MergedLocks, Piece
from resprout.order.total_messages import GrantedLock
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced
from resprout.overlay.places import Life, Place
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.inventory import Inventory
from resprout.stacks.resprout.joining import learn
from resprout.stacks.resprout.messages import Attach, AttachRequest, Grant, Item, NotMember, ParcelEnd, Stub
from resprout.stacks.resprout.outcomes import Repaired
from resprout.stacks.resprout.pack import pack_asks, pack_last_totals, pack_marks, pack_surroundings
from resprout.stacks.resprout.parcels import Parcel
from resprout.stacks.resprout.pool import OWN_SIDE, Pool, Taking, in_order


class Flush:
    """One repair that this broker leads."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.dead: dict[str, Life] = {}
        self.asked: dict[str, int] = {}
        """Members, and when they were asked."""
        self.got: dict[str, tuple[int, Parcel]] = {}
        """Members that have attached: their incarnation, and what they brought."""
        self.others: dict[str, None] = {}
        """Asked, and no members after all."""


class Flushes:
    def __init__(
        self,
        core: Core,
        council: Council,
        ghosts: Ghosts,
        book: ClientBook,
    ) -> None:
        self._core = core
        self._council = council
        self._ghosts = ghosts
        self._book = book
        self._tokens = 0
        self.current: Flush | None = None

    # -- collecting ----------------------------------------------------------------------------------------------------

    def declared(self, names: Iterable[str]) -> None:
        """This broker is the authority over them: they are dead."""
        core = self._core
        names = list(names)
        for name in names:
            core.neighbours.bury(core.standing.life(name))
        if self.current is None:
            self._tokens += 1
            self.current = Flush(core.now_us * 1_000 + self._tokens % 1_000)
            core.leading = True
        for name in names:
            self.current.dead[name] = core.standing.life(name)
        self.check()

    def bury_children(self) -> None:
        """Somebody else declared a child dead, which had been theirs when it asked for a place here."""
        core = self._core
        graves = core.standing.graves
        for name, link in list(core.links.items()):
            if link.open and name != core.standing.parent and link.incarnation <= graves.get(name, -1):
                self.declared((name,))

    def check(self) -> None:
        """Ask who has not been asked, and finish when everybody is in."""
        core, flush = self._core, self.current
        if flush is None or core.retired:
            return
        for name in list(flush.dead):
            for other in core.standing.component(name):
                if other not in flush.dead:
                    flush.dead[other] = core.standing.life(other)
                    core.neighbours.bury(flush.dead[other])
        members = [name for name in core.standing.members(flush.dead) if name not in flush.others]
        for name in members:
            if name not in flush.asked:
                flush.asked[name] = core.now_us
                self._ask(flush, name)
        if not self._council.register(frozenset(flush.dead), core.now_us):
            return
        if self.current is flush and all(self._is_in(flush, name) for name in members):
            self.current = None
            core.leading = False
            self._council.drop_registration()
            self._finish(flush, members)

    def _ask(self, flush: Flush, name: str) -> None:
        self._core.peers.post(name, AttachRequest(flush.token, tuple(flush.dead.values())))

    def met(self, name: str) -> None:
        """A session begins. What was said in the one before may be lost with it, so whoever has not answered is asked
        again."""
        if self.current is not None and self.awaits(name) and self._stands(name):
            self._ask(self.current, name)

    def _stands(self, name: str) -> bool:
        """It is the life that has the place: a later one knows nothing of it, and the one asked is over."""
        return self._core.peers.incarnation(name) == self._core.standing.incarnation_of(name)

    def _is_in(self, flush: Flush, name: str) -> bool:
        return name in flush.got and flush.got[name][0] == self._core.peers.incarnation(name)

    def tick(self) -> None:
        """Members that do not answer may be dead, too."""
        flush, core = self.current, self._core
        if flush is None:
            return
        for name, asked_us in list(flush.asked.items()):
            missing = name not in flush.got and name not in flush.others and not core.standing.is_dead(name)
            if missing and self._council.overdue(name, asked_us, core.now_us):
                self.declared([name])
                if self.current is not flush:
                    return
        self.check()

    def awaits(self, name: str) -> bool:
        """It was asked and has not answered."""
        flush = self.current
        return flush is not None and name in flush.asked and name not in flush.got and name not in flush.others

    def attached(self, peer: str, incarnation: int, parcel: Parcel) -> None:
        core, flush = self._core, self.current
        head: Attach = parcel.head
        if core.standing.is_dead_speaker(peer):
            core.peers.post(peer, Fenced(core.standing.graves[peer]))
            return
        learn(core, parcel)
        self._book.roll.learn(parcel.client_lives)
        if flush is None or head.token != flush.token:
            return
        for life in head.dead:
            if life.name not in flush.dead:
                core.neighbours.bury(life)
                flush.dead[life.name] = life
        flush.got[peer] = (incarnation, parcel)
        self.check()

    def not_member(self, peer: str, message: NotMember) -> None:
        flush = self.current
        if flush is None or message.token != flush.token:
            return
        if self._council.refuses(peer) and not self._core.standing.is_dead(peer):
            self.declared([peer])  # a later life says so, which knows nothing: the one that stood there is dead, too
        elif self._stands(peer):
            flush.others[peer] = None
            self.check()

    def unlink(self, link: Link) -> None:
        """A link on which nobody ever spoke goes without a repair: nobody is behind it, and nobody is dead."""
        self._tokens += 1
        flush = Flush(self._core.now_us * 1_000 + self._tokens % 1_000)
        flush.dead[link.name] = Life(link.name, link.incarnation)
        self._core.neighbours.shut(link)
        self._core.peers.close(link.name, "it went elsewhere")
        self._core.waves.unwait(link.name)
        self._finish(flush, [])

    # -- finishing -----------------------------------------------------------------------------------------------------

    def _finish(self, flush: Flush, members: list[str]) -> None:
        core = self._core
        core.speaking.say_all()
        parcels = {name: flush.got[name][1] for name in members}
        old = [link for name, link in core.links.items() if name in flush.dead]
        inventory = Inventory(core, *old)
        pool = Pool()
        for number, name in enumerate(members, 1):
            pool.add_member(number, parcels[name].items)
        pool.add_own(inventory)
        merged = self._merge_locks(flush, parcels)
        owing = [core.interest.owing(link.name) for link in old]
        ghost = self._raise_ghost(flush, old, parcels)
        links = self._rewire(flush, old, parcels)
        spread = len(members) >= core.faults
        grants, later = self._merge_interest(links, parcels)

        core.handover.take_locks(merged.locks, merged.last, [link.name for link in old], list(links))
        core.book.replace([link.name for link in old], list(links))
        taking = Taking(core, inventory, lambda bundle: any(owed(bundle) for owed in owing), spread=spread)
        items = pool.ordered()
        core.forwarding.fresh = tuple(links.values())
        self._take(items, merged, taking, members, links, ghost)
        core.forwarding.fresh = ()
        for parcel in parcels.values():
            for origin, reached in parcel.seen.items():
                core.seen.raise_to(origin, reached)
        base = core.retained.marks()
        for name in links:
            core.interest.rebase(name, base)
            self._grant(flush, members, name, items, merged, grants[name], spread)
            for message in later[name]:
                core.outbox.send(name, message)
            core.peers.open(name)
        for link in links.values():
            core.neighbours.open(link)
        core.handover.lead(merged)
        if not spread:
            self._push(taking, links, core.sessions.all[ghost])
        taking.settle()
        standing = core.standing
        standing.mark_gone(flush.dead)
        core.waves.start(standing.publish_place(), standing.reach, lambda: None)
        core.waves.share(list(links))
        core.handover.resume()
        names = tuple(flush.dead)
        core.note("repair_end", " ".join(names))
        core.outcomes.append(Repaired(names, core.seat.name))

    def _merge_locks(self, flush: Flush, parcels: dict[str, Parcel]) -> MergedLocks:
        core = self._core
        pieces: list[Piece] = []
        left = dict.fromkeys(flush.dead)
        while left:
            name = next(iter(left))
            piece = [other for other in core.standing.component(name) if other in left] or [name]
            for other in piece:
                del left[other]
            around = [member for member, parcel in parcels.items() if parcel.head.neighbour in piece]
            pieces.append(Piece(piece, around))
        reports = {
            name: MemberLocks(tuple(parcel.lock_reports), tuple(parcel.last_totals)) for name, parcel in parcels.items()
        }
        return core.handover.merge(reports, pieces)

    def _raise_ghost(self, flush: Flush, old: list[Link], parcels: dict[str, Parcel]) -> str:
        """Whoever was behind the dead as a client will be looked after here."""
        core = self._core
        predicates = dict.fromkeys(p for link in old for p in core.interest.index.predicates_of(link.name))
        lives = set(flush.dead.values())
        for name, life in flush.dead.items():
            place = core.standing.places.get(name)
            if place is not None and place.life == life:  # and whoever it stood in for
                lives.update(place.looks_after)
        ghost = f"~ghost {flush.token} of {min(flush.dead)}"
        awaited = self._listeners(flush, old, parcels)
        self._ghosts.add(ghost, frozenset(lives), predicates, core.out, awaited)
        self._book.listeners.check(awaited if awaited is not None else (ghost,))
        core.standing.looks_after = self._ghosts.lives()
        core.out.append(SetTimer(GhostOver(ghost), core.now_us + core.options.ghost_us))
        core.routes.forget()
        return ghost

    def _listeners(self, flush: Flush, old: list[Link], parcels: dict[str, Parcel]) -> set[str] | None:
        """The clients of the dead, as far as they are owed anything and are not here already. None when nobody is left
        who was next to one of the dead."""
        told = {link.name: self._book.listeners.lost(link.name) for link in old}
        for parcel in parcels.values():
            for name in flush.dead.keys() & parcel.listeners.keys():
                told.setdefault(name, set()).update(parcel.listeners[name])
        if flush.dead.keys() - told.keys():
            return None
        sessions = self._core.sessions.all
        return {
            name for names in told.values() for name in names if name not in sessions or not sessions[name].attending
        }

    def _rewire(self, flush: Flush, old: list[Link], parcels: dict[str, Parcel]) -> dict[str, Link]:
        core = self._core
        standing = core.standing
        for parcel in parcels.values():
            core.clock.raise_to(parcel.head.clock)
            standing.epoch = max(standing.epoch, parcel.head.epoch)
        for name in parcels:  # before the dead go: a wish that waits only for them would count as confirmed
            core.interest.add_neighbour(name)
        for link in old:
            core.confirmed(core.interest.remove_neighbour(link.name, core.says))
            core.neighbours.remove(link)
        if standing.parent in flush.dead:
            standing.parent = None
            core.totals.become_root(standing.epoch + 1)
        links = {name: core.neighbours.add(name, flush.got[name][0]) for name in parcels}
        for name, parcel in parcels.items():
            self._book.listeners.meet(name, parcel)
        here = standing.publish_place()
        for name, link in links.items():
            place = standing.places.get(name)
            if place is None or place.incarnation != link.incarnation:
                place = Place(name, link.incarnation, 0, here.name, (), "")
            rewired = place.rewired(flush.dead, here.life)
            standing.learn(msgspec.structs.replace(rewired, parent=here.name))
        return links

    def _merge_interest(
        self, links: dict[str, Link], parcels: dict[str, Parcel]
    ) -> tuple[dict[str, list[ProtocolMessage]], dict[str, list[ProtocolMessage]]]:
        """By member: its part of the Grant about interest, and what it is told right after that."""
        core = self._core
        for name, parcel in parcels.items():
            core.confirmed(core.interest.reconcile(name, parcel.asks, core.says))
        base = core.retained.marks()
        asks = {name: core.interest.standing(name)[0] for name in links}
        for name, parcel in parcels.items():
            core.confirmed(core.interest.presume(name, parcel.served, base, core.says))
        grants: dict[str, list[ProtocolMessage]] = {}
        for name in links:
            sure = {id: confirmed for id, _, confirmed in core.interest.standing(name)[0]}
            grants[name] = list(pack_asks([(id, predicate, sure[id]) for id, predicate, _ in asks[name]]))
        later: dict[str, list[ProtocolMessage]] = {name: [] for name in links}
        others = []
        for name, message in core.says:
            if name not in later:
                others.append((name, message))
            elif not isinstance(message, Interested | Uninterested):  # what is asked stands in the Grant
                later[name].append(message)
        core.says[:] = others
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
            if isinstance(thing, GrantedLock):
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
        flush: Flush,
        members: list[str],
        name: str,
        items: list[Item | Stub],
        merged: MergedLocks,
        asks: list[ProtocolMessage],
        spread: bool,
    ) -> None:
        core = self._core
        standing = core.standing
        send = core.outbox.send
        send(
            name,
            Grant(
                flush.token, tuple(flush.dead.values()), tuple(members), core.clock.now, standing.epoch,
                standing.succession, spread,
            ),
        )  # fmt: skip
        for part in (
            *pack_surroundings(core), *pack_marks(core.seen.marks()), *asks, *merged.locks,
            *pack_last_totals(merged.last), *self._book.pack(), *items,
        ):  # fmt: skip
            send(name, part)
        send(name, ParcelEnd())

    def _push(self, taking: Taking, fresh: dict[str, Link], ghost: ClientSession) -> None:
        """Too few take the pool to make it safe: the other neighbours keep copies, and it is shown when they have."""
        core = self._core
        others = [link for link in core.links.values() if link.name not in fresh and link.open]
        for link in others:
            for entry in taking.unspread():
                if entry.source is not link and entry.bundle is not None and core.forwarding.has_room(link):
                    core.forwarding.send_copy(link, entry)
        kept = [link.kept() for link in others]
        for entry in taking.read_by(ghost):
            assert entry.bundle is not None, "the ghost keeps it"
            missing = core.faults - len(fresh) - sum(id(entry) in each for each in kept)
            for link, each in zip(others, kept, strict=True):
                if missing > 0 and id(entry) not in each and core.forwarding.has_room(link):
                    core.forwarding.send_copy(link, entry)
                    missing -= 1
