"""Why the publications of local clients wait, in words for people.

A total needs every broker, so it waits while any is out of reach: for ever, if need be, because no timeout could tell a
partition from a crash. Its publisher is told what it waits for, as far as that can be seen from here, when that has
taken longer than a lease, and again when the reason changes. What is carried as a total is explained in the same way.

Not done here: to do anything about it. Only the repair, a heal or the operator (`forgetting`) can.
"""

from resprout.core.bundle import Bundle
from resprout.core.contract import Send
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import PublicationWaits
from resprout.order.totals.messages import TotalId, id_of
from resprout.order.totals.totals import Totals, Waiting
from resprout.overlay.council import Council
from resprout.overlay.status import CouncilStatus
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.words import listed, unheard
from resprout.stacks.shell.peers import Peers


class _Wait:
    """The oldest publication of one client that waits."""

    __slots__ = ("id", "reason", "since_us")

    def __init__(self, id: tuple[int, str, int], since_us: int) -> None:
        self.id = id
        self.since_us = since_us
        self.reason = ""
        """What the client was told last."""


class Waits:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        sessions: ClientSessions,
        totals: Totals,
        council: Council,
    ) -> None:
        self._life = life
        self._peers = peers
        self._sessions = sessions
        self._totals = totals
        self._council = council
        self._waits: dict[str, _Wait] = {}
        """By client."""
        self._noted: dict[str, None] = {}
        """Reasons of totals that are in the trace and still hold: many clients wait for the same."""

    def tick(self) -> None:
        life = self._life
        before, self._waits = self._waits, {}
        overdue: list[tuple[ClientSession, Bundle, _Wait]] = []
        for session in self._sessions.all.values() if self._totals.pending else ():
            head = self._head(session) if session.attending else None
            if head is not None:
                id = (head.incarnation, head.stream, head.first)
                wait = before.get(session.name)
                if wait is None or wait.id != id:
                    wait = _Wait(id, life.now_us)
                self._waits[session.name] = wait
                if life.now_us - wait.since_us > life.options.lease_us:
                    overdue.append((session, head, wait))
        noted, self._noted = self._noted, {}
        if overdue:
            reasons = _Reasons(life, self._peers, self._totals, self._council.status(life.now_us))
            for session, head, wait in overdue:
                self._tell(session, head, wait, reasons.of(head), noted)

    def _head(self, session: ClientSession) -> Bundle | None:
        """A client's publications wait for one another, so only the first needs a reason."""
        own = self._totals.own(session.name)
        if own is not None and own.incarnation == session.incarnation:
            return own
        return session.waiting[0].bundle if session.waiting else None

    def _tell(self, session: ClientSession, head: Bundle, wait: _Wait, reason: str, noted: dict[str, None]) -> None:
        if self._totals.is_under_way(head):
            if reason not in noted and reason not in self._noted:
                self._life.note("total_waits", f"{session.name} {head.stream}:{head.first} {reason}")
            self._noted[reason] = None
        if reason != wait.reason:
            wait.reason = reason
            self._life.out.append(Send(session.name, PublicationWaits(head.stream, head.first, reason)))


class _Reasons:
    """As they are at one moment."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        totals: Totals,
        status: CouncilStatus,
    ) -> None:
        self._life = life
        self._peers = peers
        self._totals = totals
        self._status = status
        self._undelivered: dict[TotalId, Waiting] = {id_of(one.bundle): one for one in totals.waiting()}

    def of(self, head: Bundle) -> str:
        total = self._undelivered.get(id_of(head))
        if total is not None:
            return self._of_total(total)
        return f"waits until some of {self._totals.pending} others that have to be ordered are delivered"

    def _of_total(self, total: Waiting) -> str:
        return self._repair() or self._unordered(total) or self._unclosed(total)

    def _repair(self) -> str:
        dead = [name for name, is_open in self._life.view.neighbours.items() if not is_open]
        return f"waits while the tree is repaired around {listed(dead)}" if dead else ""

    def _unordered(self, total: Waiting) -> str:
        if total.place is not None:
            return ""
        parent = self._status.parent
        if parent is not None and self._is_unheard(parent):
            return f"waits for {unheard(self._with_cut_off([parent]))}"
        return "waits for the root" if self._status.leased else "waits for the root, which is not heard"

    def _unclosed(self, total: Waiting) -> str:
        missed = [name for name in total.neighbours if self._is_unheard(name)]
        if missed or self._status.cut_off:
            return f"waits for {unheard(self._with_cut_off(missed))}"
        if total.neighbours:
            return f"waits for brokers behind {listed(total.neighbours)}"
        return "waits for its turn"

    def _is_unheard(self, name: str) -> bool:
        return name in self._status.unheard or not self._peers.is_heard(name)

    def _with_cut_off(self, names: list[str]) -> list[str]:
        return sorted({*names, *self._status.cut_off})
