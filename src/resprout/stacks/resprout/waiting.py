"""Waiting for brokers and clients that do not answer: why publications wait, and who ends it.

A total needs every broker, so it waits while any is out of reach: for ever, if need be, because no timeout could tell a
partition from a crash. `Waits` tells its publisher what it waits for, as far as that can be seen from here, when that
has taken longer than a lease, and again when the reason changes. What is carried as a total is explained in the same
way. Only the repair, a heal or the operator can end it.

`Forgetting` forgets brokers that never return, as the operator says: a part that is cut off for good, a silent host in
a tree too small for a majority. Nothing in the network can know that, so the network waits for them until somebody says
it. Every client may say it, unless rules say who operates. A broker that lives after all, somewhere else, is fenced as
soon as it is heard again, and joins as a new leaf. A broker that is heard here is forgotten only by `force`: a mistake
of names must not cost a broker its place. `overlay.council` declares it dead; whether that worked shows in the tree.

`GhostExpiry` ends the ghosts of clients whose broker died and who have not come back for `ghost_us`.
"""

from collections.abc import Sequence
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import CancelTimer, Send, SetTimer
from resprout.core.errors import UsageError
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.client.questions import check_names
from resprout.edge.messages import BrokersForgotten, ForgetBrokers, PublicationWaits
from resprout.order.messages import TotalId, id_of
from resprout.order.totals.totals import Totals, Waiting
from resprout.overlay.council import Council
from resprout.overlay.messages import CouncilStatus
from resprout.overlay.waves import Waves
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.client_book import ListenerBook
from resprout.stacks.resprout.joining.claims import Claims
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.served_clients import ServedClients

NAMES_SHOWN: Final = 4
"""More are counted: a reason has to fit into a message."""


def listed(names: Sequence[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`, `b1, b2, b3, b4 and 5 more`."""
    shown = list(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown.append(f"{len(names) - NAMES_SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def unheard(names: Sequence[str]) -> str:
    return f"{listed(names)}, which {'is' if len(names) == 1 else 'are'} not heard"


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


class Forgetting:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        council: Council,
    ) -> None:
        self._life = life
        self._peers = peers
        self._council = council

    def asked(self, session: ClientSession, message: ForgetBrokers) -> None:
        life = self._life
        reason = self._refusal(message.names, message.force)
        life.out.append(Send(session.name, BrokersForgotten(message.names, reason)))
        if not reason:
            force = ", by force" if message.force else ""
            life.note("forget", f"{listed(message.names)}, as {session.name} says{force}")
            self._council.forget(message.names, life.now_us)

    def _refusal(self, names: tuple[str, ...], force: bool) -> str:
        """Why this is not done; empty when it is. All of it, or nothing."""
        here = self._life.seat.name
        try:
            check_names(names)
        except UsageError as error:
            return str(error)
        if not self._life.attached:
            return f"{here} has no place in the tree itself: ask another broker"
        if here in names:
            return f"{here} cannot forget itself: stop it, or ask another broker"
        if unknown := [name for name in names if not self._is_known(name)]:
            advice = "ask a broker next to it" if force else "leave it out"
            return f"{listed(unknown)}: not known to {here}, which waits for no such broker: {advice}"
        if not force and (alive := [name for name in names if self._is_alive(name)]):
            are, them = ("is", "it") if len(alive) == 1 else ("are", "them")
            return f"{listed(alive)} {are} alive here: stop {them} first, or forget {them} by force"
        return ""

    def _is_known(self, name: str) -> bool:
        """What was replaced before counts: to say it twice is no mistake."""
        here = self._life.view
        return (
            name in here.places
            or name in here.neighbours
            or name in here.tombstones
            or name in here.configuration.names
        )

    def _is_alive(self, name: str) -> bool:
        """The life that stands in the tree is heard, and nobody has declared it dead."""
        life = self._life
        if not self._peers.is_heard(name) or life.view.is_dead(name) or self._council.has_ended(name):
            return False
        return self._peers.incarnation(name) == life.view.incarnation_of(name)


class GhostExpiry:
    """Ends ghosts: when all their clients have returned (`let_idle_go`), or after `ghost_us` (`due`).

    `ghost_us` counts only while clients can be served: not while this broker repairs the tree or its disk is full, nor
    while the Grants of the repair are on their way or its pool is not shown. Each time it begins again, because clients
    look for another broker meanwhile and need the time to come back. A client that is connected and waits keeps its
    ghost for as long as its session lasts.

    Before a ghost ends, a wave tells the brokers that would replace this one, so that they do not promise to look after
    its clients. The wave waits while a place with a newcomer in it is being told, which it must not overtake.
    """

    def __init__(
        self,
        life: BrokerLife,
        waves: Waves,
        ghosts: Ghosts,
        listeners: ListenerBook,
        claims: Claims,
        served: ServedClients,
    ) -> None:
        self._life = life
        self._waves = waves
        self._ghosts = ghosts
        self._listeners = listeners
        self._claims = claims
        self._served = served
        self._hindered_us: dict[str, int] = {}
        """By ghost: when its clients were last seen not to be served at once."""

    def tick(self) -> None:
        """Once per heartbeat, while there are ghosts."""
        for ghost in self._ghosts:
            if not self._served.can_serve(ghost):
                self._hindered_us[ghost] = self._life.now_us

    def due(self, timer: GhostOver) -> None:
        life, ghost = self._life, timer.ghost
        if ghost in self._ghosts and not self._served.can_serve(ghost):
            life.out.append(SetTimer(timer, life.now_us + max(life.options.ghost_us, life.options.heartbeat_us)))
        elif (since_us := self._hindered_us.get(ghost)) is not None and life.now_us < since_us + life.options.ghost_us:
            life.out.append(SetTimer(timer, since_us + life.options.ghost_us))
        elif ghost in self._ghosts and self._served.expects_any(ghost):
            life.out.append(SetTimer(timer, life.now_us + life.options.heartbeat_us))
        else:
            self._let_go(ghost)

    def let_idle_go(self) -> None:
        """End ghosts whose clients have all returned. Called at the end of a step."""
        for ghost in self._ghosts.take_idle():
            self._let_go(ghost)

    def _let_go(self, ghost: str) -> None:
        life = self._life
        if self._claims.admitted:
            life.out.append(SetTimer(GhostOver(ghost), life.now_us + life.options.heartbeat_us))
            return
        if not self._ghosts.let_go(ghost):
            return
        life.view.looks_after = self._ghosts.lives()
        self._waves.start(life.view.publish_place(), life.view.reach, lambda: self.end(ghost))

    def end(self, ghost: str) -> None:
        """End a ghost, after the wave about it is answered."""
        self._hindered_us.pop(ghost, None)
        if ghost in self._ghosts:
            missing = self._ghosts.expire(ghost, self._life.out)
            self._life.out.append(CancelTimer(GhostOver(ghost)))
            self._listeners.check(sorted(missing))
