"""A broker that does as little as possible around `Totals`, and what it says in a repair and a join.

See `totals_net`, which has the tree, the links and the faults.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.marks import Marks
from resprout.order.clock import Clock
from resprout.order.totals.merge import MemberLocks, Piece
from resprout.order.totals.messages import GrantedLock, LockReport, TotalId, WelcomeLock, id_of
from resprout.order.totals.newcomers import accept_welcome, joined, newcomer_locks
from resprout.order.totals.totals import Totals

if TYPE_CHECKING:
    from tests.order.totals_net import Net

Reached = dict[str, tuple[int, int]]


def publication(
    publisher: str, first: int, keys: tuple[str, ...], guarantee: Guarantee, *, count: int = 1, topic: str = "t",
    incarnation: int = 1, stamp: int = 0,
) -> Bundle:  # fmt: skip
    payloads = pack_payloads([b""] * count)
    return Bundle(publisher, incarnation, first, count, stamp, topic, keys, guarantee, b"", payloads)


@dataclasses.dataclass
class Stand:
    """Where a broker stands."""

    parent: str | None
    neighbours: dict[str, bool]
    epoch: int = 0


class Plain(NamedTuple):
    bundle: Bundle


class AttachRequest(NamedTuple):
    dead: tuple[str, ...]


class Attach(NamedTuple):
    clock: int
    epoch: int
    log: tuple[Bundle, ...]
    locks: tuple[LockReport, ...]
    last: Marks


class Grant(NamedTuple):
    dead: tuple[str, ...]
    clock: int
    epoch: int
    pool: tuple[Bundle, ...]
    locks: tuple[GrantedLock, ...]
    last: Marks


class Welcome(NamedTuple):
    clock: int
    epoch: int
    log: tuple[Bundle, ...]
    seen: Reached
    locks: tuple[WelcomeLock, ...]
    last: Marks


class Flush:
    """One repair, at its coordinator."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.dead = tuple(name for piece in pieces for name in piece.dead)
        self.members = [name for piece in pieces for name in piece.members]
        self.attached: dict[str, Attach] = {}


