"""The last step of a repair at its coordinator. Without an event in between, it pools what all members brought, takes
the pool into its log, and replaces the dead by links to the members: a star with the coordinator in its centre. The
numbers in `FinishRepair.run` are those of docs/protocol.md, "Finish".
"""

from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from itertools import chain
from typing import Final

import msgspec

from resprout.core.contract import ProtocolMessage, SetTimer
from resprout.core.errors import transition
from resprout.core.seen import Seen
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.edge.broker.sessions import ClientSessions
from resprout.order.clock import Clock
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import KnownLock
from resprout.order.reports import Retained
from resprout.order.totals.handover import Handover, MemberLocks, MergedLocks, Piece
from resprout.order.totals.levels import TotalAcks
from resprout.order.totals.totals import Totals
from resprout.overlay.messages import Life, Place
from resprout.overlay.waves import Waves
from resprout.spread.interest import Interest
from resprout.spread.messages import Interested, Outbound, Uninterested
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import Grant, Item, Repaired, Stub
from resprout.stacks.resprout.neighbours import Copies, Neighbours
from resprout.stacks.resprout.repair.parcels import Ask, Parcel, send_parcel, shared_rows
from resprout.stacks.resprout.repair.pool import OWN_SIDE, Inventory, Pool, PoolParts, PoolTaker, in_order
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.subscribing import Wishes
from resprout.stacks.routes import Routes


class CoordinatorState(Enum):
    """How far a repair has come at its coordinator."""

    COLLECTING = auto()
    """Members are asked, and the dead are registered. A broker that is found dead meanwhile joins the piece."""
    FINISHING = auto()
    """All members have attached: the pool is being taken, in one step."""
    DONE = auto()


COORDINATOR_STATES: Final[Mapping[CoordinatorState, frozenset[CoordinatorState]]] = {
    CoordinatorState.COLLECTING: frozenset({CoordinatorState.FINISHING}),
    CoordinatorState.FINISHING: frozenset({CoordinatorState.DONE}),
    CoordinatorState.DONE: frozenset(),
}


class MemberAnswer(Enum):
    """What a broker around the dead has answered."""

    AWAITED = auto()
    ATTACHED = auto()
    NOT_MEMBER = auto()


class AskedBroker:
    """One broker around the dead, as the coordinator knows it."""

    __slots__ = ("answer", "asked_us", "incarnation", "parcel")

    def __init__(self, asked_us: int) -> None:
        self.asked_us = asked_us
        self.answer = MemberAnswer.AWAITED
        self.incarnation = 0
        """The incarnation that has attached."""
        self.parcel: Parcel | None = None
        """The parcel that it sent."""


class LedRepair:
    """One repair that this broker leads."""

    def __init__(self, token: int) -> None:
        self.token = token
        """Names the repair in its messages; unique among the repairs of this coordinator."""
        self.state = CoordinatorState.COLLECTING
        self.dead: dict[str, Life] = {}
        """The dead brokers that it replaces, by name."""
        self.asked: dict[str, AskedBroker] = {}
        """The living brokers around them, by name."""

    def move_to(self, state: CoordinatorState) -> None:
        self.state = transition(COORDINATOR_STATES, self.state, state)