class Node:
    """One broker and its clients' queues."""

    def __init__(self, net: "Net", name: str, parent: str | None) -> None:
        self.net = net
        self.name = name
        self.position = Stand(parent, {})
        self.clock = Clock()
        self.totals = Totals(self.position, self.clock, self.say, self.deliver, self.is_seen)
        self.handover = net.handover(self.totals)
        self.alive = True
        self.busy = False
        self.log: list[Bundle] = []
        self.tseqs: dict[TotalId, int] = {}
        self.times: dict[TotalId, int] = {}
        self.seen: Reached = {}
        self.queues: dict[str, list[Bundle]] = {}
        self.logged_at_attach: dict[str, int] = {}
        self.flush: Flush | None = None
        self._draining = False

    # -- the least that a broker does ----------------------------------------------------------------------------------

    def say(self, peer: str, message: Any) -> None:
        assert self.position.neighbours.get(peer), f"{self.name} speaks to {peer}, which is no open link"
        self.net.send(self.name, peer, message)

    def is_seen(self, bundle: Bundle) -> bool:
        incarnation, last = self.seen.get(bundle.publisher, (0, 0))
        return incarnation == bundle.incarnation and bundle.first <= last

    def take(self, peer: str, message: Any) -> None:
        if isinstance(message, Attach):
            self.attached(peer, message)
        elif isinstance(message, AttachRequest):
            self.attach(peer, message)
        elif isinstance(message, Grant):
            self.granted(peer, message)
        elif isinstance(message, Welcome):
            self.welcomed(peer, message)
        elif not self.position.neighbours.get(peer):
            return
        elif isinstance(message, Plain):
            self.accept(message.bundle, but={peer})
        else:
            self.totals.handlers[type(message)](peer, message)
        self.drain()

    def accept(self, bundle: Bundle, but: set[str]) -> None:
        if self.is_seen(bundle):
            return
        self.clock.raise_to(bundle.stamp)
        self._append(bundle)
        for name, is_open in self.position.neighbours.items():
            if is_open and name not in but:
                self.say(name, Plain(bundle))

    def _append(self, bundle: Bundle) -> None:
        self.log.append(bundle)
        self.times[id_of(bundle)] = self.net.now_us
        mark = (bundle.incarnation, bundle.last)
        self.seen[bundle.publisher] = max(mark, self.seen.get(bundle.publisher, (0, 0)))

    def deliver(self, bundle: Bundle, tseq: int, prompt: bool) -> None:
        self.tseqs[id_of(bundle)] = tseq
        if bundle.guarantee is Guarantee.TOTAL or not self.is_seen(bundle):
            self._append(bundle)
        self.drain()

    def drain(self) -> None:
        if self.busy or self._draining or not self.alive:
            return
        self._draining = True
        before = -1
        while before != len(self.log):  # a delivery in between may have let somebody go on
            before = len(self.log)
            for name, queue in self.queues.items():
                self._drain_one(name, queue)
        self._draining = False

    def _drain_one(self, name: str, queue: list[Bundle]) -> None:
        while queue:
            bundle = queue[0]
            if self.is_seen(bundle) or self.totals.is_under_way(bundle):
                pass
            elif self.totals.is_overtaken(bundle):
                return
            else:
                under_way = {id_of(b) for b in self.totals.backlog.of(name)}
                known = {id_of(b) for b in self.log} | under_way
                self.net.known[id_of(bundle)] = known & self.net.known.get(id_of(bundle), known)
                if bundle.guarantee is Guarantee.TOTAL or under_way or self.totals.is_gated(bundle):
                    self.totals.submit(bundle.stamped(self.clock.tick()))
                else:
                    self.accept(bundle.stamped(self.clock.tick()), but=set())
            queue.pop(0)

    # -- repair, as far as totals and a log of everything need it ------------------------------------------------------

    def shut(self, dead: tuple[str, ...]) -> None:
        for name in dead:
            if name in self.position.neighbours:
                self.position.neighbours[name] = False
                self.logged_at_attach[name] = len(self.log)

    def attach(self, coordinator: str, message: AttachRequest) -> None:
        self.shut(message.dead)
        locks, last = self.handover.report(message.dead), self.handover.last()
        self.net.send(
            self.name, coordinator, Attach(self.clock.now, self.position.epoch, tuple(self.log), locks, last)
        )  # fmt: skip

    def coordinate(self, pieces: Sequence[Piece]) -> None:
        self.flush = flush = Flush(pieces)
        self.shut(flush.dead)
        for name in flush.members:
            self.net.send(self.name, name, AttachRequest(flush.dead))
        self._finish_if_all_are_in()

    def attached(self, member: str, message: Attach) -> None:
        assert self.flush is not None
        self.flush.attached[member] = message
        self._finish_if_all_are_in()

    def _finish_if_all_are_in(self) -> None:
        flush = self.flush
        if flush is None or len(flush.attached) < len(flush.members):
            return
        self.flush = None
        reports = {name: MemberLocks(a.locks, a.last) for name, a in flush.attached.items()}
        merged = self.handover.merge(reports, flush.pieces)
        everything = [*self.log, *(b for a in flush.attached.values() for b in a.log), *merged.delivered()]
        by_id = {id_of(bundle): bundle for bundle in everything}
        pool = tuple(sorted(by_id.values(), key=lambda b: (b.stamp, b.publisher, b.first)))
        clock = max([self.clock.now, *(a.clock for a in flush.attached.values()), *(b.stamp for b in pool)])
        self.clock.raise_to(clock)
        self.position.epoch = max([self.position.epoch, *(a.epoch for a in flush.attached.values())])
        self._rewire(flush.dead, flush.members)
        if self.position.parent in flush.dead:
            self.position.parent = None
            self.totals.become_root(self.position.epoch + 1)
        for name in flush.members:
            self.net.send(
                self.name, name, Grant(flush.dead, clock, self.position.epoch, pool, merged.locks, merged.last)
            )  # fmt: skip
        self._install(pool, merged.locks, merged.last, flush.dead, flush.members)
        self.handover.lead(merged)
        self.busy = False
        self.handover.resume()
        self.net.repaired(self, flush)
        self.drain()

    def _rewire(self, dead: Sequence[str], new: Sequence[str]) -> None:
        for name in dead:
            self.position.neighbours.pop(name, None)
        self.position.neighbours.update(dict.fromkeys(new, True))

    def _install(
        self, pool: Sequence[Bundle], locks: Sequence[GrantedLock], last: Marks, dead: Sequence[str], new: Sequence[str]
    ) -> None:
        self.busy = True
        self.handover.take_locks(locks, last, dead, new)
        delivered = {id_of(lock.bundle) for lock in locks if lock.stamp >= 0}
        for bundle in pool:
            if id_of(bundle) in delivered:
                self.handover.deliver_at(bundle)
            elif bundle.guarantee is not Guarantee.TOTAL:
                self.accept(bundle, but=set(new))

    def granted(self, coordinator: str, grant: Grant) -> None:
        place = next(n for name in grant.dead if (n := self.logged_at_attach.pop(name, None)) is not None)
        since = self.log[place:]
        self.clock.raise_to(grant.clock)
        self.position.epoch = max(self.position.epoch, grant.epoch)
        self._rewire(grant.dead, [coordinator])
        if self.position.parent in grant.dead:
            self.position.parent = coordinator
        self._install(grant.pool, grant.locks, grant.last, grant.dead, [coordinator])
        pooled = {id_of(bundle) for bundle in grant.pool}
        for bundle in since:
            if id_of(bundle) in pooled:
                continue
            if id_of(bundle) in self.tseqs:
                self.handover.close_behind(bundle, coordinator)
            else:
                self.say(coordinator, Plain(bundle))
        self.handover.follow(coordinator)
        self.busy = False
        self.handover.resume()
        self.net.rewired(self.name, coordinator)

    # -- join ----------------------------------------------------------------------------------------------------------

    def welcome(self, newcomer: str) -> None:
        self.position.neighbours[newcomer] = True
        locks = newcomer_locks(self.totals)
        joined(self.totals, newcomer)
        message = Welcome(
            self.clock.now, self.position.epoch, tuple(self.log), dict(self.seen), locks, self.handover.last()
        )  # fmt: skip
        self.net.send(self.name, newcomer, message)

    def welcomed(self, parent: str, message: Welcome) -> None:
        self.busy = False
        self.position.parent = parent
        self.position.neighbours[parent] = True
        self.position.epoch = message.epoch
        self.clock.raise_to(message.clock)
        self.log = list(message.log)
        self.seen = dict(message.seen)
        accept_welcome(self.totals, message.locks, message.last, parent)
        self.net.joining.discard(parent)