class FinishRepair:
    """The last step of a repair at its coordinator."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        waves: Waves,
        links: dict[str, Link],
        outbound: Outbound,
        log: Log,
        clock: Clock,
        seen: Seen,
        interest: Interest,
        sessions: ClientSessions,
        routes: Routes,
        total_acks: TotalAcks,
        totals: Totals,
        handover: Handover,
        retained: Retained,
        speaking: Speaking,
        forwarding: Forwarding,
        copies: Copies,
        neighbours: Neighbours,
        wishes: Wishes,
        ghosts: Ghosts,
        book: ClientBook,
        pool: PoolParts,
    ) -> None:
        self._life = life
        self._peers = peers
        self._waves = waves
        self._links = links
        self._outbound = outbound
        self._log = log
        self._clock = clock
        self._seen = seen
        self._interest = interest
        self._sessions = sessions
        self._routes = routes
        self._total_acks = total_acks
        self._totals = totals
        self._handover = handover
        self._retained = retained
        self._speaking = speaking
        self._forwarding = forwarding
        self._copies = copies
        self._neighbours = neighbours
        self._wishes = wishes
        self._ghosts = ghosts
        self._book = book
        self._pool = pool

    def run(self, repair: LedRepair, members: list[str]) -> None:
        """Finish a repair. `members`: all living brokers around the dead, each of which has attached."""
        life = self._life
        # 1. Send what waits for the old links while they exist. Collect the pool, and merge the locks of totals.
        self._speaking.say_all()
        parcels = {name: parcel for name in members if (parcel := repair.asked[name].parcel) is not None}
        assert len(parcels) == len(members), "a repair ends when everybody is in"
        old = [link for name, link in self._links.items() if name in repair.dead]
        inventory = Inventory(self._log, *old)
        items = self._collect(members, parcels, inventory)
        for parcel in parcels.values():
            self._handover.take_topics(parcel.topics)
        merged = self._merge_locks(repair, parcels, {link.name for link in old})
        owing = [self._interest.owing(link.name) for link in old]
        # 2. A ghost that wants what was wanted behind the dead: their clients take their shares from it (I3).
        ghost = self._raise_ghost(repair, old, parcels)
        # 3. Raise clock and epoch to the maximum of all; replace the links to the dead by links to the members.
        links = self._rewire(repair, old, parcels)
        places = [life.view.places[name] for name in links if name in life.view.places]
        self._ghosts.note_members(ghost, {place.life: place.version for place in places})
        spread = len(members) >= life.faults  # with this broker, f + 1 brokers store the pool: it is safe at once
        # 4. Interest of the members becomes theirs; what they had confirmed to the dead counts as confirmed (I8).
        grants, later = self._merge_interest(links, parcels)
        self._handover.take_locks(merged.locks, merged.last, [link.name for link in old], list(links))
        if self._total_acks.heard:
            self._total_acks.replace([link.name for link in old], list(links))
        # 5. The pool, in one order for all, before anything that is logged from now on (I1, I4).
        taker = PoolTaker(self._pool, inventory, lambda bundle: any(owed(bundle) for owed in owing), spread=spread)
        self._forwarding.fresh = tuple(links.values())
        self._take(items, merged, taker, members, links, ghost)
        self._forwarding.fresh = ()
        assert all(link.crossed == len(items) for link in links.values()), "I5: both ends begin with the pool"
        # 6. Raise the watermarks to the maximum of all, so that nothing older counts as new later (I1).
        self._raise_seen(parcels)
        # 7. Send each member its Grant, the first message of the new link; open the links; let totals go on.
        base = self._retained.marks()
        for name in links:
            self._interest.rebase(name, base)
            self._grant(repair, members, name, items, merged, grants[name], spread)
            for message in later[name]:
                self._peers.post(name, message)
        for link in links.values():
            self._neighbours.open(link)
        self._handover.lead(merged)
        if not spread:
            self._push(taker, links)
        taker.settle()
        self._tell(repair, links)

    def _collect(self, members: list[str], parcels: dict[str, Parcel], inventory: Inventory) -> list[Item | Stub]:
        """Return the pool: what all members brought and what this broker has, in one order."""
        pool = Pool()
        for number, name in enumerate(members, 1):
            pool.add_member(number, parcels[name].items)
        pool.add_own(inventory)
        return pool.ordered()

    def _raise_seen(self, parcels: dict[str, Parcel]) -> None:
        """Raise the watermark of each origin to the maximum of all members."""
        for parcel in parcels.values():
            for origin, reached in parcel.seen.items():
                self._forwarding.raise_seen(origin, reached)

    def _tell(self, repair: LedRepair, links: dict[str, Link]) -> None:
        """Tell the tree, and the other parts of this broker, that the repair is over."""
        life = self._life
        view = life.view
        view.mark_replaced(repair.dead)
        self._waves.start(view.publish_place(), view.reach, lambda: None)
        self._waves.share(list(links))
        self._handover.resume()
        names = tuple(repair.dead)
        life.note("repair_end", " ".join(names))
        life.outcomes.append(Repaired(names, life.seat.name))

    def _merge_locks(self, repair: LedRepair, parcels: dict[str, Parcel], linked: set[str]) -> MergedLocks:
        """Merge what all members know of totals, separately for each piece of dead brokers that were connected.
        `linked`: the dead that were neighbours of this broker.

        A piece that was next to no living broker is left out: an earlier repair replaced it, or all that it published
        came through another piece, which counts."""
        life = self._life
        pieces: list[Piece] = []
        left = dict.fromkeys(repair.dead)
        while left:
            name = next(iter(left))
            piece = [other for other in life.view.component(name) if other in left] or [name]
            for other in piece:
                del left[other]
            around = [member for member, parcel in parcels.items() if parcel.head.neighbour in piece]
            if around or not linked.isdisjoint(piece):
                pieces.append(Piece(piece, around))
        reports = {
            name: MemberLocks(tuple(parcel.locks), tuple(parcel.last_totals)) for name, parcel in parcels.items()
        }
        return self._handover.merge(reports, pieces)

    def _raise_ghost(self, repair: LedRepair, old: list[Link], parcels: dict[str, Parcel]) -> str:
        """Create a ghost for the clients of the dead, and return its name."""
        life = self._life
        predicates = dict.fromkeys(p for link in old for p in self._interest.index.predicates_of(link.name))
        lives = set(repair.dead.values())
        for name, dead in repair.dead.items():
            place = life.view.places.get(name)
            if place is not None and place.life == dead:  # and the brokers whose ghosts it had
                lives.update(place.looks_after)
        ghost = f"~ghost {repair.token} of {min(repair.dead)}"
        awaited = self._listeners(repair, old, parcels)
        self._ghosts.add(ghost, frozenset(lives), predicates, life.out, awaited)
        self._book.listeners.check(awaited if awaited is not None else (ghost,))
        life.view.looks_after = self._ghosts.lives()
        life.out.append(SetTimer(GhostOver(ghost), life.now_us + life.options.ghost_us))
        self._routes.forget()
        return ghost

    def _listeners(self, repair: LedRepair, old: list[Link], parcels: dict[str, Parcel]) -> set[str] | None:
        """Return the clients of the dead that are owed something and are not served here already; None if no broker
        is left that knew all of them."""
        told = {link.name: self._book.lost(link.name) for link in old}
        for parcel in parcels.values():
            if parcel.head.neighbour in repair.dead:
                told.setdefault(parcel.head.neighbour, set()).update(parcel.dead_listeners)
        if repair.dead.keys() - told.keys():
            return None
        sessions = self._sessions.all
        return {
            name for names in told.values() for name in names if name not in sessions or not sessions[name].attending
        }

    def _rewire(self, repair: LedRepair, old: list[Link], parcels: dict[str, Parcel]) -> dict[str, Link]:
        """Replace the links to the dead by links to the members, and return these."""
        life = self._life
        view = life.view
        for parcel in parcels.values():
            self._clock.raise_to(parcel.head.clock)
            view.epoch = max(view.epoch, parcel.head.epoch)
        if view.parent in repair.dead:
            view.parent = None
            self._totals.become_root(view.epoch + 1)
        links = self._neighbours.begin_links({name: repair.asked[name].incarnation for name in parcels}, parcels, old)
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
        """Return, by member, the interest that its Grant states, and the messages to send right after the Grant."""
        for name, parcel in parcels.items():
            self._wishes.reconcile(name, parcel.asks)
        base = self._retained.marks()
        asks = {name: self._interest.standing(name)[0] for name in links}
        for name, parcel in parcels.items():
            self._wishes.presume(name, parcel.served, base)
        grants: dict[str, list[Ask]] = {}
        for name in links:
            sure = {id: confirmed for id, _, confirmed in self._interest.standing(name)[0]}
            grants[name] = [(id, predicate, sure[id]) for id, predicate, _ in asks[name]]
        later: dict[str, list[ProtocolMessage]] = {name: [] for name in links}
        others = []
        for name, message in self._outbound:
            if name not in later:
                others.append((name, message))
            elif not isinstance(message, Interested | Uninterested):  # what is asked stands in the Grant
                later[name].append(message)
        self._outbound[:] = others
        self._routes.forget()
        return grants, later

    def _take(
        self,
        items: list[Item | Stub],
        merged: MergedLocks,
        taker: PoolTaker,
        members: list[str],
        links: dict[str, Link],
        ghost: str,
    ) -> None:
        """Take the pool into the log in order, put each item on the new links, and let the ghost read it."""
        for thing in in_order(items, merged.locks):
            if isinstance(thing, KnownLock):
                taker.deliver(thing, list(links))
                entry = self._total_acks.entry((thing.bundle.publisher, thing.bundle.incarnation, thing.bundle.first))
                if entry is not None and entry.is_backup:
                    continue  # it stands in for something that the ghost has read, if that was for it
            else:
                source = links[members[thing.side - 1]] if thing.side > 0 else None
                entry, entered = taker.take(thing, source, 0, keeps_source=thing.side == OWN_SIDE)
                for link in links.values():
                    if link is not source:
                        self._log.enter_link(link, entry, sent=True)
                    elif not entered:
                        self._log.enter_link(link, entry, sent=False)
            if entry is not None:
                self._ghosts.read(ghost, entry)

    def _grant(
        self,
        repair: LedRepair,
        members: list[str],
        name: str,
        items: list[Item | Stub],
        merged: MergedLocks,
        asks: list[Ask],
        spread: bool,
    ) -> None:
        """Send a member its Grant, as a parcel."""
        life = self._life
        view = life.view
        head = Grant(
            repair.token, tuple(repair.dead.values()), tuple(members), self._clock.now, view.epoch,
            view.configuration, spread,
        )  # fmt: skip
        rows = chain(
            shared_rows(life.view, self._seen, asks, merged.locks, merged.last, self._handover.topics()),
            self._book.rows(),
            items,
        )
        send_parcel(partial(self._peers.post, name), head, rows)

    def _push(self, taker: PoolTaker, fresh: dict[str, Link]) -> None:
        """Copy the pool to the other neighbours: too few brokers take it to make it safe, and it is shown once they
        have it."""
        others = [link for link in self._links.values() if link.name not in fresh and link.open]
        for link in others:
            for entry in taker.unspread():
                if entry.source is not link and entry.bundle is not None:
                    self._forwarding.copy(link, entry)
        others.sort(key=lambda link: link.cursor is not None)  # whoever has room takes copies at once
        self._copy_undelivered(taker, others, self._life.faults - len(fresh))
        for entry in list(self._total_acks.entries.values()):
            if entry.undone and entry.bundle is not None:
                for link in others:
                    self._copies.share_total(link, entry)

    def _copy_undelivered(self, taker: PoolTaker, others: list[Link], wanted: int) -> None:
        """Let `wanted` of these neighbours have a copy of everything that was shown before and somebody has not
        taken."""
        kept = [link.kept() for link in others]
        for entry in taker.undelivered():
            missing = wanted - sum(id(entry) in each for each in kept)
            if missing > 0:
                entry.copies = 1 + sum(link.has(entry) for link in others)  # the dead were counted
            for link, each in zip(others, kept, strict=True):
                if missing > 0 and id(entry) not in each:
                    self._forwarding.copy(link, entry)
                    missing -= 1
